"""Moments of a sample of rows. They determine the variance of a sketched power series."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse

from phimap.features.power_series.row_sample import spaced_rows
from phimap.ops import single_threaded_blas

# Maximum number of rows. Variances are averaged over all pairs of these rows.
_PAIR_ROWS = 256
# With at least this many rows, principal directions and variances are computed from different rows.
_LEAST_SPLIT = 8
# Maximum number of principal directions: the largest number of leading directions in `allocation.py`.
_MOST_DIRECTIONS = 128


class RowMoments:
    """Rows split into ``x = a e + u``: positions a along a direction e, and parts u orthogonal to it.

    Attributes
    ----------
    n_features : int
        Number d of columns.
    known : bool
        Whether the moments come from data. If not, they are the moments of orthogonal unit rows.
    direction : ndarray of shape (d,) or None
        The unit vector e; None means that rows are not split: u = x and a = 1.
    basis : ndarray of shape (d, k)
        Leading principal directions of the orthogonal parts.
    chosen : ndarray of shape (r,)
        Indices of the sample rows to which `positions`, `products` and `squares` refer.
    positions : ndarray of shape (r,)
        Positions a of the rows.
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
            # The directions are computed from some rows and evaluated on the others. On the same rows the estimate
            # would be too optimistic, because a few rows lie almost entirely within their own principal directions.
            chosen = spaced_rows(n_rows, min(_PAIR_ROWS, n_rows // 2))
            others[chosen] = False
        self.basis = np.empty((rows.shape[1], 0))
        # For sparse rows, a projection onto dense directions would cost more than the whole sketch.
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
        """Moments of rows (r, d) without a split, then of rows split along the direction of their mean.

        CSR rows, and rows of mean 0, have only the moments without a split.
        """
        if sparse.issparse(rows):
            return [cls(rows, rows.shape[1], None, known=True)]
        mean = rows.mean(axis=0)
        length = np.linalg.norm(mean)
        directions = [None, mean / length] if length > 0 else [None]
        # Starting threads would take several times as long as these small products.
        with single_threaded_blas():
            return [cls(rows, rows.shape[1], direction, known=True) for direction in directions]

    @classmethod
    def unknown(cls, n_features: int) -> Self:
        """Return the moments of orthogonal unit rows, which are assumed for unknown data."""
        return cls(np.eye(2), n_features, None, known=False)

    def standard_deviation(self, *factors: np.ndarray) -> float:
        """Root of the mean of a variance over pairs of distinct rows.

        The variance is the product of `factors`, which broadcast to (r, r).
        """
        values = np.broadcast_to(prod_of(factors), self.products.shape)
        return float(np.sqrt(max(values[self._pairs].mean(), 0.0)))

    def squared_cosines(self) -> np.ndarray:
        """Squared cosines (r, r) between the orthogonal parts of pairs of rows; 0 if one part is zero."""
        zero = np.zeros_like(self.products)
        return np.minimum(np.divide(self.products**2, self.squares, out=zero, where=self.squares > 0), 1.0)

    def power_deviations(self, degree: int) -> np.ndarray:
        """Standard deviations (degree + 1,) of one-feature sketches of the powers of ``<x, y>``, up to `degree`.

        They are root mean squares over pairs of distinct rows. With a split, the power p is a sum over j of
        ``binom(p, j) (a b)^(p - j) <u, v>^j``, whose terms are sketched for positive j. Their standard deviations sum
        to at most ``(|a b| + |u| |v|)^p - |a b|^p``, apart from the cosine of u and v.
        """
        lengths, powers = np.sqrt(self.squares[self._pairs])[:, None], np.arange(degree + 1)
        if self.direction is None:
            deviations = np.sqrt(lengths ** (2 * powers) + np.square(self.products[self._pairs])[:, None] ** powers)
        else:
            along = np.abs(np.multiply.outer(self.positions, self.positions)[self._pairs])[:, None]
            deviations = (along + lengths) ** powers - along**powers
        return np.sqrt(np.square(deviations).mean(axis=0))

    def split(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Squared norms (r,) of the orthogonal parts inside, and outside, the span of the first k directions."""
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
    """The leading right singular vectors (d, k) of rows, approximated by subspace iteration from fixed vectors.

    The approximation affects only the variance, because the map is unbiased for any orthonormal basis.
    """
    k = min(k, *rows.shape)
    basis = np.random.default_rng(0).standard_normal((rows.shape[1], min(k + 8, rows.shape[1])))
    # A third iteration would increase the captured energy by only a thousandth.
    for _ in range(2):
        basis = np.linalg.qr(rows.T @ (rows @ basis))[0]
    projected = rows @ basis
    _, turned = np.linalg.eigh(projected.T @ projected)
    return np.ascontiguousarray((basis @ turned)[:, ::-1][:, :k])
