"""Leave-one-out predictions of ridge regression, from the factorisation that gave its solution."""

from __future__ import annotations

import numpy as np

from phimap.learn.blocks.centred_rows import times_root, without_root
from phimap.learn.ridge.cholesky import BlockedCholesky
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.rows.weights import total_weight
from phimap.learn.solver import HeldOutScores

# A row's leverage must leave so much of 1. Rounding could take a row that alone determines its own fit below zero.
_LEAST_FREE = float(np.finfo(np.float64).eps)

# Rows at a time, of which four arrays are as wide as the features: the factor is read once for each such piece.
_ROWS = 256


def leave_one_out(
    factor: BlockedCholesky,
    statistics: RidgeStatistics,
    W: np.ndarray,
    Z: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray | None,
) -> HeldOutScores:
    """Predict some of the rows of a solution, each as if it had not been among them.

    Parameters
    ----------
    factor : BlockedCholesky
        Of ``A + alpha I``, with A the centred Gram matrix of all rows, of order m.
    statistics : RidgeStatistics
        Of all rows.
    W : ndarray of shape (m, t)
        The solution.
    Z : ndarray of shape (r, m), float64
    Y : ndarray of shape (r, t)
    weights : ndarray of shape (r,) or None

    Notes
    -----
    With ``e_i`` the residual and ``h_i = w_i (z_i^T (A + alpha I)^{-1} z_i + 1 / sum w)`` the leverage of a centred
    row, the residual without it is ``e_i / (1 - h_i)``. **Error.** Rounding. **Cost.** r m^2 flops.
    """
    predictions = np.empty(Y.shape)
    for first in range(0, len(Y), _ROWS):
        rows = slice(first, first + _ROWS)
        some = None if weights is None else weights[rows]
        centred = Z[rows] - statistics.sum_z / statistics.weight
        errors = Y[rows] - statistics.sum_y / statistics.weight - centred @ W
        own = np.square(factor.solve_lower(times_root(centred, some).T)).sum(axis=0)
        free = 1 - own - (1.0 if some is None else some) / statistics.weight
        predictions[rows] = Y[rows] - errors / np.maximum(free, _LEAST_FREE)[:, None]
    return HeldOutScores(predictions, Y, weights)


def leave_one_out_dual(
    factor: BlockedCholesky,
    alpha: float,
    A: np.ndarray,
    rows: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray | None,
) -> HeldOutScores:
    """Predict some of the rows of a solution in dual form, each as if it had not been among them.

    Parameters
    ----------
    factor : BlockedCholesky
        Of ``K + alpha I``, see `solve_ridge_dual`, of order n.
    alpha : float
    A : ndarray of shape (n, t)
        ``(K + alpha I)^{-1} Y_c``.
    rows : ndarray of shape (r,)
        Indices.
    Y : ndarray of shape (n, t)
    weights : ndarray of shape (n,) or None

    Notes
    -----
    **Error.** Rounding. **Cost.** r n^2 flops.
    """
    unit = np.zeros((factor.size, rows.size))
    unit[rows, np.arange(rows.size)] = 1.0
    diagonal = np.square(factor.solve_lower(unit)).sum(axis=0)
    shares, kept = weight_shares(weights, factor.size)[rows], None if weights is None else weights[rows]
    errors = without_root(left_out_errors(alpha, A[rows], diagonal, shares), kept)
    return HeldOutScores(Y[rows] - errors, Y[rows], kept)


def left_out_errors(alpha: float, duals: np.ndarray, diagonal: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Leave-one-out errors times the roots of weights (r, t), from ``(K + alpha I)^{-1}``: see `solve_ridge_dual`.

    `duals` (r, t) are rows of it times the targets, `diagonal` and `shares` (r,) its diagonal and the rows' shares of
    the total weight.
    """
    free = np.maximum(alpha * diagonal - shares, _LEAST_FREE)
    return alpha * duals / free[:, None]


def weight_shares(weights: np.ndarray | None, n_rows: int) -> np.ndarray:
    """Shares (n_rows,) of the total weight."""
    return (np.ones(n_rows) if weights is None else weights) / total_weight(weights, n_rows)
