"""Ridge regression from sufficient statistics, with its regularisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from phimap._random import RandomState, named_streams
from phimap.learn.cholesky import BlockedCholesky, BlockTriangle, NotPositiveDefiniteError
from phimap.learn.spectral import ExactShiftedInverse, Images, LanczosShiftedInverse, ShiftedInverse
from phimap.learn.statistics import RidgeStatistics
from phimap.ops import Array, ops_for
from phimap.records import Record

# Up to this order an eigendecomposition costs less than a factorisation and the Lanczos steps; larger problems
# start their search where the one on this many of their features ends.
_EXACT_ORDER = 768
#: Up to this number of rows the leave-one-out error is computed exactly, by an eigendecomposition of that order.
LEAVE_ONE_OUT_ROWS = 2048
# Grid of regularisations: finer than the curve's curvature; the minimum is then refined between grid points.
_POINTS_PER_DECADE = 4
# The grid reaches up to this multiple of the largest eigenvalue, where everything is shrunk, and down to where
# rounding may begin: products in float32 move eigenvalues by 0.05 to 0.25 eps of the largest before centring, as
# measured, and by less where the features came in many batches. What proves to be noise is left out of the search.
_TOP = 10.0
_FLOOR = 1e-2
_MOST_DECADES = 10
# Reach of one factorisation to either side of its shift: within it a score takes some 20 Lanczos steps to three
# digits, and ever more beyond.
_REACH = 10.0**1.5
_MOST_WINDOWS = 8
_POWER_STEPS = 6
_PROBES = 8
# Standard deviations of the estimated degrees of freedom that must be left to the residuals for GCV to mean anything:
# the score divides by their square, which is then known within a fifth.
_TRUSTED = 10.0
_RETRIES = 4


@dataclass(frozen=True)
class RidgeSolution(Record):
    """Coefficients, and how their regularisation was found.

    Attributes
    ----------
    coef : ndarray of shape (m, t)
    intercept : ndarray of shape (t,)
    alpha : float
    alphas : ndarray of shape (g,)
        Grid that was searched; empty where alpha was given.
    scores : ndarray of shape (g,)
        The criterion at each: an estimate of the mean squared error on new rows, summed over targets.
    criterion : str
        ``"held-out"``, ``"leave-one-out"``, ``"gcv"`` or ``"given"``.
    residual : float
        ``|(A + alpha I) W - B| / |B|`` of the linear system solved.
    form : str
        ``"primal"`` or ``"dual"``.
    """

    coef: np.ndarray
    intercept: np.ndarray
    alpha: float
    alphas: np.ndarray
    scores: np.ndarray
    criterion: str
    residual: float
    form: str


@dataclass(frozen=True)
class _System:
    """``(A + lam I) W = B`` and a criterion by which lam is chosen from the functions of A."""

    matrix: BlockTriangle
    rhs: np.ndarray
    # The matrix that was rounded, and to what: `matrix` is less by the centring, which leaves the rounding.
    uncentred: BlockTriangle
    eps: float
    criterion: str
    score: Callable[[Any, np.ndarray], np.ndarray]
    project: Images | None = None
    exact: bool = False
    # The same problem on some of the features, by which a large one finds where to look.
    coarse: Callable[[np.ndarray], _System] | None = None


def solve_ridge(
    statistics: RidgeStatistics,
    alpha: float | str = "auto",
    *,
    held_out: tuple[Array, np.ndarray] | None = None,
    rng: RandomState = 0,
    n_jobs: int | None = None,
) -> RidgeSolution:
    """Minimise ``|Y - Z W - c|^2 + alpha |W|^2`` over W and c, from the sums over rows.

    Parameters
    ----------
    statistics : RidgeStatistics
    alpha : float or "auto", default="auto"
        Regularisation in the units of ``sklearn.linear_model.Ridge``, or to be chosen.
    held_out : tuple of arrays (r, m) and (r, t), optional
        Features and targets of some of the rows of the statistics. They are taken out while alpha is chosen by the
        squared error on them; the solution is that of all rows. Without them alpha minimises generalised
        cross-validation.
    rng : int, Generator, RandomState, SeedSequence or None, default=0
        Seed of the probes that estimate traces for generalised cross-validation.
    n_jobs : int, optional
        Threads; changes no bit.

    Returns
    -------
    RidgeSolution

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

    **Error.** Below the noise floor of the Gram matrix no alpha is tried.

    **Cost.** Two factorisations, ``2 m^3 / 3`` flops in all, and triangular solves; as much memory again as the
    statistics, twice that with held-out rows.

    **Differs from the source in** the intercept, and in the stochastic trace.

    References
    ----------
    Golub, Heath, Wahba (1979), *Generalized cross-validation as a method for choosing a good ridge parameter*.
    """
    chosen = None
    if alpha == "auto":
        system = _held_out_system(statistics, *held_out, n_jobs) if held_out else _gcv_system(statistics)
        chosen = _choose(system, rng, n_jobs)
        alpha = chosen.alpha
    matrix, rhs = statistics.centred_gram(), statistics.centred_cross()
    W, residual, alpha = _solve(matrix, rhs, float(alpha), n_jobs, chosen)
    intercept = (statistics.sum_y - statistics.sum_z @ W) / statistics.n
    return _solution(W, intercept, alpha, chosen, residual, "primal")


def solve_ridge_dual(
    Z: np.ndarray, Y: np.ndarray, alpha: float | str = "auto", *, rng: RandomState = 0, n_jobs: int | None = None
) -> RidgeSolution:
    """Solve the problem of `solve_ridge` from rows, through their n x n Gram matrix.

    Parameters
    ----------
    Z : ndarray of shape (n, m)
        Features, float32 or float64.
    Y : ndarray of shape (n, t)
    alpha, rng, n_jobs
        As in `solve_ridge`. ``"auto"`` minimises the exact leave-one-out error for up to 2,048 rows, the error on a
        random tenth of the rows beyond.

    Returns
    -------
    RidgeSolution

    Raises
    ------
    NotPositiveDefiniteError
        If `alpha` is below the rounding of the Gram matrix.

    Notes
    -----
    With K the Gram matrix of the centred rows, ``W = Z_c^T (K + lam I)^{-1} Y_c``. The leave-one-out residual of
    row i is ``lam a_i / (1 - h_i)`` with ``a = (K + lam I)^{-1} Y_c`` and its leverage
    ``h_i = 1 - lam [(K + lam I)^{-1}]_ii + 1 / n``, the last term that of the intercept.

    **Cost.** n^2 m flops for K, and factorisations of order n.
    """
    n = Z.shape[0]
    mean_z, mean_y = Z.mean(axis=0, dtype=np.float64), Y.mean(axis=0)
    centred = Z.astype(np.float64) - mean_z
    eps = float(np.finfo(Z.dtype).eps)
    matrix, rhs = _gram_of_rows(centred, n_jobs), Y - mean_y
    chosen = None
    if alpha == "auto":
        if n <= LEAVE_ONE_OUT_ROWS:
            system = _System(matrix, rhs, matrix, eps, "leave-one-out", _leave_one_out(n), exact=True)
        else:
            system = _held_out_rows(centred, Y, eps, rng, n_jobs)
        chosen = _choose(system, rng, n_jobs)
        alpha = chosen.alpha
    A, residual, alpha = _solve(matrix, rhs, float(alpha), n_jobs, chosen)
    W = np.concatenate([block.T @ A for block in np.array_split(centred, -(-centred.shape[1] // 512), axis=1)])
    return _solution(W, mean_y - mean_z @ W, alpha, chosen, residual, "dual")


@dataclass(frozen=True)
class _Choice:
    alpha: float
    alphas: np.ndarray
    scores: np.ndarray
    criterion: str
    # Memory that the next factorisation may overwrite.
    buffer: np.ndarray | None


def _solution(
    W: np.ndarray, intercept: np.ndarray, alpha: float, chosen: _Choice | None, residual: float, form: str
) -> RidgeSolution:
    if chosen is None:
        chosen = _Choice(alpha, np.empty(0), np.empty(0), "given", None)
    return RidgeSolution(W, intercept, alpha, chosen.alphas, chosen.scores, chosen.criterion, residual, form)


def _solve(
    matrix: BlockTriangle, rhs: np.ndarray, alpha: float, n_jobs: int | None, chosen: _Choice | None
) -> tuple[np.ndarray, float, float]:
    """Solution (order, t), relative residual, and alpha: one that was chosen is raised where it must be."""
    buffer, retries = (chosen.buffer, _RETRIES) if chosen else (None, 0)
    if buffer is not None and buffer.shape != matrix.data.shape:
        # In dual form the search has fewer rows.
        buffer = None
    while True:
        try:
            factor = BlockedCholesky(matrix, alpha, n_jobs, out=buffer)
            break
        except NotPositiveDefiniteError:
            # It was chosen on a matrix without the held-out rows, which has other rounding errors.
            if retries == 0:
                raise
            alpha, retries = 10 * alpha, retries - 1
    W = factor.solve(rhs)
    # One step of refinement: the explicit inverses of the factor's diagonal blocks cost a few digits.
    W = W + factor.solve(rhs - matrix.matmul(W, n_jobs) - alpha * W)
    left = rhs - matrix.matmul(W, n_jobs) - alpha * W
    size = np.linalg.norm(rhs)
    return np.ascontiguousarray(W), float(np.linalg.norm(left) / size) if size > 0 else 0.0, alpha


# Criteria ------------------------------------------------------------------------------------------------------


def _gcv_system(statistics: RidgeStatistics) -> _System:
    n, squares = statistics.n, float(statistics.centred_squares().sum())

    def score(inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        rss = squares - inverse.quadratic(shifts) - shifts * inverse.quadratic_squared(shifts)
        dof = np.clip(statistics.n_components - shifts * inverse.trace(shifts), 0, None)
        free = 1 - (dof + 1) / n
        # With no degree of freedom left the residuals vanish and say nothing; with few, their number is not known.
        least = np.maximum(0.5, _TRUSTED * shifts * inverse.trace_deviation(shifts)) / n
        nothing = np.full(shifts.shape, np.inf)
        # Residuals below the rounding of what they are the difference of are not known either.
        rss = np.maximum(rss, statistics.eps * squares)
        return np.divide(rss / n, np.square(free), out=nothing, where=free > least)

    def coarse(columns: np.ndarray) -> _System:
        return _gcv_system(statistics.subset(columns))

    matrix, rhs = statistics.centred_gram(), statistics.centred_cross()
    return _System(matrix, rhs, statistics.gram, statistics.eps, "gcv", score, coarse=coarse)


def _held_out_system(statistics: RidgeStatistics, Z: Array, Y: np.ndarray, n_jobs: int | None) -> _System:
    return _system_without(statistics.without(Z, Y, n_jobs), Z, Y, n_jobs)


def _system_without(rest: RidgeStatistics, Z: Array, Y: np.ndarray, n_jobs: int | None) -> _System:
    """The system of the rows that are left, judged on the rows (Z, Y)."""
    ops = ops_for(Z)
    mean_z, mean_y = rest.sum_z / rest.n, rest.sum_y / rest.n

    def project(vectors: np.ndarray) -> np.ndarray:
        products = ops.to_host(ops.matmul_rows(Z, ops.constant(np.ascontiguousarray(vectors)), n_jobs))
        return products - mean_z @ vectors

    def coarse(columns: np.ndarray) -> _System:
        return _system_without(rest.subset(columns), ops.contiguous(Z[:, columns]), Y, n_jobs)

    score = _squared_error(Y - mean_y)
    matrix, rhs = rest.centred_gram(), rest.centred_cross()
    return _System(matrix, rhs, rest.gram, rest.eps, "held-out", score, project, coarse=coarse)


def _held_out_rows(centred: np.ndarray, Y: np.ndarray, eps: float, rng: RandomState, n_jobs: int | None) -> _System:
    """As `_held_out_system`, in the dual form: a tenth of the rows held out of those given."""
    order = named_streams(rng, "held-out")["held-out"].permutation(centred.shape[0])
    tested, kept = np.split(order, [centred.shape[0] // 10])
    mean_z, mean_y = centred[kept].mean(axis=0), Y[kept].mean(axis=0)
    rows = centred[kept] - mean_z
    ops = ops_for(rows)
    between = ops.matmul_rows(centred[tested] - mean_z, np.ascontiguousarray(rows.T), n_jobs)

    def project(vectors: np.ndarray) -> np.ndarray:
        return ops.matmul_rows(between, np.ascontiguousarray(vectors), n_jobs)

    score = _squared_error(Y[tested] - mean_y)
    matrix = _gram_of_rows(rows, n_jobs)
    return _System(matrix, Y[kept] - mean_y, matrix, eps, "held-out", score, project)


def _squared_error(targets: np.ndarray) -> Callable[[ShiftedInverse, np.ndarray], np.ndarray]:
    def score(inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        return np.square(inverse.images(shifts) - targets).sum(axis=2).mean(axis=1)

    return score


def _leave_one_out(n: int) -> Callable[[ExactShiftedInverse, np.ndarray], np.ndarray]:
    def score(inverse: ExactShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        inverse_diagonals = inverse.diagonals(shifts) * shifts[:, None]
        # 1 - h_i; for a row that alone determines its own fit rounding could leave it below zero.
        free = np.maximum(inverse_diagonals - 1 / n, np.finfo(np.float64).eps)
        residuals = shifts[:, None, None] * inverse.images(shifts) / free[:, :, None]
        return np.square(residuals).sum(axis=2).mean(axis=1)

    return score


# Search --------------------------------------------------------------------------------------------------------


def _choose(system: _System, rng: RandomState, n_jobs: int | None) -> _Choice:
    """The alpha at the least score, and the part of the curve that was looked at."""
    top = _largest_eigenvalue(system.matrix, n_jobs)
    if not top > 0:
        # Constant features: nothing to fit, and every regularisation says so.
        return _Choice(1.0, np.empty(0), np.empty(0), system.criterion, None)
    rounded = top if system.uncentred is system.matrix else _largest_eigenvalue(system.uncentred, n_jobs)
    lowest, highest = max(_FLOOR * system.eps * rounded, 10.0**-_MOST_DECADES * top), _TOP * top
    size = system.matrix.size
    if system.exact or size <= _EXACT_ORDER:
        grid = _grid(lowest, highest)
        inverse = ExactShiftedInverse(system.matrix, system.rhs, system.project)
        scores = _trusted_scores(system, inverse, grid)
        best, known = _refine(system, inverse, grid, scores), np.isfinite(scores)
        return _Choice(best, grid[known], scores[known], system.criterion, None)
    centre = 1e-4 * top
    if system.coarse is not None:
        # Fewer features make a kernel estimate smaller by the same factor, and with it the alpha that suits it.
        columns = np.linspace(0, size - 1, _EXACT_ORDER).astype(np.intp)
        centre = _choose(system.coarse(columns), rng, n_jobs).alpha * size / _EXACT_ORDER
    return _Windows(system, lowest, highest, rng, n_jobs).search(centre)


def _trusted_scores(system: _System, inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
    """Scores, infinite where the shift does not clear twice what rounding took from the least eigenvalue."""
    trusted = shifts > -2 * inverse.least_eigenvalue
    scores = np.full(shifts.shape, np.inf)
    if trusted.any():
        scores[trusted] = system.score(inverse, shifts[trusted])
    return scores


def _grid(lowest: float, highest: float) -> np.ndarray:
    return np.geomspace(lowest, highest, max(2, int(np.log10(highest / lowest) * _POINTS_PER_DECADE) + 1))


class _Windows:
    """A search along the curve by windows, each evaluated from one factorisation at its centre."""

    def __init__(self, system: _System, lowest: float, highest: float, rng: RandomState, n_jobs: int | None):
        self._system, self._lowest, self._highest, self._n_jobs = system, lowest, highest, n_jobs
        self._buffer: np.ndarray | None = None
        self._curve: dict[float, float] = {}
        self._probes = None
        if system.criterion == "gcv":
            signs = named_streams(rng, "trace")["trace"].integers(2, size=(system.matrix.size, _PROBES))
            self._probes = 2.0 * signs - 1.0

    def search(self, centre: float) -> _Choice:
        """Move the window to its own minimum until that lies inside."""
        best = centre
        for _ in range(_MOST_WINDOWS):
            centre = float(np.clip(centre, self._lowest, self._highest))
            grid = _grid(max(self._lowest, centre / _REACH), min(self._highest, centre * _REACH))
            try:
                inverse, scores = self._evaluate(centre, grid)
            except NotPositiveDefiniteError:
                # Rounding in the Gram matrix reaches up to here: what lies below ten times it is noise as well.
                self._lowest = centre = 10 * centre
                continue
            if not np.isfinite(scores).any() and centre < self._highest:
                self._lowest = centre = float(grid[-1])
                continue
            best = _refine(self._system, inverse, grid, scores)
            at = int(np.argmin(scores))
            inside = 0 < at < grid.size - 1
            if inside or grid[at] in (self._lowest, self._highest):
                break
            centre = float(grid[at])
        if not self._curve:
            raise NotPositiveDefiniteError(
                "the Gram matrix is not positive semidefinite to the rounding of its features, so `alpha` cannot be "
                "chosen. Give `alpha`, or use float64 input."
            )
        alphas = np.array(sorted(self._curve))
        scores = np.array([self._curve[alpha] for alpha in alphas])
        return _Choice(best, alphas, scores, self._system.criterion, self._buffer)

    def _evaluate(self, shift: float, grid: np.ndarray) -> tuple[ShiftedInverse, np.ndarray]:
        system = self._system
        factor = BlockedCholesky(system.matrix, shift, self._n_jobs, out=self._buffer)
        self._buffer = factor.data
        inverse = LanczosShiftedInverse(
            factor, shift, system.rhs, _Steady(system, grid), project=system.project, probes=self._probes
        )
        scores = _trusted_scores(system, inverse, grid)
        known = np.isfinite(scores)
        self._curve.update(zip(grid[known].tolist(), scores[known].tolist(), strict=True))
        return inverse, scores


class _Steady:
    """Whether the curve on a grid has stopped moving: by a thousandth anywhere, by less at its minimum."""

    def __init__(self, system: _System, grid: np.ndarray):
        self._system, self._grid = system, grid
        self._last = np.full(grid.shape, np.inf)

    def __call__(self, inverse: ShiftedInverse) -> bool:
        scores = _trusted_scores(self._system, inverse, self._grid)
        known = np.isfinite(scores)
        moved = np.where(known, np.abs(np.where(known, scores, 0) - self._last), 0)
        self._last = scores
        at = int(np.argmin(scores))
        return bool((moved <= 1e-3 * scores).all() and moved[at] <= 1e-4 * scores[at])


def _refine(system: _System, inverse: ShiftedInverse, grid: np.ndarray, scores: np.ndarray) -> float:
    """The minimum between the neighbours of the best grid point; the point itself at the ends of what is known."""
    best = int(np.argmin(scores))
    if best in (0, grid.size - 1) or not np.isfinite(scores[best - 1 : best + 2]).all():
        return float(grid[best])
    bounds = (np.log(grid[best - 1]), np.log(grid[best + 1]))
    found = minimize_scalar(
        lambda log: system.score(inverse, np.exp([log]))[0], bounds=bounds, method="bounded", options={"xatol": 1e-2}
    )
    return float(np.exp(found.x) if found.fun < scores[best] else grid[best])


def _largest_eigenvalue(matrix: BlockTriangle, n_jobs: int | None) -> float:
    """The largest eigenvalue within a few percent, by power iteration."""
    # Weights that no structure of the features shares, the same in every call.
    weights = 1 + 0.5 * np.sin(np.arange(1, matrix.size + 1))
    vector = (np.sqrt(np.maximum(matrix.diagonal(), 0)) * weights)[:, None]
    value = 0.0
    for _ in range(_POWER_STEPS):
        norm = np.linalg.norm(vector)
        if not norm > 0:
            return 0.0
        vector = matrix.matmul(vector / norm, n_jobs)
        value = float(np.linalg.norm(vector))
    return value


def _gram_of_rows(rows: np.ndarray, n_jobs: int | None) -> BlockTriangle:
    """``rows rows^T`` (n, n): the sum over columns that `RidgeStatistics` forms over rows."""
    sums = RidgeStatistics.empty(rows.shape[0], 1)
    sums.update(rows.T, np.zeros((rows.shape[1], 1)), n_jobs)
    return sums.gram
