"""The distinct labels of a stream, and what each counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phimap.records import Record, of_entries, of_floats


@dataclass
class Labels(Record):
    """Distinct labels in ascending order.

    Attributes
    ----------
    values : ndarray of shape (k,) or None
        None before the first batch.
    weights : ndarray of shape (k,)
        Sums of the weights of the rows of each.
    """

    values: np.ndarray | None = field(default=None, metadata=of_entries("any", "k"))
    weights: np.ndarray | None = field(default=None, metadata=of_floats("k", least=0))

    @property
    def size(self) -> int:
        """How many there are."""
        return 0 if self.values is None else self.values.size

    def update(self, labels: Any, weights: np.ndarray | None = None) -> None:
        """Add labels (r,) of rows with these weights (r,); None stands for ones."""
        values, index = np.unique(labels, return_inverse=True)
        self.merge(Labels(values, np.bincount(index.ravel(), weights).astype(np.float64)))

    def expect(self, labels: Any) -> None:
        """Add labels that are to come."""
        values = np.unique(np.asarray(labels))
        self.merge(Labels(values, np.zeros(values.size)))

    def merge(self, other: Labels) -> None:
        """Add the labels of another."""
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
