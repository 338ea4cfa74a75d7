"""The rows of a stream that lie farthest from its centre."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from phimap._random import row_uniforms
from phimap.learn.data.reservoir import joined_rows
from phimap.ops import Array, ops_for
from phimap.records import Record

# Rows that are kept. Of 6,000 to 35,000 rows, 64 leave the choice of alpha a little more noise, 256 no less.
_CAPACITY = 128


@dataclass
class FarRows(Record):
    """The rows of largest ``|(x - centre) * factor|``, the first to come among equals.

    They do not depend on how the stream is cut into batches.

    Attributes
    ----------
    seed : int
        Seed of the `Reservoir` that sees the same stream: rows have the same keys in both.
    centre, factor : ndarray of shape (n_features,)
    n_seen : int
        Rows offered.
    distances : ndarray of shape (n_kept,)
        Squared.
    keys : ndarray of shape (n_kept,)
    X : array or CSR matrix of shape (n_kept, n_features)
    y : ndarray
    """

    seed: int
    centre: np.ndarray
    factor: np.ndarray
    n_seen: int = 0
    distances: np.ndarray = field(default_factory=lambda: np.empty(0))
    keys: np.ndarray = field(default_factory=lambda: np.empty(0))
    X: Array = None
    y: Any = None

    def update(self, X: Array, y: np.ndarray) -> None:
        """Offer rows; those taken are copied."""
        keys = row_uniforms(self.n_seen, X.shape[0], self.seed)
        self.n_seen += X.shape[0]
        self._take(self._squared_distances(X), keys, X, y)

    def merge(self, other: FarRows, *, without: Any = ()) -> None:
        """Offer the rows that another record has, less those with keys in `without`."""
        self.n_seen += other.n_seen
        if other.X is not None:
            new = np.flatnonzero(~np.isin(other.keys, without))
            self._take(other.distances[new], other.keys[new], other.X[new], other.y[new])

    def first(self, n_rows: int) -> tuple[Array, np.ndarray, np.ndarray]:
        """The `n_rows` farthest rows, their targets and their keys."""
        chosen = np.argsort(-self.distances, kind="stable")[:n_rows]
        return self.X[chosen], self.y[chosen], self.keys[chosen]

    def _squared_distances(self, X: Array) -> np.ndarray:
        """``|(x - centre) * factor|^2`` of the rows of `X`: (r,)."""
        if sparse.issparse(X):
            squares = X.multiply(X) @ np.square(self.factor) - 2 * (X @ (self.centre * np.square(self.factor)))
            return squares + np.square(self.centre * self.factor).sum()
        host = ops_for(X).to_host(X)
        deviations = (host - self.centre.astype(host.dtype)) * self.factor.astype(host.dtype)
        return np.square(deviations).sum(axis=1)

    def _take(self, distances: np.ndarray, keys: np.ndarray, X: Array, y: np.ndarray) -> None:
        together, held = np.concatenate([self.distances, distances]), self.distances.size
        # In the order of arrival, which decides among equals.
        chosen = np.sort(np.argsort(-together, kind="stable")[:_CAPACITY])
        old, new = chosen[chosen < held], chosen[chosen >= held] - held
        if new.size:
            self.X, self.y = joined_rows(self.X, self.y, old, X, y, new)
            self.distances, self.keys = together[chosen], np.concatenate([self.keys, keys])[chosen]
