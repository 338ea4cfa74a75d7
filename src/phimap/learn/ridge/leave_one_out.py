"""Leave-one-out predictions of ridge regression, from the factorisation that gave its solution."""

from __future__ import annotations

import numpy as np

from phimap.learn.blocks.blocks import FeatureRows
from phimap.learn.blocks.centred_rows import times_root, without_root
from phimap.learn.ridge.cholesky import BlockedCholesky
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.rows.weights import total_weight
from phimap.learn.solver import HeldOutScores

# Least value of 1 minus a leverage: rounding could make it negative for a row that alone determines its own fit.
_LEAST_FREE = float(np.finfo(np.float64).eps)

# Rows at a time. The factor is read once for these rows, and four arrays (rows, m) are held meanwhile.
_ROWS = 256


def leave_one_out_primal(
    factor: BlockedCholesky,
    statistics: RidgeStatistics,
    W: np.ndarray,
    some: FeatureRows,
) -> HeldOutScores:
    """Leave-one-out predictions for some of the training rows, from the primal solution.

    Parameters
    ----------
    factor : BlockedCholesky
        Factor of ``A + alpha I``, with A the centred Gram matrix of all training rows, of order m.
    statistics : RidgeStatistics
        Sums over all training rows.
    W : ndarray of shape (m, t)
        The solution.
    some : FeatureRows
        The rows to predict.

    Notes
    -----
    With ``e_i`` the residual and ``h_i = w_i (z_i^T (A + alpha I)^{-1} z_i + 1 / sum w)`` the leverage of a centred
    row, the residual without it is ``e_i / (1 - h_i)``. **Error.** Rounding. **Cost.** r m^2 flops.
    """
    Z, Y, predictions = np.asarray(some.block.to_host(), dtype=np.float64), some.targets, np.empty(some.targets.shape)
    for first in range(0, len(Y), _ROWS):
        rows = slice(first, first + _ROWS)
        weights = None if some.weights is None else some.weights[rows]
        centred = Z[rows] - statistics.sum_z / statistics.weight
        errors = Y[rows] - statistics.sum_y / statistics.weight - centred @ W
        forms = np.square(factor.solve_lower(times_root(centred, weights).T)).sum(axis=0)
        free = 1 - forms - (1.0 if weights is None else weights) / statistics.weight
        predictions[rows] = Y[rows] - errors / np.maximum(free, _LEAST_FREE)[:, None]
    return HeldOutScores(predictions, Y, some.weights)


def leave_one_out_dual(
    factor: BlockedCholesky,
    alpha: float,
    A: np.ndarray,
    rows: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray | None,
) -> HeldOutScores:
    """Leave-one-out predictions for some of the training rows, from the dual solution.

    Parameters
    ----------
    factor : BlockedCholesky
        Factor of ``K + alpha I``, of order n: see `solve_ridge_dual`.
    alpha : float
    A : ndarray of shape (n, t)
        ``(K + alpha I)^{-1} Y_c``.
    rows : ndarray of shape (r,)
        Indices of the rows to predict.
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
    errors = without_root(dual_leave_one_out_errors(alpha, A[rows], diagonal, shares), kept)
    return HeldOutScores(Y[rows] - errors, Y[rows], kept)


def dual_leave_one_out_errors(alpha: float, duals: np.ndarray, diagonal: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Leave-one-out errors times the roots of the weights (r, t): see `solve_ridge_dual`.

    `duals` (r, t) are rows of ``(K + alpha I)^{-1} Y_c``, `diagonal` (r,) is the diagonal of ``(K + alpha I)^{-1}`` at
    these rows, and `shares` (r,) are their shares of the total weight.
    """
    free = np.maximum(alpha * diagonal - shares, _LEAST_FREE)
    return alpha * duals / free[:, None]


def weight_shares(weights: np.ndarray | None, n_rows: int) -> np.ndarray:
    """Shares (n_rows,) of the rows in the total weight."""
    return (np.ones(n_rows) if weights is None else weights) / total_weight(weights, n_rows)
