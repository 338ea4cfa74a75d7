"""A random sample of the rows of a stream."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from phimap.learn.rows.batches import CAPACITY, sample_rows
from phimap.learn.rows.kept_rows import KeptRows, WeightedRows
from phimap.ops import Array, ops_for


@dataclass
class Reservoir(KeptRows):
    """The rows with the smallest keys; the first of them, in order of their keys, are a sample too.

    Attributes
    ----------
    most_rows : int or None
        Rows to keep, where their bytes allow; None is 4,096.
    most_bytes : int or None
        Bytes of dense rows beyond which fewer are kept, but no fewer than a thousand; None is a quarter of a gigabyte.
    """

    most_rows: int | None = None
    most_bytes: int | None = None

    @property
    def ranks(self) -> np.ndarray:
        return self.keys

    def first(self, n_rows: int, *, without: Any = ()) -> WeightedRows:
        """The `n_rows` rows with the smallest keys, in the order of their keys, less those with keys in `without`."""
        chosen = np.argsort(self.keys, kind="stable")[:n_rows]
        chosen = chosen[~np.isin(self.keys[chosen], without)]
        return self.rows(chosen)

    def skipping(self, n_skipped: int, n_rows: int) -> WeightedRows:
        """`n_rows` rows in the order of their keys, after the first `n_skipped`, or fewer if too few rows follow."""
        start = min(n_skipped, max(0, self.keys.size - n_rows))
        return self.rows(np.argsort(self.keys, kind="stable")[start : start + n_rows])

    def _ranks_of(self, X: Array, keys: np.ndarray) -> np.ndarray:
        return keys

    def _least(self, ranks: np.ndarray, X: Array) -> np.ndarray:
        capacity = self._capacity(X)
        if ranks.size <= capacity:
            return np.arange(ranks.size)
        return np.flatnonzero(ranks <= np.partition(ranks, capacity - 1)[capacity - 1])

    def _capacity(self, X: Array) -> int:
        """Rows to keep of a stream of batches like `X`, fixed by the bytes of a row alone."""
        most_rows = CAPACITY if self.most_rows is None else self.most_rows
        if sparse.issparse(X):
            return most_rows
        return sample_rows(most_rows, X.shape[1] * ops_for(X).dtype.itemsize, self.most_bytes)


def fingerprint(X: Array, y: np.ndarray) -> str:
    """A hash of rows and their targets."""
    digest = hashlib.sha256()
    for part in (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,):
        digest.update(np.ascontiguousarray(part).data)
    digest.update("\n".join(map(str, y.ravel().tolist())).encode())
    return digest.hexdigest()
