"""Errors of predictions, accumulated over rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from phimap.learn.rows.accumulator import Accumulator
from phimap.learn.rows.scaling import ColumnMoments


class SquaredErrors(Accumulator):
    """Squared errors of a regressor, and the moments of its targets.

    Attributes
    ----------
    moments : Moments or None
        Moments of the targets; None before the first rows.
    errors : ndarray of shape (t,)
        Weighted sums of squared errors.
    """

    _parts = ("moments", "errors")

    def __init__(self, fitted: Any, predict: Callable[[Any, Any], np.ndarray]):
        self._fitted, self._predict = fitted, predict
        self.moments: ColumnMoments | None = None
        self.errors: Any = 0.0

    def update(self, rows: Any, targets: np.ndarray, weights: np.ndarray | None) -> None:
        targets = targets.reshape(len(targets), -1)
        if self.moments is None:
            self.moments = ColumnMoments.empty(targets.shape[1])
        self.moments.update(targets, weights)
        squares = np.square(targets - self._predict(self._fitted, rows).reshape(targets.shape))
        self.errors = self.errors + (squares.sum(axis=0) if weights is None else weights @ squares)

    def merge(self, later: Self) -> None:
        if later.moments is None:
            return
        if self.moments is None:
            self.moments = ColumnMoments.empty(later.moments.mean.size)
        self.moments.merge(later.moments)
        self.errors = self.errors + later.errors

    @property
    def score(self) -> float:
        """R2, averaged over targets. A constant target has R2 1 if it is predicted exactly, else 0."""
        if self.moments is None:
            raise ValueError("Found array with 0 sample(s), while a score needs at least 1. Give rows.")
        spread = self.moments.squared_deviations
        constant = np.where(self.errors > 0, 0.0, 1.0)
        return float(np.where(spread > 0, 1 - self.errors / np.where(spread > 0, spread, 1.0), constant).mean())


class Hits(Accumulator):
    """Labels that a classifier predicts correctly.

    Attributes
    ----------
    right, total : float
        Total weights of the correctly predicted rows and of all rows.
    """

    _parts = ("right", "total")

    def __init__(self, fitted: Any, predict: Callable[[Any, Any], np.ndarray]):
        self._fitted, self._predict = fitted, predict
        self.right = self.total = 0.0

    def update(self, rows: Any, targets: np.ndarray, weights: np.ndarray | None) -> None:
        counted = np.ones(len(targets)) if weights is None else weights
        self.right += float(counted @ (self._predict(self._fitted, rows) == targets))
        self.total += float(counted.sum())

    def merge(self, later: Self) -> None:
        self.right += later.right
        self.total += later.total

    @property
    def score(self) -> float:
        """Total weight of the correctly predicted rows, divided by the total weight of all rows."""
        if not self.total:
            raise ValueError("Found array with 0 sample(s), while a score needs at least 1. Give rows.")
        return self.right / self.total
