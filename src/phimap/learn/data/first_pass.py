"""The first pass over training data: moments, classes and a random sample of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from phimap.learn.data.batches import Batch
from phimap.learn.data.extreme_targets import ExtremeTargets
from phimap.learn.data.reservoir import CAPACITY, Reservoir
from phimap.learn.data.scaling import Moments


class FirstPass:
    """What one pass over batches ``(X, y, weights)`` tells.

    Parameters
    ----------
    batches : iterable of (X, y, weights)
    seed : int
        Seed of the sample.
    collect_labels : bool
        Whether targets are labels.
    map_rows : int, default=0
        Rows that the map wants to see, where they are more than the sample has.
    map_bytes : int, default=0
        Bytes that they may take.

    Attributes
    ----------
    moments : Moments
    sample : Reservoir
    n_rows : int
        Rows seen.
    map_sample : Reservoir
        The same rows or more: those for the map, which are not kept beyond its fit.
    labels : ndarray or None
        The distinct targets, sorted; None unless they are labels.
    label_weights : ndarray or None
        What the rows of each label count.
    low, high : ndarray of shape (t,) or None
        Range of the targets; None where they are labels.
    extremes : ExtremeTargets
        Empty where they are labels.
    """

    def __init__(
        self, batches: Iterable[Batch], seed: int, *, collect_labels: bool, map_rows: int = 0, map_bytes: int = 0
    ):
        self.sample = self.map_sample = Reservoir(seed)
        if map_rows > CAPACITY:
            # One seed gives one order: these rows begin with those of the sample.
            self.map_sample = Reservoir(seed, most_rows=map_rows, most_bytes=map_bytes)
        self.n_rows = 0
        self.low = self.high = None
        self.extremes = ExtremeTargets()
        labels: list[np.ndarray] = []
        counts: list[np.ndarray] = []
        moments = None
        for X, y, weights in batches:
            moments = Moments(X.shape[1]) if moments is None else moments
            moments.update(X, weights)
            self.sample.update(X, y, weights)
            if self.map_sample is not self.sample:
                self.map_sample.update(X, y, weights)
            self.n_rows += X.shape[0]
            if collect_labels:
                found, index = np.unique(y, return_inverse=True)
                labels.append(found)
                counts.append(np.bincount(index.ravel(), weights))
            else:
                low, high = (np.atleast_1d(end(y, axis=0)) for end in (np.min, np.max))
                self.low = low if self.low is None else np.minimum(self.low, low)
                self.high = high if self.high is None else np.maximum(self.high, high)
                self.extremes.update(y)
        if moments is None:
            raise ValueError("the training data are empty: no batch of rows was given. Give at least 2 rows.")
        self.moments = moments
        self.labels = self.label_weights = None
        if collect_labels:
            self._count_labels(labels, counts)

    def add_labels(self, labels: Any) -> None:
        """Add labels that are to come."""
        labels, known = np.asarray(labels), self.labels
        self._count_labels([labels, known], [np.zeros(labels.size), self.label_weights])  # pyright: ignore

    def _count_labels(self, labels: list[np.ndarray], counts: list[np.ndarray]) -> None:
        self.labels, index = np.unique(np.concatenate(labels), return_inverse=True)
        self.label_weights = np.bincount(index.ravel(), np.concatenate(counts))
