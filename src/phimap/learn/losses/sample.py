"""A random sample of the rows of a stream, in memory. Alpha is chosen on it, and minimisations begin on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap._random import row_uniforms
from phimap.learn.blocks.blocks import FeatureBlock, WeightedBlock, feature_block
from phimap.learn.rows.accumulator import Accumulator

# Largest number of rows of a sample. The held-out loss of so many rows separates alphas whose losses differ by a
# percent.
_MOST_ROWS = 16384
#: Number of folds, and largest number of rows for which every fold is held out in turn. With more rows one fold is held
#: out.
FOLDS, _FEW_ROWS = 5, 4096


class LossSample(Accumulator):
    """A random sample of the rows of a stream, in memory and divided into folds.

    Parameters
    ----------
    n : int
        Rows of the stream.
    memory : int
        Bytes that the sample's features may take.
    seed : int
    first_row : int, default=0
        The row of the stream with which the sample begins.
    """

    def __init__(self, n: int, memory: int, seed: int, first_row: int = 0):
        self._n, self._memory, self._seed, self._n_seen = n, memory, seed, first_row
        self.n_rows = 0
        self._blocks: list[tuple[FeatureBlock, np.ndarray, np.ndarray, np.ndarray]] = []

    def update(self, rows: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> None:
        """Add a random part of the rows of a block."""
        row_bytes = rows.shape[1] * rows.dtype.itemsize
        share = min(_MOST_ROWS, self._memory // row_bytes) / self._n
        # The index in the stream determines whether a row is sampled, and its fold.
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
        """Share of the stream's rows that are in the sample."""
        return self.n_rows / self._n

    @property
    def folds(self) -> list[int]:
        """Folds to hold out. Neither such a fold nor the rest of the sample is empty."""
        counts = np.bincount(np.concatenate([np.empty(0, np.intp), *(part[3] for part in self._blocks)]))
        usable = [fold for fold, count in enumerate(counts) if 0 < count < self.n_rows]
        return usable if self.n_rows <= _FEW_ROWS else usable[:1]

    def rows(self, fold: int | None = None, *, held_out: bool = False) -> list[WeightedBlock]:
        """The rows outside of a fold, or with `held_out` the rows of the fold; all rows if `fold` is None."""
        if fold is None:
            return [(block, targets, weights) for block, targets, weights, _ in self._blocks]
        parts = []
        for block, targets, weights, folds in self._blocks:
            index = np.flatnonzero((folds == fold) == held_out)
            if index.size:
                parts.append((block.rows(index), targets[index], weights[index]))
        return parts
