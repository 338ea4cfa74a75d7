"""Power series of kernels, given or fitted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phimap.kernels.base import DotProductKernel

# Weight of the value at 1, where a kernel of unit rows has its diagonal, among those at all other cosines: that of
# the diagonal in a matrix of 2,000 rows.
_DIAGONAL = 1 / 2000
# The same in judging a fit: of few rows, whose diagonal a polynomial of too low a degree misses by far.
_JUDGED_DIAGONAL = 1 / 500
# Weight of Chebyshev nodes beside the cosines of data, so that other cosines are not forgotten.
_ELSEWHERE = 1e-3
_NODES = 400


def checked_coefficients(kernel: DotProductKernel, degree: int, n_features: int) -> np.ndarray:
    """Taylor coefficients (degree + 1,) of a kernel; an error if one is negative or not finite."""
    coefficients = np.asarray(kernel.taylor_coefficients(degree, n_features), dtype=np.float64)
    bad = np.flatnonzero(~(np.isfinite(coefficients) & (coefficients >= 0)))
    if bad.size:
        raise ValueError(
            f"`kernel` must have finite Taylor coefficients that are not negative, got {coefficients[bad[0]]} for "
            f"degree {bad[0]}. Use a kernel with such coefficients."
        )
    return coefficients


def fitted_coefficients(kappa: Callable, degree: int, cosines: np.ndarray | None = None) -> np.ndarray:
    """Coefficients (degree + 1,), none negative, of the polynomial nearest to a function on [-1, 1].

    The squared error is averaged over Chebyshev nodes or, where they are given, over cosines (k,) of data.
    """
    nodes, weights = _fitting_nodes(cosines)
    return nonnegative_fit(np.vander(nodes, degree + 1, increasing=True), kappa(nodes), np.sqrt(weights))


def nonnegative_fit(powers: np.ndarray, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Coefficients (p,), none negative, of columns (k, p) nearest to values (k,), errors multiplied by weights (k,)."""
    from scipy.optimize import nnls

    return nnls(powers * weights[:, None], values * weights)[0]


def fit_error(kappa: Callable, coefficients: np.ndarray, cosines: np.ndarray | None = None) -> float:
    """Root mean square, over a kernel matrix of 500 rows, of a polynomial's distance from a function."""

    def distance(nodes: np.ndarray) -> np.ndarray:
        return np.polynomial.polynomial.polyval(nodes, coefficients) - kappa(nodes)

    return root_mean_square(distance, cosines)


def root_mean_square(function: Callable, cosines: np.ndarray | None = None) -> float:
    """Of a function of the cosine, over a kernel matrix of 500 rows."""
    nodes, weights = _fitting_nodes(cosines)
    weights[-1] = _JUDGED_DIAGONAL
    return float(np.sqrt(weights @ function(nodes) ** 2))


def _fitting_nodes(cosines: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Places (k,) in [-1, 1] that a polynomial is fitted at, and their weights."""
    places = (np.arange(_NODES) + 0.5) / _NODES
    chebyshev = np.cos(np.pi * places)
    if cosines is None:
        nodes, weights = chebyshev, np.full(_NODES, 1 / _NODES)
    else:
        nodes = np.concatenate([np.quantile(cosines, places), chebyshev])
        weights = np.repeat([1 / _NODES, _ELSEWHERE / _NODES], _NODES)
    return np.append(nodes, 1.0), np.append(weights, _DIAGONAL)
