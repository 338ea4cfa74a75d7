"""The rows on which a search learns and validates, and their folds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap.ops import Array

# Least number of rows that have a single held-out part. Fewer rows are divided into folds, each of which is held out
# once.
_FEW_ROWS = 2000
_FOLDS = 4
# Inverse of the share of the rows in the single held-out part, whose number of rows is limited.
_SHARE = 4
_MOST_HELD_OUT = 4096


@dataclass(frozen=True)
class SearchSample:
    """Standardised rows in random order, with encoded targets and weights.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n, d)
    Y : ndarray of shape (n, t)
    weights : ndarray of shape (n,)
    parts : ndarray of shape (d,) or None
        Group of each column. The columns of a group share one weight in a diagonal metric. None means no groups.
    """

    X: Array
    Y: np.ndarray
    weights: np.ndarray
    parts: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return self.Y.shape[0]

    def first(self, n_rows: int) -> SearchSample:
        """The sample of the first `n_rows` rows, which are a random sample of all rows."""
        return SearchSample(self.X[:n_rows], self.Y[:n_rows], self.weights[:n_rows], self.parts)

    def folds(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pairs of training rows and held-out rows: one pair, or four if there are few rows."""
        every = np.arange(self.n_rows)
        if self.n_rows >= _FEW_ROWS:
            held_out = min(self.n_rows // _SHARE, _MOST_HELD_OUT)
            return [(every[held_out:], every[:held_out])]
        n_folds = min(_FOLDS, self.n_rows)
        return [(np.flatnonzero(every % n_folds != fold), every[fold::n_folds]) for fold in range(n_folds)]

    @property
    def n_learned(self) -> int:
        """Number of training rows of a fold."""
        return self.folds()[0][0].size

    def spread(self) -> float:
        """Weighted variance of the targets, summed over targets; 1 if they are constant."""
        mean = np.average(self.Y, axis=0, weights=self.weights)
        spread = float(np.average(np.square(self.Y - mean).sum(axis=1), weights=self.weights))
        return spread if spread > 0 else 1.0
