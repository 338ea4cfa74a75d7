"""Base classes of maps whose features take few distinct values and can be stored packed."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from phimap._validation import check_choice
from phimap.features.base import FeatureMap
from phimap.ops import Array, Ops
from phimap.packed import PackedArray
from phimap.random_map import MapRecord, run_tiles


class PackableRecord(MapRecord):
    """Base class of records of maps whose features take few distinct values.

    Attributes
    ----------
    packed : bool
        Whether learners should store the features packed.
    """

    packed: bool

    bounded = True

    @property
    @abstractmethod
    def code(self) -> tuple[tuple[float, ...], float, float]:
        """Weights of the bit planes, offset and scale, see `PackedArray`."""

    def compact_features(self, ops: Ops, X: Array, n_jobs: int | None) -> PackedArray | None:
        return pack_rows(self, ops, X, n_jobs) if self.packed else None

    @abstractmethod
    def pack(self, ops: Ops, X: Array, out: PackedArray) -> None:
        """Write the features of the rows of `X` (r, d) into `out` (r, m).

        The record must be bound to `ops`, and all bits of `out` must be 0.
        """


def pack_rows(record: PackableRecord, ops: Ops, X: Array, n_jobs: int | None = None) -> PackedArray:
    """Features of all rows of `X`, packed on the host tile by tile; `record` is bound to `ops`."""
    out = PackedArray.zeros(X.shape[0], record.n_components, *record.code, ops.dtype)
    run_tiles(lambda tile: record.pack(ops, X[tile], out[tile]), record, ops, X.shape[0], n_jobs)
    return out


class PackableFeatures(FeatureMap):
    """Base class of maps whose features can be returned as dense floats, as small integers, or packed."""

    record_: PackableRecord
    packed: bool
    output: str

    def _check_output(self) -> None:
        check_choice("output", self.output, ("float", "integer"))
        if not isinstance(self.packed, bool | np.bool_):
            raise TypeError(f"`packed` must be True or False, got {self.packed!r}.")

    @property
    def scale_(self) -> float:
        """Factor that converts the integers of ``output="integer"`` to features."""
        check_is_fitted(self)
        return self.record_.code[2]

    def _row_bits(self, ops: Ops) -> int:
        if not self.packed and self.output == "float":
            return super()._row_bits(ops)
        return self.record_.n_components * (len(self.record_.code[0]) if self.packed else 8)

    def _features(self, record: PackableRecord, ops: Ops, X: Array) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if not self.packed and self.output == "float":
            return super()._features(record, ops, X)
        packed = pack_rows(record, ops, X, self.n_jobs)
        return packed if self.packed else ops.constant(packed.to_integers())
