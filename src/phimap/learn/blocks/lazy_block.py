"""Features that are computed anew for every product, for rows whose features would not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from phimap.learn.blocks.blocks import FeatureBlock, Features
from phimap.learn.blocks.triangle import BlockTriangle
from phimap.ops import Array, ops_for


class LazyFeatureBlock(FeatureBlock):
    """Rows in place of their features, which every product computes anew, a few rows at a time.

    It serves validation rows if their features would take more memory than the solver.

    Parameters
    ----------
    X : array, CSR matrix or tensor of shape (r, d)
    form : callable
        ``form(X)`` returns the block of features of some rows; the next call may overwrite it.
    width : int
        Number of features m.
    height : int
        Rows at a time.
    """

    def __init__(self, X: Array, form: Callable[[Array], FeatureBlock], width: int, height: int):
        self._X, self._form, self._width, self._height = X, form, width, height

    @property
    def features(self) -> Features:  # pyright: ignore[reportIncompatibleVariableOverride]
        """All features, computed at once."""
        return self.to_host()

    @property
    def shape(self) -> tuple[int, int]:
        return self._X.shape[0], self._width

    @property
    def dtype(self) -> np.dtype:
        return ops_for(self._X).dtype

    def add_gram(self, gram: BlockTriangle, sign: int, n_jobs: int | None) -> None:
        for _, block in self._blocks():
            block.add_gram(gram, sign, n_jobs)

    def cross_products(
        self, Y: np.ndarray, n_jobs: int | None, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        cross, sums = np.zeros((self._width, Y.shape[1])), np.zeros(self._width)
        for part, block in self._blocks():
            found = block.cross_products(Y[part], n_jobs, None if weights is None else weights[part])
            cross += found[0]
            sums += found[1]
        return cross, sums

    def times(self, W: np.ndarray, n_jobs: int | None) -> np.ndarray:
        return np.concatenate([block.times(W, n_jobs) for _, block in self._blocks()])

    def gram_times(self, V: np.ndarray, weights: np.ndarray, n_jobs: int | None) -> np.ndarray:
        image = np.zeros((self._width, V.shape[1]))
        for part, block in self._blocks():
            image += block.gram_times(V, weights[part], n_jobs)
        return image

    def columns(self, index: np.ndarray) -> FeatureBlock:
        return type(self).stacked([block.columns(index).host_copy() for _, block in self._blocks()])

    def rows(self, index: np.ndarray) -> FeatureBlock:
        return LazyFeatureBlock(self._X[index], self._form, self._width, self._height)

    def to_dense(self) -> FeatureBlock:
        return self.stacked([block.to_dense().host_copy() for _, block in self._blocks()])

    @classmethod
    def stacked(cls, blocks: Sequence[FeatureBlock]) -> FeatureBlock:
        return type(first := blocks[0].to_dense()).stacked([first, *(block.to_dense() for block in blocks[1:])])

    def _blocks(self) -> Iterator[tuple[slice, FeatureBlock]]:
        """Features of successive rows, with the slice of these rows."""
        for start in range(0, self._X.shape[0], self._height):
            part = slice(start, start + self._height)
            yield part, self._form(self._X[part])
