"""The first pass over training data: moments, classes and a random sample of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from phimap.learn.data.reservoir import Reservoir
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

    Attributes
    ----------
    moments : Moments
    sample : Reservoir
    labels : ndarray or None
        The distinct targets, sorted; None unless they are labels.
    """

    def __init__(self, batches: Iterable[tuple[Array, Any]], seed: int, *, collect_labels: bool):
        self.sample = Reservoir(seed)
        labels: list[np.ndarray] = []
        moments = None
        for X, y in batches:
            moments = Moments(X.shape[1]) if moments is None else moments
            moments.update(X)
            self.sample.update(X, y)
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
