"""A random sample of the rows of a stream, in memory: where a loss is minimised before all rows are gone through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np

from phimap._random import row_uniforms
from phimap.learn.blocks.blocks import FeatureBlock, WeightedBlock, feature_block
from phimap.learn.rows.accumulator import Accumulator

# Rows at the most: enough that the held-out loss tells alphas apart whose losses differ by a percent.
_MOST_ROWS = 16384
#: The sample is held out a fifth at a time: every fifth where the rows are few, else one of them.
FOLDS, _FEW_ROWS = 5, 4096


class LossSample(Accumulator):
    """A random sample of the rows of a stream, cut into folds, in memory.

    Parameters
    ----------
    n : int
        Rows of the stream.
    memory : int
        Bytes that the sample's features may take.
    seed : int
    first_row : int, default=0
        The row of the stream with which it begins.
    """

    def __init__(self, n: int, memory: int, seed: int, first_row: int = 0):
        self._n, self._memory, self._seed, self._n_seen = n, memory, seed, first_row
        self.n_rows = 0
        self._blocks: list[tuple[FeatureBlock, np.ndarray, np.ndarray, np.ndarray]] = []

    def update(self, rows: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> None:
        """Take a random share of some rows."""
        row_bytes = rows.shape[1] * rows.dtype.itemsize
        share = min(_MOST_ROWS, self._memory // row_bytes) / self._n
        # The sample is decided by the index in the stream, and so is the fold.
        uniforms = row_uniforms(self._n_seen, rows.shape[0], self._seed)
        index = np.flatnonzero(uniforms < share)
        self._n_seen += rows.shape[0]
        self.n_rows += index.size
        if index.size:
            folds = (np.floor(uniforms[index] / share * FOLDS * 1024) % FOLDS).astype(np.intp)
            self._blocks.append((rows.rows(index), targets[index], weights[index], folds))

    def merge(self, later: LossSample) -> None:
        self._n_seen, self.n_rows = later._n_seen, self.n_rows + later.n_rows
        self._blocks += later._blocks

    @property
    def state(self) -> tuple[Any, ...]:
        parts = tuple((block.features, *others) for block, *others in self._blocks)
        return self._n_seen, self.n_rows, parts

    def resume(self, state: tuple[Any, ...]) -> None:
        self._n_seen, self.n_rows, parts = state
        self._blocks = [(feature_block(features), *others) for features, *others in parts]

    @property
    def share(self) -> float:
        """Share of the stream's rows; 1 where it is all of them."""
        return self.n_rows / self._n

    @property
    def folds(self) -> list[int]:
        """Folds by which to judge: those that have rows, and leave some to the others."""
        counts = np.bincount(np.concatenate([np.empty(0, np.intp), *(part[3] for part in self._blocks)]))
        usable = [fold for fold, count in enumerate(counts) if 0 < count < self.n_rows]
        return usable if self.n_rows <= _FEW_ROWS else usable[:1]

    def with_targets(self, change: Callable[[np.ndarray], np.ndarray]) -> LossSample:
        """The same rows, whose targets (r, t) are changed."""
        other = copy(self)
        other._blocks = [(Z, change(targets), weights, folds) for Z, targets, weights, folds in self._blocks]
        return other

    @property
    def training_share(self) -> float:
        """About the share of the sample's rows that a fold leaves."""
        return 1 - 1 / FOLDS

    def rows(self) -> list[WeightedBlock]:
        """All rows."""
        return [(block, targets, weights) for block, targets, weights, _ in self._blocks]

    def part(self, fold: int, *, held_out: bool) -> list[WeightedBlock]:
        """The rows of a fold, or the others."""
        return list(self._part(fold, held_out))

    def _part(self, fold: int, held_out: bool) -> Iterator[WeightedBlock]:
        for block, targets, weights, folds in self._blocks:
            index = np.flatnonzero((folds == fold) == held_out)
            if index.size:
                yield block.rows(index), targets[index], weights[index]
