"""The rows that a search judges on, and how they are divided."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap.ops import Array

# With fewer rows than this every row is held out once, by folds; with more a single part of them is.
_FEW_ROWS = 2000
_FOLDS = 4
# The share of the rows that is held out where there is one part, and the rows that it has at the most.
_SHARE = 4
_MOST_HELD_OUT = 4096


@dataclass(frozen=True)
class SearchSample:
    """Standardised rows with what a solver sees of their targets.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n, d)
    Y : ndarray of shape (n, t)
    weights : ndarray of shape (n,)
    parts : ndarray of shape (d,) or None
        Columns with one number share a weight in a diagonal metric; None where each has its own.
    """

    X: Array
    Y: np.ndarray
    weights: np.ndarray
    parts: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """Rows n."""
        return self.Y.shape[0]

    def first(self, n_rows: int) -> SearchSample:
        """The first `n_rows` rows: a sample too, since rows come in random order."""
        return SearchSample(self.X[:n_rows], self.Y[:n_rows], self.weights[:n_rows], self.parts)

    def folds(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows to learn from and rows to judge on, once or, where they are few, four times."""
        every = np.arange(self.n_rows)
        if self.n_rows >= _FEW_ROWS:
            held_out = min(self.n_rows // _SHARE, _MOST_HELD_OUT)
            return [(every[held_out:], every[:held_out])]
        n_folds = min(_FOLDS, self.n_rows)
        return [(np.flatnonzero(every % n_folds != fold), every[fold::n_folds]) for fold in range(n_folds)]

    @property
    def n_learned(self) -> int:
        """Rows from which a fold learns."""
        return self.folds()[0][0].size

    def spread(self) -> float:
        """Weighted mean of the squared deviations of the targets, summed over targets; 1 where they are constant."""
        mean = np.average(self.Y, axis=0, weights=self.weights)
        spread = float(np.average(np.square(self.Y - mean).sum(axis=1), weights=self.weights))
        return spread if spread > 0 else 1.0
