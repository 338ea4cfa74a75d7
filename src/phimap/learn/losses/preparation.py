"""Preparation of minimisations over a stream, in one pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np

from phimap.learn.losses.base import Loss
from phimap.learn.losses.path import Model, Path
from phimap.learn.losses.preconditioner import GramPreconditioner, SharePreconditioner, preconditioner_of, sketch_memory
from phimap.learn.losses.quasi_newton import QuasiNewton
from phimap.learn.losses.sample import FOLDS, LossSample
from phimap.learn.losses.steps import Steps
from phimap.learn.solver import LinearSolution, Problem, Stream, solve

# The sample takes at most this fraction of the memory, and a copy by folds as much again while alpha is chosen.
_SAMPLE_SHARE = 8


@dataclass(frozen=True)
class LossPreparation:
    """A sample of the rows, their mean, a preconditioner, and the steps that minimisations have taken so far.

    Attributes
    ----------
    problem : Problem
        With the memory that remains.
    sample : Sample
    preconditioner : Preconditioner
    mean : ndarray of shape (m,)
    steps : Steps
    """

    problem: Problem
    sample: LossSample
    preconditioner: GramPreconditioner
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
        """All rows; from memory if the sample holds all of them."""
        return self.sample.rows() if self.sample.share == 1 else self.problem.stream

    def path(self, loss: Loss, rows: Stream, share: float) -> Path:
        """A path on rows in memory, about this share of all rows."""
        shared, problem = SharePreconditioner(self.preconditioner, share), self.problem
        return Path(loss, rows, shared, self.mean, problem.t, problem.eps, problem.n_jobs, self.steps)

    def fold_path(self, loss: Loss, rows: Stream, start: Model | None) -> Path:
        """A path on the rows of the sample without one fold, from `start` on."""
        return replace(self.path(loss, rows, self.sample.share * (1 - 1 / FOLDS)), start=start)

    def solve(
        self, loss: Loss, alpha: float, rows: Stream, start: Model | None, tolerance: float, share: float = 1.0
    ) -> LinearSolution:
        """The solution on rows that are about this share of all rows."""
        problem = self.problem
        preconditioner = self.preconditioner if share == 1 else SharePreconditioner(self.preconditioner, share)
        solver = QuasiNewton(
            loss,
            alpha,
            preconditioner,
            self.mean,
            start=start,
            steps=self.steps,
            tolerance=tolerance,
            n_jobs=problem.n_jobs,
        )
        return solve(solver, rows, problem.m, problem.t, problem.eps)


def least_memory(m: int, t: int) -> int:
    """Smallest number of bytes held, without a block of features: those of a sketch as preconditioner."""
    return sketch_memory(m) + _models_memory(m, t)


def _models_memory(m: int, t: int) -> int:
    """Largest number of bytes of models and steps: each path keeps two solutions beside the one it computes."""
    return QuasiNewton.memory_of(m, t) + FOLDS * 3 * 8 * m * t
