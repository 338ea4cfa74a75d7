"""Ridge regression by Cholesky factorisation, from a stream of blocks of features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phimap._random import RandomState
from phimap.learn.blocks.blocks import FeatureBlock, FeatureRows, feature_block
from phimap.learn.ridge.cholesky import NotPositiveDefiniteError
from phimap.learn.ridge.predictive import DualLeverages, Leverages, PrimalLeverages
from phimap.learn.ridge.shifted_inverse import MOST_STEPS
from phimap.learn.ridge.solve import LEAVE_ONE_OUT_ROWS, solve_ridge, solve_ridge_dual
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.rows.accumulator import Accumulator
from phimap.learn.rows.batches import CAPACITY
from phimap.learn.rows.validation import ValidationRows, n_held_out
from phimap.learn.solver import LinearSolution, Member, Problem, Solved
from phimap.learn.weights import joined_weights, total_weight
from phimap.packed import PackedArray
from phimap.records import Record, of_entries, of_number

# Number of arrays (m, t), and number of arrays (r, t) for r validation rows, that exist at a time while alpha is
# chosen. The arrays (r, t) are predictions after each Lanczos step, a stacked copy of them, and predictions at each
# alpha of a window.
_TARGET_ARRAYS, _PREDICTION_ARRAYS = 10, 2 * MOST_STEPS + 16
# For n rows and t targets, number of arrays (n, t) in memory in dual form. Then the number of arrays (n, n) for an
# exact leave-one-out error: the matrix, its eigenvectors, twice as much for LAPACK, and the packed triangle.
_DUAL_ARRAYS, _EXACT_ARRAYS = 8, 4.5


@dataclass
class RidgeSolver(Record):
    """The training state of ridge regression: sums over rows, or the rows themselves.

    The primal form holds sums over rows, m x m numbers. The dual form holds the features of the rows. It is used for
    few rows, and if there are fewer rows than features. If more rows come than expected, the dual form turns into the
    primal form.

    Attributes
    ----------
    statistics : RidgeStatistics or None
        The sums; None in dual form.
    rows : tuple of (features, targets, weights)
        The rows of the dual form: arrays or packed arrays (r, m), arrays (r, t), and arrays (r,) or None. Empty in
        primal form.
    n_expected : int
        Number of rows up to which the dual form is kept.
    """

    statistics: RidgeStatistics | None
    rows: tuple[tuple[Any, np.ndarray, np.ndarray | None], ...] = field(default=(), metadata=of_entries("any"))
    n_expected: int = field(default=0, metadata=of_number(least=0))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        for Z, Y, weights in self.rows:
            yield isinstance(Z, PackedArray) or np.ndim(Z) == 2, "features of each row"
            yield Y.ndim == 2 and len(Y) == Z.shape[0], "targets of each row"
            yield weights is None or weights.shape == (len(Y),), "a weight for each row"

    def __post_init__(self) -> None:
        # Model files of the earliest versions have no weights.
        self.rows = tuple((*row, None)[:3] for row in self.rows)  # pyright: ignore[reportAttributeAccessIssue]

    def serves(self, n_components: int) -> bool:
        """Return whether the sums or rows have `n_components` features; True if the solver has seen no rows."""
        if self.statistics is not None:
            return self.statistics.n_components == n_components
        return all(Z.shape[1] == n_components for Z, _, _ in self.rows)

    @classmethod
    def memory(cls, n_rows: int | None, n_components: int, n_targets: int = 1) -> int:
        """Bytes for `n_rows` rows, or for any number of rows if `n_rows` is None.

        The primal form has three packed triangles: the sums, the sums without the held-out rows, and a factor. The
        dual form has the features, twice while they are joined and centred, and triangles of the order of the rows.
        Each further target adds its Lanczos recurrence, with predictions for the validation rows.
        """
        if n_rows is not None and cls.is_dual(n_rows, n_components):
            squares = _EXACT_ARRAYS if n_rows <= LEAVE_ONE_OUT_ROWS else 1.5
            numbers = n_rows * (2 * n_components + squares * n_rows + _DUAL_ARRAYS * (n_targets - 1))
            return int(8 * numbers)
        validation = CAPACITY if n_rows is None else n_held_out(n_rows)
        targets = 8 * (n_targets - 1) * (_TARGET_ARRAYS * n_components + _PREDICTION_ARRAYS * validation)
        return 3 * 4 * n_components**2 + targets

    @staticmethod
    def is_dual(n_rows: int, n_components: int) -> bool:
        """Whether a fit to `n_rows` rows keeps the rows in dual form."""
        return n_rows < n_components or n_rows <= LEAVE_ONE_OUT_ROWS

    @classmethod
    def start(cls, n_components: int, n_targets: int, n_rows: int | None = None) -> RidgeSolver:
        """Return a solver without rows; `n_rows` is the number of rows to come, None if it is not known."""
        if n_rows is not None and cls.is_dual(n_rows, n_components):
            return cls(None, n_expected=n_rows)
        return cls(RidgeStatistics.empty(n_components, n_targets))

    @property
    def form(self) -> str:
        """``"primal"`` or ``"dual"``."""
        return "dual" if self.statistics is None else "primal"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(len(Y) for _, Y, _ in self.rows) if self.statistics is None else self.statistics.n

    def update(
        self, block: FeatureBlock, targets: np.ndarray, n_jobs: int | None, weights: np.ndarray | None = None
    ) -> None:
        """Add rows with targets (r, t) and positive weights (r,); the memory of `block` may be overwritten later."""
        # The first block is kept even if it is empty, because it gives the number of targets.
        if self.statistics is None and (not self.rows or self.n_rows + len(targets) <= self.n_expected):
            kept = None if weights is None else np.array(weights)
            self.rows = (*self.rows, (block.host_copy().features, np.array(targets), kept))
        else:
            self._sums(n_jobs).update(block, targets, n_jobs, weights=weights)

    def merge(self, other: RidgeSolver, n_jobs: int | None, *, sign: int = 1) -> None:
        """Add the rows of another solver, or with `sign` -1 subtract them."""
        self.statistics = self._sums(n_jobs).merge(other._sums(n_jobs), sign=sign)

    def join(self, later: RidgeSolver, n_jobs: int | None) -> None:
        """Add the rows of a later part of the stream, in place. The dual form is kept up to `n_expected` rows."""
        if self.statistics is None and later.statistics is None and self.n_rows + later.n_rows <= self.n_expected:
            self.rows = (*self.rows, *later.rows)
        elif later.n_rows:
            self._sums(n_jobs).absorb(later._sums(n_jobs))

    def finish(
        self,
        alpha: float | str,
        validation: ValidationRows | None,
        rng: RandomState,
        n_jobs: int | None,
        *,
        held_out_in_sums: bool = True,
    ) -> LinearSolution:
        """Solve with `alpha`.

        In dual form `solve_ridge_dual` chooses ``"auto"``. In primal form the errors on the validation rows choose it;
        without such rows, generalised cross-validation does.

        If `held_out_in_sums` is false, the pass skipped the rows with keys in ``validation.skipped_keys``, and this
        method adds them: the extreme rows before alpha is chosen, the held-out rows after.
        """
        if self.statistics is None:
            Z, Y, weights = self._joined()
            units, chooses = (None, None) if validation is None else (validation.units, validation.chooses())
            return solve_ridge_dual(Z, Y, alpha, weights=weights, units=units, chooses=chooses, rng=rng, n_jobs=n_jobs)
        if validation is None:
            return solve_ridge(self.statistics, alpha, rng=rng, n_jobs=n_jobs)
        if not held_out_in_sums and (skipped := validation.skipped_extremes()) is not None:
            self.update(*skipped[:2], n_jobs, skipped.weights)
        held_out = validation.random() if alpha == "auto" else None
        return solve_ridge(
            self.statistics,
            alpha,
            held_out=held_out,
            held_out_in_sums=held_out_in_sums,
            extreme=None if held_out is None else validation.extreme(),
            # If an extreme row were left out alone, the other rows of its unit would predict its target.
            leave_one_out=validation.leave_one_out() if held_out is None and validation.units is None else None,
            rng=rng,
            n_jobs=n_jobs,
        )

    def without(self, rows: FeatureRows, alpha: float, n_jobs: int | None) -> LinearSolution | None:
        """Solve without some of the rows, in primal form, in ``r m^2`` multiply-adds and a factorisation.

        None if rounding errors make the system indefinite.
        """
        assert self.statistics is not None
        # The sums over `rows` are not bound to a name, so that their memory is freed before the system is solved.
        left = self.statistics.merge(_sums_of(rows, n_jobs), sign=-1)
        try:
            return RidgeSolver(left).finish(alpha, None, 0, n_jobs)
        except NotPositiveDefiniteError:
            return None

    def leverages(self, alpha: float, n_jobs: int | None) -> Leverages:
        """Return the leverages in the fit with `alpha`, from one factorisation."""
        if self.statistics is None:
            Z, Y, weights = self._joined()
            return DualLeverages(Z.centred(n_jobs, weights), alpha, total_weight(weights, len(Y)), n_jobs)
        return PrimalLeverages(self.statistics, alpha, n_jobs)

    def leverages_memory(self, n_components: int) -> int:
        """Bytes that the leverages take in addition to the solver, for `n_components` features."""
        if self.statistics is None:
            return DualLeverages.memory(self.n_rows, n_components)
        return PrimalLeverages.memory(n_components)

    def subset(self, columns: np.ndarray, n_jobs: int | None) -> RidgeSolver:
        """Return the solver for some features, in the order of `columns`.

        The result is in primal form if there are fewer features than rows.
        """
        if self.statistics is None:
            Z, Y, weights = self._joined()
            if len(columns) < len(Y):
                return RidgeSolver(_sums_of(FeatureRows(Z.columns(columns), Y, weights), n_jobs))
            return RidgeSolver(None, ((Z.columns(columns).features, Y, weights),), self.n_expected)
        return RidgeSolver(self.statistics.subset(columns))

    def _joined(self) -> tuple[FeatureBlock, np.ndarray, np.ndarray | None]:
        """All rows of the dual form: their features in one block, targets and weights."""
        if len(self.rows) > 1:
            features, targets, weights = (list(column) for column in zip(*self.rows, strict=True))
            blocks = [feature_block(Z) for Z in features]
            every = joined_weights(weights, [len(Y) for Y in targets])
            self.rows = ((type(blocks[0]).stacked(blocks).features, np.concatenate(targets), every),)
            return self._joined()
        for Z, Y, weights in self.rows:
            return feature_block(Z), Y, weights
        raise ValueError("the training data are empty: no rows were given. Give at least 2 rows.")

    def _sums(self, n_jobs: int | None) -> RidgeStatistics:
        """Return the sums; a solver in dual form turns into primal form first."""
        if self.statistics is None:
            Z, Y, weights = self._joined()
            self.statistics = RidgeStatistics.empty(Z.shape[1], Y.shape[1])
            self.statistics.update(Z, Y, n_jobs, weights=weights)
            self.rows, self.n_expected = (), 0
        return self.statistics


def _sums_of(rows: FeatureRows, n_jobs: int | None) -> RidgeStatistics:
    """Return the sums of ridge regression over `rows`."""
    sums = RidgeStatistics.empty(rows.block.shape[1], rows.targets.shape[1])
    sums.update(rows.block, rows.targets, n_jobs, weights=rows.weights)
    return sums


class GramAccumulator(Accumulator):
    """An accumulator that adds blocks of features to a solver.

    Attributes
    ----------
    solver : RidgeSolver
    """

    _parts = ("solver",)

    def __init__(self, solver: RidgeSolver, n_jobs: int | None):
        self.solver, self._n_jobs = solver, n_jobs

    def update(self, rows: FeatureBlock, targets: np.ndarray, weights: np.ndarray | None) -> None:
        # Weights cost a scaled copy of the block, which is not needed if all weights are one.
        some = None if weights is None or (weights == 1).all() else weights
        self.solver.update(rows, targets, self._n_jobs, some)

    def merge(self, later: GramAccumulator) -> None:
        self.solver.join(later.solver, self._n_jobs)


class CholeskyRidge(Member):
    """Solve from sums over all rows, or from the rows themselves if they are few, in one pass and by factorisations.

    Notes
    -----
    While alpha is chosen, the sums lack the held-out rows. Adding these rows afterwards is cheaper than subtracting
    them from sums over all rows.
    """

    repeats_passes = False

    def memory(self, n: int | None, m: int, t: int) -> int:
        return RidgeSolver.memory(n, m, t)

    def __call__(self, problem: Problem) -> Solved:
        """Solve a problem."""
        n, m, t, n_jobs = problem.n, problem.m, problem.t, problem.n_jobs
        dual, validation = RidgeSolver.is_dual(n, m), problem.validation
        holds_out = problem.alpha == "auto" and not dual
        with problem.stage("features" if dual else "features and Gram matrix", n):
            skipped = validation.skipped_keys if holds_out else None
            # Workers receive the function, so it refers to plain values only.
            sums = problem.stream.accumulate(
                lambda first_row: GramAccumulator(RidgeSolver.start(m, t, n), n_jobs), skipped_keys=skipped
            ).solver
        with problem.stages.stage("regularisation"):
            solution = sums.finish(problem.alpha, validation, problem.probes, n_jobs, held_out_in_sums=not holds_out)
        return Solved(solution, sums)
