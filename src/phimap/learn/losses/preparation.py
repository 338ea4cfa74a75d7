"""Preparation for the minimisation of losses: a sample of the rows, a preconditioner, and paths of alphas."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np

from phimap._random import row_uniforms
from phimap.learn.blocks.blocks import FeatureBlock, WeightedBlock, feature_block
from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.losses.losses import Loss
from phimap.learn.losses.quasi_newton import Model, QuasiNewton, Steps
from phimap.learn.ridge.cholesky import BlockedCholesky, factor_with_retries
from phimap.learn.ridge.nystroem_preconditioner import ARRAYS, NystroemPreconditioner, test_matrix
from phimap.learn.ridge.solver import GramAccumulator, RidgeSolver
from phimap.learn.rows.accumulator import Accumulator, AnyAccumulator, PairAccumulator, accumulate
from phimap.learn.rows.samples import proportional_order
from phimap.learn.rows.units import RowUnits
from phimap.learn.solver import LinearSolution, PassSums, Problem, Stream, Sums, solve
from phimap.ops import single_threaded_blas

# Largest number of rows of a sample. The held-out loss of so many rows separates alphas whose losses differ by a
# percent.
_MOST_ROWS = 16384
#: Number of folds, and largest number of rows for which every fold is held out in turn. With more rows, a single fold
#: is held out.
FOLDS, _FEW_ROWS = 5, 4096


class LossSample(Accumulator):
    """A random sample of the rows of a stream, in memory and divided into folds.

    Parameters
    ----------
    n : int
        Rows of the stream.
    memory : int
        Bytes that the sample's features may take.
    seed : int
    units : RowUnits or None
        Units of rows, which no fold divides; None for single rows.
    first_row : int, default=0
        Index of the first row of the stream that may be sampled.
    by_class : bool, default=False
        Whether targets are codes of labels. Each fold then contains the classes in proportion, unless there are units.
    """

    def __init__(
        self,
        n: int,
        memory: int,
        seed: int,
        units: RowUnits | None = None,
        first_row: int = 0,
        *,
        by_class: bool = False,
    ):
        self._n, self._memory, self._seed, self._units, self._n_seen = n, memory, seed, units, first_row
        self._by_class = by_class and units is None
        self.n_rows = 0
        # Features, targets, weights, and positions within the folds: the fold of a row is the integer part.
        self._blocks: list[tuple[FeatureBlock, np.ndarray, np.ndarray, np.ndarray]] = []
        self._folds: list[np.ndarray] = []

    def update(self, rows: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> None:
        """Add a random part of the rows of a block."""
        row_bytes = rows.shape[1] * rows.dtype.itemsize
        share = min(_MOST_ROWS, self._memory // row_bytes) / self._n
        # The index in the stream determines whether a row is sampled, and its fold.
        uniforms = row_uniforms(self._n_seen, rows.shape[0], self._seed)
        index = np.flatnonzero(uniforms < share)
        numbers = self._n_seen + index
        self._n_seen += rows.shape[0]
        self.n_rows += index.size
        if index.size:
            if self._units is None:
                places = uniforms[index] / share * FOLDS * 1024 % FOLDS
            else:
                places = self._units.folds(numbers, FOLDS)
            self._blocks.append((rows.rows(index), targets[index], weights[index], places))
            self._folds = []

    def merge(self, later: LossSample) -> None:
        self._n_seen, self.n_rows = later._n_seen, self.n_rows + later.n_rows
        self._blocks += later._blocks
        self._folds = []

    @property
    def state(self) -> tuple[Any, ...]:
        parts = tuple((block.features, *others) for block, *others in self._blocks)
        return self._n_seen, self.n_rows, parts

    def resume(self, state: tuple[Any, ...]) -> None:
        self._n_seen, self.n_rows, parts = state
        self._blocks = [(feature_block(features), *others) for features, *others in parts]
        self._folds = []

    @property
    def share(self) -> float:
        """Share of the stream's rows that are in the sample."""
        return self.n_rows / self._n

    @property
    def folds(self) -> list[int]:
        """Indices of the folds to hold out. A fold is omitted if the fold or the rest of the sample is empty."""
        counts = np.bincount(np.concatenate([np.empty(0, np.intp), *self._divided()]))
        usable = [fold for fold, count in enumerate(counts) if 0 < count < self.n_rows]
        # If units are moments in time, only fold 0 is held out. It contains the latest rows, which are predicted from
        # earlier rows.
        in_time = self._units is not None and self._units.in_time
        return usable if self.n_rows <= _FEW_ROWS and not in_time else usable[:1]

    def rows(self, fold: int | None = None, *, held_out: bool = False) -> list[WeightedBlock]:
        """The rows outside a fold or, if `held_out` is true, the rows of the fold; all rows if `fold` is None."""
        if fold is None:
            return [(block, targets, weights) for block, targets, weights, _ in self._blocks]
        parts = []
        for (block, targets, weights, _), folds in zip(self._blocks, self._divided(), strict=True):
            index = np.flatnonzero((folds == fold) == held_out)
            if index.size:
                parts.append((block.rows(index), targets[index], weights[index]))
        return parts

    def _divided(self) -> list[np.ndarray]:
        """The fold (r,) of each row, for each block."""
        if not self._folds and self._blocks:
            folds = np.concatenate([part[3] for part in self._blocks])
            if self._by_class:
                labels = np.unique(np.concatenate([part[1] for part in self._blocks]), axis=0, return_inverse=True)[1]
                order = np.argsort(folds, kind="stable")
                order = order[proportional_order(labels.ravel()[order])]
                folds[order] = np.arange(len(order)) * FOLDS / len(order)
            sizes = np.cumsum([len(part[3]) for part in self._blocks])
            self._folds = np.split(folds.astype(np.intp), sizes[:-1])
        return self._folds


