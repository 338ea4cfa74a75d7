"""Ranges of the columns of the training rows, and detection of rows outside of these ranges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from scipy import sparse

from phimap.learn.rows.scaling import ColumnMoments
from phimap.ops import Array, ops_for
from phimap.records import Record, of_floats, of_number

# Margin on each side of the range of a column, as a share of the length of the range. On 15 real tables of 500 to 4,000
# rows, less than 0.2 % of new rows then lie so far outside that the kernel is affected.
_WIDENED = 0.5
# Range of a few thousand normal numbers, in standard deviations. If the range of a column is longer, the column has a
# long tail or is mostly constant, and the ends of its range say little about new values. The margin is then multiplied
# by the square of the ratio of both lengths.
_DEVIATIONS = 8.0
# Length of rows that NumPy compares efficiently, in numbers.
_LONG = 1024
# Number of training rows for which the margin is doubled, because few rows give a poor estimate of the range.
_FEW_ROWS = 20.0


@dataclass
class ColumnRange(Record):
    """Smallest and largest value of each column of dense rows, and the margin within which new values count as near.

    Attributes
    ----------
    low, high : ndarray of shape (d,) or None
        None if no dense rows were seen.
    margin : ndarray of shape (d,) or None
        Length by which the range is widened on each side; None before `settled`.
    radius : float
        Root mean square distance of scaled rows from their mean.
    """

    low: np.ndarray | None = field(default=None, metadata=of_floats("d"))
    high: np.ndarray | None = field(default=None, metadata=of_floats("d"))
    margin: np.ndarray | None = field(default=None, metadata=of_floats("d", least=0, finite=False))
    radius: float = field(default=0.0, metadata=of_number(least=0, finite=False))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        known = self.low is not None and self.high is not None
        yield known or self.margin is None, "both ends of its range where it has a margin"

    def update(self, X: Array) -> None:
        """Add rows (r, d); CSR rows are ignored."""
        if X.shape[0] and not sparse.issparse(X):
            low, high = _least_and_largest(ops_for(X).to_host(X))
            self.merge(ColumnRange(low.astype(np.float64), high.astype(np.float64)))

    def merge(self, other: ColumnRange) -> None:
        """Add the rows of another range; the margin does not change."""
        if self.low is None or self.high is None:
            self.low, self.high = other.low, other.high
        elif other.low is not None and other.high is not None:
            self.low, self.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)

    def settled(self, moments: ColumnMoments, scaled: Array) -> Self:
        """Return the range with its margin and its radius.

        The margin follows from the moments of all rows, the radius from scaled sample rows (n, k).
        """
        if self.low is None or self.high is None:
            return self
        rows = np.asarray(ops_for(scaled).to_host(scaled), dtype=np.float64)
        deviation = np.sqrt(moments.squared_deviations / (moments.n or 1))
        with np.errstate(over="ignore"):
            spread = self.high - self.low
            in_deviations = np.divide(spread, deviation, out=np.zeros_like(spread), where=deviation > 0)
            tail = np.square(np.maximum(in_deviations / _DEVIATIONS, 1))
            margin = _WIDENED * (1 + _FEW_ROWS / (moments.n or 1)) * spread * tail
            # Allow for the rounding of values to float32.
            margin += np.finfo(np.float32).eps * np.maximum(np.abs(self.low), np.abs(self.high))
            distances = np.square(rows - rows.mean(axis=0)).sum(axis=1)
            return replace(self, margin=margin, radius=float(np.sqrt(distances.mean())))

    def out_of_range(self, X: np.ndarray) -> np.ndarray:
        """Indices of the rows of `X` (r, d) that have a value outside of the widened range of its column."""
        if self.margin is None:
            return np.zeros(0, np.intp)
        low, high = self._ends(X.dtype)
        # Most batches have no such row. The smallest and largest values of the columns suffice to see this.
        least, largest = _least_and_largest(X)
        columns = np.flatnonzero((least < low) | (largest > high))
        if not columns.size:
            return columns
        some = X[:, columns]
        return np.flatnonzero(((some < low[columns]) | (some > high[columns])).any(axis=1))

    def nearest(self, X: np.ndarray) -> np.ndarray:
        """Return, for each row of `X`, the nearest row within the widened ranges (r, d)."""
        return np.clip(X, *self._ends(X.dtype))

    def farthest(self, row: np.ndarray) -> int:
        """Return the column in which a row (d,) is farthest outside, relative to the widened range of the column."""
        low, high = self._ends(np.dtype(np.float64))
        with np.errstate(over="ignore", invalid="ignore"):
            outside = np.maximum(low - row, row - high)
            return int(np.nanargmax(np.where(outside > 0, outside / (high - low + np.finfo(np.float64).tiny), 0.0)))

    def _ends(self, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        assert self.low is not None
        assert self.high is not None
        assert self.margin is not None
        with np.errstate(over="ignore"):
            return (self.low - self.margin).astype(dtype), (self.high + self.margin).astype(dtype)


def _least_and_largest(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest value of each column of at least one row (r, d)."""
    n_rows, d = X.shape
    # Several short rows are viewed as one long row, which NumPy compares faster.
    group = max(1, min(_LONG // d, n_rows))
    if group == 1 or not X.flags.c_contiguous:
        return X.min(axis=0), X.max(axis=0)
    whole = n_rows // group * group
    parts = X[:whole].reshape(-1, group * d), X[whole:]
    lows = [parts[0].min(axis=0).reshape(group, d), parts[1]]
    highs = [parts[0].max(axis=0).reshape(group, d), parts[1]]
    return np.concatenate(lows).min(axis=0), np.concatenate(highs).max(axis=0)
