"""The first pass over training data: moments, classes and a random sample of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from phimap.learn.data.reservoir import CAPACITY, Reservoir
from phimap.learn.data.scaling import Moments
from phimap.ops import Array


class FirstPass:
    """What one pass over batches ``(X, y)`` tells.

    Parameters
    ----------
    batches : iterable of (X, y)
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
    map_sample : Reservoir
        The same rows or more: those for the map, which are not kept beyond its fit.
    labels : ndarray or None
        The distinct targets, sorted; None unless they are labels.
    """

    def __init__(
        self,
        batches: Iterable[tuple[Array, Any]],
        seed: int,
        *,
        collect_labels: bool,
        map_rows: int = 0,
        map_bytes: int = 0,
    ):
        self.sample = self.map_sample = Reservoir(seed)
        if map_rows > CAPACITY:
            # One seed gives one order: these rows begin with those of the sample.
            self.map_sample = Reservoir(seed, most_rows=map_rows, most_bytes=map_bytes)
        labels: list[np.ndarray] = []
        moments = None
        for X, y in batches:
            moments = Moments(X.shape[1]) if moments is None else moments
            moments.update(X)
            self.sample.update(X, y)
            if self.map_sample is not self.sample:
                self.map_sample.update(X, y)
            if collect_labels:
                labels.append(np.unique(y))
        if moments is None:
            raise ValueError("the training data are empty: no batch of rows was given. Give at least 2 rows.")
        self.moments = moments
        self.labels = np.unique(np.concatenate(labels)) if collect_labels else None

    @property
    def n_rows(self) -> int:
        """Rows seen."""
        return self.moments.n

    def add_labels(self, labels: Any) -> None:
        """Add labels that are to come."""
        self.labels = np.unique(np.concatenate([np.asarray(labels), self.labels]))  # pyright: ignore
