"""Moments of a sample of rows: what the variance of a sketched power series depends on."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse

from phimap.features.power_series.row_sample import spaced_rows
from phimap.ops import single_threaded_blas

# Rows whose pairs the variances are averaged over.
_PAIR_ROWS = 256
# Rows from which on the principal directions are computed from others.
_LEAST_SPLIT = 8
# Principal directions at most.
_MOST_DIRECTIONS = 128


class RowMoments:
    """Rows split into ``x = a e + u``: positions a along a direction e, and parts u orthogonal to it.

    Attributes
    ----------
    n_features : int
    known : bool
        Whether they are from data; else they are those of orthogonal unit rows.
    direction : ndarray of shape (d,) or None
        The unit vector e; without it u = x and a = 1.
    basis : ndarray of shape (d, k)
        Leading principal directions of the orthogonal parts.
    chosen : ndarray of shape (r,)
        Numbers of the rows that what follows is of.
    positions : ndarray of shape (r,)
    products, squares : ndarrays of shape (r, r)
        ``<u, v>`` and ``|u|^2 |v|^2`` for pairs of rows.
    """

    def __init__(self, rows: Any, n_features: int, direction: np.ndarray | None, known: bool):
        self.n_features, self.direction, self.known = n_features, direction, known
        n_rows = rows.shape[0]
        positions, orthogonal = np.ones(n_rows), rows
        if direction is not None:
            positions = rows @ direction
            orthogonal = rows - np.outer(positions, direction)
        chosen = spaced_rows(n_rows, _PAIR_ROWS)
        others = np.ones(n_rows, dtype=bool)
        if known and n_rows >= _LEAST_SPLIT:
            # The directions are judged by rows that they were not computed from: few rows span all of themselves.
            chosen = spaced_rows(n_rows, min(_PAIR_ROWS, n_rows // 2))
            others[chosen] = False
        self.basis = np.empty((rows.shape[1], 0))
        # Coordinates along dense directions would cost more than the entries that sparse rows have.
        if known and not sparse.issparse(rows):
            self.basis = _principal(orthogonal[others], _MOST_DIRECTIONS)
        self.chosen, self.positions = chosen, positions[chosen]
        orthogonal = orthogonal[chosen]
        products = orthogonal @ orthogonal.T
        self.products = products.toarray() if sparse.issparse(products) else products
        self.squares = np.multiply.outer(self.products.diagonal(), self.products.diagonal())
        inside = np.cumsum(np.square(orthogonal @ self.basis), axis=1)
        self._inside = np.hstack([np.zeros((len(chosen), 1)), inside])
        self._pairs = ~np.eye(len(chosen), dtype=bool) if len(chosen) > 1 else np.ones((1, 1), dtype=bool)

    @classmethod
    def of_rows(cls, rows: Any) -> list[Self]:
        """Of rows (r, d) of data: as they are, and split along the direction of their mean; CSR only as they are."""
        if sparse.issparse(rows):
            return [cls(rows, rows.shape[1], None, known=True)]
        mean = rows.mean(axis=0)
        length = np.linalg.norm(mean)
        directions = [None, mean / length] if length > 0 else [None]
        # Threads would cost several times what these small products take.
        with single_threaded_blas():
            return [cls(rows, rows.shape[1], direction, known=True) for direction in directions]

    @classmethod
    def unknown(cls, n_features: int) -> Self:
        """Of data of which nothing is known."""
        return cls(np.eye(2), n_features, None, known=False)

    def standard_deviation(self, *factors: np.ndarray) -> float:
        """Root of the mean over pairs of distinct rows of a variance: a product of arrays that broadcast to (r, r)."""
        values = np.broadcast_to(prod_of(factors), self.products.shape)
        return float(np.sqrt(max(values[self._pairs].mean(), 0.0)))

    def squared_cosines(self) -> np.ndarray:
        """Of the orthogonal parts (r, r); 0 where one is zero."""
        zero = np.zeros_like(self.products)
        return np.minimum(np.divide(self.products**2, self.squares, out=zero, where=self.squares > 0), 1.0)

    def split(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Squared norms (r,) of the orthogonal parts within the first k principal directions, and outside."""
        total = self.products.diagonal()
        inside = np.minimum(self._inside[:, k], total)
        return inside, total - inside


def prod_of(factors: tuple[np.ndarray, ...]) -> np.ndarray:
    """The product of arrays that broadcast to one shape."""
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def _principal(rows: np.ndarray, k: int) -> np.ndarray:
    """The leading right singular vectors (d, k) of rows, by subspace iteration from fixed vectors.

    Any orthonormal basis gives an unbiased map; this one a small error.
    """
    k = min(k, *rows.shape)
    basis = np.random.default_rng(0).standard_normal((rows.shape[1], min(k + 8, rows.shape[1])))
    # A third pass would add a thousandth of what the directions hold.
    for _ in range(2):
        basis = np.linalg.qr(rows.T @ (rows @ basis))[0]
    projected = rows @ basis
    _, turned = np.linalg.eigh(projected.T @ projected)
    return np.ascontiguousarray((basis @ turned)[:, ::-1][:, :k])
