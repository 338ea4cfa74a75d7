"""The features of a stream of batches, for solvers that go through it several times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from phimap.learn.data.batches import Batch
from phimap.learn.data.blocks import FeatureBlock
from phimap.ops import Array

#: Features (r, m) with their targets (r, t) and what the rows count (r,).
WeightedBlock = tuple[FeatureBlock, np.ndarray, np.ndarray]


class FeatureStream:
    """Blocks of features, targets and weights of batches; the first are kept in memory, the others formed anew.

    Parameters
    ----------
    batches : iterable of (X, y, weights)
        Iterable once a pass, the same each time.
    mapped : callable
        ``mapped(X, y, weights)`` gives the block of features, the targets (r, t) and what the rows count (r,).
    memory : int
        Bytes that features kept may take. No number depends on it.
    visit : callable
        ``visit(X, y, weights)`` sees every batch of the first pass.

    Notes
    -----
    **Cost.** Features that fit are always kept: to keep a number costs one copy, 0.6 ns of one core, and saves forming
    it again in every further pass, 1.4 ns for the cheapest, Fourier features of a few columns. These take one to eleven
    times as long to form as both products of a pass with them (`benchmarks/losses.py`).
    """

    def __init__(
        self,
        batches: Iterable[Batch],
        mapped: Callable[[Array, Any, np.ndarray | None], WeightedBlock],
        memory: int,
        *,
        visit: Callable[[Array, Any, np.ndarray | None], None],
    ):
        self._batches, self._mapped, self._left, self._visit = batches, mapped, memory, visit
        self._kept: list[WeightedBlock] = []
        self._n_batches: int | None = None

    def __iter__(self) -> Iterator[WeightedBlock]:
        if self._n_batches == len(self._kept):
            yield from self._kept
            return
        index = -1
        for index, batch in enumerate(self._batches):
            if self._n_batches is None:
                self._visit(*batch)
            if index < len(self._kept):
                yield self._kept[index]
                continue
            block, targets, weights = self._mapped(*batch)
            size = block.shape[0] * block.shape[1] * block.dtype.itemsize
            if index == len(self._kept) and size <= self._left:
                self._left -= size
                # A copy: the features formed next overwrite the buffer.
                block = block.rows(np.arange(block.shape[0]))
                self._kept.append((block, targets, weights))
            yield block, targets, weights
        self._n_batches = index + 1
