"""The features of a stream of batches, for solvers that go through it several times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from phimap.learn.data.blocks import FeatureBlock
from phimap.ops import Array


class FeatureStream:
    """Blocks of features, targets and weights of batches; the first are kept in memory, the others formed anew.

    Parameters
    ----------
    batches : iterable of (X, y)
        Iterable once a pass, the same each time.
    mapped : callable
        ``mapped(X, y)`` gives the block of features and the targets (r, t).
    memory : int
        Bytes that features kept may take. No number depends on it.
    """

    def __init__(
        self,
        batches: Iterable[tuple[Array, Any]],
        mapped: Callable[[Array, Any], tuple[FeatureBlock, np.ndarray]],
        memory: int,
    ):
        self._batches, self._mapped, self._left = batches, mapped, memory
        self._kept: list[tuple[FeatureBlock, np.ndarray, np.ndarray]] = []
        self._n_batches: int | None = None

    def __iter__(self) -> Iterator[tuple[FeatureBlock, np.ndarray, np.ndarray]]:
        if self._n_batches == len(self._kept):
            yield from self._kept
            return
        index = -1
        for index, (X, y) in enumerate(self._batches):
            if index < len(self._kept):
                yield self._kept[index]
                continue
            block, targets = self._mapped(X, y)
            weights = np.ones(len(targets))
            size = block.shape[0] * block.shape[1] * block.dtype.itemsize
            if index == len(self._kept) and size <= self._left:
                self._left -= size
                # A copy: the features formed next overwrite the buffer.
                block = block.rows(np.arange(block.shape[0]))
                self._kept.append((block, targets, weights))
            yield block, targets, weights
        self._n_batches = index + 1
