"""Linear models of the least loss over a stream: preconditioner, regularisation, solution."""

from __future__ import annotations

from dataclasses import replace

from phimap.learn.margin.alpha import PathSample, choose_alpha
from phimap.learn.margin.losses.base import Loss
from phimap.learn.margin.preconditioner import preconditioner_of, sketch_memory
from phimap.learn.margin.quasi_newton import QuasiNewton
from phimap.learn.solver import LinearSolution, Problem, solve

# Share of the memory that the sample on which alpha is chosen may take; while it is judged there are two of it.
_SAMPLE_SHARE = 8


class LossMinimiser:
    """The member of the registry for a loss.

    Parameters
    ----------
    loss : Loss
    """

    takes_signs = True

    def __init__(self, loss: Loss):
        self._loss = loss

    def memory(self, n: int, m: int, t: int) -> int:
        """Bytes held at the least, a block of features not counted: what a sketch takes as preconditioner."""
        return sketch_memory(m) + QuasiNewton.memory_of(m, t)

    def __call__(self, problem: Problem) -> LinearSolution:
        """Solve a problem whose targets are signs."""
        left = max(problem.memory - QuasiNewton.memory_of(problem.m, problem.t), 0)
        automatic = problem.alpha == "auto"
        spent = left // _SAMPLE_SHARE if automatic else 0
        sample = PathSample(problem.n, spent, int(problem.rng.integers(2**63)))
        problem = replace(problem, memory=left - 2 * spent)
        preconditioner, mean = preconditioner_of(problem, sample.visit if automatic else _ignore)
        if automatic:
            alpha, alphas, scores, first, held_out = choose_alpha(self._loss, problem, sample, preconditioner, mean)
        else:
            alpha, alphas, scores, first, held_out = float(problem.alpha), None, None, None, None
        del sample
        start = None if first is None else (first.coef, first.intercept)
        solver = QuasiNewton(self._loss, alpha, preconditioner, mean, start=start, n_jobs=problem.n_jobs)
        solution = solve(solver, problem.stream, problem.m, problem.t, problem.eps)
        solution = replace(solution, n_passes=solution.n_passes + 1)
        if alphas is None or scores is None or not alphas.size:
            return solution
        return replace(solution, alphas=alphas, scores=scores, criterion="held-out", held_out=held_out)


def _ignore(*part: object) -> None:
    """Keep nothing of a block."""
