"""Norms, distances and angles of rows in float64, without the cancellation of ``|x|^2 + |y|^2 - 2 <x, y>``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

import numpy as np
from scipy import sparse

from phimap.ops import single_threaded_openmp

# These functions of rows are dispatched on the type of `X`, so that `phimap.exports` can add bodies for the arrays that
# it traces.

#: Rows (n, d): a dense array or a CSR array.
Rows = Any

# A squared distance below this fraction of |x|^2 + |y|^2 loses at least 10 of its 53 bits to cancellation in |x|^2 +
# |y|^2 - 2 <x, y>. It is therefore computed again, from the difference of the rows.
_CANCELLATION = 2.0**-10
# Number of floats in a block of differences, which takes 8 MiB.
_DIFFERENCES = 2**20
# Angles below this threshold count as 0. Two parallel rows that are normalised in float64 differ by the rounding of
# their norms (a pairwise sum of d squares and a division). This is below 16 eps for any d that fits in memory.
_PARALLEL = 16 * np.finfo(np.float64).eps


@singledispatch
def row_blocks(X: Rows, step: int) -> list[Rows]:
    """Return `X` in blocks of `step` rows; the last block may have fewer."""
    return [X[start : start + step] for start in range(0, max(X.shape[0], 1), step)]


@singledispatch
def squared_norms(X: Rows) -> np.ndarray:
    """Squared norms ``|x|^2`` (n,) of the rows."""
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).reshape(-1)
    # NumPy sums contiguous rows pairwise, so the error grows only with log d.
    return np.square(X).sum(axis=1)


@singledispatch
def row_norms(X: Rows) -> np.ndarray:
    """Norms ``|x|`` (n,) of the rows, without intermediate overflow or underflow."""
    return _polar(X)[1]


@singledispatch
def unit_rows(X: Rows) -> Rows:
    """Rows ``x / |x|`` (n, d) of norm 1; a zero row stays zero."""
    return _polar(X)[0]


@singledispatch
def squared_distances(X: Rows, Y: Rows, scale: float | np.ndarray = 1.0) -> np.ndarray:
    """Squared distances ``|scale * (x - y)|^2`` (n, m), never negative, 0 for equal rows; `scale` is a number or (d,).

    The mean of X is subtracted from dense rows. Squared distances are then ``|x|^2 + |y|^2 - 2 <x, y>``; those below
    ``2^-10 (|x|^2 + |y|^2)`` are computed again from the differences. The relative error is at most about
    ``2^10 (d + 4) eps``. For dense data, this error does not depend on the distance of the data from the origin.
    """
    centre = 0.0 if sparse.issparse(X) else X.mean(axis=0)
    left, right = (scaled_columns(rows - centre if np.ndim(centre) else rows, scale) for rows in (X, Y))
    sums = squared_norms(left)[:, None] + squared_norms(right)
    products = left @ right.T
    squared = products.toarray() if sparse.issparse(products) else products
    squared *= -2.0
    squared += sums
    sums *= _CANCELLATION
    # The flattened matrix is searched, because NumPy takes ten times as long to find a few entries of a two-dimensional
    # array.
    rows, columns = np.divmod(np.flatnonzero(squared <= sums), squared.shape[1])
    step = max(1, _DIFFERENCES // X.shape[1])
    for start in range(0, rows.size, step):
        i, j = rows[start : start + step], columns[start : start + step]
        squared[i, j] = squared_norms(scaled_columns(X[i] - Y[j], scale))
    return squared


@singledispatch
def city_block_distances(X: Rows, Y: Rows, scale: float | np.ndarray = 1.0) -> np.ndarray:
    """City-block distances ``sum_j scale_j |x_j - y_j|`` (n, m); `scale` is a number or (d,)."""
    if sparse.issparse(X):
        from sklearn.metrics.pairwise import manhattan_distances

        with single_threaded_openmp():
            return manhattan_distances(*(_short_indices(scaled_columns(rows, scale)) for rows in (X, Y)))
    from scipy.spatial.distance import cdist

    # The differences are scaled, not the rows, so that data far from the origin lose no digits.
    return cdist(X, Y, "cityblock", w=np.broadcast_to(np.asarray(scale, dtype=np.float64), X.shape[1]))


def _short_indices(X: sparse.csr_array) -> sparse.csr_array:
    """`X` with 32-bit indices, which scikit-learn requires."""
    return sparse.csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)


def scaled_columns(X: Rows, scale: float | np.ndarray) -> Rows:
    """`X` with its columns multiplied by `scale`, a number or (d,)."""
    if sparse.issparse(X) and np.ndim(scale):
        return sparse.csr_array((X.data * np.asarray(scale)[X.indices], X.indices, X.indptr), shape=X.shape)
    return X * scale


@singledispatch
def angles(X: Rows, Y: Rows) -> np.ndarray:
    """Angles (n, m) in [0, pi] between rows, pi/2 for a zero row, with an absolute error of a few eps.

    Near 0 and pi, where arccos loses half of the digits, the angle is ``2 arcsin(|u - v| / 2)`` of the unit rows.
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
    """Yield j and column j of both tiles, dense (n,) and (m,). A column that is zero in both CSR tiles is skipped."""
    if not sparse.issparse(X):
        yield from ((j, X[:, j], Y[:, j]) for j in range(X.shape[1]))
        return
    left, right = X.tocsc(), Y.tocsc()
    for j in np.union1d(X.indices, Y.indices):
        yield j, left[:, [j]].toarray().reshape(-1), right[:, [j]].toarray().reshape(-1)


def _angle_of_chord(squared: np.ndarray) -> np.ndarray:
    return 2.0 * np.arcsin(np.minimum(1.0, 0.5 * np.sqrt(squared)))


def _polar(X: Rows) -> tuple[Rows, np.ndarray]:
    """Unit rows (n, d) and norms (n,) of `X`; a zero row stays zero."""
    largest = abs(X).max(axis=1)
    largest = largest.toarray().reshape(-1) if sparse.issparse(largest) else largest
    scaled = _divided(X, largest)
    norms = np.sqrt(squared_norms(scaled))
    return _divided(scaled, norms), norms * largest


def _divided(X: Rows, divisors: np.ndarray) -> Rows:
    """Rows divided by `divisors` (n,); a row with divisor 0 is not changed."""
    divisors = np.where(divisors > 0, divisors, 1.0)
    if not sparse.issparse(X):
        return X / divisors[:, None]
    lengths = np.diff(X.indptr)
    return sparse.csr_array((X.data / np.repeat(divisors, lengths), X.indices, X.indptr), shape=X.shape)
