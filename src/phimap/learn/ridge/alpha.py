"""The choice of alpha: the minimum of an objective over regularisations, from a few factorisations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from phimap._random import RandomState, named_streams
from phimap._validation import check_real
from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.ridge.alpha_objectives import AlphaObjective
from phimap.learn.ridge.cholesky import BlockedCholesky, NotPositiveDefiniteError
from phimap.learn.ridge.shifted_inverse import ExactShiftedInverse, LanczosShiftedInverse, ShiftedInverse
from phimap.learn.solver import HeldOutScores
from phimap.sketches.signs import fair_word_factors

# Up to this order, an eigendecomposition costs less than a factorisation with its Lanczos steps. For a larger order,
# the search starts at the alpha that was found with this number of features.
_EXACT_ORDER = 768
# Grid points per decade of alpha. The score is smooth between grid points, where its minimum is then refined.
_POINTS_PER_DECADE = 4
# The grid of alphas ends at `_TOP` times the largest eigenvalue, where all coefficients are shrunk. It begins where
# rounding may matter, at most `_MOST_DECADES` decades below the largest eigenvalue. As measured, float32 products move
# eigenvalues by 0.05 to 0.25 eps of the largest eigenvalue before centring, and by less if the features came in many
# batches. The search skips alphas that turn out to be below the rounding.
_TOP = 10.0
_FLOOR = 1e-2
_MOST_DECADES = 10
# Largest ratio of an alpha to the shift of the factorisation that evaluates it, or of the shift to the alpha. Within
# this range a score needs some 20 Lanczos steps for three digits; beyond it the number of steps grows.
_REACH = 10.0**1.5
# Largest number of factorisations of a search, number of steps of the power iteration, and number of random probes that
# estimate a trace.
_MOST_WINDOWS = 8
_POWER_STEPS = 6
_PROBES = 8


class ChosenAlpha(NamedTuple):
    """The alpha of a solution and how it was chosen. The fields are described in `LinearSolution`."""

    alpha: float
    alphas: np.ndarray = np.empty(0)
    scores: np.ndarray = np.empty(0)
    criterion: str = "given"
    held_out: HeldOutScores | None = None


def check_alpha(alpha: float | str) -> float | str:
    """`alpha` as a positive number, or ``"auto"``."""
    if isinstance(alpha, str):
        if alpha != "auto":
            raise ValueError(f"`alpha` must be a positive number or 'auto', got {alpha!r}. Use for example 1.0.")
        return alpha
    return check_real("alpha", alpha, above=0.0)


def choose_alpha(
    objective: AlphaObjective, rng: RandomState, n_jobs: int | None
) -> tuple[ChosenAlpha, BlockedCholesky | None]:
    """The alpha of least score, and a factor of ``A + lam I`` with lam near this alpha.

    The factor is None after an eigendecomposition, and if all features are constant.
    """
    largest = _largest_eigenvalue(objective.matrix, n_jobs)
    if not largest > objective.noise:
        # Constant features: every regularisation gives the same fit.
        return ChosenAlpha(1.0, criterion=objective.criterion), None
    rounded = largest
    if objective.uncentred is not objective.matrix:
        rounded = _largest_eigenvalue(objective.uncentred, n_jobs)
    lowest = max(_FLOOR * objective.eps * rounded, 10.0**-_MOST_DECADES * largest, objective.noise)
    highest = _TOP * largest
    size = objective.matrix.size
    if objective.exact or size <= _EXACT_ORDER:
        grid = _grid(lowest, highest)
        inverse = ExactShiftedInverse(
            objective.matrix, objective.rhs, objective.project, objective.vectors, objective.factor
        )
        scores = _scores(objective, inverse, grid)
        best, known = _refined(objective, inverse, grid, scores), np.isfinite(scores)
        held_out = objective.held_out_scores(inverse, best)
        return ChosenAlpha(best, grid[known], scores[known], objective.criterion, held_out), None
    centre = 1e-4 * largest
    coarse = objective.coarse(np.linspace(0, size - 1, _EXACT_ORDER).astype(np.intp))
    if coarse is not None:
        # With a fraction of the features, the sums that estimate the kernel shrink by this fraction, and the best alpha
        # shrinks likewise.
        centre = choose_alpha(coarse, rng, n_jobs)[0].alpha * size / _EXACT_ORDER
    return _WindowSearch(objective, lowest, highest, rng, n_jobs).run(centre)


def _scores(objective: AlphaObjective, inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
    """Scores (g,) at the shifts.

    The score is infinite unless the shift exceeds twice the size of a negative least eigenvalue, which is a rounding
    error.
    """
    trusted = shifts > -2 * inverse.least_eigenvalue
    scores = np.full(shifts.shape, np.inf)
    if trusted.any():
        scores[trusted] = objective.score(inverse, shifts[trusted])
    return scores


def _grid(lowest: float, highest: float) -> np.ndarray:
    return np.geomspace(lowest, highest, max(2, int(np.log10(highest / lowest) * _POINTS_PER_DECADE) + 1))


class _WindowSearch:
    """A search for the alpha of least score in a sequence of windows, which are intervals of alpha.

    One factorisation at the centre evaluates a whole window.
    """

    def __init__(self, objective: AlphaObjective, lowest: float, highest: float, rng: RandomState, n_jobs: int | None):
        self._objective, self._lowest, self._highest, self._n_jobs = objective, lowest, highest, n_jobs
        self._factor: BlockedCholesky | None = None
        self._curve: dict[float, float] = {}
        self._probes = None
        if objective.criterion == "gcv":
            self._probes = fair_word_factors(named_streams(rng, "trace")["trace"], (objective.matrix.size, _PROBES))

    def run(self, centre: float) -> tuple[ChosenAlpha, BlockedCholesky | None]:
        """Move the window to the alpha of least score in it, until this alpha lies inside the window."""
        best, held_out = centre, None
        for _ in range(_MOST_WINDOWS):
            centre = float(np.clip(centre, self._lowest, self._highest))
            grid = _grid(max(self._lowest, centre / _REACH), min(self._highest, centre * _REACH))
            try:
                inverse, scores = self._evaluate(centre, grid)
            except NotPositiveDefiniteError:
                # The rounding errors of the Gram matrix are as large as this shift. Up to ten times this shift, scores
                # are noise as well.
                self._lowest = centre = 10 * centre
                continue
            if not np.isfinite(scores).any() and centre < self._highest:
                self._lowest = centre = float(grid[-1])
                continue
            best = _refined(self._objective, inverse, grid, scores)
            held_out = self._objective.held_out_scores(inverse, best)
            at = int(np.argmin(scores))
            if 0 < at < grid.size - 1 or grid[at] in (self._lowest, self._highest):
                break
            centre = float(grid[at])
        if not self._curve:
            raise NotPositiveDefiniteError(
                "the Gram matrix is not positive semidefinite to the rounding of its features, so `alpha` cannot be "
                "chosen. Give `alpha`, or use float64 input."
            )
        alphas = np.array(sorted(self._curve))
        scores = np.array([self._curve[alpha] for alpha in alphas])
        return ChosenAlpha(best, alphas, scores, self._objective.criterion, held_out), self._factor

    def _evaluate(self, shift: float, grid: np.ndarray) -> tuple[ShiftedInverse, np.ndarray]:
        objective = self._objective
        buffer = None if self._factor is None else self._factor.data
        # A failed factorisation leaves an unusable factor.
        self._factor = None
        self._factor = factor = BlockedCholesky(objective.matrix, shift, self._n_jobs, out=buffer)
        inverse = LanczosShiftedInverse(
            factor,
            shift,
            objective.rhs,
            _until_settled(objective, grid),
            project=objective.project,
            probes=self._probes,
            R=objective.vectors,
        )
        scores = _scores(objective, inverse, grid)
        known = np.isfinite(scores)
        self._curve.update(zip(grid[known].tolist(), scores[known].tolist(), strict=True))
        return inverse, scores


def _until_settled(objective: AlphaObjective, grid: np.ndarray) -> Callable[[ShiftedInverse], bool]:
    """Return a function that checks whether the scores on a grid have settled.

    Scores have settled if, since the last check, each has changed by at most a thousandth, and the least score by at
    most a ten-thousandth.
    """
    last = np.full(grid.shape, np.inf)

    def settled(inverse: ShiftedInverse) -> bool:
        nonlocal last
        scores = _scores(objective, inverse, grid)
        known = np.isfinite(scores)
        moved = np.where(known, np.abs(np.where(known, scores, 0) - last), 0)
        last, at = scores, int(np.argmin(scores))
        return bool((moved <= 1e-3 * scores).all() and moved[at] <= 1e-4 * scores[at])

    return settled


def _refined(objective: AlphaObjective, inverse: ShiftedInverse, grid: np.ndarray, scores: np.ndarray) -> float:
    """The alpha of least score near the best grid point.

    It is the grid point itself if one of its neighbours has no score.
    """
    best = int(np.argmin(scores))
    if best in (0, grid.size - 1) or not np.isfinite(scores[best - 1 : best + 2]).all():
        return float(grid[best])
    bounds = (np.log(grid[best - 1]), np.log(grid[best + 1]))
    found: Any = minimize_scalar(
        lambda log: objective.score(inverse, np.exp([log]))[0],
        bounds=bounds,
        method="bounded",
        options={"xatol": 1e-2},
    )
    return float(np.exp(found.x) if found.fun < scores[best] else grid[best])


def _largest_eigenvalue(matrix: BlockTriangle, n_jobs: int | None) -> float:
    """The largest eigenvalue, accurate to a few percent, by power iteration."""
    # The weights are fixed and irregular, so that the start has a component along the leading eigenvector.
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
