"""Ridge regression by Cholesky factorisation, from a stream of blocks of features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phimap._random import RandomState
from phimap.learn.blocks.blocks import FeatureBlock, FeatureRows, feature_block
from phimap.learn.ridge.cholesky import NotPositiveDefiniteError
from phimap.learn.ridge.leverages import DualLeverages, Leverages, PrimalLeverages
from phimap.learn.ridge.solve import LEAVE_ONE_OUT_ROWS, solve_ridge, solve_ridge_dual
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.rows.batches import CAPACITY
from phimap.learn.rows.validation import ValidationRows, n_held_out
from phimap.learn.rows.weights import joined_weights, total_weight
from phimap.learn.solver import LinearSolution
from phimap.packed import PackedArray
from phimap.records import Record, of_entries, of_number

# Arrays (m, t), and arrays as long as the rows that judge, (r, t), that exist at a time while alpha is chosen: images
# of up to 32 steps, stacked, and of the points of a window of the curve.
_TARGET_ARRAYS, _IMAGE_ARRAYS = 10, 80
# Arrays (n, t) in dual form, and (n, n) where the leave-one-out error is exact: the matrix, its eigenvectors, twice as
# much for LAPACK, and the packed triangle.
_DUAL_ARRAYS, _EXACT_ARRAYS = 8, 4.5


@dataclass
class RidgeSolver(Record):
    """What ridge regression keeps of the rows it has seen, and its solution.

    In primal form that is sums over rows, of m x m numbers; in dual form the features themselves, where the rows are
    fewer than these or few altogether. They become sums if more rows come than were expected.

    Attributes
    ----------
    statistics : RidgeStatistics or None
        The sums; None in dual form.
    rows : tuple of (features, targets, weights)
        In dual form, arrays or packed arrays (r, m), arrays (r, t), and arrays (r,) or None, of the rows so far; else
        empty.
    n_expected : int
        Rows that were announced, in dual form.
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
        # The first model files know no weights.
        self.rows = tuple((*row, None)[:3] for row in self.rows)  # pyright: ignore[reportAttributeAccessIssue]

    def serves(self, n_components: int) -> bool:
        """Whether it has sums over, or rows of, so many features; none at all will do."""
        if self.statistics is not None:
            return self.statistics.n_components == n_components
        return all(Z.shape[1] == n_components for Z, _, _ in self.rows)

    @classmethod
    def memory(cls, n_rows: int | None, n_components: int, n_targets: int = 1) -> int:
        """Bytes that many rows take; `n_rows` is None if their number is not known.

        In primal form these are packed triangles: of the sums, of those without the held-out rows, of a factor; in
        dual form the features, twice while they are joined and centred, and triangles of the order of the rows. Beyond
        one target there are the recurrences of each, their images at the rows that judge, and the curves of these.
        """
        if n_rows is not None and cls.is_dual(n_rows, n_components):
            squares = _EXACT_ARRAYS if n_rows <= LEAVE_ONE_OUT_ROWS else 1.5
            numbers = n_rows * (2 * n_components + squares * n_rows + _DUAL_ARRAYS * (n_targets - 1))
            return int(8 * numbers)
        judging = CAPACITY if n_rows is None else n_held_out(n_rows)
        others = 8 * (n_targets - 1) * (_TARGET_ARRAYS * n_components + _IMAGE_ARRAYS * judging)
        return 3 * 4 * n_components**2 + others

    @staticmethod
    def is_dual(n_rows: int, n_components: int) -> bool:
        """Whether rows that are all known beforehand are kept themselves."""
        return n_rows < n_components or n_rows <= LEAVE_ONE_OUT_ROWS

    @classmethod
    def start(cls, n_components: int, n_targets: int, n_rows: int | None = None) -> RidgeSolver:
        """Return a solver that has seen nothing; `n_rows` are to come, None if that is not known."""
        if n_rows is not None and cls.is_dual(n_rows, n_components):
            return cls(None, n_expected=n_rows)
        return cls(RidgeStatistics.empty(n_components, n_targets))

    @property
    def form(self) -> str:
        """``"primal"`` or ``"dual"``."""
        return "dual" if self.statistics is None else "primal"

    @property
    def n_rows(self) -> int:
        """Rows seen."""
        return sum(len(Y) for _, Y, _ in self.rows) if self.statistics is None else self.statistics.n

    def update(
        self, block: FeatureBlock, targets: np.ndarray, n_jobs: int | None, weights: np.ndarray | None = None
    ) -> None:
        """Add rows with targets (r, t) and positive weights (r,); the memory of `block` may be overwritten later."""
        # The first block is kept however long: it says how many targets there are.
        if self.statistics is None and (not self.rows or self.n_rows + len(targets) <= self.n_expected):
            kept = None if weights is None else np.array(weights)
            self.rows = (*self.rows, (block.host_copy().features, np.array(targets), kept))
        else:
            self._sums(n_jobs).update(block, targets, n_jobs, weights=weights)

    def merge(self, other: RidgeSolver, n_jobs: int | None, *, sign: int = 1) -> None:
        """Add the rows of another solver, or with `sign` -1 take them away."""
        self.statistics = self._sums(n_jobs).merge(other._sums(n_jobs), sign=sign)

    def join(self, later: RidgeSolver, n_jobs: int | None) -> None:
        """Add, in place, the rows of the solver of the rows that follow; in dual form while they are as announced."""
        if self.statistics is None and later.statistics is None and self.n_rows + later.n_rows <= self.n_expected:
            self.rows = (*self.rows, *later.rows)
        elif later.n_rows:
            self._sums(n_jobs).absorb(later._sums(n_jobs))

    def finish(
        self,
        alpha: float | str,
        judges: ValidationRows | None,
        rng: RandomState,
        n_jobs: int | None,
        *,
        n_rows: int | None = None,
    ) -> LinearSolution:
        """Solve with `alpha`; ``"auto"`` is chosen by the rows kept in dual form, else by those of `judges`.

        With `n_rows`, rows in all, the sums lack those with keys up to ``judges.last_key(n_rows)``, and get them here.
        """
        if self.statistics is None:
            Z, Y, weights = self._joined()
            return solve_ridge_dual(Z, Y, alpha, weights=weights, rng=rng, n_jobs=n_jobs)
        if n_rows is not None:
            assert judges is not None
            return self._finish_apart(judges, n_rows, rng, n_jobs)
        held_out, outlying = judges.of(self.statistics.n) if judges and alpha == "auto" else (None, None)
        left_out = judges.left_out(self.statistics.n) if judges and held_out is None else None
        return solve_ridge(
            self.statistics, alpha, held_out=held_out, outlying=outlying, left_out=left_out, rng=rng, n_jobs=n_jobs
        )

    def _finish_apart(
        self, judges: ValidationRows, n_rows: int, rng: RandomState, n_jobs: int | None
    ) -> LinearSolution:
        """Solve with an alpha chosen by held-out rows that the sums lack, and add these."""
        assert self.statistics is not None
        if (others := judges.not_held_out(n_rows)) is not None:
            self.statistics.update(*others[:2], n_jobs, weights=others.weights)
        held_out, outlying = judges.of(n_rows)
        return solve_ridge(
            self.statistics, "auto", held_out=held_out, apart=True, outlying=outlying, rng=rng, n_jobs=n_jobs
        )

    def without(self, rows: FeatureRows, alpha: float, n_jobs: int | None) -> LinearSolution | None:
        """Solve without some of the rows, in primal form: ``r m^2`` multiply-adds and a factorisation.

        None where rounding has left no positive definite system.
        """
        assert self.statistics is not None
        # No name holds the sums that are taken away: the solution needs their memory.
        left = self.statistics.merge(_sums_of(rows, n_jobs), sign=-1)
        try:
            return RidgeSolver(left).finish(alpha, None, 0, n_jobs)
        except NotPositiveDefiniteError:
            return None

    def leverages(self, alpha: float, n_jobs: int | None) -> Leverages:
        """Leverages of rows in the fit with `alpha`, from one factorisation."""
        if self.statistics is None:
            Z, Y, weights = self._joined()
            return DualLeverages(Z.centred(n_jobs, weights), alpha, total_weight(weights, len(Y)), n_jobs)
        return PrimalLeverages(self.statistics, alpha, n_jobs)

    def leverages_memory(self, n_components: int) -> int:
        """Bytes that `leverages` holds beside the solver, for that many features."""
        if self.statistics is None:
            return DualLeverages.memory(self.n_rows, n_components)
        return PrimalLeverages.memory(n_components)

    def subset(self, columns: np.ndarray, n_jobs: int | None) -> RidgeSolver:
        """Return the solver of some of the features, in the order of `columns`; fewer than the rows become sums."""
        if self.statistics is None:
            Z, Y, weights = self._joined()
            if len(columns) < len(Y):
                return RidgeSolver(_sums_of(FeatureRows(Z.columns(columns), Y, weights), n_jobs))
            return RidgeSolver(None, ((Z.columns(columns).features, Y, weights),), self.n_expected)
        return RidgeSolver(self.statistics.subset(columns))

    def _joined(self) -> tuple[FeatureBlock, np.ndarray, np.ndarray | None]:
        """All rows kept, in one block, their targets and weights."""
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
        """The sums; in dual form the rows kept become sums first."""
        if self.statistics is None:
            Z, Y, weights = self._joined()
            self.statistics = RidgeStatistics.empty(Z.shape[1], Y.shape[1])
            self.statistics.update(Z, Y, n_jobs, weights=weights)
            self.rows, self.n_expected = (), 0
        return self.statistics


def _sums_of(rows: FeatureRows, n_jobs: int | None) -> RidgeStatistics:
    """Sums over some rows."""
    sums = RidgeStatistics.empty(rows.block.shape[1], rows.targets.shape[1])
    sums.update(rows.block, rows.targets, n_jobs, weights=rows.weights)
    return sums
