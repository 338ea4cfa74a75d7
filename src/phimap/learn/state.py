"""The training state of a learner, to which further rows are added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from phimap.learn.ridge.solver import GramAccumulator, RidgeSolver
from phimap.learn.rows.accumulator import CountingAccumulator, RowSource, accumulate
from phimap.learn.rows.batches import Batch
from phimap.learn.rows.feature_stream import MappedRows, Mapping
from phimap.learn.rows.samples import ExtremeRows, Reservoir, fingerprint
from phimap.learn.rows.summary import RowSummary
from phimap.records import Record

# Number of sample rows that are hashed to identify the origin of a state.
_ORIGIN_ROWS = 1000


@dataclass
class TrainingState(Record):
    """Sums over the rows seen (in dual form, the features of these rows), and samples of the rows.

    Attributes
    ----------
    sums : RidgeSolver
    sample : Reservoir
        Random rows; those with the smallest keys are validation rows.
    extreme : ExtremeRows
        The rows farthest from the mean.
    origin : str
        A hash of sample rows, which shows whether two states began with the same rows.
    """

    sums: RidgeSolver
    sample: Reservoir
    extreme: ExtremeRows
    origin: str

    def requirements(self) -> Iterator[tuple[bool, str]]:
        width = self.extreme.centre.size
        yield self.sums.n_rows > 0 and self.sample.keys.size > 0, "rows in its statistics and in its sample"
        numbers = all(rows.are_numbers(width) for rows in (self.sample, self.extreme))
        yield numbers, "rows of numbers, as wide as its scaling, in its sample"

    @classmethod
    def start(cls, summary: RowSummary, extreme: ExtremeRows, sums: RidgeSolver) -> Self:
        """Return the state for the rows of a summary; `sums` may still be empty."""
        rows, targets, _ = summary.sample.first(_ORIGIN_ROWS)
        return cls(sums, summary.sample, extreme, fingerprint(rows, targets))

    def accumulate(
        self, rows: Iterable[Batch] | RowSource, mapping: Mapping, n_jobs: int | None, advance: Callable[[int], None]
    ) -> None:
        """Add the features of rows to the sums; ``advance(n_rows)`` is called for every batch."""
        mapped = MappedRows(mapping, GramAccumulator(self.sums, n_jobs), self.extreme)
        accumulate(rows, lambda first_row: CountingAccumulator(mapped, advance))

    def merge(self, other: Self, shared: Self | None, n_jobs: int | None) -> None:
        """Add the rows of another state, without the rows of `shared`, the state with which both began."""
        self.sums.merge(other.sums, n_jobs)
        if shared is not None:
            self.sums.merge(shared.sums, n_jobs, sign=-1)
        self.sample.merge(other.sample, without=() if shared is None else shared.sample.keys)
        self.extreme.merge(other.extreme, without=() if shared is None else shared.extreme.keys)
