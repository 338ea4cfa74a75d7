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
# Steps of a fit by matrices.
_STEPS, _SETTLED = 300, 1e-7


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
    nodes, weights = fitting_nodes(cosines)
    return nonnegative_fit(np.vander(nodes, degree + 1, increasing=True), kappa(nodes), np.sqrt(weights))


def nonnegative_fit(powers: np.ndarray, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Coefficients (p,), none negative, of columns (k, p) nearest to values (k,), errors multiplied by weights (k,)."""
    from scipy.optimize import nnls

    # Columns that are all but equal, as those of the powers of cosines of 1 and -1, take more rounds than the default.
    return nnls(powers * weights[:, None], values * weights, maxiter=100 * powers.shape[1])[0]


def semidefinite_fit(powers: np.ndarray, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Positive semidefinite matrices (p, q, q) whose combinations by rows of powers (k, p) are near values (q, q, k).

    Squared errors are weighted by (k,). By the alternating direction method: a linear system for all entries in turn
    with the nearest semidefinite matrices, which negative eigenvalues are cut off for.
    """
    gram = powers.T @ (powers * weights[:, None])
    scales = np.sqrt(np.diagonal(gram))
    gram = gram / np.multiply.outer(scales, scales)
    wanted = np.moveaxis((values * weights) @ (powers / scales), -1, 0)
    wanted = 0.5 * (wanted + wanted.swapaxes(1, 2))
    size = len(gram)
    # This is the geometric mean of the system's eigenvalues, but for those that rounding alone has.
    eigenvalues = np.maximum(np.linalg.eigvalsh(gram), 1e-8)
    penalty = float(np.sqrt(eigenvalues[0] * eigenvalues[-1]))
    solve = np.linalg.inv(gram + penalty * np.eye(size))
    matrices, dual = np.zeros_like(wanted), np.zeros_like(wanted)
    for _ in range(_STEPS):
        free = np.tensordot(solve, wanted + penalty * (matrices - dual), axes=1)
        dual += free
        sizes, vectors = np.linalg.eigh(dual)
        before = matrices
        matrices = (vectors * np.maximum(sizes, 0.0)[:, None]) @ vectors.swapaxes(1, 2)
        dual -= matrices
        if max(np.abs(matrices - free).max(), np.abs(matrices - before).max()) < _SETTLED * np.abs(matrices).max():
            break
    return matrices / scales[:, None, None]


def fit_error(kappa: Callable, coefficients: np.ndarray, cosines: np.ndarray | None = None) -> float:
    """Root mean square, over a kernel matrix of 500 rows, of a polynomial's distance from a function."""

    def distance(nodes: np.ndarray) -> np.ndarray:
        return np.polynomial.polynomial.polyval(nodes, coefficients) - kappa(nodes)

    return root_mean_square(distance, cosines)


def root_mean_square(function: Callable, cosines: np.ndarray | None = None) -> float:
    """Of a function of the cosine, over a kernel matrix of 500 rows."""
    nodes, weights = fitting_nodes(cosines)
    weights[-1] = _JUDGED_DIAGONAL
    return float(np.sqrt(weights @ function(nodes) ** 2))


def fitting_nodes(cosines: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Places (k,) in [-1, 1] that a polynomial is fitted at, and their weights."""
    places = (np.arange(_NODES) + 0.5) / _NODES
    chebyshev = np.cos(np.pi * places)
    if cosines is None:
        nodes, weights = chebyshev, np.full(_NODES, 1 / _NODES)
    else:
        nodes = np.concatenate([np.quantile(cosines, places), chebyshev])
        weights = np.repeat([1 / _NODES, _ELSEWHERE / _NODES], _NODES)
    return np.append(nodes, 1.0), np.append(weights, _DIAGONAL)
