"""Bins of the numbers of each column, between which trees split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap.learn.trees.ensemble import rounded_down

# Most bins of a column, so that a code is one byte; and most bins of all columns together, because every leaf holds
# sums for each bin.
_MOST_OF_COLUMN, _MOST = 255, 2**17


@dataclass(frozen=True)
class Bins:
    """Bins of the numbers of each column.

    A column with few distinct numbers has a bin for each number. Otherwise the bins have about equally many
    rows, except for those of single numbers that have more.

    Attributes
    ----------
    edges : ndarray of shape (e,)
        Ascending edges between the bins of the first column, those of the second column, and so on.
    edge_starts : ndarray of int, shape (d + 1,)
        First edge of each column.
    """

    edges: np.ndarray
    edge_starts: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray) -> Bins:
        """Return the bins for rows like those of `X` (n, d).

        The last bits of the numbers are left out: 4 bits in float32, 16 in float64. Otherwise an edge could separate
        numbers that differ only by rounding, and the same rows, computed on another machine, could reach other leaves.
        """
        most = most_bins(X.shape[1])
        edges = [rounded_down(_edges(_truncated(column), most), X.dtype) for column in X.T]
        starts = np.cumsum([0, *(column.size for column in edges)])
        return cls(np.concatenate([*edges, np.empty(0, X.dtype)]), starts)

    @property
    def counts(self) -> np.ndarray:
        """Number of bins of each column (d,)."""
        return np.diff(self.edge_starts) + 1

    def codes(self, X: np.ndarray) -> np.ndarray:
        """Return the bins uint8 (d, n) of the rows `X` (n, d), column by column. An edge belongs to the lower bin."""
        codes = np.empty(X.shape[::-1], np.uint8)
        for j, column in enumerate(X.T):
            codes[j] = np.searchsorted(self.edges[self.edge_starts[j] : self.edge_starts[j + 1]], column)
        return codes

    def thresholds(self, columns: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return the edges (k,) above the given bins: the places (k,) are codes in the columns (k,)."""
        return self.edges[self.edge_starts[columns] + places]


def most_bins(n_columns: int) -> int:
    """Return the largest number of bins of a column of rows with so many columns."""
    return int(np.clip(_MOST // max(n_columns, 1), 2, _MOST_OF_COLUMN))


def _edges(column: np.ndarray, most: int) -> np.ndarray:
    """Return the edges of up to `most` bins: midpoints of neighbouring numbers of a column (n,)."""
    numbers, counts = np.unique(column, return_counts=True)
    halves = numbers.astype(np.float64) / 2
    middles = halves[:-1] + halves[1:]
    if numbers.size <= most:
        return middles
    # Numbers with more rows than an average bin count as one bin, so that the other numbers share all the other bins.
    size = column.size / most
    while (heavy := counts > size).any() and (lighter := counts[~heavy].sum() / (most - heavy.sum())) < size:
        size = lighter
    shares = np.minimum(counts / size, 1)
    # Numbers whose ranks, in bins, have the same integer part share a bin.
    parts = np.floor(np.cumsum(shares) - shares / 2)
    return middles[np.diff(parts) > 0]


def _truncated(column: np.ndarray) -> np.ndarray:
    """Return the numbers with their last bits set to zero."""
    kind, last = (np.uint32, 4) if column.dtype == np.float32 else (np.uint64, 16)
    bits = np.ascontiguousarray(column).view(kind)
    return (bits & ~np.array((1 << last) - 1, kind)).view(column.dtype)
