"""The range of each column of the training rows, and rows that lie outside of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from phimap.ops import Array, ops_for
from phimap.records import Record


@dataclass
class ColumnRange(Record):
    """Least and largest value of each column of dense rows.

    Attributes
    ----------
    low, high : ndarray of shape (d,) or None
        None before the first rows.
    """

    low: np.ndarray | None = None
    high: np.ndarray | None = None

    def update(self, X: Array) -> None:
        """Add rows (r, d); CSR rows, of which no range is kept, are passed over."""
        if X.shape[0] and not sparse.issparse(X):
            host = ops_for(X).to_host(X)
            self.merge(ColumnRange(host.min(axis=0).astype(np.float64), host.max(axis=0).astype(np.float64)))

    def merge(self, other: ColumnRange) -> None:
        """Add the rows of another."""
        if self.low is None or self.high is None:
            self.low, self.high = other.low, other.high
        elif other.low is not None and other.high is not None:
            self.low, self.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)

    def outside(self, X: np.ndarray) -> np.ndarray:
        """Indices of the rows of `X` (r, d) that have a value outside of the range of its column."""
        if self.low is None or self.high is None:
            return np.zeros(0, np.intp)
        low, high = self._ends(X.dtype)
        return np.flatnonzero(((low > X) | (high < X)).any(axis=1))

    def nearest(self, X: np.ndarray) -> np.ndarray:
        """The nearest rows (r, d) within the range."""
        return np.clip(X, *self._ends(X.dtype))

    def farthest(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How far each row (r, d) lies outside, in half-widths of a column's range, and the column where that is."""
        low, high = self._ends(np.dtype(np.float64))
        beyond = np.maximum(low - X, X - high)
        half = (high - low) / 2
        shares = np.where(beyond > 0, beyond / np.where(half > 0, half, np.finfo(np.float64).tiny), 0.0)
        columns = shares.argmax(axis=1)
        return shares[np.arange(len(X)), columns], columns

    def _ends(self, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        assert self.low is not None
        assert self.high is not None
        return self.low.astype(dtype), self.high.astype(dtype)
