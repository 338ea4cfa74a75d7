"""Preparation for the minimisation of losses in one pass over a stream, and paths of solutions over alpha."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np

from phimap.learn.losses.losses import Loss
from phimap.learn.losses.preconditioner import FactorPreconditioner, preconditioner_of, sketch_memory
from phimap.learn.losses.quasi_newton import Model, QuasiNewton, Steps
from phimap.learn.losses.sample import FOLDS, LossSample
from phimap.learn.ridge.nystroem_preconditioner import NystroemPreconditioner
from phimap.learn.solver import LinearSolution, Problem, Stream, solve

# Tolerance of the solutions on a path, and largest number of passes. With this tolerance held-out losses are within a
# percent of those at the minimum, mostly within a thousandth.
_TOLERANCE, _MOST_PASSES = 1e-2, 60


@dataclass
class Path:
    """Solutions on rows in memory, for a descending sequence of alphas.

    If classes are nearly separable, the coefficients grow like log(1 / alpha) as alpha falls. So the next solution, as
    a function of log alpha, lies near the line through the last two solutions. A start on this line needs a fifth of
    the passes that a start at the last solution needs.

    Attributes
    ----------
    loss : Loss
    prepared : LossPreparation
    rows : iterable of (FeatureBlock, targets, weights)
        Rows in memory.
    share : float
        Number of these rows divided by the number of all rows of the problem.
    start : tuple of ndarrays (m, t) and (t,) or None
        Where the first solution begins; None starts at zero.
    """

    loss: Loss
    prepared: LossPreparation
    rows: Stream
    share: float
    start: Model | None = None
    _last: list[LinearSolution] = field(default_factory=list)

    def solve(self, alpha: float) -> LinearSolution:
        """The solution at the next alpha, which is smaller than the last alpha."""
        start = self._extrapolated(alpha)
        solution = self.prepared.solve(self.loss, alpha, self.rows, start, _TOLERANCE, self.share, _MOST_PASSES)
        self._last = [*self._last[-1:], solution]
        return solution

    def _extrapolated(self, alpha: float) -> Model | None:
        """The extrapolation of the last two solutions to `alpha`."""
        if not self._last:
            return self.start
        before, last = self._last[0], self._last[-1]
        if before is last:
            return last.coef, last.intercept
        share = float(np.log(alpha / last.alpha) / np.log(last.alpha / before.alpha))
        return (
            last.coef + share * (last.coef - before.coef),
            last.intercept + share * (last.intercept - before.intercept),
        )


# The sample takes at most one part in this many of the memory. Its copy by folds takes as much again while alpha is
# chosen.
_SAMPLE_SHARE = 8


@dataclass(frozen=True)
class LossPreparation:
    """A sample of the rows, the mean of all rows, a preconditioner, and the steps of the minimisations so far.

    Attributes
    ----------
    problem : Problem
        The problem; its memory is what the sample and the models leave.
    sample : LossSample
    preconditioner : FactorPreconditioner or NystroemPreconditioner
    mean : ndarray of shape (m,)
    steps : Steps
    """

    problem: Problem
    sample: LossSample
    preconditioner: FactorPreconditioner | NystroemPreconditioner
    mean: np.ndarray
    steps: Steps

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Prepare a problem, in one pass over its rows."""
        left = max(problem.memory - _models_memory(problem.m, problem.t), 0)
        spent = left // _SAMPLE_SHARE
        sample = partial(LossSample, problem.n, spent, int(problem.rng.integers(2**63)))
        problem = replace(problem, memory=left - 2 * spent)
        preconditioner, mean, rows = preconditioner_of(problem, sample)
        return cls(problem, rows, preconditioner, mean, Steps())

    @property
    def scale(self) -> float:
        """Mean square of a centred row."""
        return self.preconditioner.trace / self.problem.n or 1.0

    @property
    def rows(self) -> Stream:
        """All rows, from memory if the sample contains all of them."""
        return self.sample.rows() if self.sample.share == 1 else self.problem.stream

    def solve(
        self,
        loss: Loss,
        alpha: float,
        rows: Stream,
        start: Model | None,
        tolerance: float,
        share: float = 1.0,
        passes: int | None = None,
    ) -> LinearSolution:
        """Solve on `rows`, which are about `share` of all rows; the other parameters are those of `QuasiNewton`."""

        def precondition(R: np.ndarray, shift: float) -> np.ndarray:
            # The Gram matrix of these rows is about `share` times that of all rows.
            return self.preconditioner.solve(R, shift / share) / share

        options = {"tolerance": tolerance, "passes": passes, "n_jobs": self.problem.n_jobs}
        solver = QuasiNewton(loss, alpha, precondition, self.mean, start=start, steps=self.steps, **options)
        return solve(solver, rows, self.problem.m, self.problem.t, self.problem.eps)


def least_memory(m: int, t: int) -> int:
    """Smallest number of bytes held, not counting a block of features; a sketch is then the preconditioner."""
    return sketch_memory(m) + _models_memory(m, t)


def _models_memory(m: int, t: int) -> int:
    """Largest number of bytes of models and steps. For each fold a path keeps two solutions and computes a third."""
    return QuasiNewton.memory_of(m, t) + FOLDS * 3 * 8 * m * t
