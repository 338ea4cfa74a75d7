"""The search for the least score over regularisations, by solutions at several at once in the same passes."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from phimap.learn.ridge.columns import Columns
from phimap.learn.ridge.left_out_rows import LeftOutErrors, LeftOutRows
from phimap.learn.ridge.normal_equations import NormalEquations
from phimap.learn.ridge.nystroem_preconditioner import NystroemPreconditioner
from phimap.learn.solver import HeldOutScores, Summand, Sums, least

# As many as a factorisation looks at: the spline through five gives the least between them.
_POINTS_PER_DECADE = 4
# The grid reaches up to this multiple of the largest eigenvalue, where everything is shrunk, and down to where
# rounding begins: see `phimap.learn.ridge.alpha`.
_TOP = 10.0
_FLOOR = 1e-2
_MOST_DECADES = 10
# How far to either side of the best the curve is followed; the neighbours must have settled.
_REACH, _NEEDED = 2, 1
# A solution has settled once what it may still change by is this share of its error: the curve then moves by less
# than its minimum is flat.
_SETTLED = 1e-4


class AlphaSearch:
    """A grid of alphas, what is known of the score at each, and solutions around the best.

    Parameters
    ----------
    system : NormalEquations
        Without the rows that judge.
    preconditioner : NystroemPreconditioner
        Of that system.
    rows : LeftOutRows
    eps : float
        Machine epsilon of the features.
    n_jobs : int or None
    alpha : float, optional
        The only one, where it is given.

    Attributes
    ----------
    alphas, scores : ndarray of shape (g,)
        Before `run`, scores of what the preconditioner alone gives for solutions.
    best : int
    """

    def __init__(
        self,
        system: NormalEquations,
        preconditioner: NystroemPreconditioner,
        rows: LeftOutRows,
        eps: float,
        n_jobs: int | None,
        *,
        alpha: float | None = None,
    ):
        self._system, self._preconditioner = system, preconditioner
        self._errors = LeftOutErrors(rows, system, preconditioner, n_jobs)
        self.alphas = _grid(system, preconditioner.largest, eps) if alpha is None else np.array([alpha])
        self._columns: dict[int, Columns] = {}
        self.scores = np.array(
            [self._errors.of(preconditioner.solve(system.rhs, alpha), alpha) for alpha in self.alphas]
        )
        self.best = int(self.scores.argmin())

    def run(self, passes: int) -> Generator[Summand, Sums, None]:
        """Follow the curve to its least, in so many passes at the most."""
        for _ in range(passes):
            near = [i for i in range(self.best - _REACH, self.best + _REACH + 1) if 0 <= i < len(self.alphas)]
            if all(self._settled(i) for i in near if abs(i - self.best) <= _NEEDED):
                return
            active = [i for i in near if not self._settled(i)]
            for i in active:
                if i not in self._columns:
                    self._columns[i] = Columns(self._system.rhs, self.alphas[i], self._preconditioner)
            directions = np.hstack([self._columns[i].directions for i in active])
            images = yield from self._system.product(directions)
            for i, image in zip(active, np.hsplit(images, len(active)), strict=True):
                self._columns[i].step(image)
                self.scores[i] = self._errors.of(self._columns[i].solution, self.alphas[i])
            followed = sorted(self._columns)
            self.best = followed[int(self.scores[followed].argmin())]

    @property
    def alpha(self) -> float:
        """The alpha at the least score of the curve that was followed."""
        return least(*self.curve)

    @property
    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """The alphas that were followed until they settled, or are next to the best, and their scores."""
        known = [i for i in sorted(self._columns) if abs(i - self.best) <= _NEEDED or self._settled(i)]
        return self.alphas[known], self.scores[known]

    @property
    def solution(self) -> tuple[np.ndarray, np.ndarray]:
        """The solution at the best alpha, and its product with the matrix of the system."""
        columns = self._columns[self.best]
        return columns.solution, columns.image

    @property
    def held_out(self) -> HeldOutScores:
        """Scores of the solution at the best alpha for the rows that judge."""
        return self._errors.scores(self._columns[self.best].solution, self.alphas[self.best])

    def _settled(self, i: int) -> bool:
        columns = self._columns.get(i)
        if columns is None or not columns.n_steps:
            return False
        return columns.distance <= _SETTLED * self._system.weight * self.scores[i]


def _grid(system: NormalEquations, top: float, eps: float) -> np.ndarray:
    """The alphas of a search, for a largest eigenvalue `top`."""
    # Of the matrix before centring, which is what was rounded.
    rounded = max(top, float(system.sum_z @ system.sum_z) / system.weight)
    lowest, highest = max(_FLOOR * eps * rounded, 10.0**-_MOST_DECADES * top), _TOP * top
    return np.geomspace(lowest, highest, int(np.log10(highest / lowest) * _POINTS_PER_DECADE) + 1)
