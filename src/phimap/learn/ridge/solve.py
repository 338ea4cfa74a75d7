"""Ridge regression from sums over rows or from the rows themselves, including the choice of its regularisation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phimap._random import RandomState, named_streams
from phimap.learn.blocks.blocks import FeatureBlock, FeatureRows, Features, feature_block
from phimap.learn.blocks.centred_rows import times_root
from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.ridge.alpha import ChosenAlpha, choose_alpha
from phimap.learn.ridge.alpha_objectives import (
    AlphaObjective,
    DualHeldOutError,
    GeneralisedCrossValidation,
    HeldOutError,
    LeaveOneOutError,
    LeaveUnitsOutError,
    leave_one_out_dual,
    leave_one_out_primal,
)
from phimap.learn.ridge.cholesky import BlockedCholesky, factor_with_retries
from phimap.learn.ridge.conjugate_gradient_steps import relative_size, solve_from_nearby
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.rows.units import RowUnits
from phimap.learn.rows.validation import n_leave_one_out
from phimap.learn.solver import LinearSolution
from phimap.learn.weights import weighted_mean
from phimap.ops import single_threaded_blas

#: Up to this number of rows, the leave-one-out error is computed exactly, by an eigendecomposition of a matrix whose
#: order is the number of rows, or the number of features if it is clearly smaller.
LEAVE_ONE_OUT_ROWS = 2048
# Largest number of retries of a factorisation at a chosen alpha, each with ten times the alpha.
_RETRIES = 4


def solve_ridge(
    statistics: RidgeStatistics,
    alpha: float | str = "auto",
    *,
    held_out: FeatureRows | None = None,
    held_out_in_sums: bool = True,
    extreme: FeatureRows | None = None,
    leave_one_out: FeatureRows | None = None,
    rng: RandomState = 0,
    n_jobs: int | None = None,
) -> LinearSolution:
    """Minimise ``|Y - Z W - c|^2 + alpha |W|^2`` over W and c, from the sums over rows.

    Parameters
    ----------
    statistics : RidgeStatistics
    alpha : float or "auto", default="auto"
        Regularisation in the units of ``sklearn.linear_model.Ridge``; "auto" chooses it.
    held_out : FeatureRows, optional
        Random rows of the training set. While alpha is chosen by the squared error on these rows, they are kept out of
        the sums. The solution is fitted to all rows. Without `held_out`, alpha minimises generalised cross-validation.
    held_out_in_sums : bool, default=True
        Whether `statistics` include the held-out rows. If not, they are added in place once alpha is chosen.
    extreme : FeatureRows, optional
        The rows farthest from the centre, none of which is held out. They stay in the sums. Their leave-one-out errors
        count in the score together with the held-out errors.
    leave_one_out : FeatureRows, optional
        Training rows for which leave-one-out predictions are formed if alpha is not chosen by held-out rows; by
        default the held-out rows.
    rng : int, Generator, RandomState, SeedSequence or None, default=0
        Seed of the probes that estimate traces for generalised cross-validation.
    n_jobs : int, optional
        Threads; the result does not depend on them.

    Returns
    -------
    LinearSolution

    Raises
    ------
    NotPositiveDefiniteError
        If `alpha` is below the rounding of the Gram matrix.

    Notes
    -----
    One factorisation gives the held-out errors for every alpha, see `LanczosShiftedInverse`. Generalised
    cross-validation needs the sums alone: with A, B, s the centred Gram matrix, cross products and target squares,
    ``RSS(lam) = s - tr B^T [(A + lam I)^{-1} + lam (A + lam I)^{-2}] B``, the degrees of freedom are
    ``m - lam tr (A + lam I)^{-1}`` and ``GCV(lam) = (RSS / n) / (1 - (dof + 1) / n)^2``, where the 1 is the intercept.
    It replaces the leverage of every row by the mean leverage. So the score stays small even if a weakly regularised
    fit fails on a few rows far from all other rows. The chosen alpha can then be far too small.

    Held-out rows show these errors only if they include some of these few rows. Let S be the r held-out rows, F the k
    extreme rows and ``h_i(lam) = z_i^T (A + lam I)^{-1} z_i + 1 / (n - r)`` their leverages, with rows centred and A
    without S. The score is ``((n - k) mean_S e_i^2 + sum_F (e_i / (1 - h_i))^2) / n``: S represents all rows outside of
    F, and every row of F counts once. This is a mean over two strata. The stratum F, which has most of the variance at
    small lam, is not sampled, so it adds no sampling error.

    With weights, n is the total weight. A row is left out with its whole weight:
    ``h_i = w_i (z_i^T (A + lam I)^{-1} z_i + 1 / (n - r))``. If all weights are multiplied by a constant, the chosen
    alpha is multiplied by it and the solution stays the same; generalised cross-validation therefore divides
    ``dof + 1`` by the number of rows.

    **Error.** Alphas below the noise floor of the Gram matrix are not tried. ``1 - h_i`` comes from four Lanczos steps.

    **Cost.** One factorisation, ``m^3 / 3`` flops. It also gives the solution if conjugate gradients with it take less
    time than a second factorisation. Triangular solves, ``8 m^2`` flops for each extreme row. The memory of the
    statistics is needed a second time, and with held-out rows a third time.

    **Differs from the source in** the intercept, and in the stochastic trace.

    References
    ----------
    Golub, Heath, Wahba (1979), *Generalized cross-validation as a method for choosing a good ridge parameter*.
    """

    def objective() -> AlphaObjective:
        if held_out is None:
            return GeneralisedCrossValidation(statistics)
        kept = statistics.without(held_out, n_jobs) if held_out_in_sums else statistics
        return HeldOutError(kept, held_out, extreme, n_jobs)

    chosen, nearby = _chosen(alpha, objective, rng, n_jobs)
    if held_out is not None and not held_out_in_sums:
        statistics.update(held_out.block, held_out.targets, n_jobs, weights=held_out.weights)
    matrix, rhs = statistics.centred_gram(), statistics.centred_cross()
    W, residual, chosen, factor = _solve(matrix, rhs, chosen, nearby, n_jobs)
    rows = held_out if leave_one_out is None else leave_one_out
    if chosen.held_out is None and rows is not None:
        assert factor is not None
        with single_threaded_blas():
            chosen = chosen._replace(held_out=leave_one_out_primal(factor, statistics, W, rows))
    intercept = (statistics.sum_y - statistics.sum_z @ W) / statistics.weight
    return _solution(W, intercept, statistics.sum_y / statistics.weight, chosen, residual, "primal")


def solve_ridge_dual(
    Z: FeatureBlock | Features,
    Y: np.ndarray,
    alpha: float | str = "auto",
    *,
    weights: np.ndarray | None = None,
    units: RowUnits | None = None,
    chooses: np.ndarray | None = None,
    rng: RandomState = 0,
    n_jobs: int | None = None,
) -> LinearSolution:
    """Solve the problem of `solve_ridge` from the rows, through their n x n Gram matrix.

    Parameters
    ----------
    Z : FeatureBlock, ndarray or PackedArray of shape (n, m)
        Features on the host, float32 or float64. Packed features are unpacked tile by tile unless their products can
        be counted.
    Y : ndarray of shape (n, t)
    weights : ndarray of shape (n,), optional
        Positive: a row of weight w counts like w equal rows.
    units : RowUnits, optional
        Units of rows. While alpha is chosen, the rows of a unit are left out together; if units are moments in time,
        only the latest rows are left out. Without units, rows are left out one by one.
    chooses : ndarray of bool, shape (n,), optional
        Rows whose errors may choose alpha; by default all rows.
    alpha, rng, n_jobs
        As in `solve_ridge`. ``"auto"`` minimises the exact leave-one-out error for up to 2,048 rows, and the error on a
        random tenth of the rows for more rows.

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
    is ``lam a_i / (1 - h_i)`` with ``a = (K + lam I)^{-1} Y_c`` and the leverage
    ``h_i = 1 - lam [(K + lam I)^{-1}]_ii + 1 / n``, whose last term comes from the intercept.

    A problem with weights is equivalent to the unweighted problem in ``s_i (1, z_i)`` and ``s_i y_i`` with ``s_i =
    w_i^{1/2}``. Rows are centred by their weighted mean and multiplied by ``s_i``, and ``W = Z_c^T S (K + lam I)^{-1} S
    Y_c`` with ``K = S Z_c Z_c^T S``. The column s of the intercept is orthogonal to the columns of ``S Z_c``, so its
    leverage is ``w_i / sum w`` instead of ``1 / n``. Then ``lam a_i / (1 - h_i)`` is ``s_i`` times the error at row i
    of a fit that omits the whole weight of the row. The score is the weighted mean ``sum_i (lam a_i / (1 - h_i))^2 /
    sum w``. Alpha therefore differs from the alpha for repeated rows: if one of w equal rows is left out, the other
    copies, which have the same target, stay.

    **Cost.** n^2 m flops for K, and factorisations of order n.
    """
    block = feature_block(Z)
    rows = block.centred(n_jobs, weights)
    mean_y = weighted_mean(Y, weights)
    matrix, rhs = rows.gram(), times_root(Y - mean_y, weights)

    def objective() -> AlphaObjective:
        if Y.shape[0] > LEAVE_ONE_OUT_ROWS or (units is not None and units.in_time):
            return DualHeldOutError(rows, Y, weights, block.eps, rng, n_jobs, units, chooses)
        exact = rows, matrix, rhs, Y, weights, block.eps, chooses
        return LeaveOneOutError(*exact) if units is None else LeaveUnitsOutError(units, *exact)

    A, residual, chosen, factor = _solve(matrix, rhs, *_chosen(alpha, objective, rng, n_jobs), n_jobs)
    if chosen.held_out is None and units is None:
        assert factor is not None
        some = named_streams(rng, "left-out")["left-out"].permutation(Y.shape[0])[: n_leave_one_out(Y.shape[0])]
        chosen = chosen._replace(held_out=leave_one_out_dual(factor, chosen.alpha, A, some, Y, weights))
    W = rows.combine(A)
    return _solution(W, mean_y - rows.mean @ W, mean_y, chosen, residual, "dual")


def _chosen(
    alpha: float | str, objective: Callable[[], AlphaObjective], rng: RandomState, n_jobs: int | None
) -> tuple[ChosenAlpha, BlockedCholesky | None]:
    """Return the alpha, given or chosen by an objective, and the factor of `choose_alpha`, None for a given alpha."""
    if alpha == "auto":
        return choose_alpha(objective(), rng, n_jobs)
    return ChosenAlpha(float(alpha)), None


def _solution(
    W: np.ndarray, intercept: np.ndarray, centre: np.ndarray, chosen: ChosenAlpha, residual: float, form: str
) -> LinearSolution:
    return LinearSolution(W, intercept, residual=residual, form=form, centre=centre, **chosen._asdict())


def _solve(
    matrix: BlockTriangle, rhs: np.ndarray, chosen: ChosenAlpha, nearby: BlockedCholesky | None, n_jobs: int | None
) -> tuple[np.ndarray, float, ChosenAlpha, BlockedCholesky | None]:
    """Return the solution (order, t), its relative residual, the alpha that was used, and a factor of the matrix.

    The alpha is larger than the chosen one if rounding requires it. The factor is None if held-out scores are known and
    `nearby`, the factor of a system with fewer rows, gives the solution.
    """
    alpha, W, factor = chosen.alpha, None, None
    # In dual form the system without held-out rows has a smaller order, so its factor cannot be used.
    if nearby is not None and nearby.size != matrix.size:
        nearby = None
    if nearby is not None and chosen.held_out is not None:
        W = solve_from_nearby(matrix, rhs, alpha, nearby, n_jobs)
    if W is None:
        retries = 0 if chosen.criterion == "given" else _RETRIES
        # A chosen alpha may be below the rounding errors of this matrix, because it was chosen on a matrix without the
        # held-out rows. The factorisation is then retried.
        buffer = None if nearby is None else nearby.data
        factor = factor_with_retries(matrix, alpha, n_jobs, most_retries=retries, out=buffer)
        alpha = factor.shift
        W = factor.solve(rhs)
        # One step of refinement: the explicit inverses of the factor's diagonal blocks cost a few digits.
        W = W + factor.solve(rhs - matrix.matmul(W, n_jobs) - alpha * W)
    residual = relative_size(rhs - matrix.matmul(W, n_jobs) - alpha * W, rhs)
    return np.ascontiguousarray(W), residual, chosen._replace(alpha=alpha), factor
