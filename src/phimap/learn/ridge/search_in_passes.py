"""The search for the least score over regularisations, by solutions at several at once in the same passes."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from phimap.learn.ridge.conjugate_gradient_steps import ConjugateGradientState
from phimap.learn.ridge.left_out_rows import LeftOutErrors, LeftOutRows
from phimap.learn.ridge.normal_equations import NormalEquations, products
from phimap.learn.ridge.nystroem_preconditioner import NystroemPreconditioner
from phimap.learn.solver import HeldOutScores, Summand, Sums, least

# A factorisation looks at as many; the spline through five gives the least between them.
_POINTS_PER_DECADE = 4
# The grid reaches up to this multiple of the largest eigenvalue, where everything is shrunk, and down to where
# rounding begins: see `phimap.learn.ridge.alpha`.
_TOP = 10.0
_FLOOR = 1e-2
_MOST_DECADES = 10
# How far to either side of the best the curve is followed; the neighbours must have settled.
_REACH, _NEEDED = 2, 1
_AT_ONCE = 2 * _REACH + 1
# A solution has settled once what it may still change by is this share of its error: the curve then moves by less
# than its minimum is flat.
_SETTLED = 1e-4
# The share by which a pass must lower the least score to be worth another one.
_FALLING = 0.01


class AlphaSearch:
    """A grid of alphas, what is known of the score at each, and solutions around the best.

    Parameters
    ----------
    systems : sequence of NormalEquations
        `LeftOutRows.systems`.
    preconditioner : NystroemPreconditioner
        Of the last of them.
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
        systems: Sequence[NormalEquations],
        preconditioner: NystroemPreconditioner,
        rows: LeftOutRows,
        eps: float,
        n_jobs: int | None,
        *,
        alpha: float | None = None,
    ):
        added = rows.added_to(preconditioner, systems[-1])
        self._systems, self._n_jobs = systems, n_jobs
        preconditioners = [preconditioner] if added is None else [added, preconditioner]
        self._errors = LeftOutErrors(rows, systems, added, n_jobs)
        self.alphas = _grid(systems[-1], preconditioner.largest, eps) if alpha is None else np.array([alpha])
        # One entry for each alpha and each system.
        self._columns: dict[int, list[ConjugateGradientState]] = {}
        self._pairs = list(zip(systems, preconditioners, strict=True))
        self.scores = np.concatenate(
            [
                self._errors.of(
                    [([own.solve(system.rhs, shift) for system, own in self._pairs], shift) for shift in shifts]
                )
                for shifts in np.split(self.alphas, range(_AT_ONCE, self.alphas.size, _AT_ONCE))
            ]
        )
        self.best = int(self.scores.argmin())

    def run(self, passes: int, most_passes: int) -> Generator[Summand, Sums, None]:
        """Follow the curve to its least, in `passes` at the most; in `most_passes` as long as the least falls."""
        before = np.inf
        for n_passes in range(most_passes):
            if n_passes >= passes and self.scores[self.best] > (1 - _FALLING) * before:
                return
            before = self.scores[self.best]
            near = [i for i in range(self.best - _REACH, self.best + _REACH + 1) if 0 <= i < len(self.alphas)]
            if all(self._settled(i) for i in near if abs(i - self.best) <= _NEEDED):
                return
            active = [i for i in near if not self._settled(i)]
            # Those of the first pass begin at nothing, all of them.
            self._columns |= {i: self._begun(i) for i in active if i not in self._columns}
            stepping = [
                (system, part) for i in active for system, part in zip(self._systems, self._columns[i], strict=True)
            ]
            images = yield from products([(system, part.directions) for system, part in stepping], self._n_jobs)
            for (_, part), image in zip(stepping, images, strict=True):
                part.step(image)
            self.scores[active] = self._errors.of([(self._solutions(i), self.alphas[i]) for i in active])
            followed = sorted(self._columns)
            self.best: int = followed[int(self.scores[followed].argmin())]

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
        """The solution of the first system at the best alpha, and its product with the matrix."""
        columns = self._columns[self.best][0]
        return columns.solution, columns.image

    @property
    def held_out(self) -> HeldOutScores:
        """Scores of the solutions at the best alpha for the rows that judge."""
        return self._errors.scores(self._solutions(self.best), self.alphas[self.best])

    def _begun(self, i: int) -> list[ConjugateGradientState]:
        """Solutions at an alpha, which begin at those of the nearest that is followed: these know the more."""
        begun = [ConjugateGradientState(system.rhs, self.alphas[i], own) for system, own in self._pairs]
        if self._columns:
            nearest = self._columns[min(self._columns, key=lambda j: abs(j - i))]
            for own, other in zip(begun, nearest, strict=True):
                own.restart(other.solution, other.image)
        return begun

    def _solutions(self, i: int) -> list[np.ndarray]:
        return [part.solution for part in self._columns[i]]

    def _settled(self, i: int) -> bool:
        known = self._columns.get(i, [])
        return bool(known) and all(
            part.n_steps > 0 and part.distance <= _SETTLED * system.weight * self.scores[i]
            for system, part in zip(self._systems, known, strict=True)
        )


def _grid(system: NormalEquations, top: float, eps: float) -> np.ndarray:
    """The alphas of a search, for a largest eigenvalue `top`."""
    # This is the largest eigenvalue of the matrix before centring, which is what was rounded.
    rounded = max(top, float(system.sum_z @ system.sum_z) / system.weight)
    lowest, highest = max(_FLOOR * eps * rounded, 10.0**-_MOST_DECADES * top), _TOP * top
    return np.geomspace(lowest, highest, int(np.log10(highest / lowest) * _POINTS_PER_DECADE) + 1)
