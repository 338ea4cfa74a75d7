"""The posterior kernel given the selected rows, and the gain of selecting any further row, in O(n m) a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap.learn.blocks.triangle import BlockTriangle, packed_entries
from phimap.ops import host, run_tasks, single_threaded_blas

# Rows of a tile when all gains are recomputed: float64 copies of their features stay in cache.
_TILE = 256


@dataclass(frozen=True)
class _Update:
    """The rank-one update of the kernel by the selection of a row s.

    Attributes
    ----------
    direction : ndarray of shape (m,)
        The vector u.
    shifted : float
        ``R_ss + alpha``.
    column, products : ndarray of shape (n,)
        ``c = Z u`` and ``R c``.
    """

    direction: np.ndarray
    shifted: float
    column: np.ndarray
    products: np.ndarray

    @property
    def gain(self) -> float:
        """The decrease of the trace."""
        return float(np.square(self.column).sum())

    @property
    def squared_norm(self) -> float:
        """The squared norm of column s of R, without the rounding of earlier updates."""
        return self.gain * self.shifted


class PosteriorKernel:
    """Kernel of all rows given the selected rows S: ``R = Z P Z^T`` with ``P = (I + Z_S^T Z_S / alpha)^-1``.

    Selecting a row s subtracts ``c c^T`` from R, with ``c = Z u`` and ``u = P z_s / sqrt(R_ss + alpha)``. One product
    of all features with two vectors then updates the squared norms of the columns of R, ``squared_norms``, and its
    diagonal, ``variances``. Both are float64; the product has the dtype of the features.

    Parameters
    ----------
    Z : ndarray of shape (n, m)
        Features. If they are more than the rows, a rotation reduces them to n columns with the same inner products.
    alpha : float
    n_picks : int
        Most rows that will be selected.
    n_jobs : int or None
    """

    def __init__(self, Z: np.ndarray, alpha: float, n_picks: int, n_jobs: int | None):
        if Z.shape[1] > Z.shape[0]:
            with single_threaded_blas():
                triangle: Any = np.linalg.qr(Z.T, mode="r")
                Z = triangle.T
        self._Z, self._alpha, self._n_jobs = np.ascontiguousarray(Z), alpha, n_jobs
        m = self._Z.shape[1]
        self._gram = BlockTriangle.zeros(m)
        for tile in self._tiles(max(_TILE, m)):
            self._gram.add_products(self._Z[tile].astype(np.float64, copy=False), 1, n_jobs)
        self._factors = np.empty((n_picks, m))
        self._n_factors = 0
        # All norms are recomputed if one differs from its column by more than half of the digits.
        self._tolerance = float(np.sqrt(np.finfo(self._Z.dtype).eps))
        # Gains that differ by less than this share are ties.
        self._rounding = float(m * np.finfo(self._Z.dtype).eps)
        #: How often the norms were computed from the features.
        self.n_refreshes: int = 0
        self.refresh()

    @staticmethod
    def memory(n: int, m: int, n_picks: int, itemsize: int) -> int:
        """Bytes for n rows of m features, including the features."""
        width = min(n, m)
        turned = n * m * itemsize if m > n else 0
        return turned + n * width * itemsize + 8 * (packed_entries(width) + n_picks * width + 4 * n)

    @property
    def explained(self) -> float:
        """The decrease of the trace of the kernel by the selected rows, ``-J(S)``."""
        return float(self._trace - self.variances.sum())

    def refresh(self) -> None:
        """Compute norms and diagonal from the features, in O(n m^2)."""
        n = len(self._Z)
        self.squared_norms, self.variances, traces = np.empty(n), np.empty(n), np.empty(n)

        def compute(tile: slice) -> None:
            rows = self._Z[tile].astype(np.float64, copy=False)
            left = self._residual(rows)
            self.squared_norms[tile] = np.einsum("ij,ij->i", self._gram.matmul(left.T).T, left)
            self.variances[tile] = np.einsum("ij,ij->i", rows, left)
            traces[tile] = np.einsum("ij,ij->i", rows, rows)

        run_tasks(compute, self._tiles(_TILE), self._n_jobs)
        self._trace = traces.sum()
        self.n_refreshes += 1

    def best(self, free: np.ndarray) -> int:
        """The row among the `free` ones (n,) that decreases the trace most; the first of ties."""
        gains = np.where(free, self.squared_norms / (np.maximum(self.variances, 0) + self._alpha), -np.inf)
        highest = gains.max()
        return int(np.argmax(gains >= highest - self._rounding * abs(highest)))

    def pick(self, free: np.ndarray) -> tuple[int, float]:
        """Select the best of the `free` rows; its index and the decrease of the trace."""
        row = self.best(free)
        update = self._update(row)
        if abs(self.squared_norms[row] - update.squared_norm) > self._tolerance * update.squared_norm:
            self.refresh()
            row = self.best(free)
            update = self._update(row)
        gain = update.gain
        self.squared_norms += update.column * (update.column * gain - 2 * update.products)
        self.variances -= np.square(update.column)
        self._keep(update.direction)
        return row, gain

    def condition(self, rows: np.ndarray) -> None:
        """Select given rows, without their gains."""
        with single_threaded_blas():
            for row in rows:
                self._keep(self._direction(row)[0])
        self.refresh()

    def _keep(self, direction: np.ndarray) -> None:
        self._factors[self._n_factors] = direction
        self._n_factors += 1

    def _residual(self, rows: np.ndarray) -> np.ndarray:
        """``P`` times float64 `rows` (..., m)."""
        factors = self._factors[: self._n_factors]
        return rows - (rows @ factors.T) @ factors

    def _direction(self, row: int) -> tuple[np.ndarray, float]:
        """The vector u (m,) of a selected row s, and ``R_ss + alpha``."""
        features = self._Z[row].astype(np.float64)
        left = self._residual(features)
        shifted = max(float(left @ features), 0.0) + self._alpha
        return left / np.sqrt(shifted), shifted

    def _update(self, row: int) -> _Update:
        with single_threaded_blas():
            direction, shifted = self._direction(row)
            turned = self._residual(self._gram.matmul(direction[:, None], self._n_jobs)[:, 0])
            both = np.stack([direction, turned], axis=1).astype(self._Z.dtype)
            products = host(self._Z.dtype).matmul_rows(self._Z, both, self._n_jobs).astype(np.float64)
            return _Update(direction, shifted, products[:, 0], products[:, 1])

    def _tiles(self, height: int) -> list[slice]:
        return [slice(start, start + height) for start in range(0, len(self._Z), height)]
