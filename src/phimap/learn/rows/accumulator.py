"""Passes over training rows: accumulators that are updated batch by batch and merged in the order of the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable


class Accumulator(ABC):
    """The result of a pass over the rows of a stream, or over a part of them, while it grows.

    A pass calls `update` with one batch after the other. A stream may also be cut into parts of consecutive rows: each
    part has an accumulator of its own, on the machine of its rows, and `merge` adds the accumulator of the next part.
    """

    @abstractmethod
    def update(self, rows: Any, targets: Any, weights: Any) -> None:
        """Add a batch; its memory may be overwritten later."""

    @abstractmethod
    def merge(self, later: Self) -> None:
        """Add the accumulator of the rows that follow; `later` is not used again."""

    @property
    @abstractmethod
    def state(self) -> Any:
        """The result so far, as records, arrays and tuples of them: what a checkpoint stores."""

    @abstractmethod
    def resume(self, state: Any) -> None:
        """Set a `state`, on an accumulator that was not updated yet."""


AnyAccumulator = TypeVar("AnyFold", bound=Accumulator)


OneAccumulator = TypeVar("OneFold", bound=Accumulator)
OtherAccumulator = TypeVar("OtherFold", bound=Accumulator)


class PairAccumulator(Accumulator, Generic[OneAccumulator, OtherAccumulator]):
    """Two accumulators of the same rows."""

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
    """An accumulator around another one, with the state of the inner one.

    Attributes
    ----------
    inner : Accumulator
    """

    def __init__(self, inner: OneAccumulator):
        self.inner = inner

    def update(self, rows: Any, targets: Any, weights: Any) -> None:
        self.inner.update(rows, targets, weights)

    def merge(self, later: WrappedAccumulator[OneAccumulator]) -> None:
        self.inner.merge(later.inner)

    @property
    def state(self) -> Any:
        return self.inner.state

    def resume(self, state: Any) -> None:
        self.inner.resume(state)


class CountingAccumulator(WrappedAccumulator[OneAccumulator]):
    """An accumulator that reports the number of rows of each batch."""

    def __init__(self, inner: OneAccumulator, advance: Callable[[int], None]):
        super().__init__(inner)
        self._advance = advance

    def update(self, rows: Any, targets: Any, weights: Any) -> None:
        super().update(rows, targets, weights)
        self._advance(rows.shape[0])


@runtime_checkable
class RowSource(Protocol):
    """Rows with a way of their own to make a pass: in parts on other machines, or with checkpoints."""

    def accumulate(self, start: Callable[[int], AnyAccumulator]) -> AnyAccumulator:
        """The accumulator after all rows; ``start(first_row)`` makes an empty one for rows from `first_row` on."""
        ...


def accumulate(
    rows: Iterable[tuple[Any, Any, Any]] | RowSource, start: Callable[[int], AnyAccumulator]
) -> AnyAccumulator:
    """One pass over `rows`, batches or a `RowSource`: the accumulator after all of them."""
    if isinstance(rows, RowSource):
        return rows.accumulate(start)
    accumulator = start(0)
    for batch in rows:
        accumulator.update(*batch)
    return accumulator
