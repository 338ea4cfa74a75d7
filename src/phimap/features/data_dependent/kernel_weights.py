"""Weights of frequencies that come near to a kernel: by least squares, plain or shrunk."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from phimap.kernels import Kernel

# This much is added to the normal equations, in roundings of their mean diagonal times their order.
_JITTER = 16
# Penalties among which shrinkage is chosen, in mean diagonals of the normal equations.
_PENALTIES = 10.0 ** np.arange(-8, 1)
# Shares of the rows on which penalties are tried and judged.
_FOLDS = 2


def least_squares_weights(kernel: Kernel, rows: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Weights (l,) from 0 on that minimise ``|K - sum_j a_j C_j|_F``, C_j the cosines of differences of the rows."""
    return nonnegative_solution(*_normal_equations(kernel, rows, frequencies))


def shrunk_weights(kernel: Kernel, rows: np.ndarray, frequencies: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same with a penalty on the squares of the weights, chosen on pairs of rows that were left out."""
    folds = [part for part in np.array_split(rng.permutation(len(rows)), _FOLDS) if part.size]
    equations = [_normal_equations(kernel, rows[part], frequencies) for part in folds]
    losses = np.zeros(_PENALTIES.size)
    for place, (gram, moments) in enumerate(equations):
        for other, (other_gram, other_moments) in enumerate(equations):
            if other == place:
                continue
            for i, penalty in enumerate(_PENALTIES):
                weights = nonnegative_solution(gram, moments, penalty)
                losses[i] += weights @ other_gram @ weights - 2 * weights @ other_moments
    gram, moments = _normal_equations(kernel, rows, frequencies)
    # The penalty belongs to means over pairs, of which all rows have more.
    return nonnegative_solution(gram, moments, float(_PENALTIES[int(np.argmin(losses))]))


def _normal_equations(kernel: Kernel, rows: np.ndarray, frequencies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inner products (l, l) of the C_j over all pairs of rows, and those (l,) with K: means over the pairs.

    C_j is ``c_j c_j^T + s_j s_j^T``, so that no pair is formed: inner products of such are squares of those of columns.
    """
    projected = rows @ frequencies.T
    cosines, sines = np.cos(projected), np.sin(projected)
    mixed = cosines.T @ sines
    gram = np.square(cosines.T @ cosines) + np.square(sines.T @ sines) + np.square(mixed) + np.square(mixed.T)
    K = kernel(rows)
    moments = np.einsum("ij,ij->j", cosines, K @ cosines) + np.einsum("ij,ij->j", sines, K @ sines)
    return gram / len(rows) ** 2, moments / len(rows) ** 2


def nonnegative_solution(gram: np.ndarray, moments: np.ndarray, penalty: float = 0.0) -> np.ndarray:
    """Minimiser (l,) from 0 on of ``a^T G a - 2 a^T b + penalty |a|^2``, the penalty in mean diagonals of G."""
    order = len(gram)
    mean = np.trace(gram) / order
    ridge = (penalty + _JITTER * order * np.finfo(np.float64).eps) * mean
    upper = cholesky(gram + ridge * np.eye(order))
    return nnls(upper, solve_triangular(upper, moments, trans=1))[0]
