"""The features of a stream of batches, for solvers that go through it several times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from phimap.learn.data.batches import Batch
from phimap.learn.data.blocks import WeightedBlock
from phimap.learn.data.folds import AnyFold, Folding
from phimap.learn.data.mapped_rows import Mapped, MappedRows
from phimap.learn.data.outlying import OutlyingRows


class FeatureStream:
    """Blocks of features, targets and weights of batches; the first are kept in memory, the others formed anew.

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

    Notes
    -----
    **Cost.** Features that fit are always kept: to keep a number costs one copy, 0.6 ns of one core, and saves forming
    it again in every further pass, 1.4 ns for the cheapest, Fourier features of a few columns. These take one to eleven
    times as long to form as both products of a pass with them (`benchmarks/losses.py`).
    """

    def __init__(
        self,
        batches: Iterable[Batch] | Folding,
        mapping: Callable[[], Mapped],
        memory: int,
        outlying: OutlyingRows,
    ):
        self._batches, self._mapping, self._left, self._outlying = batches, mapping, memory, outlying
        self._kept: list[WeightedBlock] = []
        self._n_batches: int | None = None
        self._seen = False

    def fold(self, start: Callable[[int], AnyFold]) -> AnyFold:
        """One pass."""
        if isinstance(self._batches, Folding):
            return self._fold_elsewhere(self._batches, start)
        fold = start(0)
        for block in self:
            fold.update(*block)
        return fold

    def _fold_elsewhere(self, rows: Folding, start: Callable[[int], AnyFold]) -> AnyFold:
        first, mapping, outlying = not self._seen, self._mapping, self._outlying

        def begin(first_row: int) -> MappedRows:
            return MappedRows(mapping(), start(first_row), outlying.begun(first_row) if first else None)

        found = rows.fold(begin)
        if found.outlying is not None:
            outlying.join(found.outlying)
        self._seen = True
        return found.fold

    def __iter__(self) -> Iterator[WeightedBlock]:
        assert not isinstance(self._batches, Folding)
        if self._n_batches == len(self._kept):
            yield from self._kept
            return
        index, mapped = -1, self._mapping()
        for index, batch in enumerate(self._batches):
            if self._n_batches is None:
                self._outlying.update(*batch)
            if index < len(self._kept):
                yield self._kept[index]
                continue
            block, targets, weights = mapped(*batch)
            size = block.shape[0] * block.shape[1] * block.dtype.itemsize
            if index == len(self._kept) and size <= self._left:
                self._left -= size
                # A copy: the features formed next overwrite the buffer.
                block = block.rows(np.arange(block.shape[0]))
                self._kept.append((block, targets, weights))
            yield block, targets, weights
        self._n_batches = index + 1
