"""Ridge regression from sufficient statistics, with its regularisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from phimap._random import RandomState, named_streams
from phimap.learn.blocks.blocks import FeatureBlock, Features, feature_block
from phimap.learn.blocks.centred_rows import times_root
from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.ridge.alpha import RidgeAlpha, choose
from phimap.learn.ridge.alpha_objectives import (
    AlphaObjective,
    FeatureRows,
    gcv_system,
    held_out_dual_system,
    held_out_system,
    leave_one_out_system,
)
from phimap.learn.ridge.cholesky import BlockedCholesky, NotPositiveDefiniteError
from phimap.learn.ridge.conjugate_gradient_steps import relative_size
from phimap.learn.ridge.leave_one_out import leave_one_out, leave_one_out_dual
from phimap.learn.ridge.nearby_factor import solve_from_nearby
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.rows.validation import n_left_out
from phimap.learn.rows.weights import weighted_mean
from phimap.learn.solver import HeldOutScores, LinearSolution
from phimap.ops import single_threaded_blas

#: Up to this number of rows the leave-one-out error is computed exactly, by an eigendecomposition of that order.
LEAVE_ONE_OUT_ROWS = 2048
_RETRIES = 4


def solve_ridge(
    statistics: RidgeStatistics,
    alpha: float | str = "auto",
    *,
    held_out: tuple[Any, ...] | None = None,
    apart: bool = False,
    outlying: tuple[Any, ...] | None = None,
    left_out: tuple[Any, ...] | None = None,
    rng: RandomState = 0,
    n_jobs: int | None = None,
) -> LinearSolution:
    """Minimise ``|Y - Z W - c|^2 + alpha |W|^2`` over W and c, from the sums over rows.

    Parameters
    ----------
    statistics : RidgeStatistics
    alpha : float or "auto", default="auto"
        Regularisation in the units of ``sklearn.linear_model.Ridge``, or to be chosen.
    held_out : tuple of features (r, m), targets (r, t) and, where they have some, weights (r,), optional
        Some of the rows of the statistics. They are taken out while alpha is chosen by the squared error on them; the
        solution is that of all rows. Without them alpha minimises generalised cross-validation.
    apart : bool, default=False
        Whether the statistics lack the rows held out. These are then added to them, in place, when alpha is chosen.
    outlying : tuple of features (k, m), targets (k, t) and, where they have some, weights (k,), optional
        Other rows of the statistics, those that lie farthest out: they stay in, and their leave-one-out errors count
        beside the held-out ones.
    left_out : tuple of features (r, m), targets (r, t) and, where they have some, weights (r,), optional
        Some of the rows of the statistics, whose leave-one-out predictions are formed where no rows are held out.
    rng : int, Generator, RandomState, SeedSequence or None, default=0
        Seed of the probes that estimate traces for generalised cross-validation.
    n_jobs : int, optional
        Threads; changes no bit.

    Returns
    -------
    LinearSolution

    Raises
    ------
    NotPositiveDefiniteError
        If `alpha` is below the rounding of the Gram matrix.

    Notes
    -----
    The held-out errors for every alpha come from one factorisation, see `LanczosShiftedInverse`.
    Generalised cross-validation needs the sums alone: with A, B, s the centred Gram matrix, cross products and
    target squares, ``RSS(lam) = s - tr B^T [(A + lam I)^{-1} + lam (A + lam I)^{-2}] B``, the degrees of freedom are
    ``m - lam tr (A + lam I)^{-1}`` and ``GCV(lam) = (RSS / n) / (1 - (dof + 1) / n)^2``, the intercept being the 1.
    It replaces every row's leverage by the mean one, and so misses a few rows far from all others, on which a
    weakly regularised fit fails: there its choice can be far too small, and held-out rows show it.

    Held-out rows show it only where some of these few are among them. With S the r held-out rows, F the k outlying
    ones and ``h_i(lam) = z_i^T (A + lam I)^{-1} z_i + 1 / (n - r)`` their leverages, rows centred and A without S, the
    score is ``((n - k) mean_S e_i^2 + sum_F (e_i / (1 - h_i))^2) / n``: every row of F counts once, S stands for all
    others. It is the mean over two strata; the outlying one, which has most of the variance at small lam, adds none.

    Rows with weights enter every sum so often, and n is their total. A row that is left out is so with its whole
    weight: ``h_i = w_i (z_i^T (A + lam I)^{-1} z_i + 1 / (n - r))``. Weights times a constant then choose alpha times
    this constant, and the solution stays; generalised cross-validation divides ``dof + 1`` by the number of rows.

    **Error.** Below the noise floor of the Gram matrix no alpha is tried. ``1 - h_i`` comes from four Lanczos steps.

    **Cost.** One factorisation, ``m^3 / 3`` flops, which also serves the solution where that takes fewer steps of
    conjugate gradients than a second factorisation is worth, and triangular solves, ``8 m^2`` flops for each outlying
    row; as much memory again as the statistics, twice that with held-out rows.

    **Differs from the source in** the intercept, and in the stochastic trace.

    References
    ----------
    Golub, Heath, Wahba (1979), *Generalized cross-validation as a method for choosing a good ridge parameter*.
    """

    def system() -> AlphaObjective:
        if held_out is None:
            return gcv_system(statistics)
        tested, far = (
            None if rows is None else FeatureRows(feature_block(rows[0]), *rows[1:]) for rows in (held_out, outlying)
        )
        assert tested is not None
        others = statistics if apart else statistics.without(*tested[:2], n_jobs, weights=tested.weights)
        return held_out_system(others, tested, far, n_jobs)

    chosen = _choice(alpha, system, rng, n_jobs)
    if apart and held_out is not None:
        block, Y, weights = FeatureRows(feature_block(held_out[0]), *held_out[1:])
        statistics.update(block, Y, n_jobs, weights=weights)
    matrix, rhs = statistics.centred_gram(), statistics.centred_cross()
    W, residual, chosen, factor = _solve(matrix, rhs, chosen, n_jobs)
    scores, left_out = chosen.held_out, held_out if left_out is None else left_out
    if scores is None and left_out is not None:
        assert factor is not None
        block, Y, weights = FeatureRows(feature_block(left_out[0]), *left_out[1:])
        Z = np.asarray(block.to_host(), dtype=np.float64)
        with single_threaded_blas():
            scores = leave_one_out(factor, statistics, W, Z, Y, weights)
    intercept = (statistics.sum_y - statistics.sum_z @ W) / statistics.weight
    return _solution(W, intercept, statistics.sum_y / statistics.weight, chosen, residual, "primal", scores)


def solve_ridge_dual(
    Z: FeatureBlock | Features,
    Y: np.ndarray,
    alpha: float | str = "auto",
    *,
    weights: np.ndarray | None = None,
    rng: RandomState = 0,
    n_jobs: int | None = None,
) -> LinearSolution:
    """Solve the problem of `solve_ridge` from rows, through their n x n Gram matrix.

    Parameters
    ----------
    Z : FeatureBlock, ndarray or PackedArray of shape (n, m)
        Features on the host, float32 or float64; packed ones are unpacked tile by tile where their products are no
        counts.
    Y : ndarray of shape (n, t)
    weights : ndarray of shape (n,), optional
        Positive: a row of weight w counts like w equal rows.
    alpha, rng, n_jobs
        As in `solve_ridge`. ``"auto"`` minimises the exact leave-one-out error for up to 2,048 rows, the error on a
        random tenth of the rows beyond.

    Returns
    -------
    LinearSolution

    Raises
    ------
    NotPositiveDefiniteError
        As `solve_ridge`.

    Notes
    -----
    With K the Gram matrix of the centred rows, ``W = Z_c^T (K + lam I)^{-1} Y_c``. The leave-one-out error of row i
    is ``lam a_i / (1 - h_i)`` with ``a = (K + lam I)^{-1} Y_c`` and its leverage
    ``h_i = 1 - lam [(K + lam I)^{-1}]_ii + 1 / n``, the last term that of the intercept.

    Rows with weights are an unweighted problem in ``s_i (1, z_i)`` and ``s_i y_i``, ``s_i = w_i^{1/2}``: rows are
    centred by their weighted mean and multiplied by ``s_i``, and ``W = Z_c^T S (K + lam I)^{-1} S Y_c`` with
    ``K = S Z_c Z_c^T S``. The column s of the intercept is orthogonal to those of ``S Z_c``, so its leverage is
    ``w_i / sum w`` in place of ``1 / n``, and ``lam a_i / (1 - h_i)`` is ``s_i`` times the error at row i of a fit
    without it, its whole weight left out. The score is the weighted mean ``sum_i (lam a_i / (1 - h_i))^2 / sum w``.
    Leaving out one of w equal rows would keep the others, which know its target: here weights are not repeated rows,
    and alpha differs from theirs.

    **Cost.** n^2 m flops for K, and factorisations of order n.
    """
    block = feature_block(Z)
    rows = block.centred(n_jobs, weights)
    mean_y = weighted_mean(Y, weights)
    matrix, rhs = rows.gram(), times_root(Y - mean_y, weights)

    def system() -> AlphaObjective:
        if Y.shape[0] <= LEAVE_ONE_OUT_ROWS:
            return leave_one_out_system(rows, matrix, rhs, Y, block.eps, weights)
        return held_out_dual_system(rows, Y, weights, block.eps, rng, n_jobs)

    A, residual, chosen, factor = _solve(matrix, rhs, _choice(alpha, system, rng, n_jobs), n_jobs)
    scores = chosen.held_out
    if scores is None:
        assert factor is not None
        some = named_streams(rng, "left-out")["left-out"].permutation(Y.shape[0])[: n_left_out(Y.shape[0])]
        scores = leave_one_out_dual(factor, chosen.alpha, A, some, Y, weights)
    W = rows.combine(A)
    return _solution(W, mean_y - rows.mean @ W, mean_y, chosen, residual, "dual", scores)


def _solution(
    W: np.ndarray,
    intercept: np.ndarray,
    centre: np.ndarray,
    chosen: RidgeAlpha,
    residual: float,
    form: str,
    held_out: HeldOutScores | None,
) -> LinearSolution:
    return LinearSolution(
        W,
        intercept,
        chosen.alpha,
        chosen.alphas,
        chosen.scores,
        chosen.criterion,
        residual,
        form,
        held_out=held_out,
        centre=centre,
    )


def _choice(
    alpha: float | str, system: Callable[[], AlphaObjective], rng: RandomState, n_jobs: int | None
) -> RidgeAlpha:
    """Alpha as given, or chosen by the criterion of `system`."""
    if alpha == "auto":
        return choose(system(), rng, n_jobs)
    return RidgeAlpha(float(alpha), np.empty(0), np.empty(0), "given", None, None)


def _solve(
    matrix: BlockTriangle, rhs: np.ndarray, chosen: RidgeAlpha, n_jobs: int | None
) -> tuple[np.ndarray, float, RidgeAlpha, BlockedCholesky | None]:
    """Solution (order, t), its relative residual, alpha, raised where rounding asks for it, and factor.

    There is a factor, and it is that of the matrix, unless rows were scored while alpha was chosen.
    """
    retries = 0 if chosen.criterion == "given" else _RETRIES
    alpha, near, factor = chosen.alpha, chosen.factor, None
    # In dual form the search has fewer rows.
    if near is not None and near.size != matrix.size:
        near = None
    W = None
    if near is not None and chosen.held_out is not None:
        W = solve_from_nearby(matrix, rhs, alpha, near, n_jobs)
    if W is None:
        buffer = None if near is None else near.data
        factor, alpha = _factor(matrix, alpha, retries, buffer, n_jobs)
        W = factor.solve(rhs)
        # One step of refinement: the explicit inverses of the factor's diagonal blocks cost a few digits.
        W = W + factor.solve(rhs - matrix.matmul(W, n_jobs) - alpha * W)
    residual = relative_size(rhs - matrix.matmul(W, n_jobs) - alpha * W, rhs)
    return np.ascontiguousarray(W), residual, replace(chosen, alpha=alpha, factor=None), factor


def _factor(
    matrix: BlockTriangle, alpha: float, retries: int, buffer: np.ndarray | None, n_jobs: int | None
) -> tuple[BlockedCholesky, float]:
    """The factor for `alpha`, or for ten times as much after each of some failures; and what it became."""
    while True:
        try:
            return BlockedCholesky(matrix, alpha, n_jobs, out=buffer), alpha
        except NotPositiveDefiniteError:
            # It was chosen on a matrix without the held-out rows, which has other rounding errors.
            if retries == 0:
                raise
            alpha, retries = 10 * alpha, retries - 1
