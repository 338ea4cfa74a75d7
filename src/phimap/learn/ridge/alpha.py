"""The search for the least score over regularisations, a few factorisations long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from phimap._random import RandomState, named_streams
from phimap._validation import check_choice, check_real
from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.ridge.alpha_objectives import AlphaObjective
from phimap.learn.ridge.cholesky import BlockedCholesky, NotPositiveDefiniteError
from phimap.learn.ridge.shifted_inverse import ExactShiftedInverse, LanczosShiftedInverse, ShiftedInverse
from phimap.learn.solver import HeldOutScores
from phimap.sketches.signs import fair_word_factors

# Up to this order an eigendecomposition costs less than a factorisation and the Lanczos steps; larger problems
# start their search where the one on this many of their features ends.
_EXACT_ORDER = 768
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


@dataclass(frozen=True)
class RidgeAlpha:
    """What a search found: the best alpha, and the part of the curve that was looked at."""

    alpha: float
    alphas: np.ndarray
    scores: np.ndarray
    criterion: str
    # Predictions at the best alpha for the rows that judged; None where none did.
    held_out: HeldOutScores | None
    # The factor of the system that was judged, near the best alpha; None where there was no factorisation.
    factor: BlockedCholesky | None


def check_alpha(alpha: float | str) -> float | str:
    """`alpha` as a positive number, or ``"auto"``."""
    if isinstance(alpha, str):
        return check_choice("alpha", alpha, ("auto",))
    return check_real("alpha", alpha, above=0.0)


def choose(system: AlphaObjective, rng: RandomState, n_jobs: int | None) -> RidgeAlpha:
    """The alpha at the least score, and the part of the curve that was looked at."""
    top = _largest_eigenvalue(system.matrix, n_jobs)
    if not top > system.noise:
        # Constant features: nothing to fit, and every regularisation says so.
        return RidgeAlpha(1.0, np.empty(0), np.empty(0), system.criterion, None, None)
    rounded = top if system.uncentred is system.matrix else _largest_eigenvalue(system.uncentred, n_jobs)
    lowest = max(_FLOOR * system.eps * rounded, 10.0**-_MOST_DECADES * top, system.noise)
    highest = _TOP * top
    size = system.matrix.size
    if system.exact or size <= _EXACT_ORDER:
        grid = _grid(lowest, highest)
        inverse = ExactShiftedInverse(system.matrix, system.rhs, system.project, system.rows)
        scores = _trusted_scores(system, inverse, grid)
        best, known = _refine(system, inverse, grid, scores), np.isfinite(scores)
        return RidgeAlpha(best, grid[known], scores[known], system.criterion, _held_out(system, inverse, best), None)
    centre = 1e-4 * top
    if system.coarse is not None:
        # Fewer features make a kernel estimate smaller by the same factor, and with it the alpha that suits it.
        columns = np.linspace(0, size - 1, _EXACT_ORDER).astype(np.intp)
        centre = choose(system.coarse(columns), rng, n_jobs).alpha * size / _EXACT_ORDER
    return _Windows(system, lowest, highest, rng, n_jobs).search(centre)


def _trusted_scores(system: AlphaObjective, inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
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

    def __init__(self, system: AlphaObjective, lowest: float, highest: float, rng: RandomState, n_jobs: int | None):
        self._system, self._lowest, self._highest, self._n_jobs = system, lowest, highest, n_jobs
        self._factor: BlockedCholesky | None = None
        self._curve: dict[float, float] = {}
        self._probes = None
        if system.criterion == "gcv":
            self._probes = fair_word_factors(named_streams(rng, "trace")["trace"], (system.matrix.size, _PROBES))

    def search(self, centre: float) -> RidgeAlpha:
        """Move the window to its own minimum until that lies inside."""
        best, held_out = centre, None
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
            held_out = _held_out(self._system, inverse, best)
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
        return RidgeAlpha(best, alphas, scores, self._system.criterion, held_out, self._factor)

    def _evaluate(self, shift: float, grid: np.ndarray) -> tuple[ShiftedInverse, np.ndarray]:
        system = self._system
        buffer = None if self._factor is None else self._factor.data
        # One that fails leaves nothing that could be used.
        self._factor = None
        self._factor = factor = BlockedCholesky(system.matrix, shift, self._n_jobs, out=buffer)
        inverse = LanczosShiftedInverse(
            factor,
            shift,
            system.rhs,
            _Steady(system, grid),
            project=system.project,
            probes=self._probes,
            rows=system.rows,
        )
        scores = _trusted_scores(system, inverse, grid)
        known = np.isfinite(scores)
        self._curve.update(zip(grid[known].tolist(), scores[known].tolist(), strict=True))
        return inverse, scores


class _Steady:
    """Whether the curve on a grid has stopped moving: by a thousandth anywhere, by less at its minimum."""

    def __init__(self, system: AlphaObjective, grid: np.ndarray):
        self._system, self._grid = system, grid
        self._last = np.full(grid.shape, np.inf)

    def __call__(self, inverse: ShiftedInverse) -> bool:
        scores = _trusted_scores(self._system, inverse, self._grid)
        known = np.isfinite(scores)
        moved = np.where(known, np.abs(np.where(known, scores, 0) - self._last), 0)
        self._last = scores
        at = int(np.argmin(scores))
        return bool((moved <= 1e-3 * scores).all() and moved[at] <= 1e-4 * scores[at])


def _refine(system: AlphaObjective, inverse: ShiftedInverse, grid: np.ndarray, scores: np.ndarray) -> float:
    """The minimum between the neighbours of the best grid point; the point itself at the ends of what is known."""
    best = int(np.argmin(scores))
    if best in (0, grid.size - 1) or not np.isfinite(scores[best - 1 : best + 2]).all():
        return float(grid[best])
    bounds = (np.log(grid[best - 1]), np.log(grid[best + 1]))
    found: Any = minimize_scalar(
        lambda log: system.score(inverse, np.exp([log]))[0], bounds=bounds, method="bounded", options={"xatol": 1e-2}
    )
    return float(np.exp(found.x) if found.fun < scores[best] else grid[best])


def _held_out(system: AlphaObjective, inverse: ShiftedInverse, shift: float) -> HeldOutScores | None:
    return None if system.held_out is None else system.held_out(inverse, shift)


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
