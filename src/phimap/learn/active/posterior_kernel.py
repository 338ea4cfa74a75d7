"""What picked rows leave unknown of all rows: gains of further picks, kept up to date in O(n m) a pick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap.learn.blocks.triangle import BlockTriangle, packed_entries
from phimap.ops import host, run_tasks, single_threaded_blas

# Rows whose gains are formed anew at a time: float64 copies of their features stay near the cache.
_TILE = 256


@dataclass(frozen=True)
class _Step:
    """What a pick s changes.

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
        """What the pick takes from the trace."""
        return float(np.square(self.column).sum())

    @property
    def energy(self) -> float:
        """The squared norm of the column of R, free of what was subtracted before."""
        return self.gain * self.shifted


class Residual:
    """The kernel of all rows given the picked ones, ``R = Z P Z^T`` with ``P = (I + Z_S^T Z_S / alpha)^-1``.

    A pick s takes ``c c^T`` from R, with ``c = Z u`` and ``u = P z_s / sqrt(R_ss + alpha)``. The squared norms of the
    columns of R, ``energies``, and its diagonal, ``variances``, then follow from one product of all features with two
    vectors. They are kept in float64; the products are formed in the dtype of the features.

    Parameters
    ----------
    Z : ndarray of shape (n, m)
        Features; with more of them than rows they are turned to as many as rows, which leaves their products.
    alpha : float
    n_picks : int
        Picks at the most.
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
        # A norm that its column contradicts by more than half of the digits is formed anew, and so are all others.
        self._tolerance = float(np.sqrt(np.finfo(self._Z.dtype).eps))
        # Gains that are equal but for rounding are ties.
        self._rounding = float(m * np.finfo(self._Z.dtype).eps)
        #: Norms formed anew since the start.
        self.n_refreshes: int = 0
        self.refresh()

    @staticmethod
    def memory(n: int, m: int, n_picks: int, itemsize: int) -> int:
        """Bytes held for n rows of m features, these included."""
        width = min(n, m)
        turned = n * m * itemsize if m > n else 0
        return turned + n * width * itemsize + 8 * (packed_entries(width) + n_picks * width + 4 * n)

    @property
    def explained(self) -> float:
        """What the picks take from the trace of the kernel, ``-J(S)``."""
        return float(self._trace - self.variances.sum())

    def refresh(self) -> None:
        """Form norms and diagonal from the features, in O(n m^2)."""
        n = len(self._Z)
        self.energies, self.variances, traces = np.empty(n), np.empty(n), np.empty(n)

        def form(tile: slice) -> None:
            rows = self._Z[tile].astype(np.float64, copy=False)
            left = self._residual(rows)
            self.energies[tile] = np.einsum("ij,ij->i", self._gram.matmul(left.T).T, left)
            self.variances[tile] = np.einsum("ij,ij->i", rows, left)
            traces[tile] = np.einsum("ij,ij->i", rows, rows)

        run_tasks(form, self._tiles(_TILE), self._n_jobs)
        self._trace = traces.sum()
        self.n_refreshes += 1

    def best(self, free: np.ndarray) -> int:
        """The row, among those that are `free` (n,), whose pick takes most from the trace; of ties the first."""
        gains = np.where(free, self.energies / (np.maximum(self.variances, 0) + self._alpha), -np.inf)
        highest = gains.max()
        return int(np.argmax(gains >= highest - self._rounding * abs(highest)))

    def pick(self, free: np.ndarray) -> tuple[int, float]:
        """Pick the best of the `free` rows: its index, and what it takes from the trace."""
        row = self.best(free)
        step = self._step(row)
        if abs(self.energies[row] - step.energy) > self._tolerance * step.energy:
            self.refresh()
            row = self.best(free)
            step = self._step(row)
        gain = step.gain
        self.energies += step.column * (step.column * gain - 2 * step.products)
        self.variances -= np.square(step.column)
        self._keep(step.direction)
        return row, gain

    def condition(self, rows: np.ndarray) -> None:
        """Pick given rows; their gains are not formed."""
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
        """The vector u (m,) of a pick, and ``R_ss + alpha``."""
        features = self._Z[row].astype(np.float64)
        left = self._residual(features)
        shifted = max(float(left @ features), 0.0) + self._alpha
        return left / np.sqrt(shifted), shifted

    def _step(self, row: int) -> _Step:
        with single_threaded_blas():
            direction, shifted = self._direction(row)
            turned = self._residual(self._gram.matmul(direction[:, None], self._n_jobs)[:, 0])
            both = np.stack([direction, turned], axis=1).astype(self._Z.dtype)
            products = host(self._Z.dtype).matmul_rows(self._Z, both, self._n_jobs).astype(np.float64)
            return _Step(direction, shifted, products[:, 0], products[:, 1])

    def _tiles(self, height: int) -> list[slice]:
        return [slice(start, start + height) for start in range(0, len(self._Z), height)]
