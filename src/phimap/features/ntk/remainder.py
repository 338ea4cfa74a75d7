"""How what exact degrees leave of the neural tangent kernel is sampled: by sketches or by an activation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from phimap._validation import check_integer
from phimap.features.power_series.fit import cosines_of, plan_series, unit_sample
from phimap.features.power_series.moments import spaced_rows
from phimap.features.power_series.terms import SeriesRecord
from phimap.features.random_layers.zonal import ZonalPlan, plan_zonal
from phimap.kernels import NTK
from phimap.ops import Array, host, single_threaded_blas
from phimap.projections import Projection

REMAINDERS = ("auto", "sketch", "activation")
# How far the predictions of the two errors may lie apart where the errors do not: they are compared on rows only if an
# activation's prediction is below this many times that of the sketches, which is too low for few inputs.
_DOUBT = 3.0
# Rows that errors are compared on, and quantiles that stand for cosines.
_JUDGES, _QUANTILES = 128, 400
# Widest input of activations where nothing is known of the data: beyond, sketches err as much and are faster.
_WIDEST_UNKNOWN = 48


@dataclass(frozen=True)
class RemainderOptions:
    """Parameters of `NTKFeatures` of the same names."""

    remainder: str
    exact_degrees: tuple[int, ...]
    adaptive: bool
    projection: str | Projection


def draw_remainder(
    kernel: NTK,
    X: Array,
    n_components: int,
    options: RemainderOptions,
    layers_error: float,
    streams: dict[str, np.random.Generator],
) -> SeriesRecord | None:
    """The map with exact degrees, or None where the layers are predicted to err less.

    `layers_error` is theirs, relative to the kernel's root mean square or to 1, whichever is less.
    """
    d = X.shape[1]
    for degree in options.exact_degrees:
        check_integer("exact_degrees", degree, least=0)

    def zonal(rows: np.ndarray | None) -> ZonalPlan:
        cosines = _uniform_cosines(d) if rows is None else cosines_of(rows)
        cosines = np.quantile(cosines, (np.arange(_QUANTILES) + 0.5) / _QUANTILES)
        return plan_zonal(kernel, d, n_components, options.exact_degrees, cosines)

    if options.remainder == "activation":
        return zonal(_rows(X, options)).record(options.projection, streams["activation"])
    sketches = plan_series(
        kernel,
        X,
        n_components,
        method="polysketch",
        degree=None,
        exact_degrees=options.exact_degrees,
        adaptive=options.adaptive,
    )
    assert sketches.error is not None  # the polynomial is a fitted one
    assert sketches.size is not None
    allowed = layers_error / min(sketches.size, 1.0)
    sketched = sketches.draw(streams["series"]) if sketches.error <= allowed else None
    if options.remainder == "sketch" or sketches.hashed:
        return sketched
    rows = _rows(X, options)
    if rows is None and d > _WIDEST_UNKNOWN:
        return sketched
    activations = zonal(rows)
    error = activations.error / sketches.size
    if error > (allowed if sketched is None else _DOUBT * sketches.error):
        return sketched
    activated = activations.record(options.projection, streams["activation"])
    if sketched is None:
        return activated
    if rows is None:
        return activated if error <= sketches.error else sketched
    judges = rows[spaced_rows(len(rows), _JUDGES)]
    return min(activated, sketched, key=lambda record: _error(kernel, judges, record))


def _rows(X: Array, options: RemainderOptions) -> np.ndarray | None:
    return unit_sample(X) if options.adaptive else None


def _error(kernel: NTK, rows: np.ndarray, record: SeriesRecord) -> float:
    """Frobenius norm of the error of a map on rows."""
    ops = host()
    Z = np.empty((len(rows), record.n_components))
    record.bind(ops).apply(ops, rows, Z)
    # Threads would cost more than the product.
    with single_threaded_blas():
        return float(np.linalg.norm(Z @ Z.T - kernel(rows)))


def _uniform_cosines(n_features: int) -> np.ndarray:
    """Quantiles of the cosines of rows of uniform direction."""
    if n_features == 1:
        return np.array([-1.0, 1.0])
    half = 0.5 * (n_features - 1)
    return 2 * betaincinv(half, half, (np.arange(_QUANTILES) + 0.5) / _QUANTILES) - 1
