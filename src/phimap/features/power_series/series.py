"""Planning the map of a power series from a kernel and a sample of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from phimap._validation import check_choice, check_integer
from phimap.features.power_series.allocation import Allocation, best_allocation, is_exact
from phimap.features.power_series.draw import draw_terms
from phimap.features.power_series.moments import RowMoments
from phimap.features.power_series.norms import NormFit, NormFunctions, NormSeries
from phimap.features.power_series.powers import METHODS
from phimap.features.power_series.preparation import SeriesPreparation
from phimap.features.power_series.random_degrees import RANDOM_DEGREES
from phimap.features.power_series.row_sample import RowSample
from phimap.features.power_series.terms import SeriesRecord
from phimap.kernels import Kernel, RotationInvariantKernel
from phimap.kernels.expansion import fit_error, fitted_coefficients

# Degrees that are tried for the polynomial fitted to a function of the cosine. Few of its coefficients are nonzero.
_FITTED_DEGREES = (1, 2, 4, 8, 16, 32, 64)
# The search for a degree does not end at this degree or a smaller one. Degree 2 adds only one power, which is useless
# for an odd kernel, so a larger degree may have a smaller error even if degree 2 has not.
_LEAST_LAST = 2
# A larger degree is chosen only if its predicted error is below this share of the error of the last chosen degree.
_GAIN = 0.95


@dataclass(frozen=True)
class SeriesOptions:
    """The parameters of `DotProductFeatures` with the same names."""

    method: str = "polysketch"
    degree: int | None = None
    exact_degrees: tuple[int, ...] = (0, 1)

    def __post_init__(self) -> None:
        check_choice("method", self.method, (*METHODS, RANDOM_DEGREES))
        if self.degree is not None:
            check_integer("degree", self.degree, least=1)
        for exact in self.exact_degrees:
            check_integer("exact_degrees", exact, least=0)


@dataclass(frozen=True)
class SeriesPlan:
    """A plan for the map of a power series: a prepared kernel, and the allocation of features to the terms.

    Attributes
    ----------
    n_features : int
        Input width.
    preparation : SeriesPreparation
        The kernel, and the preparation of rows.
    method : str
        How powers are sketched.
    allocation : Allocation
        Exact features and sketch widths of each degree.
    fit_error : float
        Root mean square error of a fitted polynomial over pairs of rows; 0 for other series.
    norms : NormFunctions or None
        Functions of the norm on which the coefficients of the powers depend; None for constant coefficients.
    """

    n_features: int
    preparation: SeriesPreparation
    method: str
    allocation: Allocation
    fit_error: float = 0.0
    norms: NormFunctions | None = None

    @classmethod
    def of(
        cls, kernel: Kernel, n_features: int, n_components: int, options: SeriesOptions, sample: RowSample | None
    ) -> SeriesPlan:
        """The plan with the least predicted error on a sample of the data; `sample` is None for unknown data."""
        prepared = SeriesPreparation.of(kernel, n_features, sample)
        known = sample if sample is not None and sample.suffices else None
        rows = None if known is None else prepared.rows(known)
        splits = [RowMoments.unknown(n_features)] if rows is None else RowMoments.of_rows(rows)

        def plan(coefficients: np.ndarray, fit_error: float, norms: NormSeries | None = None) -> SeriesPlan:
            method, exact = options.method, options.exact_degrees
            allocation = best_allocation(coefficients, splits, n_components, method, exact, norms)
            return cls(n_features, prepared, method, allocation, fit_error, norms.functions if norms else None)

        if not isinstance(kernel, RotationInvariantKernel):
            return plan(prepared.coefficients(options.degree, rows, n_features), 0.0)
        cosines = None if known is None else known.cosines
        degrees = _FITTED_DEGREES if options.degree is None else (options.degree,)
        if kernel.is_homogeneous:

            def fitted(degree: int) -> SeriesPlan:
                coefficients = fitted_coefficients(kernel.kappa, degree, cosines)
                return plan(coefficients, fit_error(kernel.kappa, coefficients, cosines))

            return _best_degree(fitted, degrees)
        fit = NormFit.of(kernel, n_features, None if known is None else known.rows, cosines)

        def fitted_with(noisy: bool, degree: int) -> SeriesPlan:
            noise = _noise(splits, degree, n_features, n_components, options.exact_degrees) if noisy else None
            series = fit.of_degree(degree, noise)
            return plan(series.coefficients, series.fit_error, series)

        best = _best_degree(partial(fitted_with, False), degrees)
        if options.degree is not None:
            return best
        # The noise is only a bound, because leading directions and further exact degrees may lower it. So a fit that
        # ignores the noise is tried, too.
        higher = [degree for degree in degrees if degree >= best.degree]
        return _best_degree(partial(fitted_with, True), higher, best)

    @property
    def degree(self) -> int:
        """Last degree of the series."""
        return len(self.allocation.options) - 1

    @property
    def hashed(self) -> bool:
        """Whether rows are sparse and very wide, so that they are hashed and principal directions are not computed."""
        return self.allocation.moments.known and self.allocation.moments.basis.shape[1] == 0

    def predicted_error(self) -> float:
        """Predicted root mean square error of the fitted polynomial and its sketches together."""
        return float(np.hypot(self.fit_error, self.allocation.predicted_error()))

    def draw(self, streams: dict[str, np.random.Generator]) -> SeriesRecord:
        """Draw the map with the generator ``streams["series"]``."""
        terms = draw_terms(self.allocation, self.method, streams["series"])
        prepared, direction = self.preparation, self.allocation.moments.direction
        rows = (prepared.weight, prepared.shift, prepared.scale, direction)
        return SeriesRecord(self.n_features, *rows, terms, norms=self.norms)


def _best_degree(
    fitted: Callable[[int], SeriesPlan], degrees: Sequence[int], best: SeriesPlan | None = None
) -> SeriesPlan:
    """Return the best among `best` and the plans of ascending `degrees`; the search ends if the error stops falling.

    A higher degree costs time, so it must reduce the error by enough.
    """
    for degree in degrees:
        found = fitted(degree)
        if best is None or found.predicted_error() < _GAIN * best.predicted_error():
            best = found
        elif degree > _LEAST_LAST:
            break
    assert best is not None  # at least one degree was tried
    return best


def _noise(
    splits: list[RowMoments], degree: int, n_features: int, n_components: int, exact_degrees: tuple[int, ...]
) -> np.ndarray:
    """Standard deviations (degree + 1,) of estimates of all powers with `n_components` features; 0 for exact powers."""
    noise = np.min([split.power_deviations(degree) for split in splits], axis=0) / n_components**0.5
    exact = [n for n in range(degree + 1) if is_exact(n, n_features, n_components, exact_degrees)]
    noise[exact] = 0.0
    return noise
