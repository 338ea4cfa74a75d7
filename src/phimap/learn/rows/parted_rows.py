"""Training rows in parts that are elsewhere: each part folds where it is, and what they make is merged in a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from phimap._dask import computed, shared, task
from phimap.learn.rows.accumulator import Accumulator, AnyAccumulator
from phimap.learn.rows.batches import Batch

# Parts that are merged at a time: the sums of as many are held by one worker.
_MERGED = 8


@dataclass(frozen=True)
class PartedRows:
    """Consecutive parts of the training rows, as tasks of a Dask graph.

    A pass is one graph: a task for each part, and a tree over them whose shape depends on the number of parts alone, so
    that neither the number of workers nor the order in which tasks end changes a bit. Tasks are pure: what a worker
    that ends has lost is computed again.

    Attributes
    ----------
    parts : sequence of tuples
        Arguments of `read`, tasks among them.
    first_rows : sequence of int
        Training rows that come before each part.
    read : callable
        ``read(first_row, *part)`` gives the batches of a part, where its rows are.
    """

    parts: Sequence[tuple[Any, ...]]
    first_rows: Sequence[int]
    read: Callable[..., Iterable[Batch]]

    def accumulate(self, start: Callable[[int], AnyAccumulator]) -> AnyAccumulator:
        """One pass; of what the parts have made, only the whole comes here."""
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
    """What a pass makes of one part."""
    fold = begin(first_row)
    for batch in read(first_row, *part):
        fold.update(*batch)
    return fold.state


def _merged(begin: Callable[[int], Accumulator], states: Sequence[Any]) -> Any:
    """What consecutive parts make together."""
    # Copies, since others may ask for what was merged once more: a merge changes both sides.
    whole = _resumed(begin, deepcopy(states[0]))
    for state in states[1:]:
        whole.merge(_resumed(begin, deepcopy(state)))
    return whole.state


def _resumed(begin: Callable[[int], AnyAccumulator], state: Any) -> AnyAccumulator:
    fold = begin(0)
    fold.resume(state)
    return fold
