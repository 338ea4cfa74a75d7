"""Centred rows of features, and their inner products and combinations, for the dual form of a problem."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.weights import weighted_mean
from phimap.ops import ops_for, run_tasks
from phimap.packed import PackedArray

# Number of columns of the features that one task multiplies.
_COLUMNS = 512
# With at least this many rows for each column, a QR decomposition of the rows and an eigendecomposition of the order of
# the columns take less time than an eigendecomposition of the order of the rows.
_THIN = 1.5
# Bound of the rounding error of a centred feature, in multiples of the machine epsilon times the mean of its column.
# The feature and the mean both have rounding errors.
_ROUNDED = 4.0


class CentredRows(ABC):
    """Rows of features (n, m) minus their weighted mean, times the roots of their weights.

    Attributes
    ----------
    mean : ndarray of shape (m,)
    """

    mean: np.ndarray

    def noise(self, eps: float, weight: float) -> float:
        """Return the largest eigenvalue that rounding errors of size `eps` may give to `gram` if all rows are equal.

        The rows have the total weight `weight`.
        """
        return weight * (_ROUNDED * eps) ** 2 * float(self.mean @ self.mean)

    @abstractmethod
    def gram(self) -> BlockTriangle:
        """Inner products of the rows (n, n)."""

    def thin_factor(self) -> np.ndarray | None:
        """Return F (n, m) with ``gram() = F F^T`` if it has clearly fewer columns than rows, else None."""
        return None

    @abstractmethod
    def combine(self, A: np.ndarray) -> np.ndarray:
        """Combinations (m, t) of the rows with coefficients (n, t)."""

    @abstractmethod
    def products(self, V: np.ndarray) -> np.ndarray:
        """Inner products (n, k) of the rows with the columns of `V` (m, k)."""

    @abstractmethod
    def split(self, training: np.ndarray, validation: np.ndarray) -> tuple[BlockTriangle, np.ndarray]:
        """Inner products (k, k) of the `training` rows, and (h, k) of the `validation` rows with the training rows.

        All rows are centred by the weighted mean of the training rows. Only training rows are multiplied by the roots
        of their weights. Both arguments are indices of rows.
        """


class DenseRows(CentredRows):
    """The rows of a dense array (n, m), in float64."""

    def __init__(self, Z: np.ndarray, n_jobs: int | None, weights: np.ndarray | None = None):
        self.mean = Z.mean(axis=0, dtype=np.float64) if weights is None else weighted_mean(Z, weights)
        self._centred = Z.astype(np.float64) - self.mean
        self._weights, self._n_jobs = weights, n_jobs

    def gram(self) -> BlockTriangle:
        return _gram(times_root(self._centred, self._weights), self._n_jobs)

    def thin_factor(self) -> np.ndarray | None:
        n_rows, n_columns = self._centred.shape
        return times_root(self._centred, self._weights) if _THIN * n_columns < n_rows else None

    def combine(self, A: np.ndarray) -> np.ndarray:
        A = times_root(A, self._weights)
        blocks = np.array_split(self._centred, -(-self._centred.shape[1] // _COLUMNS), axis=1)
        return np.concatenate(run_tasks(lambda block: block.T @ A, blocks, self._n_jobs))

    def products(self, V: np.ndarray) -> np.ndarray:
        V = np.ascontiguousarray(V)
        return times_root(ops_for(self._centred).matmul_rows(self._centred, V, self._n_jobs), self._weights)

    def split(self, training: np.ndarray, validation: np.ndarray) -> tuple[BlockTriangle, np.ndarray]:
        weights = None if self._weights is None else self._weights[training]
        mean = weighted_mean(self._centred[training], weights)
        rows = times_root(self._centred[training] - mean, weights)
        others = self._centred[validation] - mean
        between = ops_for(rows).matmul_rows(others, np.ascontiguousarray(rows.T), self._n_jobs)
        return _gram(rows, self._n_jobs), between


class PackedRows(CentredRows):
    """The rows of a packed array (n, m), which stays packed; instead of the rows, their inner products are centred."""

    def __init__(self, Z: PackedArray, n_jobs: int | None, weights: np.ndarray | None = None):
        self._weights, self._n_jobs = weights, n_jobs
        self._columns = replace(Z.transposed(n_jobs), dtype=np.dtype(np.float64))
        shares = np.full(len(Z), 1 / len(Z)) if weights is None else weights / weights.sum()
        self.mean = self._columns.dot(shares, n_jobs)
        self._rows = replace(Z, dtype=np.dtype(np.float64))
        self._products = self._rows.gram(n_jobs=n_jobs)

    def gram(self) -> BlockTriangle:
        means = weighted_mean(self._products, self._weights)
        matrix = self._products - means - means[:, None] + weighted_mean(means, self._weights)
        return BlockTriangle.from_dense(times_root(times_root(matrix, self._weights).T, self._weights))

    def combine(self, A: np.ndarray) -> np.ndarray:
        A = times_root(A, self._weights)
        return self._columns.dot(A, self._n_jobs) - np.outer(self.mean, A.sum(axis=0))

    def products(self, V: np.ndarray) -> np.ndarray:
        V = np.ascontiguousarray(V)
        # The sum has a fixed order, unlike BLAS, which may use threads for a product with one row.
        own = self._rows.dot(V, self._n_jobs) - (self.mean[:, None] * V).sum(axis=0)
        return times_root(own, self._weights)

    def split(self, training: np.ndarray, validation: np.ndarray) -> tuple[BlockTriangle, np.ndarray]:
        matrix, between = self._products[np.ix_(training, training)], self._products[np.ix_(validation, training)]
        weights = None if self._weights is None else self._weights[training]
        means = weighted_mean(matrix, weights)
        middle = weighted_mean(means, weights)
        matrix += middle - means - means[:, None]
        between += middle - means - weighted_mean(between, weights, axis=1)[:, None]
        matrix = times_root(times_root(matrix, weights).T, weights)
        return BlockTriangle.from_dense(matrix), times_root(between.T, weights).T


def times_root(rows: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """`rows` (n, m) multiplied by the roots of their weights."""
    return rows if weights is None else rows * np.sqrt(weights)[:, None]


def without_root(rows: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """`rows` (n, m) divided by the roots of their weights."""
    return rows if weights is None else rows / np.sqrt(weights)[:, None]


def _gram(rows: np.ndarray, n_jobs: int | None) -> BlockTriangle:
    """``rows rows^T`` (n, n)."""
    gram = BlockTriangle.zeros(rows.shape[0])
    gram.add_products(rows.T, n_jobs=n_jobs)
    return gram
