"""The features of a stream of batches, for solvers that make several passes over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import Any

import numpy as np

from phimap.learn.blocks.blocks import WeightedBlock
from phimap.learn.rows.accumulator import AnyAccumulator, RowSource
from phimap.learn.rows.batches import Batch
from phimap.learn.rows.checkpoint import CheckpointedRows
from phimap.learn.rows.extreme_rows import ExtremeRows
from phimap.learn.rows.mapped_rows import MappedRows, Mapping
from phimap.ops import Array


@dataclass
class FeatureStream:
    """Blocks of features, targets and weights of batches; blocks that fit are kept in memory, others formed anew.

    Attributes
    ----------
    batches : iterable of (X, y, weights), or RowSource
        The same rows in each pass.
    mapping : callable
        ``mapping()`` gives a function from rows to features, with a buffer of its own.
    memory : int
        Bytes for features that are kept; none are kept of rows on other machines. No number depends on it.
    extreme : ExtremeRows
        Collects the extreme rows in the first pass.
    advance : callable
        ``advance(n_rows)`` is called for every batch.

    Notes
    -----
    **Cost.** Features that fit are always kept: to keep a number costs one copy, 0.6 ns of one core, and saves forming
    it again in every further pass, 1.4 ns for the cheapest, Fourier features of a few columns. These take one to eleven
    times as long to form as both products of a pass with them (`benchmarks/losses.py`).
    """

    batches: Iterable[Batch] | RowSource
    mapping: Callable[[], Mapping]
    memory: int
    extreme: ExtremeRows
    advance: Callable[[int], None] = lambda rows: None
    _kept: dict[int, WeightedBlock] = field(default_factory=dict)
    _n_batches: int | None = None
    _first_pass: bool = True

    def accumulate(
        self, start: Callable[[int], AnyAccumulator], *, held_out_below: float | None = None
    ) -> AnyAccumulator:
        """One pass; rows with keys up to `held_out_below` are held out, in the first pass alone."""
        first, extreme = self._first_pass, self.extreme

        def begin(first_row: int, mapping: Mapping, resumed: Callable[[int], None] | None = None) -> MappedRows:
            own = extreme.begun(first_row) if first else None
            return MappedRows(mapping, start(first_row), own, resumed, held_out_below=held_out_below)

        if isinstance(self.batches, Iterable):
            found = self._accumulate_here(self.batches, begin)
        else:
            # Workers receive the function below: it names the mapping alone, not the stream.
            mapping = self.mapping
            found = self.batches.accumulate(lambda first_row: begin(first_row, mapping()))
        if found.extreme is not None:
            extreme.join(found.extreme)
        self._first_pass = False
        return found.inner

    def _accumulate_here(self, batches: Iterable[Batch], begin: Callable[..., MappedRows]) -> MappedRows:
        blocks = _Blocks(self.mapping(), self._block)

        def rows_from(n: int) -> Iterator[Any]:
            blocks.index = n
            if self._n_batches is not None and self._n_batches == len(self._kept):
                return repeat((None, None, None), self._n_batches - n)
            return islice(iter(batches), n, None)

        rows = begin(0, blocks, self.advance)
        if isinstance(batches, CheckpointedRows):
            rows = batches.accumulate_from(rows_from, rows)
        else:
            for batch in rows_from(0):
                rows.update(*batch)
        # A pass that a checkpoint has already stored reads no batch.
        self._n_batches = blocks.index or self._n_batches
        return rows

    def _block(self, index: int, mapping: Mapping, batch: Batch) -> WeightedBlock:
        """The features of the batch at an index, kept or formed."""
        block = self._kept_block(index, mapping, batch)
        self.advance(block[0].shape[0])
        return block

    def _kept_block(self, index: int, mapping: Mapping, batch: Batch) -> WeightedBlock:
        if index in self._kept:
            return self._kept[index]
        block, targets, weights = mapping(*batch)
        size = block.shape[0] * block.shape[1] * block.dtype.itemsize
        if size <= self.memory:
            self.memory -= size
            # A copy: the features formed next overwrite the buffer.
            block = block.rows(np.arange(block.shape[0]))
            self._kept[index] = block, targets, weights
        return block, targets, weights


class _Blocks:
    """The mapping of one batch after the other.

    Attributes
    ----------
    index : int
        Of the next batch.
    """

    def __init__(self, mapping: Mapping, block: Callable[[int, Mapping, Batch], WeightedBlock]):
        self._mapping, self._block, self.index = mapping, block, 0

    def __call__(self, rows: Array, targets: Any, weights: np.ndarray | None) -> WeightedBlock:
        self.index += 1
        return self._block(self.index - 1, self._mapping, (rows, targets, weights))
