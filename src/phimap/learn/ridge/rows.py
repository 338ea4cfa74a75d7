"""Centred rows of features, of which the dual form of ridge regression sees inner products and combinations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from phimap._random import RandomState
from phimap.learn.ridge.cholesky import BlockTriangle
from phimap.learn.ridge.criteria import System, gram_of_rows, held_out_gram, held_out_rows
from phimap.ops import run_tasks
from phimap.packed import PackedArray

# Columns that one task combines.
_COLUMNS = 512


class DenseRows:
    """The rows of a dense array (n, m), in float64."""

    def __init__(self, Z: np.ndarray, n_jobs: int | None):
        self.mean = Z.mean(axis=0, dtype=np.float64)
        self._centred = Z.astype(np.float64) - self.mean
        self._n_jobs = n_jobs

    def gram(self) -> BlockTriangle:
        """Inner products of the centred rows (n, n)."""
        return gram_of_rows(self._centred, self._n_jobs)

    def combine(self, A: np.ndarray) -> np.ndarray:
        """Combinations of the centred rows with coefficients (n, t): (m, t)."""
        blocks = np.array_split(self._centred, -(-self._centred.shape[1] // _COLUMNS), axis=1)
        return np.concatenate(run_tasks(lambda block: block.T @ A, blocks, self._n_jobs))

    def held_out(self, Y: np.ndarray, eps: float, rng: RandomState) -> System:
        """The system that chooses alpha on a tenth of the rows."""
        return held_out_rows(self._centred, Y, eps, rng, self._n_jobs)


class PackedRows:
    """The rows of a packed array (n, m), which stay packed."""

    def __init__(self, Z: PackedArray, n_jobs: int | None):
        self._rows, self._n_jobs = Z, n_jobs
        self._columns = replace(Z.transposed(n_jobs), dtype=np.dtype(np.float64))
        self.mean = self._columns.dot(np.full(len(Z), 1 / len(Z)), n_jobs)
        self._products = replace(Z, dtype=np.dtype(np.float64)).gram(n_jobs=n_jobs)

    def gram(self) -> BlockTriangle:
        """Inner products of the centred rows (n, n)."""
        means = self._products.mean(axis=0)
        return BlockTriangle.from_dense(self._products - means - means[:, None] + means.mean())

    def combine(self, A: np.ndarray) -> np.ndarray:
        """Combinations of the centred rows with coefficients (n, t): (m, t)."""
        return self._columns.dot(A, self._n_jobs) - np.outer(self.mean, A.sum(axis=0))

    def held_out(self, Y: np.ndarray, eps: float, rng: RandomState) -> System:
        """The system that chooses alpha on a tenth of the rows."""
        return held_out_gram(self._products, Y, eps, rng, self._n_jobs)
