"""Base class of records whose directions come in blocks, each computed by one fast transform."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from phimap.ops import Array, Ops
from phimap.projections.base import ProjectionRecord

# Largest number of directions that one call computes, unless a single block has more. Blocks of narrow rows are small,
# and several of them are computed together to save call overhead.
TOGETHER = 1024


class BlockRecord(ProjectionRecord):
    """Blocks of directions of equal size; the last block may be incomplete.

    Attributes
    ----------
    input_scale : ndarray of shape (n_features,)
        Factors of the columns: the inverse length scales of the law.
    scale : ndarray of shape (n_directions,)
        Factors of the directions.
    """

    input_scale: np.ndarray
    scale: np.ndarray

    @property
    def n_features(self) -> int:
        return self.input_scale.shape[0]

    @property
    def n_directions(self) -> int:
        return self.scale.shape[0]

    @property
    @abstractmethod
    def block_size(self) -> int:
        """Number of directions in a block."""

    @property
    def n_blocks(self) -> int:
        """Number of blocks needed for `n_directions` directions."""
        return -(-self.n_directions // self.block_size)

    @property
    @abstractmethod
    def n_stored(self) -> int:
        """Number of blocks in the stored arrays."""

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.n_stored == -(-self.n_directions // self.block_size), "as many blocks as its directions take"

    @property
    def scratch_width(self) -> int:
        return self.n_features + max(self.block_size, min(TOGETHER, self.n_directions))

    def blocks(self, ops: Ops, X: Array) -> Iterator[tuple[slice, Array]]:
        prepared = self._prepared(ops, X)
        n_blocks, size, together = self.n_blocks, self.block_size, max(1, TOGETHER // self.block_size)
        for first in range(0, n_blocks, together):
            some = slice(first, min(first + together, n_blocks))
            columns = slice(first * size, min(some.stop * size, self.n_directions))
            yield columns, self._values(ops, prepared, some, columns)

    def _prepared(self, ops: Ops, X: Array) -> Any:
        """Return the rows of `X` in the form that all blocks use. By default they are scaled and dense."""
        return ops.scale_columns(ops.dense(X), self.input_scale)

    @abstractmethod
    def _values(self, ops: Ops, X: Any, some: slice, columns: slice) -> Array:
        """Values (r, k) of the blocks `some`, which hold the directions `columns`; `X` comes from `_prepared`."""
