"""Weights of frequencies that approximate a kernel matrix, by least squares with or without a ridge penalty."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from phimap.kernels import Kernel

# Ridge added to the normal equations for stability, in units of the machine epsilon times the order times the mean
# diagonal.
_JITTER = 16
# Ridge penalties to choose from, in units of the mean diagonal of the normal equations.
_PENALTIES = 10.0 ** np.arange(-8, 1)
# Number of cross-validation folds for the choice of the penalty.
_FOLDS = 2


def least_squares_weights(kernel: Kernel, rows: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Nonnegative weights (l,) that minimise ``|K - sum_j a_j C_j|_F``, where C_j has entries ``cos(<w_j, x - y>)``.

    K is the kernel matrix of `rows`.
    """
    return nonnegative_solution(*_normal_equations(kernel, rows, frequencies))


def shrunk_weights(kernel: Kernel, rows: np.ndarray, frequencies: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The weights of `least_squares_weights` with a ridge penalty, chosen by two-fold cross-validation over rows."""
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
    # The normal equations are means over pairs, so the penalty has the same effect for any number of rows.
    return nonnegative_solution(gram, moments, float(_PENALTIES[int(np.argmin(losses))]))


def _normal_equations(kernel: Kernel, rows: np.ndarray, frequencies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inner products (l, l) of the C_j with each other and (l,) with K, as means over all pairs of rows.

    C_j equals ``c_j c_j^T + s_j s_j^T``, where c_j and s_j are the cosines and sines of frequency w_j at the rows. So
    the inner products of the C_j are sums of squared inner products of the columns c_j and s_j, and the C_j are never
    formed.
    """
    projected = rows @ frequencies.T
    cosines, sines = np.cos(projected), np.sin(projected)
    mixed = cosines.T @ sines
    gram = np.square(cosines.T @ cosines) + np.square(sines.T @ sines) + np.square(mixed) + np.square(mixed.T)
    K = kernel(rows)
    moments = np.einsum("ij,ij->j", cosines, K @ cosines) + np.einsum("ij,ij->j", sines, K @ sines)
    return gram / len(rows) ** 2, moments / len(rows) ** 2


def nonnegative_solution(gram: np.ndarray, moments: np.ndarray, penalty: float = 0.0) -> np.ndarray:
    """Nonnegative minimiser (l,) of ``a^T G a - 2 a^T b + penalty g |a|^2``.

    G is `gram`, b is `moments`, and g is the mean diagonal of G.
    """
    order = len(gram)
    mean = np.trace(gram) / order
    ridge = (penalty + _JITTER * order * np.finfo(np.float64).eps) * mean
    upper = cholesky(gram + ridge * np.eye(order))
    return nnls(upper, solve_triangular(upper, moments, trans=1))[0]
