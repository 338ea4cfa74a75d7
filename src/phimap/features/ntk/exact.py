"""Neural tangent features with exact degrees. Sketches or an activation estimate the remainder."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaincinv

from phimap._validation import check_choice, check_integer
from phimap.features.base import Plan, draw_best
from phimap.features.ntk.layer_options import LayerOptions
from phimap.features.ntk.layers import LayersPlan
from phimap.features.power_series.row_sample import RowSample, spaced_rows
from phimap.features.power_series.series import SeriesOptions, SeriesPlan
from phimap.features.random_layers.remainder import ActivationPlan
from phimap.kernels import NTK
from phimap.kernels.expansion import root_mean_square
from phimap.ops import Array, host, single_threaded_blas
from phimap.projections import Projection
from phimap.random_map import MapRecord

REMAINDERS = ("auto", "sketch", "activation")
# Number of rows on which the errors of maps are compared, and number of quantiles that represent the distribution of
# the cosines between rows.
_TEST_ROWS, _QUANTILES = 128, 400
# Largest input width at which activations are considered if there are no data. For wider inputs, sketches are as
# accurate and faster.
_WIDEST_UNKNOWN = 48


@dataclass(frozen=True)
class ExactOptions:
    """The parameters of `NTKFeatures` with the same names."""

    remainder: str
    exact_degrees: tuple[int, ...]
    adaptive: bool
    projection: str | Projection

    def apply_beside(self, layers: LayerOptions) -> bool:
        """Return whether to use exact degrees rather than the published layers.

        The result is True if exact degrees or ``remainder="activation"`` are set, and all parameters of the layers have
        their defaults. Raises ValueError if parameters of the layers contradict non-default `remainder` or
        `exact_degrees`.
        """
        activation = check_choice("remainder", self.remainder, REMAINDERS) == "activation"
        if not self.exact_degrees and not activation:
            return False
        chosen = layers.chosen()
        if activation and "projection" in chosen:
            chosen.remove("projection")
        if chosen and self.remainder != "auto":
            raise ValueError(
                f"`remainder` must be 'auto' where `{chosen[0]}` is set, which is of the published layers, got "
                f"{self.remainder!r}. Leave one of them at its default."
            )
        if chosen and self.exact_degrees != (0, 1):
            raise ValueError(
                f"`exact_degrees` must be () where `{chosen[0]}` is set, which is of the published layers, got "
                f"{self.exact_degrees!r}. Use exact_degrees=()."
            )
        return not chosen


def draw_exact(
    kernel: NTK,
    X: Array,
    n_components: int,
    options: ExactOptions,
    layers: LayersPlan | None,
    streams: dict[str, np.random.Generator],
) -> MapRecord:
    """Draw the map with exact degrees, or the published `layers` if these have a smaller predicted error."""
    d = X.shape[1]
    for degree in options.exact_degrees:
        check_integer("exact_degrees", degree, least=0)
    sample = RowSample.of(X, n_components) if options.adaptive else None
    known = sample if sample is not None and sample.suffices else None

    def activation(known: RowSample | None) -> ActivationPlan:
        cosines = _uniform_cosines(d) if known is None else known.cosines
        cosines = np.quantile(cosines, (np.arange(_QUANTILES) + 0.5) / _QUANTILES)
        return ActivationPlan.of(kernel, d, n_components, options.exact_degrees, options.projection, cosines)

    if options.remainder == "activation" and not kernel.is_homogeneous:
        raise ValueError(
            f"`remainder` must be 'auto' or 'sketch' for activation={kernel.activation!r}, whose kernel is not "
            "homogeneous, got 'activation'. Use remainder='sketch'."
        )
    if options.remainder == "activation":
        return activation(None if known is None else known.dense()).draw(streams)
    series = SeriesPlan.of(kernel, d, n_components, SeriesOptions(exact_degrees=options.exact_degrees), sample)
    plans: list[Plan] = [series]
    samples = options.remainder == "auto" and kernel.is_homogeneous and not series.hashed
    if samples and (known is not None or d <= _WIDEST_UNKNOWN):
        plans.append(activation(known))
    test_rows = None if known is None else known.unit_rows[spaced_rows(known.rows.shape[0], _TEST_ROWS)]
    measured = None if test_rows is None else lambda record: _error(kernel, test_rows, record)
    if layers is None:
        return draw_best(plans, series, streams, measured)
    size = root_mean_square(kernel.kappa, None if known is None else known.cosines)
    return draw_best(plans, replace(layers, kernel_size=size), streams, measured)


def _error(kernel: NTK, rows: np.ndarray, record: MapRecord) -> float:
    """Frobenius norm of a map's error in the kernel matrix of `rows`."""
    ops = host()
    Z = np.empty((len(rows), record.n_components))
    record.bind(ops).apply(ops, rows, Z)
    # Starting threads would take longer than the product.
    with single_threaded_blas():
        return float(np.linalg.norm(Z @ Z.T - kernel(rows)))


def _uniform_cosines(n_features: int) -> np.ndarray:
    """Quantiles of the cosine of two independent rows that are uniform on the sphere."""
    if n_features == 1:
        return np.array([-1.0, 1.0])
    half = 0.5 * (n_features - 1)
    return 2 * betaincinv(half, half, (np.arange(_QUANTILES) + 0.5) / _QUANTILES) - 1
