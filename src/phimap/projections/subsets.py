"""Stored directions with few non-zero entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from phimap.ops import Array, Ops
from phimap.ops.primitives.sparse_product import sparse_product
from phimap.projections.base import ProjectionRecord
from phimap.records import of_floats, of_indices, of_number

# Number of directions in a block: a block of 256 rows then takes 1 MB in float32, the size of an L2 cache.
_BLOCK = 1024


@dataclass(frozen=True)
class SubsetRecord(ProjectionRecord):
    """Directions with q non-zero entries each.

    Attributes
    ----------
    n_features : int
    columns : ndarray of intp, shape (q, n_directions)
        Columns of the non-zero entries of each direction.
    entries : ndarray of shape (q, n_directions)
        Values of the non-zero entries.
    """

    n_features: int = field(metadata=of_number(length="d"))
    columns: np.ndarray = field(metadata=of_indices("q", "s", below="d"))
    entries: np.ndarray = field(metadata=of_floats("q", "s"))

    @property
    def n_directions(self) -> int:
        return self.columns.shape[1]

    @property
    def n_flops(self) -> int:
        return 2 * self.columns.size

    @property
    def scratch_width(self) -> int:
        return self.n_features + min(_BLOCK, self.n_directions)

    def blocks(self, ops: Ops, X: Array) -> Iterator[tuple[slice, Array]]:
        X = ops.dense(X)
        for first in range(0, self.n_directions, _BLOCK):
            some = slice(first, min(first + _BLOCK, self.n_directions))
            yield some, sparse_product(ops, X, self.columns[:, some], self.entries[:, some])
