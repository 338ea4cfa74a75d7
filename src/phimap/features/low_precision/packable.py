"""Maps whose features take a few values only, so that they can be kept packed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from phimap._validation import check_choice, check_integer, check_samples
from phimap.config import memory_budget
from phimap.features.base import FeatureMap
from phimap.ops import Array, Ops, ops_for, run_tasks
from phimap.packed import PackedArray
from phimap.random_map import MapRecord, tile_rows


class PackableRecord(MapRecord):
    """The randomness of a map whose features take a few values only.

    Attributes
    ----------
    packed : bool
        Whether learners should keep the features packed.
    """

    packed: bool

    bounded = True

    @property
    @abstractmethod
    def code(self) -> tuple[tuple[float, ...], float, float]:
        """Weights of the planes, offset and scale: see `PackedArray`."""

    @abstractmethod
    def pack(self, ops: Ops, X: Array, out: PackedArray) -> None:
        """Write the features of the rows of `X` (r, d) into `out` (r, m), whose bits are 0; on a bound record."""


def pack_rows(record: PackableRecord, ops: Ops, X: Array, n_jobs: int | None = None) -> PackedArray:
    """Features of all rows of `X`, packed on the host tile by tile; `record` is bound to `ops`."""
    out = PackedArray.zeros(X.shape[0], record.n_components, *record.code, ops.dtype)
    rows = tile_rows(record, ops)

    def pack(start: int) -> None:
        tile = slice(start, start + rows)
        record.pack(ops, X[tile], out[tile])

    run_tasks(pack, range(0, X.shape[0], rows), n_jobs if ops.threaded else 1)
    return out


class PackableFeatures(FeatureMap):
    """Base of the maps whose features come dense, as small integers, or packed."""

    record_: PackableRecord
    packed: bool
    output: str

    def _check_output(self) -> None:
        check_choice("output", self.output, ("float", "integer"))
        if not isinstance(self.packed, bool | np.bool_):
            raise TypeError(f"`packed` must be True or False, got {self.packed!r}.")

    @property
    def scale_(self) -> float:
        """What integers are multiplied by to give features."""
        check_is_fitted(self)
        return self.record_.code[2]

    def transform(self, X: Any) -> Any:
        """Map the rows of `X`.

        Parameters
        ----------
        X : array-like, CSR matrix or torch.Tensor of shape (n_samples, n_features)

        Returns
        -------
        Z : array, or PackedArray, of shape (n_samples, n_components)
            A `PackedArray` with ``packed=True``, on the host. Else float32 for float32 input, float64 for other; with
            ``output="integer"`` int8 or int16, to be multiplied by ``scale_``.

        Raises
        ------
        MemoryError
            If the result exceeds the byte budget, before it is allocated.
        ValueError
            If `X` has another width than in `fit`, is empty or is not finite.
        """
        if not self.packed and self.output == "float":
            return super().transform(X)
        check_is_fitted(self)
        X = check_samples(self, X, reset=False)
        bits = len(self.record_.code[0]) if self.packed else 8
        n_bytes = X.shape[0] * self.record_.n_components * bits // 8
        if n_bytes > memory_budget():
            raise MemoryError(
                f"the features of {X.shape[0]} rows x {self.record_.n_components} components take "
                f"{n_bytes / 2**30:.2f} GB, over the budget of {memory_budget() / 2**30:.2f} GB. "
                "Use transform_batches(X), or raise the budget with phimap.config(memory=...)."
            )
        ops = ops_for(X)
        return self._compact(ops, pack_rows(self.record_.bind(ops), ops, X, self.n_jobs))

    def transform_batches(self, X: Any, batch_rows: int | None = None) -> Iterator[Any]:
        """Map the rows of `X` batch by batch, in order, within the byte budget.

        Parameters
        ----------
        X : array-like, CSR matrix or torch.Tensor of shape (n_samples, n_features)
        batch_rows : int, optional
            Rows of each batch but the last; by default as many as a quarter of the byte budget holds.

        Yields
        ------
        Z : array, or PackedArray, of shape (batch_rows, n_components)
        """
        if not self.packed and self.output == "float":
            yield from super().transform_batches(X, batch_rows)
            return
        check_is_fitted(self)
        X = check_samples(self, X, reset=False)
        ops = ops_for(X)
        bits = len(self.record_.code[0]) if self.packed else 8
        if batch_rows is None:
            batch_rows = max(1, 8 * memory_budget() // (4 * self.record_.n_components * bits))
        check_integer("batch_rows", batch_rows, least=1)
        bound = self.record_.bind(ops)
        for start in range(0, X.shape[0], batch_rows):
            yield self._compact(ops, pack_rows(bound, ops, X[start : start + batch_rows], self.n_jobs))

    def _compact(self, ops: Ops, Z: PackedArray) -> Any:
        return Z if self.packed else ops.constant(Z.to_integers())
