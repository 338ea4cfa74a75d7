"""Summaries of targets in a stream: distinct labels, and extreme numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phimap.learn.rows.scaling import ColumnMoments
from phimap.records import Record, of_entries, of_floats, of_indices, of_number

# Largest size of a target. The sum of squares of larger targets could overflow.
LARGEST_TARGET = 1e150
# Least share of the squared deviations at which one row causes a warning, and least number of rows for the warning.
# Among fewer rows, one row may well have such a share.
_SHARE, _LEAST_ROWS = 0.9, 20


@dataclass
class Labels(Record):
    """Distinct labels in ascending order.

    Attributes
    ----------
    values : ndarray of shape (k,) or None
        None before the first batch.
    weights : ndarray of shape (k,)
        Total weight of the rows of each label.
    """

    values: np.ndarray | None = field(default=None, metadata=of_entries("any", "k"))
    weights: np.ndarray | None = field(default=None, metadata=of_floats("k", least=0))

    @property
    def size(self) -> int:
        """Number of distinct labels."""
        return 0 if self.values is None else self.values.size

    def update(self, labels: Any, weights: np.ndarray | None = None) -> None:
        """Add labels (r,) of rows with these weights (r,); None stands for ones."""
        values, index = np.unique(labels, return_inverse=True)
        self.merge(Labels(values, np.bincount(index.ravel(), weights).astype(np.float64)))

    def expect(self, labels: Any) -> None:
        """Add labels that may occur in later rows."""
        values = np.unique(np.asarray(labels))
        self.merge(Labels(values, np.zeros(values.size)))

    def merge(self, other: Labels) -> None:
        """Add the labels of another record."""
        if other.values is None or other.weights is None:
            return
        if self.values is None or self.weights is None:
            self.values, self.weights = other.values, other.weights
            return
        if np.array_equal(self.values, other.values):
            self.weights = self.weights + other.weights
            return
        both, weights = np.concatenate([self.values, other.values]), np.concatenate([self.weights, other.weights])
        self.values, index = np.unique(both, return_inverse=True)
        self.weights = np.bincount(index.ravel(), weights)


class ExtremeTargetWarning(UserWarning):
    """One row accounts for most of the variance of the targets."""


@dataclass
class ExtremeTargets(Record):
    """Moments of numeric targets, and the smallest and largest targets with their rows.

    Attributes
    ----------
    moments : Moments or None
    n_rows : int
    values, rows : ndarray of shape (2, t)
        Values and row numbers of the smallest and of the largest target.
    """

    moments: ColumnMoments | None = None
    n_rows: int = field(default=0, metadata=of_number(least=0))
    values: np.ndarray = field(default_factory=lambda: np.empty((2, 0)), metadata=of_floats(2, "?t"))
    rows: np.ndarray = field(default_factory=lambda: np.empty((2, 0), dtype=np.intp), metadata=of_indices(2, "?t"))

    def update(self, y: np.ndarray, numbers: np.ndarray | None = None) -> None:
        """Add numeric targets, (r,) or (r, t), with row numbers `numbers` (r,); None counts rows from 0."""
        y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        if not len(y):
            return
        if self.moments is None:
            self.moments = ColumnMoments.empty(y.shape[1])
            self.values = np.array([[np.inf], [-np.inf]]) * np.ones(y.shape[1])
            self.rows = np.zeros((2, y.shape[1]), dtype=np.intp)
        # Targets whose squares overflow are refused elsewhere.
        with np.errstate(over="ignore", invalid="ignore"):
            self.moments.update(y)
        if numbers is None:
            numbers = np.arange(self.n_rows, self.n_rows + len(y))
        places = np.stack([y.argmin(axis=0), y.argmax(axis=0)])
        self._take(np.take_along_axis(y, places, axis=0), numbers[places])
        self.n_rows += len(y)

    def merge(self, later: ExtremeTargets) -> None:
        """Add the targets of the rows that follow, whose row numbers start from 0."""
        if later.moments is None:
            return
        if self.moments is None:
            self.moments, self.values, self.rows = later.moments, later.values, later.rows + self.n_rows
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                self.moments.merge(later.moments)
            self._take(later.values, later.rows + self.n_rows)
        self.n_rows += later.n_rows

    def _take(self, values: np.ndarray, rows: np.ndarray) -> None:
        """Update the smallest and the largest targets by `values` (2, t); earlier rows win ties."""
        farther = np.stack([values[0] < self.values[0], values[1] > self.values[1]])
        self.values = np.where(farther, values, self.values)
        self.rows = np.where(farther, rows, self.rows)

    def message(self, name: str, row_name: Callable[[int], str] = str) -> str | None:
        """Return a message about a row that has most of the variance of a target; None if there is no such row.

        The message calls the targets `name`, and the row ``row_name(number)``.
        """
        if self.moments is None or self.n_rows < _LEAST_ROWS:
            return None
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            shares = np.square(self.values - self.moments.mean) / self.moments.squared_deviations
        shares = np.where(np.isfinite(shares), shares, 0.0)
        end, target = np.unravel_index(int(shares.argmax()), shares.shape)
        if shares[end, target] < _SHARE:
            return None
        row = row_name(int(self.rows[end, target]))
        return (
            f"{name} is {self.values[end, target]:g} in row {row}, which alone makes "
            f"{100 * shares[end, target]:.3g} % of the variance. Correct it, or drop the row: the fit follows it."
        )


def largest_target(y: np.ndarray) -> float:
    """Return the largest absolute value of `y`, computed without a copy of `y`; 0 if `y` is empty."""
    return max(-float(y.min()), float(y.max())) if y.size else 0.0
