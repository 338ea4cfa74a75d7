"""Preconditioners for losses on a stream, from the Gram matrix of its rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phimap.learn.blocks.blocks import FeatureBlock
from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.ridge.cholesky import BlockedCholesky, NotPositiveDefiniteError
from phimap.learn.ridge.nystroem_preconditioner import ARRAYS, NystroemPreconditioner, test_matrix
from phimap.learn.ridge.solver import GramAccumulator, RidgeSolver
from phimap.learn.rows.accumulator import AnyAccumulator, PairAccumulator, accumulate
from phimap.learn.solver import PassSums, Problem, Sums
from phimap.ops import single_threaded_blas

# Largest ratio of a shift to that of a factorisation, or its inverse, at which the factorisation still serves. A new
# factorisation costs more than the few passes that it would save.
_SERVES = 12.0


class FactorPreconditioner:
    """Solutions by a factorisation, which serves all shifts near its own."""

    def __init__(self, matrix: BlockTriangle, eps: float, n_jobs: int | None):
        self._matrix, self._n_jobs = matrix, n_jobs
        self.trace: float = float(matrix.diagonal().sum())
        # With a smaller shift, rounding errors may make the matrix indefinite.
        self._least = eps * self.trace
        self._shift: float | None = None
        self._factor: BlockedCholesky | None = None

    def solve(self, R: np.ndarray, shift: float) -> np.ndarray:
        """``(A + s I)^{-1} R`` for a shift s near `shift`."""
        if self._factor is None or not self._shift or not 1 / _SERVES <= shift / self._shift <= _SERVES:
            self._factorise(shift)
        assert self._factor is not None
        return self._factor.solve(R)

    def _factorise(self, shift: float) -> None:
        out = None if self._factor is None else self._factor.data
        used = max(shift, self._least, np.finfo(np.float64).tiny)
        while True:
            try:
                self._factor, self._shift = BlockedCholesky(self._matrix, used, self._n_jobs, out=out), shift
                return
            except NotPositiveDefiniteError:
                used *= 10


def factor_memory(m: int) -> int:
    """Bytes of the sums and of their factor, which are two packed triangles."""
    return 2 * 4 * m * m


def sketch_memory(m: int) -> int:
    """Bytes that exist while the sketch is made."""
    return 8 * m * ARRAYS * NystroemPreconditioner.rank_of(m)


def preconditioner_of(
    problem: Problem, start: Callable[[int], AnyAccumulator]
) -> tuple[FactorPreconditioner | NystroemPreconditioner, np.ndarray, AnyAccumulator]:
    """Return the preconditioner of a problem, the mean (m,) of its rows, and the accumulator of `start` after one pass.

    The preconditioner is a factor of the centred Gram matrix if that fits the problem's memory, else a sketch.
    """
    if factor_memory(problem.m) <= problem.memory:
        # The function may be sent to other processes, so it refers to small values only.
        m, t, n_jobs = problem.m, problem.t, problem.n_jobs

        def start_both(first_row: int) -> PairAccumulator[GramAccumulator, AnyAccumulator]:
            return PairAccumulator(GramAccumulator(RidgeSolver.start(m, t), n_jobs), start(first_row))

        both = accumulate(problem.stream, start_both)
        statistics = both.one.solver.statistics
        assert statistics is not None
        factor = FactorPreconditioner(statistics.centred_gram(), statistics.eps, problem.n_jobs)
        return factor, statistics.sum_z / statistics.weight, both.other
    test, n_jobs = test_matrix(problem.m, NystroemPreconditioner.rank_of(problem.m), problem.rng), problem.n_jobs

    def summand(block: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> Sums:
        image, _ = block.cross_products(weights[:, None] * block.times(test, n_jobs), n_jobs)
        return image, block.cross_products(weights[:, None], n_jobs)[0][:, 0], np.array([weights.sum()])

    with single_threaded_blas():
        both = accumulate(problem.stream, lambda first_row: PairAccumulator(PassSums(summand), start(first_row)))
        assert both.one.sums is not None
        sketch, sums, (n,) = both.one.sums
        rounding = problem.eps * float(np.linalg.norm(sketch))
        sketch -= np.outer(sums, (sums @ test) / n)
        return NystroemPreconditioner.of_sketch(test, sketch, rounding), sums / n, both.other
