"""Passes over training rows, with accumulators that are updated by batches and merged in the order of the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, runtime_checkable

from phimap._dask import computed, shared, task
from phimap.learn.rows.batches import Batch

# Number of accumulators that one task merges. A worker holds their states at the same time.
_MERGED = 8


class Accumulator(ABC):
    """The partial result of a pass over the rows of a stream, or over a part of them.

    A pass calls `update` with each batch in turn. A stream may also be cut into parts of consecutive rows: each part
    has its own accumulator, on the worker that holds its rows, and `merge` adds the accumulator of the next part.
    """

    @abstractmethod
    def update(self, rows: Any, targets: Any, weights: Any) -> None:
        """Add a batch; its memory may be overwritten later."""

    @abstractmethod
    def merge(self, later: Self) -> None:
        """Add the accumulator of the rows that follow; `later` is not used again."""

    #: Names of the attributes that make up the state.
    _parts: ClassVar[tuple[str, ...]]

    @property
    def state(self) -> Any:
        """The result so far, as records, arrays, or tuples of these, which a checkpoint can store."""
        return tuple(getattr(self, name) for name in self._parts)

    def resume(self, state: Any) -> None:
        """Restore a `state`, in an accumulator that has not been updated yet."""
        for name, value in zip(self._parts, state, strict=True):
            setattr(self, name, value)


AnyAccumulator = TypeVar("AnyAccumulator", bound=Accumulator)
OneAccumulator = TypeVar("OneAccumulator", bound=Accumulator)
OtherAccumulator = TypeVar("OtherAccumulator", bound=Accumulator)


class PairAccumulator(Accumulator, Generic[OneAccumulator, OtherAccumulator]):
    """Two accumulators that get the same rows."""

    def __init__(self, one: OneAccumulator, other: OtherAccumulator):
        self.one, self.other = one, other

    def update(self, rows: Any, targets: Any, weights: Any) -> None:
        self.one.update(rows, targets, weights)
        self.other.update(rows, targets, weights)

    def merge(self, later: PairAccumulator[OneAccumulator, OtherAccumulator]) -> None:
        self.one.merge(later.one)
        self.other.merge(later.other)

    @property
    def state(self) -> tuple[Any, Any]:
        return self.one.state, self.other.state

    def resume(self, state: tuple[Any, Any]) -> None:
        self.one.resume(state[0])
        self.other.resume(state[1])


class CountingAccumulator(Accumulator, Generic[OneAccumulator]):
    """An accumulator that reports the number of rows of each batch, and passes the batch to its `inner` accumulator."""

    def __init__(self, inner: OneAccumulator, advance: Callable[[int], None]):
        self.inner, self._advance = inner, advance

    def update(self, rows: Any, targets: Any, weights: Any) -> None:
        self.inner.update(rows, targets, weights)
        self._advance(rows.shape[0])

    def merge(self, later: CountingAccumulator[OneAccumulator]) -> None:
        self.inner.merge(later.inner)

    @property
    def state(self) -> Any:
        return self.inner.state

    def resume(self, state: Any) -> None:
        self.inner.resume(state)


@runtime_checkable
class RowSource(Protocol):
    """A source of rows that makes passes itself, either in parts on other machines or with checkpoints."""

    def accumulate(self, start: Callable[[int], AnyAccumulator]) -> AnyAccumulator:
        """Return the accumulator after all rows.

        ``start(first_row)`` makes an empty accumulator for the rows from `first_row` on.
        """
        ...


def accumulate(
    rows: Iterable[tuple[Any, Any, Any]] | RowSource, start: Callable[[int], AnyAccumulator]
) -> AnyAccumulator:
    """Make one pass over `rows`, which are batches or a `RowSource`; return the accumulator after all rows."""
    if isinstance(rows, RowSource):
        return rows.accumulate(start)
    accumulator = start(0)
    for batch in rows:
        accumulator.update(*batch)
    return accumulator


@dataclass(frozen=True)
class PartedRows:
    """Consecutive parts of the training rows, as tasks of a Dask graph.

    A pass is one graph, with a task for each part and a tree of merges. The shape of the tree depends only on the
    number of parts, so that neither the number of workers nor the order in which tasks end affects the result. Tasks
    have no side effects: results of a lost worker can be computed again.

    Attributes
    ----------
    parts : sequence of tuples
        Arguments of `read` for each part; they may be tasks.
    first_rows : sequence of int
        Number of training rows before each part.
    read : callable
        ``read(first_row, *part)`` gives the batches of a part, on the worker that holds its rows.
    """

    parts: Sequence[tuple[Any, ...]]
    first_rows: Sequence[int]
    read: Callable[..., Iterable[Batch]]

    def accumulate(self, start: Callable[[int], AnyAccumulator]) -> AnyAccumulator:
        """Make one pass; only the merged result is sent to this process."""
        begin, read = shared(start), shared(self.read)
        states = [
            task(_folded, begin, read, first_row, *part)
            for first_row, part in zip(self.first_rows, self.parts, strict=True)
        ]
        while len(states) > 1:
            groups = [states[first : first + _MERGED] for first in range(0, len(states), _MERGED)]
            states = [task(_merged, begin, group) if len(group) > 1 else group[0] for group in groups]
        return _resumed(start, computed(states[0]))


def _folded(
    begin: Callable[[int], Accumulator], read: Callable[..., Iterable[Batch]], first_row: int, *part: Any
) -> Any:
    """Return the state of an accumulator that was updated with all batches of one part."""
    fold = begin(first_row)
    for batch in read(first_row, *part):
        fold.update(*batch)
    return fold.state


def _merged(begin: Callable[[int], Accumulator], states: Sequence[Any]) -> Any:
    """Merge the accumulators of consecutive parts, and return the state of the result."""
    # A merge changes both sides, so copies are merged: another task may need the same states again.
    whole = _resumed(begin, deepcopy(states[0]))
    for state in states[1:]:
        whole.merge(_resumed(begin, deepcopy(state)))
    return whole.state


def _resumed(begin: Callable[[int], AnyAccumulator], state: Any) -> AnyAccumulator:
    fold = begin(0)
    fold.resume(state)
    return fold
