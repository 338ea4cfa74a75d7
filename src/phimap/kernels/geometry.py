"""Norms, distances and angles of rows in float64, with the digits that the Gram trick alone would lose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

#: Rows (n, d): a dense array or a CSR array.
Rows = Any

# Below this share of |x|^2 + |y|^2 a squared distance from the Gram trick has lost 10 of its 53 bits to
# cancellation, and is computed again from the difference of the rows.
_CANCELLATION = 2.0**-10
# Floats of scratch for the differences that are formed at a time: 8 MiB.
_DIFFERENCES = 2**20
# Two parallel rows, normalised in float64, differ by the rounding of their norms: a pairwise sum of d squares
# and a division, below 16 eps for any d that fits in memory.
_PARALLEL = 16 * np.finfo(np.float64).eps


def squared_norms(X: Rows) -> np.ndarray:
    """``|x|^2`` (n,)."""
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).reshape(-1)
    # A sum along contiguous rows is pairwise: its error grows with log d.
    return np.square(X).sum(axis=1)


def row_norms(X: Rows) -> np.ndarray:
    """``|x|`` (n,), without overflow or underflow on the way."""
    return _polar(X)[1]


def unit_rows(X: Rows) -> Rows:
    """``x / |x|`` (n, d); a zero row stays zero."""
    return _polar(X)[0]


def squared_distances(X: Rows, Y: Rows, scale: float | np.ndarray = 1.0) -> np.ndarray:
    """``|scale * (x - y)|^2`` (n, m), never negative, exactly 0 for equal rows; scale is a number or (d,).

    The Gram trick on rows centred at a row mean; what cancels below a 2^-10th of the norms is computed from
    the differences. The relative error is at most about ``2^10 (d + 4) eps``, whatever the offset of dense
    data.
    """
    centre = 0.0 if sparse.issparse(X) else X.mean(axis=0)
    left, right = (scaled_columns(rows - centre if np.ndim(centre) else rows, scale) for rows in (X, Y))
    sums = squared_norms(left)[:, None] + squared_norms(right)
    products = left @ right.T
    squared = products.toarray() if sparse.issparse(products) else products
    squared *= -2.0
    squared += sums
    sums *= _CANCELLATION
    # Flat, since NumPy looks for few places in two dimensions ten times as long.
    rows, columns = np.divmod(np.flatnonzero(squared <= sums), squared.shape[1])
    step = max(1, _DIFFERENCES // X.shape[1])
    for start in range(0, rows.size, step):
        i, j = rows[start : start + step], columns[start : start + step]
        squared[i, j] = squared_norms(scaled_columns(X[i] - Y[j], scale))
    return squared


def scaled_columns(X: Rows, scale: float | np.ndarray) -> Rows:
    """Columns multiplied by a number or by (d,)."""
    if sparse.issparse(X) and np.ndim(scale):
        return sparse.csr_array((X.data * np.asarray(scale)[X.indices], X.indices, X.indptr), shape=X.shape)
    return X * scale


def angles(X: Rows, Y: Rows) -> np.ndarray:
    """Angles (n, m) in [0, pi] between rows, pi/2 for a zero row, with an absolute error of a few eps.

    arccos loses half of the digits near 0 and pi: there the angle comes from the chord, ``2 arcsin(|u -
    v|/2)``.
    """
    left, right = unit_rows(X), unit_rows(Y)
    products = left @ right.T
    cosine = products.toarray() if sparse.issparse(products) else products
    near, opposite = cosine > 1.0 - _CANCELLATION, cosine < _CANCELLATION - 1.0
    angle = np.arccos(np.clip(cosine, -1.0, 1.0, out=cosine), out=cosine)
    if near.any():
        angle[near] = _angle_of_chord(squared_distances(left, right)[near])
    if opposite.any():
        angle[opposite] = np.pi - _angle_of_chord(squared_distances(left, -right)[opposite])
    angle[angle < _PARALLEL] = 0.0
    return angle


def paired_columns(X: Rows, Y: Rows) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Index j and the dense columns j (n,), (m,) of two tiles; of CSR tiles only those that are not zero in both."""
    if not sparse.issparse(X):
        yield from ((j, X[:, j], Y[:, j]) for j in range(X.shape[1]))
        return
    left, right = X.tocsc(), Y.tocsc()
    for j in np.union1d(X.indices, Y.indices):
        yield j, left[:, [j]].toarray().reshape(-1), right[:, [j]].toarray().reshape(-1)


def _angle_of_chord(squared: np.ndarray) -> np.ndarray:
    return 2.0 * np.arcsin(np.minimum(1.0, 0.5 * np.sqrt(squared)))


def _polar(X: Rows) -> tuple[Rows, np.ndarray]:
    """Split rows into unit rows (n, d) and norms (n,); a zero row stays zero."""
    largest = abs(X).max(axis=1)
    largest = largest.toarray().reshape(-1) if sparse.issparse(largest) else largest
    scaled = _divided(X, largest)
    norms = np.sqrt(squared_norms(scaled))
    return _divided(scaled, norms), norms * largest


def _divided(X: Rows, divisors: np.ndarray) -> Rows:
    """Rows divided by (n,), rows with divisor 0 left alone."""
    divisors = np.where(divisors > 0, divisors, 1.0)
    if not sparse.issparse(X):
        return X / divisors[:, None]
    lengths = np.diff(X.indptr)
    return sparse.csr_array((X.data / np.repeat(divisors, lengths), X.indices, X.indptr), shape=X.shape)
