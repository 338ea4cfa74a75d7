"""Base classes of maps whose features are signed indicators of cells of random partitions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy import sparse

from phimap._validation import check_integer
from phimap.features.base import FeatureMap
from phimap.ops import Array, Ops
from phimap.ops.primitives.partitions import columns_of, signs_of, write_cells
from phimap.random_map import MapRecord, run_tiles
from phimap.records import of_entries, of_number


@dataclass(frozen=True)
class PartitionRecord(MapRecord):
    """Independent random partitions of space. The cells of a partition are hashed to its own columns.

    Attributes
    ----------
    keys : ndarray of uint64, shape (n_partitions,)
        Seeds of the hashes of the partitions.
    n_components : int
        Total number of columns of all partitions.
    columns_per_partition : int
        Number of columns of each partition; the last one may have fewer.
    sparse_output : bool
        Whether learners should store the features as CSR matrices.
    """

    keys: np.ndarray = field(metadata=of_entries("word", "t"))
    n_components: int = field(metadata=of_number(length="m"))
    columns_per_partition: int = field(metadata=of_number(least=1))
    sparse_output: bool

    bounded = True

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.keys.dtype == np.uint64, "keys without signs"
        yield len(self.keys) == n_partitions(self.n_components, self.columns_per_partition), "a key for each partition"

    @abstractmethod
    def cells(self, ops: Ops, rows: np.ndarray) -> np.ndarray:
        """Return random numbers uint64 (r, n_partitions) of the cells that contain float64 `rows` (r, n_features)."""

    def bind(self, ops: Ops) -> Self:
        """Return the record itself, because cells are always computed on the host in float64."""
        return self

    @property
    def peak(self) -> float:
        """The magnitude of the features that are not zero."""
        return len(self.keys) ** -0.5

    @property
    def scratch_width(self) -> int:
        return 2 * self.n_features + self.n_components + 2 * len(self.keys)

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        cells = self._cells(ops, X)
        write_cells(ops, cells, self.columns_per_partition, self.n_components, self.peak, out, first)

    def compact_features(self, ops: Ops, X: Array, n_jobs: int | None) -> sparse.csr_array | None:
        return self.to_csr(ops, X, n_jobs) if self.sparse_output else None

    def to_csr(self, ops: Ops, X: Array, n_jobs: int | None) -> sparse.csr_array:
        """Features of all rows of `X` as a CSR matrix on the host, computed tile by tile."""
        shape = (X.shape[0], len(self.keys))
        columns, values = np.empty(shape, np.int32), np.empty(shape, ops.dtype)

        def find(tile: slice) -> None:
            cells = self._cells(ops, ops.rows(X, tile.start, tile.stop))
            columns[tile] = columns_of(cells, self.columns_per_partition, self.n_components)
            values[tile] = signs_of(cells) * self.peak

        run_tiles(find, self, ops, X.shape[0], n_jobs)
        # SciPy stores both index arrays in one type, the wider of the two, so `bounds` is int64 only if it must be.
        bounds = shape[1] * np.arange(shape[0] + 1, dtype=np.int32 if columns.size < 2**31 else np.int64)
        return sparse.csr_array((values.ravel(), columns.ravel(), bounds), (shape[0], self.n_components))

    def truncated(self, n_components: int) -> tuple[np.ndarray, float] | None:
        kept, rest = divmod(n_components, self.columns_per_partition)
        # A partition is kept as a whole, because cells that are hashed to dropped columns would lose their features.
        return None if rest else (np.arange(n_components), (len(self.keys) / kept) ** 0.5)

    def _cells(self, ops: Ops, X: Array) -> np.ndarray:
        """Numbers uint64 (r, n_partitions) of the cells that contain the rows of `X`."""
        return self.cells(ops, np.asarray(ops.to_host(ops.dense(X)), np.float64))


class PartitionFeatures(FeatureMap):
    """Base class of maps of random partitions, whose features are returned as dense or as CSR matrices."""

    record_: PartitionRecord
    columns_per_partition: int
    sparse_output: bool

    def _check_columns(self) -> int:
        """Check the parameters that all maps of partitions have, and return the number of partitions."""
        if not isinstance(self.sparse_output, bool | np.bool_):
            raise TypeError(f"`sparse_output` must be True or False, got {self.sparse_output!r}.")
        each = check_integer("columns_per_partition", self.columns_per_partition, least=1)
        return n_partitions(self.n_components, each)

    def _row_bits(self, ops: Ops) -> int:
        if not self.sparse_output:
            return super()._row_bits(ops)
        return 8 * len(self.record_.keys) * (ops.dtype.itemsize + 4)

    def _features(self, record: PartitionRecord, ops: Ops, X: Array) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return record.to_csr(ops, X, self.n_jobs) if self.sparse_output else super()._features(record, ops, X)


def n_partitions(n_components: int, each: int) -> int:
    """Number of partitions with `each` columns; the last one has the remaining columns."""
    return -(-n_components // each)


def drawn_keys(rng: np.random.Generator, n: int) -> np.ndarray:
    """Keys uint64 (n,). A longer array of keys begins with the shorter one."""
    return rng.integers(2**64, size=n, dtype=np.uint64)
