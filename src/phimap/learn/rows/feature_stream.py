"""Features of training rows, which are computed in a pass and streamed to solvers that make several passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, repeat
from typing import Any

import numpy as np

from phimap.learn.blocks.blocks import FeatureBlock, WeightedBlock
from phimap.learn.rows.accumulator import Accumulator, AnyAccumulator, RowSource
from phimap.learn.rows.batches import Batch
from phimap.learn.rows.checkpoint import CheckpointedRows
from phimap.learn.rows.samples import ExtremeRows
from phimap.ops import Array

#: Maps rows (r, d), targets and weights to a block of features, encoded targets (r, t) and weights (r,).
Mapping = Callable[[Array, Any, np.ndarray | None], tuple[FeatureBlock, np.ndarray, Any]]


class MappedRows(Accumulator):
    """An accumulator that maps rows to features for an inner accumulator, and collects the extreme rows.

    Parameters
    ----------
    mapping : Mapping
    inner : Accumulator
        Accumulator of blocks of features.
    extreme : ExtremeRows, optional
        Collection updated with all rows; its seed determines the keys of the rows.
    resumed : callable, optional
        ``resumed(n_rows)`` is called with the number of rows of a restored state.
    skipped_keys : ndarray of shape (r,), optional
        Keys of rows that `inner` does not get.
    """

    def __init__(
        self,
        mapping: Mapping,
        inner: Any,
        extreme: ExtremeRows | None = None,
        resumed: Callable[[int], None] | None = None,
        *,
        skipped_keys: np.ndarray | None = None,
    ):
        self._mapping, self.inner, self.extreme, self._resumed = mapping, inner, extreme, resumed
        self._skipped_keys = skipped_keys

    def update(self, rows: Array, targets: Any, weights: np.ndarray | None) -> None:
        self._update_inner(rows, targets, weights)
        if self.extreme is not None:
            self.extreme.update(rows, targets, weights)

    def _update_inner(self, rows: Array, targets: Any, weights: np.ndarray | None) -> None:
        """Map the rows that are not skipped, and add their features."""
        if self._skipped_keys is not None and self.extreme is not None:
            keys = self.extreme.keys_of(self.extreme.n_seen, rows.shape[0])
            kept = np.flatnonzero(~np.isin(keys, self._skipped_keys))
            if not kept.size:
                return
            rows, targets = rows[kept], targets[kept]
            weights = None if weights is None else weights[kept]
        self.inner.update(*self._mapping(rows, targets, weights))

    def merge(self, later: MappedRows) -> None:
        self.inner.merge(later.inner)
        if self.extreme is not None and later.extreme is not None:
            self.extreme.join(later.extreme)

    @property
    def state(self) -> tuple[Any, ExtremeRows | None]:
        return self.inner.state, self.extreme

    def resume(self, state: tuple[Any, ExtremeRows | None]) -> None:
        self.inner.resume(state[0])
        self.extreme = state[1]
        if self._resumed is not None and self.extreme is not None:
            self._resumed(self.extreme.n_seen)


@dataclass
class FeatureStream:
    """Blocks of features, targets and weights of the batches.

    Blocks are kept as far as memory allows; others are computed again.

    Attributes
    ----------
    batches : iterable of (X, y, weights), or RowSource
        The same rows in each pass.
    mapping : callable
        ``mapping()`` gives a function from rows to features, with its own buffer.
    memory : int
        Bytes for kept features; results do not depend on it. Features of rows on the workers of a cluster are not kept.
    extreme : ExtremeRows
        Collects the extreme rows in the first pass.
    advance : callable
        ``advance(n_rows)`` is called for every batch.

    Notes
    -----
    **Cost.** Features are kept whenever they fit. Keeping a number costs one copy, which takes 0.6 ns of one core. It
    saves the computation of the number in each further pass, which takes 1.4 ns for the cheapest features, Fourier
    features of few columns. The computation of Fourier features takes one to eleven times as long as the two matrix
    products that a pass makes with them (`benchmarks/losses.py`).
    """

    batches: Iterable[Batch] | RowSource
    mapping: Callable[[], Mapping]
    memory: int
    extreme: ExtremeRows
    advance: Callable[[int], None] = lambda rows: None
    _kept: dict[int, WeightedBlock] = field(default_factory=dict)
    _n_batches: int | None = None
    _next: int = 0
    _first_pass: bool = True

    def accumulate(
        self, start: Callable[[int], AnyAccumulator], *, skipped_keys: np.ndarray | None = None
    ) -> AnyAccumulator:
        """Make one pass; in the first pass, the rows with `skipped_keys` are skipped."""
        first, extreme = self._first_pass, self.extreme

        def begin(first_row: int, mapping: Mapping, resumed: Callable[[int], None] | None = None) -> MappedRows:
            own = extreme.begun(first_row) if first else None
            return MappedRows(mapping, start(first_row), own, resumed, skipped_keys=skipped_keys)

        if isinstance(self.batches, Iterable):
            found = self._accumulate_here(self.batches, begin)
        else:
            # Workers receive the function below, so it refers to the mapping only, not to the stream.
            mapping = self.mapping
            found = self.batches.accumulate(lambda first_row: begin(first_row, mapping()))
        if found.extreme is not None:
            extreme.join(found.extreme)
        self._first_pass = False
        return found.inner

    def _accumulate_here(self, batches: Iterable[Batch], begin: Callable[..., MappedRows]) -> MappedRows:
        mapping, self._next = self.mapping(), 0

        def rows_from(n: int) -> Iterator[Any]:
            self._next = n
            if self._n_batches is not None and self._n_batches == len(self._kept):
                return repeat((None, None, None), self._n_batches - n)
            return islice(iter(batches), n, None)

        rows = begin(0, partial(self._block, mapping), self.advance)
        if isinstance(batches, CheckpointedRows):
            rows = batches.accumulate_from(rows_from, rows)
        else:
            for batch in rows_from(0):
                rows.update(*batch)
        # If a checkpoint contains the whole pass, no batch is read, and `_next` stays 0.
        self._n_batches = self._next or self._n_batches
        return rows

    def _block(self, mapping: Mapping, *batch: Any) -> WeightedBlock:
        """Return the features, targets and weights of the next batch.

        Features are kept if they fit the remaining memory.
        """
        index, self._next = self._next, self._next + 1
        block, targets, weights = self._kept[index] if index in self._kept else mapping(*batch)
        self.advance(block.shape[0])
        size = block.shape[0] * block.shape[1] * block.dtype.itemsize
        if index not in self._kept and size <= self.memory:
            self.memory -= size
            # The block is copied, because the features of the next batch overwrite the buffer.
            block = block.rows(np.arange(block.shape[0]))
            self._kept[index] = block, targets, weights
        return block, targets, weights
