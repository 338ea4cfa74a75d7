"""Ridge regression from sufficient statistics, with its regularisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from phimap._random import RandomState, named_streams
from phimap.learn.cholesky import BlockedCholesky, BlockTriangle, NotPositiveDefiniteError
from phimap.learn.spectral import EXACT_ORDER, ExactShiftedInverse, LanczosShiftedInverse, ShiftedInverse
from phimap.learn.statistics import RidgeStatistics
from phimap.records import Record

# Grid of regularisations: finer than the curve's curvature; the minimum is then refined between grid points.
_POINTS_PER_DECADE = 4
# The grid reaches from the noise floor up to this multiple of the largest eigenvalue, where everything is shrunk.
_TOP = 10.0
_MOST_DECADES = 10
_POWER_STEPS = 6
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
        Grid that was searched; just `alpha` where it was given.
    gcv : ndarray of shape (g,)
        Generalised cross-validation score at each: an estimate of the mean squared error on new rows, summed over
        targets.
    dof : ndarray of shape (g,)
        Effective degrees of freedom at each, without the intercept.
    residual : float
        ``|(A + alpha I) W - B| / |B|`` of the linear system solved.
    form : str
        ``"primal"`` or ``"dual"``.
    """

    coef: np.ndarray
    intercept: np.ndarray
    alpha: float
    alphas: np.ndarray
    gcv: np.ndarray
    dof: np.ndarray
    residual: float
    form: str


@dataclass(frozen=True)
class _System:
    """``(A + alpha I) W = B``, and what its solution says of the residuals of the training rows."""

    matrix: BlockTriangle
    rhs: np.ndarray
    n_rows: int
    eps: float
    # Sum of squared residuals over all targets, from the functions of A at each alpha.
    rss: Callable[[ShiftedInverse, np.ndarray], np.ndarray]


