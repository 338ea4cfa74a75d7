"""Power series of kernels, given or fitted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phimap.kernels.base import DotProductKernel

# Weight of the cosine 1 in the fit of a polynomial to a function of the cosine; the weights of all other cosines sum to
# about 1. The diagonal of a kernel matrix of unit rows has the cosine 1, and the weight is the share of the diagonal in
# a matrix of 2,000 rows.
_DIAGONAL = 1 / 2000
# Weight of cosine 1 in the error of a fit: the share of the diagonal in a matrix of 500 rows. The weight is larger than
# in the fit, because a polynomial whose degree is too low has its largest error on the diagonal.
_WEIGHT_OF_DIAGONAL = 1 / 500
# Weight of the `_NODES` Chebyshev nodes relative to the cosines of the data. The nodes limit the error at cosines that
# are not in the data.
_ELSEWHERE = 1e-3
_NODES = 400
# Maximum number of iterations and relative tolerance of `semidefinite_fit`.
_STEPS, _SETTLED = 300, 1e-7


def checked_coefficients(kernel: DotProductKernel, degree: int, n_features: int) -> np.ndarray:
    """Taylor coefficients (degree + 1,) of a kernel; raises an error if one is negative or not finite."""
    coefficients = np.asarray(kernel.taylor_coefficients(degree, n_features), dtype=np.float64)
    bad = np.flatnonzero(~(np.isfinite(coefficients) & (coefficients >= 0)))
    if bad.size:
        raise ValueError(
            f"`kernel` must have finite Taylor coefficients that are not negative, got {coefficients[bad[0]]} for "
            f"degree {bad[0]}. Use a kernel with such coefficients."
        )
    return coefficients


def fitted_coefficients(kappa: Callable, degree: int, cosines: np.ndarray | None = None) -> np.ndarray:
    """Non-negative coefficients (degree + 1,) of the polynomial that is closest to `kappa` on [-1, 1].

    The squared error is averaged over Chebyshev nodes. Cosines (k,) of data, if given, have most of the weight.
    """
    nodes, weights = fitting_nodes(cosines)
    return nonnegative_fit(np.vander(nodes, degree + 1, increasing=True), kappa(nodes), np.sqrt(weights))


def nonnegative_fit(powers: np.ndarray, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Non-negative least squares: coefficients (p,) of the columns of `powers` (k, p) that best fit `values` (k,).

    Errors are multiplied by `weights` (k,) before they are squared.
    """
    from scipy.optimize import nnls

    # Nearly equal columns, such as powers of cosines near 1 and -1, need more iterations than the default number.
    return nnls(powers * weights[:, None], values * weights, maxiter=100 * powers.shape[1])[0]


def semidefinite_fit(powers: np.ndarray, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Positive semidefinite matrices M_j (p, q, q) for which ``sum_j powers[i, j] M_j`` best fits ``values[:, :, i]``.

    `powers` is (k, p), `values` is (q, q, k), and squared errors are weighted by `weights` (k,). The alternating
    direction method of multipliers alternates between a linear system for all entries and the projection onto
    semidefinite matrices, which sets negative eigenvalues to 0.
    """
    gram = powers.T @ (powers * weights[:, None])
    scales = np.sqrt(np.diagonal(gram))
    gram = gram / np.multiply.outer(scales, scales)
    wanted = np.moveaxis((values * weights) @ (powers / scales), -1, 0)
    wanted = 0.5 * (wanted + wanted.swapaxes(1, 2))
    size = len(gram)
    # The penalty is the geometric mean of the smallest and the largest eigenvalue. Eigenvalues below 1e-8, which may be
    # rounding errors, are raised to 1e-8.
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
    """Root mean square difference between a polynomial and `kappa`, over the entries of a kernel matrix of 500 rows."""

    def distance(nodes: np.ndarray) -> np.ndarray:
        return np.polynomial.polynomial.polyval(nodes, coefficients) - kappa(nodes)

    return root_mean_square(distance, cosines)


def root_mean_square(function: Callable, cosines: np.ndarray | None = None) -> float:
    """Root mean square of a function of the cosine, over the entries of a kernel matrix of 500 rows."""
    nodes, weights = fitting_nodes(cosines)
    weights[-1] = _WEIGHT_OF_DIAGONAL
    return float(np.sqrt(weights @ function(nodes) ** 2))


def fitting_nodes(cosines: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (k,) in [-1, 1] at which a polynomial is fitted, and their weights; the last node is 1."""
    places = (np.arange(_NODES) + 0.5) / _NODES
    chebyshev = np.cos(np.pi * places)
    if cosines is None:
        nodes, weights = chebyshev, np.full(_NODES, 1 / _NODES)
    else:
        nodes = np.concatenate([np.quantile(cosines, places), chebyshev])
        weights = np.repeat([1 / _NODES, _ELSEWHERE / _NODES], _NODES)
    return np.append(nodes, 1.0), np.append(weights, _DIAGONAL)
