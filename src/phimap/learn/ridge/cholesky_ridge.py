"""Ridge regression by Cholesky factorisation, as a member of the registry."""

from __future__ import annotations

from functools import partial

from phimap.learn.ridge.solver import GramAccumulator, RidgeSolver
from phimap.learn.solver import Problem, Solved


class CholeskyRidge:
    """Sums over all rows in one pass, or the rows themselves where they are few, then factorisations.

    Notes
    -----
    While alpha is chosen, the sums lack the held-out rows, which are added afterwards: that is cheaper than taking
    them out of the sums again.
    """

    takes_signs = False

    def memory(self, n: int | None, m: int, t: int) -> int:
        """Bytes held at the least, a block of features not counted; `n` is None where it is not known."""
        return RidgeSolver.memory(n, m, t)

    def __call__(self, problem: Problem) -> Solved:
        """Solve a problem."""
        n, m, t, n_jobs = problem.n, problem.m, problem.t, problem.n_jobs
        dual, validation = RidgeSolver.is_dual(n, m), problem.validation
        holds_out = problem.alpha == "auto" and not dual
        start = partial(_start, m, t, n, n_jobs)
        with problem.stage("features" if dual else "features and Gram matrix", n):
            below = validation.largest_key if holds_out else None
            sums = problem.stream.accumulate(start, held_out_below=below).solver
        with problem.stages.stage("regularisation"):
            solution = sums.finish(problem.alpha, validation, problem.probes, n_jobs, held_out_in_sums=not holds_out)
        return Solved(solution, sums)


def _start(m: int, t: int, n: int, n_jobs: int | None, first_row: int) -> GramAccumulator:
    """The accumulator of no rows."""
    return GramAccumulator.start(m, t, n, n_jobs)