def solve_ridge(
    statistics: RidgeStatistics,
    alpha: float | str = "auto",
    *,
    rng: RandomState = 0,
    n_jobs: int | None = None,
) -> RidgeSolution:
    """Minimise ``|Y - Z W - c|^2 + alpha |W|^2`` over W and c, from the sums over rows alone.

    Parameters
    ----------
    statistics : RidgeStatistics
    alpha : float or "auto", default="auto"
        Regularisation in the units of ``sklearn.linear_model.Ridge``; ``"auto"`` minimises generalised
        cross-validation.
    rng : int, Generator, RandomState, SeedSequence or None, default=0
        Seed of the probes that estimate traces.
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
    With A, B, s the centred Gram matrix, cross products and target squares, and ``W = (A + lam I)^{-1} B``,
    ``RSS(lam) = s - tr B^T [(A + lam I)^{-1} + lam (A + lam I)^{-2}] B``, the degrees of freedom are
    ``m - lam tr (A + lam I)^{-1}`` and ``GCV(lam) = (RSS / n) / (1 - (dof + 1) / n)^2``, the intercept being the 1.
    The search costs one factorisation and some triangular solves; the solution one more factorisation.

    **Error.** Of the trace: see `LanczosShiftedInverse`. Below the largest eigenvalue times the rounding of the
    features eigenvalues are noise, and no smaller `alpha` is tried.

    **Cost.** ``2 m^3 / 3`` flops in all, and as much memory again as the statistics.

    **Differs from the source in** the intercept, and in the stochastic trace.

    References
    ----------
    Golub, Heath, Wahba (1979), *Generalized cross-validation as a method for choosing a good ridge parameter*.
    """
    squares = float(statistics.centred_squares().sum())

    def rss(inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        return squares - inverse.quadratic(shifts) - shifts * inverse.quadratic_squared(shifts)

    system = _System(statistics.centred_gram(), statistics.centred_cross(), statistics.n, statistics.eps, rss)
    W, path = _solve(system, alpha, rng, n_jobs)
    intercept = (statistics.sum_y - statistics.sum_z @ W) / statistics.n
    return RidgeSolution(W, intercept, *path, form="primal")


def solve_ridge_dual(
    Z: np.ndarray,
    Y: np.ndarray,
    alpha: float | str = "auto",
    *,
    rng: RandomState = 0,
    n_jobs: int | None = None,
) -> RidgeSolution:
    """Solve the problem of `solve_ridge` from fewer rows than features, through their n x n Gram matrix.

    Parameters
    ----------
    Z : ndarray of shape (n, m)
        Features, float32 or float64.
    Y : ndarray of shape (n, t)
    alpha, rng, n_jobs
        As in `solve_ridge`.

    Returns
    -------
    RidgeSolution

    Raises
    ------
    NotPositiveDefiniteError
        If `alpha` is below the rounding of the Gram matrix.

    Notes
    -----
    With K the Gram matrix of the centred rows, ``W = Z_c^T (K + lam I)^{-1} Y_c``,
    ``RSS(lam) = lam^2 tr Y_c^T (K + lam I)^{-2} Y_c`` and the degrees of freedom are ``n - lam tr (K + lam I)^{-1}``.

    **Cost.** n^2 m flops for K, and factorisations of order n.
    """
    n = Z.shape[0]
    mean_z, mean_y = Z.mean(axis=0, dtype=np.float64), Y.mean(axis=0)
    eps = float(np.finfo(Z.dtype).eps)
    centred = Z.astype(np.float64) - mean_z
    # The rows are columns of the transposed sum: the same blocks and threads as for the primal form.
    sums = RidgeStatistics.empty(n, 1)
    sums.update(centred.T, np.zeros((Z.shape[1], 1)), n_jobs)

    def rss(inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        return np.square(shifts) * inverse.quadratic_squared(shifts)

    A, path = _solve(_System(sums.gram, Y - mean_y, n, eps, rss), alpha, rng, n_jobs)
    W = centred.T @ A
    return RidgeSolution(W, mean_y - mean_z @ W, *path, form="dual")


def _solve(system: _System, alpha: float | str, rng: RandomState, n_jobs: int | None):
    """The solution (order, t) and the tuple (alpha, alphas, gcv, dof, residual)."""
    buffer = None
    if alpha == "auto":
        alpha, alphas, gcv, dof, buffer = _choose(system, rng, n_jobs)
    else:
        alphas, gcv, dof = np.array([float(alpha)]), np.array([np.nan]), np.array([np.nan])
    alpha = float(alpha)
    factor = BlockedCholesky(system.matrix, alpha, n_jobs, out=buffer)
    W = factor.solve(system.rhs)
    # One step of refinement: the explicit inverses of the factor's diagonal blocks cost a few digits.
    W = W + factor.solve(system.rhs - system.matrix.matmul(W, n_jobs) - alpha * W)
    left = system.rhs - system.matrix.matmul(W, n_jobs) - alpha * W
    size = np.linalg.norm(system.rhs)
    residual = float(np.linalg.norm(left) / size) if size > 0 else 0.0
    return np.ascontiguousarray(W), (alpha, alphas, gcv, dof, residual)


def _choose(system: _System, rng: RandomState, n_jobs: int | None):
    """The best alpha, the curves on the grid, and a buffer that the next factorisation may overwrite."""
    top = _largest_eigenvalue(system.matrix, n_jobs)
    if not top > 0:
        # Constant features: nothing to fit, and every regularisation says so.
        return 1.0, np.array([1.0]), np.array([np.nan]), np.array([0.0]), None
    floor = top * max(system.eps, 10.0**-_MOST_DECADES)
    for _ in range(_RETRIES):
        n_points = int(np.log10(_TOP * top / floor) * _POINTS_PER_DECADE) + 1
        grid = np.geomspace(floor, _TOP * top, n_points)
        try:
            inverse, buffer = _shifted_inverse(system, grid, rng, n_jobs)
            break
        except NotPositiveDefiniteError:
            # Rounding in the Gram matrix reached the floor: what lies below ten times it is noise as well.
            floor *= 10
    else:
        raise NotPositiveDefiniteError(
            f"the Gram matrix is not positive semidefinite to a relative {floor / top:.1e}: its rounding errors are "
            "too large to choose `alpha`. Use float64 input."
        )
    scores, dof = _gcv(system, inverse, grid)
    return _refine(system, inverse, grid, scores), grid, scores, dof, buffer


def _shifted_inverse(system: _System, grid: np.ndarray, rng: RandomState, n_jobs: int | None):
    if system.matrix.size <= EXACT_ORDER:
        return ExactShiftedInverse(system.matrix, system.rhs), None
    factor = BlockedCholesky(system.matrix, grid[0], n_jobs)
    probes = named_streams(rng, "trace")["trace"]
    settled = _MinimumSteady(system, grid)
    return LanczosShiftedInverse(factor, grid[0], system.rhs, probes, settled=settled), factor.data


class _MinimumSteady:
    """Whether the minimum of the GCV curve has stopped moving."""

    def __init__(self, system: _System, grid: np.ndarray):
        self._system, self._grid = system, grid
        self._last = (-1, np.inf)

    def __call__(self, inverse: ShiftedInverse) -> bool:
        scores, _ = _gcv(self._system, inverse, self._grid)
        best = int(np.argmin(scores))
        last, score = self._last
        self._last = (best, scores[best])
        return best == last and abs(scores[best] - score) <= 1e-4 * score


def _gcv(system: _System, inverse: ShiftedInverse, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores and degrees of freedom at each shift."""
    n = system.n_rows
    dof = np.clip(system.matrix.size - shifts * inverse.trace(shifts), 0, None)
    rss = np.maximum(system.rss(inverse, shifts), 0)
    free = 1 - (dof + 1) / n
    # With no degree of freedom left the residuals vanish and say nothing.
    scores = np.divide(rss / n, np.square(free), out=np.full(shifts.shape, np.inf), where=free > 1 / (2 * n))
    return scores, dof


def _refine(system: _System, inverse: ShiftedInverse, grid: np.ndarray, scores: np.ndarray) -> float:
    """The minimum between the neighbours of the best grid point; the point itself at the ends."""
    best = int(np.argmin(scores))
    if best in (0, grid.size - 1):
        return float(grid[best])
    bounds = (np.log(grid[best - 1]), np.log(grid[best + 1]))
    found = minimize_scalar(
        lambda log: _gcv(system, inverse, np.exp([log]))[0][0], bounds=bounds, method="bounded", options={"xatol": 1e-2}
    )
    return float(np.exp(found.x) if found.fun < scores[best] else grid[best])


def _largest_eigenvalue(matrix: BlockTriangle, n_jobs: int | None) -> float:
    """The largest eigenvalue within a few percent, by power iteration from the row sums' direction."""
    vector = np.sqrt(np.maximum(matrix.diagonal(), 0))[:, None]
    # Signs that no structure of the features shares, the same for every call.
    vector = vector * (1 + 0.5 * np.sin(np.arange(1, matrix.size + 1))[:, None])
    value = 0.0
    for _ in range(_POWER_STEPS):
        norm = np.linalg.norm(vector)
        if not norm > 0:
            return 0.0
        image = matrix.matmul(vector / norm, n_jobs)
        value = float(np.linalg.norm(image))
        vector = image
    return value
