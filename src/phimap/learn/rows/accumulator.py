"""Passes over training rows as folds: what parts of the rows make, merged in the order of the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable


class Accumulator(ABC):
    """What a pass makes of the rows of a stream, or of a part of it.

    A pass is ``update`` with one batch after the other. A stream may also be cut into parts of consecutive rows: each
    part makes a fold of its own, wherever its rows are, and `merge` adds that of the rows that come next.
    """

    @abstractmethod
    def update(self, rows: Any, targets: Any, weights: Any) -> None:
        """Add a batch; its memory may be overwritten later."""

    @abstractmethod
    def merge(self, later: Self) -> None:
        """Add what the rows that follow have made; `later` is not used again."""

    @property
    @abstractmethod
    def state(self) -> Any:
        """Records, arrays and tuples of them that hold what was made so far: what a checkpoint keeps."""

    @abstractmethod
    def resume(self, state: Any) -> None:
        """Take up a `state`; on a fold that has seen nothing."""


AnyAccumulator = TypeVar("AnyFold", bound=Accumulator)


OneAccumulator = TypeVar("OneFold", bound=Accumulator)
OtherAccumulator = TypeVar("OtherFold", bound=Accumulator)


class PairAccumulator(Accumulator, Generic[OneAccumulator, OtherAccumulator]):
    """Two folds of the same rows."""

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


class WrappedAccumulator(Accumulator, Generic[OneAccumulator]):
    """A fold around another, whose state is that of the other.

    Attributes
    ----------
    fold : Fold
    """

    def __init__(self, fold: OneAccumulator):
        self.fold = fold

    def update(self, rows: Any, targets: Any, weights: Any) -> None:
        self.fold.update(rows, targets, weights)

    def merge(self, later: WrappedAccumulator[OneAccumulator]) -> None:
        self.fold.merge(later.fold)

    @property
    def state(self) -> Any:
        return self.fold.state

    def resume(self, state: Any) -> None:
        self.fold.resume(state)


class CountingAccumulator(WrappedAccumulator[OneAccumulator]):
    """A fold that tells how many rows it has seen, batch by batch."""

    def __init__(self, fold: OneAccumulator, advance: Callable[[int], None]):
        super().__init__(fold)
        self._advance = advance

    def update(self, rows: Any, targets: Any, weights: Any) -> None:
        super().update(rows, targets, weights)
        self._advance(rows.shape[0])


@runtime_checkable
class RowSource(Protocol):
    """Rows that go through a pass in their own way: in parts elsewhere, or with checkpoints."""

    def fold(self, start: Callable[[int], AnyAccumulator]) -> AnyAccumulator:
        """The fold of all rows; ``start(first_row)`` is one that has seen nothing, for rows from `first_row` on."""
        ...


def accumulate(
    rows: Iterable[tuple[Any, Any, Any]] | RowSource, start: Callable[[int], AnyAccumulator]
) -> AnyAccumulator:
    """One pass: the fold of all `rows`, batches that are gone through once or rows with a way of their own."""
    if isinstance(rows, RowSource):
        return rows.fold(start)
    fold = start(0)
    for batch in rows:
        fold.update(*batch)
    return fold