# A factorisation at one shift is also used for shifts that are larger or smaller by up to this factor. A new
# factorisation would cost more than the few passes that it would save.
_SERVES = 12.0


class FactorPreconditioner:
    """Solves systems with a matrix plus a shift. One factorisation is used for all shifts close to its own shift."""

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
            out = None if self._factor is None else self._factor.data
            used = max(shift, self._least, np.finfo(np.float64).tiny)
            self._factor = factor_with_retries(self._matrix, used, self._n_jobs, out=out)
            self._shift = shift
        return self._factor.solve(R)


def preconditioner_of(
    problem: Problem, start: Callable[[int], AnyAccumulator]
) -> tuple[FactorPreconditioner | NystroemPreconditioner, np.ndarray, AnyAccumulator]:
    """Return the preconditioner of a problem, the mean (m,) of its rows, and the accumulator of `start` after one pass.

    The preconditioner is a factor of the centred Gram matrix if that fits the problem's memory, else a sketch.
    """
    # The sums and their factor are two packed triangles.
    if 2 * 4 * problem.m**2 <= problem.memory:
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


# Tolerance of the solutions on a path, and largest number of passes. With this tolerance, held-out losses differ by at
# most a percent, and mostly by a thousandth, from the held-out losses at the minimum.
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
        Start of the first solution; None starts at the intercept of a model without features.
    """

    loss: Loss
    prepared: LossPreparation
    rows: Iterable[WeightedBlock]
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
        """Extrapolate the last two solutions to `alpha`; return the start of the path if there are none."""
        if not self._last:
            return self._first() if self.start is None else self.start
        before, last = self._last[0], self._last[-1]
        if before is last:
            return last.coef, last.intercept
        share = float(np.log(alpha / last.alpha) / np.log(last.alpha / before.alpha))
        return (
            last.coef + share * (last.coef - before.coef),
            last.intercept + share * (last.intercept - before.intercept),
        )

    def _first(self) -> Model | None:
        """Return a model with zero coefficients and an intercept close to the minimum.

        From an intercept of zero, rare classes would need many steps.
        """
        targets, weights = (np.concatenate(parts) for parts in list(zip(*self.rows, strict=True))[1:])
        intercept = self.loss.first_intercept(targets, weights)
        return np.zeros((self.prepared.problem.m, intercept.size)), intercept


# The sample may take at most the memory divided by this number. While alpha is chosen, a copy of the sample, sorted by
# folds, takes as much memory again.
_SAMPLE_SHARE = 8


@dataclass(frozen=True)
class LossPreparation:
    """A sample of the rows, the mean of all rows, a preconditioner, and the steps of earlier minimisations.

    Attributes
    ----------
    problem : Problem
        The problem; its memory is the part that the sample and the models do not use.
    sample : LossSample
    preconditioner : FactorPreconditioner or NystroemPreconditioner
    mean : ndarray of shape (m,)
        Weighted mean of the features of all rows.
    steps : Steps
        Quasi-Newton steps of earlier minimisations, which later minimisations use.
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
        seed = int(problem.rng.integers(2**63))
        held_out = problem.validation
        sample = partial(LossSample, problem.n, spent, seed, held_out.units, by_class=held_out.by_class)
        problem = replace(problem, memory=left - 2 * spent)
        preconditioner, mean, rows = preconditioner_of(problem, sample)
        return cls(problem, rows, preconditioner, mean, Steps())

    @property
    def scale(self) -> float:
        """Mean over the rows of the squared norm of the centred features; 1 if that is 0."""
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
        """Minimise the objective over `rows`, which are about `share` of all rows.

        The other parameters are as in `QuasiNewton`.
        """

        def precondition(R: np.ndarray, shift: float) -> np.ndarray:
            # The Gram matrix of these rows is about `share` times the Gram matrix of all rows.
            return self.preconditioner.solve(R, shift / share) / share

        options = {"tolerance": tolerance, "passes": passes, "n_jobs": self.problem.n_jobs}
        solver = QuasiNewton(loss, alpha, precondition, self.mean, start=start, steps=self.steps, **options)
        return solve(solver, rows, self.problem.m, self.problem.t, self.problem.eps)


def least_memory(m: int, t: int) -> int:
    """Least number of bytes, for which a sketch is the preconditioner; a block of features is not counted."""
    return 8 * m * ARRAYS * NystroemPreconditioner.rank_of(m) + _models_memory(m, t)


def _models_memory(m: int, t: int) -> int:
    """Largest number of bytes of models and steps. For each fold a path keeps two solutions and computes a third."""
    return QuasiNewton.memory_of(m, t) + FOLDS * 3 * 8 * m * t
