"""Centred rows of features, of which the dual form of a problem sees inner products and combinations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from phimap.learn.data.triangle import BlockTriangle
from phimap.ops import ops_for, run_tasks
from phimap.packed import PackedArray

# Columns that one task combines.
_COLUMNS = 512


class CentredRows(ABC):
    """Rows of features (n, m) less their mean.

    Attributes
    ----------
    mean : ndarray of shape (m,)
    """

    mean: np.ndarray

    @abstractmethod
    def gram(self) -> BlockTriangle:
        """Inner products of the rows (n, n)."""

    @abstractmethod
    def combine(self, A: np.ndarray) -> np.ndarray:
        """Combinations of the rows with coefficients (n, t): (m, t)."""

    @abstractmethod
    def split(self, kept: np.ndarray, tested: np.ndarray) -> tuple[BlockTriangle, np.ndarray]:
        """Inner products of the rows `kept` (k, k), and of the rows `tested` with them (h, k).

        All less the mean of the rows kept; `kept` and `tested` are indices.
        """


class DenseRows(CentredRows):
    """The rows of a dense array (n, m), in float64."""

    def __init__(self, Z: np.ndarray, n_jobs: int | None):
        self.mean = Z.mean(axis=0, dtype=np.float64)
        self._centred = Z.astype(np.float64) - self.mean
        self._n_jobs = n_jobs

    def gram(self) -> BlockTriangle:
        return _gram(self._centred, self._n_jobs)

    def combine(self, A: np.ndarray) -> np.ndarray:
        blocks = np.array_split(self._centred, -(-self._centred.shape[1] // _COLUMNS), axis=1)
        return np.concatenate(run_tasks(lambda block: block.T @ A, blocks, self._n_jobs))

    def split(self, kept: np.ndarray, tested: np.ndarray) -> tuple[BlockTriangle, np.ndarray]:
        mean = self._centred[kept].mean(axis=0)
        rows = self._centred[kept] - mean
        others = self._centred[tested] - mean
        between = ops_for(rows).matmul_rows(others, np.ascontiguousarray(rows.T), self._n_jobs)
        return _gram(rows, self._n_jobs), between


class PackedRows(CentredRows):
    """The rows of a packed array (n, m), which stay packed: means are taken from their inner products."""

    def __init__(self, Z: PackedArray, n_jobs: int | None):
        self._n_jobs = n_jobs
        self._columns = replace(Z.transposed(n_jobs), dtype=np.dtype(np.float64))
        self.mean = self._columns.dot(np.full(len(Z), 1 / len(Z)), n_jobs)
        self._products = replace(Z, dtype=np.dtype(np.float64)).gram(n_jobs=n_jobs)

    def gram(self) -> BlockTriangle:
        means = self._products.mean(axis=0)
        return BlockTriangle.from_dense(self._products - means - means[:, None] + means.mean())

    def combine(self, A: np.ndarray) -> np.ndarray:
        return self._columns.dot(A, self._n_jobs) - np.outer(self.mean, A.sum(axis=0))

    def split(self, kept: np.ndarray, tested: np.ndarray) -> tuple[BlockTriangle, np.ndarray]:
        matrix, between = self._products[np.ix_(kept, kept)], self._products[np.ix_(tested, kept)]
        means = matrix.mean(axis=0)
        matrix += means.mean() - means - means[:, None]
        between += means.mean() - means - between.mean(axis=1, keepdims=True)
        return BlockTriangle.from_dense(matrix), between


def _gram(rows: np.ndarray, n_jobs: int | None) -> BlockTriangle:
    """``rows rows^T`` (n, n)."""
    gram = BlockTriangle.zeros(rows.shape[0])
    gram.add_products(rows.T, n_jobs=n_jobs)
    return gram
