"""A random sample of the rows of a stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from phimap._random import row_uniforms
from phimap.ops import Array, ops_for
from phimap.records import Record

#: Rows that are kept: the mean of their squared errors is known to some 3 %, its differences along a flat curve far
#: better. Rows far from all others, on which too small an alpha fails, are few: fewer rows would miss them.
CAPACITY = 4096
# Bytes of dense rows beyond which fewer are kept, images mostly; a thousand are enough for a length scale.
_MOST_BYTES = 2**28
_LEAST_ROWS = 1000


@dataclass
class Reservoir(Record):
    """The rows with the smallest keys; a row's key is a hash of its index in the stream and of the seed.

    The sample does not depend on how the stream is cut into batches, and its first rows in order of their keys are
    a sample too.

    Attributes
    ----------
    seed : int
    n_seen : int
        Rows offered.
    keys : ndarray of shape (n_kept,)
    X : array or CSR matrix of shape (n_kept, n_features)
    y : ndarray
    """

    seed: int
    n_seen: int = 0
    keys: np.ndarray = field(default_factory=lambda: np.empty(0))
    X: Array = None
    y: Any = None

    def update(self, X: Array, y: np.ndarray) -> None:
        """Offer rows; those taken are copied."""
        keys = row_uniforms(self.n_seen, X.shape[0], self.seed)
        self.n_seen += X.shape[0]
        self._take(keys, X, y)

    def merge(self, other: Reservoir, *, without: Any = ()) -> None:
        """Offer the rows that another reservoir has, less those with keys in `without`."""
        self.n_seen += other.n_seen
        if other.X is not None:
            new = np.flatnonzero(~np.isin(other.keys, without))
            self._take(other.keys[new], other.X[new], other.y[new])

    def first(self, n_rows: int, *, without: Any = ()) -> tuple[Array, np.ndarray]:
        """The `n_rows` rows with the smallest keys, in the order of their keys, less those with keys in `without`."""
        chosen = np.argsort(self.keys, kind="stable")[:n_rows]
        chosen = chosen[~np.isin(self.keys[chosen], without)]
        return self.X[chosen], self.y[chosen]

    def _take(self, keys: np.ndarray, X: Array, y: np.ndarray) -> None:
        together = np.concatenate([self.keys, keys])
        bound = np.inf
        capacity = _capacity(X)
        if together.size > capacity:
            bound = np.partition(together, capacity - 1)[capacity - 1]
        new, old = np.flatnonzero(keys <= bound), np.flatnonzero(self.keys <= bound)
        if new.size == 0 and old.size == self.keys.size:
            return
        self.X, self.y = joined_rows(self.X, self.y, old, X, y, new)
        self.keys = together[together <= bound]


def joined_rows(X: Array, y: Any, old: np.ndarray, more: Array, targets: Any, new: np.ndarray) -> tuple[Array, Any]:
    """Rows `old` of (X, y), which may be None, and copies of the rows `new` of ``(more, targets)`` below them."""
    fresh = more[new] if sparse.issparse(more) else np.asarray(ops_for(more).to_host(more[new]))
    if X is None:
        return fresh, targets[new]
    stacked = sparse.vstack([X[old], fresh]).tocsr() if sparse.issparse(fresh) else np.concatenate([X[old], fresh])
    return stacked, np.concatenate([y[old], targets[new]])


def _capacity(X: Array) -> int:
    """Rows to keep of a stream of batches like `X`, fixed by the bytes of a row alone."""
    if sparse.issparse(X):
        return CAPACITY
    return min(CAPACITY, max(_LEAST_ROWS, _MOST_BYTES // (X.shape[1] * ops_for(X).dtype.itemsize)))
