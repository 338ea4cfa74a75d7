"""Samples of the rows of a stream: random rows, and extreme rows."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from phimap._random import row_uniforms
from phimap.learn.rows.batches import CAPACITY, sample_rows
from phimap.learn.rows.units import RowUnits
from phimap.learn.weights import joined_weights
from phimap.ops import Array, ops_for
from phimap.records import NOT_SAVED, Record, of_entries, of_floats, of_number

# Largest number of extreme rows that are kept. On tables of 6,000 to 35,000 rows, the choice of alpha is slightly
# noisier with 64 extreme rows, and not better with 256.
EXTREME_CAPACITY = 128


def proportional_order(labels: np.ndarray) -> np.ndarray:
    """Return an order (n,) of rows such that the first k rows, for any k, contain each class in proportion.

    Row r = 0, 1, ... of the n_c rows of a class, in the given order, gets the position ``(r + 1/2) / n_c``, and rows
    are sorted by position. So the number of rows of the class among the first k of n rows differs from ``k n_c / n`` by
    at most C / 2, where C is the number of classes.
    """
    _, index, counts = np.unique(labels, return_inverse=True, return_counts=True)
    grouped = np.argsort(index, kind="stable")
    places = np.empty(len(index))
    ranks = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
    places[grouped] = (ranks + 0.5) / np.repeat(counts, counts)
    return np.argsort(places, kind="stable")


class WeightedRows(NamedTuple):
    """Rows (r, d), their targets, and their weights (r,) or None."""

    X: Array
    y: Any
    weights: np.ndarray | None


@dataclass
class KeptRows(Record, ABC):
    """The rows of a stream with the smallest ranks. The kept rows do not depend on how the stream is cut into batches.

    Attributes
    ----------
    seed : int
    n_seen : int
        Number of rows offered.
    keys : ndarray of shape (n_kept,)
        Keys of the rows kept. The key of a row is a hash of the seed and of the index of the row in the stream.
    X : array or CSR matrix of shape (n_kept, n_features)
    y : ndarray
    weights : ndarray of shape (n_kept,) or None
        None if all are one.
    units : RowUnits or None
        Units of rows. The keys sort the rows by unit; None for keys in random order. Not saved in model files.
    """

    seed: int = field(metadata=of_number(least=0))
    n_seen: int = field(default=0, metadata=of_number(least=0))
    keys: np.ndarray = field(default_factory=lambda: np.empty(0), metadata=of_floats("?n"))
    X: Array = field(default=None, metadata=of_entries("any"))
    y: Any = field(default=None, metadata=of_entries("any"))
    weights: np.ndarray | None = field(default=None, metadata=of_floats("?n", least=0))
    units: RowUnits | None = field(default=None, metadata={NOT_SAVED: True}, kw_only=True)

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.X is None or getattr(self.X, "shape", ())[:1] == self.keys.shape, "a key for each row"
        yield self.y is None or np.shape(self.y)[:1] == self.keys.shape, "a target for each row"

    def are_numbers(self, width: int) -> bool:
        """Whether the kept rows have `width` columns, a dtype that learners accept, and targets; True without rows."""
        X = self.X
        if X is None or self.y is None:
            return not self.keys.size
        return X.ndim == 2 and X.shape[1] == width and X.dtype in (np.float32, np.float64, np.uint8)

    def rows(self, chosen: np.ndarray) -> WeightedRows:
        """Return the kept rows with indices `chosen`, in the order of `chosen`."""
        return WeightedRows(self.X[chosen], self.y[chosen], None if self.weights is None else self.weights[chosen])

    @property
    @abstractmethod
    def ranks(self) -> np.ndarray:
        """Ranks (n_kept,) of the kept rows; rows with the smallest ranks are kept."""

    @abstractmethod
    def _ranks_of(self, X: Array, keys: np.ndarray) -> np.ndarray:
        """Return the ranks of the rows of `X`, which have keys `keys`."""

    @abstractmethod
    def _least(self, ranks: np.ndarray, X: Array) -> np.ndarray:
        """Return ascending indices of the rows to keep, given the `ranks` of all; `X` shows the format of the rows."""

    def keys_of(self, first: int, n: int) -> np.ndarray:
        """Return the keys (n,) of the rows ``first, ..., first + n - 1`` of the stream."""
        if self.units is not None:
            return self.units.keys(first, n, self.seed)
        return row_uniforms(first, n, self.seed)

    def update(self, X: Array, y: np.ndarray, weights: np.ndarray | None = None) -> None:
        """Offer rows with positive weights; rows that are kept are copied."""
        keys = self.keys_of(self.n_seen, X.shape[0])
        self.n_seen += X.shape[0]
        self._take(X, y, weights, keys, self._ranks_of(X, keys))

    def merge(self, other: Self, *, without: Any = ()) -> None:
        """Offer the rows that another record keeps, except the rows with keys in `without`."""
        self.n_seen += other.n_seen
        if other.X is not None:
            new = np.flatnonzero(~np.isin(other.keys, without))
            weights = None if other.weights is None else other.weights[new]
            self._take(other.X[new], other.y[new], weights, other.keys[new], other.ranks[new])

    def join(self, later: Self) -> None:
        """Offer the rows kept by `later`, a record of the rows of the same stream from ``n_seen`` on."""
        self.n_seen = later.n_seen
        if later.X is not None:
            self._take(later.X, later.y, later.weights, later.keys, later.ranks)

    def _take(self, X: Array, y: np.ndarray, weights: np.ndarray | None, keys: np.ndarray, ranks: np.ndarray) -> None:
        """Keep the rows of smallest rank among the rows held and the rows offered."""
        ranks, n_held = np.concatenate([self.ranks, ranks]), self.keys.size
        chosen = self._least(ranks, X)
        old, new = chosen[chosen < n_held], chosen[chosen >= n_held] - n_held
        if new.size or old.size < n_held:
            self.X, self.y = _stacked(self.X, self.y, old, X, y, new)
            every = joined_weights([self.weights, weights], [n_held, keys.size])
            self.weights = None if every is None else every[chosen]
            self._keep(np.concatenate([self.keys, keys])[chosen], ranks[chosen])

    def _keep(self, keys: np.ndarray, ranks: np.ndarray) -> None:
        """Store the keys and ranks of the rows kept."""
        self.keys = keys


def _stacked(X: Array, y: Any, old: np.ndarray, more: Array, targets: Any, new: np.ndarray) -> tuple[Array, Any]:
    """Return rows `old` of ``(X, y)``, then copies of rows `new` of ``(more, targets)``; `X` and `y` may be None."""
    fresh = more[new] if sparse.issparse(more) else np.asarray(ops_for(more).to_host(more[new]))
    if X is None:
        return fresh, targets[new]
    every = np.concatenate([y[old], targets[new]])
    if sparse.issparse(fresh):
        return sparse.vstack([X[old], fresh]).tocsr(), every
    stacked = np.empty((len(old) + len(new), X.shape[1]), np.result_type(X, fresh))
    # Rows are copied one by one, because a copy of all old rows would need memory in addition to both arrays.
    for place, row in enumerate(old):
        stacked[place] = X[row]
    stacked[len(old) :] = fresh
    return stacked, every


@dataclass
class Reservoir(KeptRows):
    """A random sample: the rows with the smallest keys. Its first rows in the order of keys are a random sample, too.

    If keys sort the rows by unit, the sample consists of the rows of the first units, unless it is `scattered` over all
    units.

    Attributes
    ----------
    most_rows : int or None
        Largest number of rows to keep; None means 4,096.
    most_bytes : int or None
        Bytes of dense rows above which fewer rows, but at least a thousand, are kept; None means a quarter of a
        gigabyte.
    scattered : bool
        Whether rows of all units are drawn at random although keys sort the rows by unit.
    """

    most_rows: int | None = None
    most_bytes: int | None = None
    scattered: bool = field(default=False, metadata={NOT_SAVED: True})

    @property
    def ranks(self) -> np.ndarray:
        return self._ranks_of(self.X, self.keys)

    def order(self, *, by_class: bool = False) -> np.ndarray:
        """Return indices of the rows in the order of ranks.

        With `by_class`, the targets are labels, and the first k rows contain the classes in proportion, for any k.
        `by_class` has no effect if rows have units, because units are not divided.
        """
        order = np.argsort(self.ranks, kind="stable")
        divides = by_class and self.units is None and order.size
        return order[proportional_order(self.y[order])] if divides else order

    def first(self, n_rows: int, *, without: Any = (), by_class: bool = False) -> WeightedRows:
        """Return the first `n_rows` rows by `order`, less those with keys in `without`; so there may be fewer."""
        chosen = self.order(by_class=by_class)[:n_rows]
        return self.rows(chosen[~np.isin(self.keys[chosen], without)])

    def others(self, n_rows: int, without: np.ndarray, *, by_class: bool = False) -> np.ndarray:
        """Return the indices of the first `n_rows` rows by `order` whose keys are not in `without`."""
        order = self.order(by_class=by_class)
        return order[~np.isin(self.keys[order], without)][:n_rows]

    def skipping(self, n_skipped: int, n_rows: int, *, without: Any = ()) -> WeightedRows:
        """Return the `n_rows` rows that follow the first `n_skipped` rows in the order of ranks.

        If too few rows would follow, skip fewer.

        Rows with keys in `without` are taken only if there are not enough other rows.
        """
        order = np.argsort(self.ranks, kind="stable")
        others = order[~np.isin(self.keys[order], without)]
        order = others if others.size >= n_rows else order
        start = min(n_skipped, max(0, order.size - n_rows))
        return self.rows(order[start : start + n_rows])

    def _ranks_of(self, X: Array, keys: np.ndarray) -> np.ndarray:
        return self.units.uniforms_of(keys) if self.scattered and self.units is not None else keys

    def _least(self, ranks: np.ndarray, X: Array) -> np.ndarray:
        # The number of rows to keep depends only on the bytes of a row.
        capacity = CAPACITY if self.most_rows is None else self.most_rows
        if not sparse.issparse(X):
            capacity = sample_rows(capacity, X.shape[1] * ops_for(X).dtype.itemsize, self.most_bytes)
        if ranks.size <= capacity:
            return np.arange(ranks.size)
        return np.flatnonzero(ranks <= np.partition(ranks, capacity - 1)[capacity - 1])


def fingerprint(X: Array, y: np.ndarray) -> str:
    """The SHA-256, in hexadecimal, of rows and their targets."""
    digest = hashlib.sha256()
    for part in (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,):
        digest.update(np.ascontiguousarray(part).data)
    digest.update("\n".join(map(str, y.ravel().tolist())).encode())
    return digest.hexdigest()


@dataclass
class ExtremeRows(KeptRows):
    """The rows with the largest ``|(x - centre) * factor|``; earlier rows win ties.

    With the same seed and stream, a row has the same key as in a `Reservoir`.

    Attributes
    ----------
    centre, factor : ndarray of shape (n_features,)
        Mean of the columns, and factors that standardise them.
    distances : ndarray of shape (n_kept,)
        Squares of ``|(x - centre) * factor|``.
    """

    centre: np.ndarray = field(kw_only=True, metadata=of_floats("d"))
    factor: np.ndarray = field(kw_only=True, metadata=of_floats("d"))
    distances: np.ndarray = field(default_factory=lambda: np.empty(0), metadata=of_floats("?n"))

    def begun(self, first_row: int) -> ExtremeRows:
        """Return an empty record for the rows of the same stream from `first_row` on."""
        return ExtremeRows(self.seed, first_row, centre=self.centre, factor=self.factor, units=self.units)

    @property
    def ranks(self) -> np.ndarray:
        return -self.distances

    def first(self, n_rows: int) -> tuple[WeightedRows, np.ndarray]:
        """Return the `n_rows` most extreme rows and their keys."""
        chosen = np.argsort(self.ranks, kind="stable")[:n_rows]
        return self.rows(chosen), self.keys[chosen]

    def _ranks_of(self, X: Array, keys: np.ndarray) -> np.ndarray:
        if sparse.issparse(X):
            squares = X.multiply(X) @ np.square(self.factor) - 2 * (X @ (self.centre * np.square(self.factor)))
            return -(squares + np.square(self.centre * self.factor).sum())
        host = ops_for(X).to_host(X)
        deviations = (host - self.centre.astype(host.dtype)) * self.factor.astype(host.dtype)
        return -np.square(deviations).sum(axis=1)

    def _least(self, ranks: np.ndarray, X: Array) -> np.ndarray:
        # Among rows at equal distance, the earlier rows are kept.
        return np.sort(np.argsort(ranks, kind="stable")[:EXTREME_CAPACITY])

    def _keep(self, keys: np.ndarray, ranks: np.ndarray) -> None:
        super()._keep(keys, ranks)
        self.distances = -ranks
