"""The features of a stream of batches, for solvers that go through it several times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, repeat
from typing import Any

import numpy as np

from phimap.learn.blocks.blocks import WeightedBlock
from phimap.learn.rows.accumulator import AnyAccumulator, RowSource
from phimap.learn.rows.batches import Batch
from phimap.learn.rows.checkpoint import CheckpointedRows
from phimap.learn.rows.extreme_rows import ExtremeRows
from phimap.learn.rows.mapped_rows import Mapped, MappedRows
from phimap.ops import Array


class FeatureStream:
    """Blocks of features, targets and weights of batches; those that fit are kept in memory, the others formed anew.

    Parameters
    ----------
    batches : iterable of (X, y, weights), or Folding
        Gone through once a pass, the same each time.
    mapping : callable
        ``mapping()`` gives a function from rows to features, with memory of its own.
    memory : int
        Bytes that features kept may take; of rows that are elsewhere none are kept. No number depends on it.
    outlying : OutlyingRows
        Sees the rows of the first pass.
    advance : callable, optional
        ``advance(n_rows)`` is called for every batch that is here.

    Notes
    -----
    **Cost.** Features that fit are always kept: to keep a number costs one copy, 0.6 ns of one core, and saves forming
    it again in every further pass, 1.4 ns for the cheapest, Fourier features of a few columns. These take one to eleven
    times as long to form as both products of a pass with them (`benchmarks/losses.py`).
    """

    def __init__(
        self,
        batches: Iterable[Batch] | RowSource,
        mapping: Callable[[], Mapped],
        memory: int,
        outlying: ExtremeRows,
        advance: Callable[[int], None] = lambda rows: None,
    ):
        self._batches, self._mapping, self._left, self._outlying = batches, mapping, memory, outlying
        self._advance = advance
        self._kept: dict[int, WeightedBlock] = {}
        self._n_batches: int | None = None
        self._seen = False

    def fold(self, start: Callable[[int], AnyAccumulator]) -> AnyAccumulator:
        """One pass."""
        first, outlying = not self._seen, self._outlying

        def begin(first_row: int, mapped: Mapped) -> MappedRows:
            return MappedRows(mapped, start(first_row), outlying.begun(first_row) if first else None)

        if isinstance(self._batches, Iterable):
            found = self._fold_here(self._batches, begin)
        else:
            # This has a name of its own, since what begins a part is sent to its rows.
            mapping = self._mapping
            found = self._batches.fold(lambda first_row: begin(first_row, mapping()))
        if found.outlying is not None:
            outlying.join(found.outlying)
        self._seen = True
        return found.fold

    def _fold_here(self, batches: Iterable[Batch], begin: Callable[[int, Mapped], MappedRows]) -> MappedRows:
        blocks = _Blocks(self._mapping(), self._block)

        def rows_from(n: int) -> Iterator[Any]:
            blocks.index = n
            if self._n_batches is not None and self._n_batches == len(self._kept):
                return repeat((None, None, None), self._n_batches - n)
            return islice(iter(batches), n, None)

        fold = begin(0, blocks)
        if isinstance(batches, CheckpointedRows):
            fold = batches.fold_of(rows_from, fold)
        else:
            for batch in rows_from(0):
                fold.update(*batch)
        # A pass of which the fold was known has gone through nothing.
        self._n_batches = blocks.index or self._n_batches
        return fold

    def _block(self, index: int, mapped: Mapped, batch: Batch) -> WeightedBlock:
        """The features of the batch at an index, kept or formed."""
        block = self._kept_block(index, mapped, batch)
        self._advance(block[0].shape[0])
        return block

    def _kept_block(self, index: int, mapped: Mapped, batch: Batch) -> WeightedBlock:
        if index in self._kept:
            return self._kept[index]
        block, targets, weights = mapped(*batch)
        size = block.shape[0] * block.shape[1] * block.dtype.itemsize
        if size <= self._left:
            self._left -= size
            # A copy: the features formed next overwrite the buffer.
            block = block.rows(np.arange(block.shape[0]))
            self._kept[index] = block, targets, weights
        return block, targets, weights


class _Blocks:
    """What makes features of batches in their order.

    Attributes
    ----------
    index : int
        Of the batch that comes next.
    """

    def __init__(self, mapped: Mapped, block: Callable[[int, Mapped, Batch], WeightedBlock]):
        self._mapped, self._block, self.index = mapped, block, 0

    def __call__(self, rows: Array, targets: Any, weights: np.ndarray | None) -> WeightedBlock:
        self.index += 1
        return self._block(self.index - 1, self._mapped, (rows, targets, weights))
