"""Walsh-Hadamard transforms of rows, and chains of them with random signs.

Wide rows. One pass takes ``x[4j], ..., x[4j + 3]`` to four results, written a quarter of the row apart (Pease).
It transforms the last two bits of the index and rotates them to the front, so that log2(d) / 2 equal passes
transform every bit and restore the order. Each pass is one long loop with contiguous stores, vectorised down to
the smallest stride, between two buffers of one row, which stay in cache.

Narrow rows leave such loops too short. There a group of rows is transposed into a buffer (d, `_GROUP`), and the
butterflies run along its first axis, each on whole vectors of rows.

A row is computed by the same operations wherever it stands, so that results do not depend on how rows are cut.

References
----------
Pease (1968), *An adaptation of the fast Fourier transform for parallel processing*.
Fino, Algazi (1976), *Unified matrix treatment of the fast Walsh-Hadamard transform*.
"""

from __future__ import annotations

import numba
import numpy as np

# Widest rows handled in groups, and rows in a group. From 128 columns on the passes over one row are faster.
_NARROW = 64
_GROUP = 32


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _rotate_two(source, target):
    """Transform the last two bits of the index of source (d,) and rotate them to the front of target (d,)."""
    quarter = source.shape[0] // 4
    target_0 = target[:quarter]
    target_1 = target[quarter : 2 * quarter]
    target_2 = target[2 * quarter : 3 * quarter]
    target_3 = target[3 * quarter :]
    for j in range(quarter):
        a, b, c, d = source[4 * j], source[4 * j + 1], source[4 * j + 2], source[4 * j + 3]
        sum_ab, difference_ab, sum_cd, difference_cd = a + b, a - b, c + d, c - d
        target_0[j] = sum_ab + sum_cd
        target_1[j] = difference_ab + difference_cd
        target_2[j] = sum_ab - sum_cd
        target_3[j] = difference_ab - difference_cd


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _rotate_one(source, target):
    """Transform the last bit of the index of source (d,) and rotate it to the front of target (d,)."""
    half = source.shape[0] // 2
    sums, differences = target[:half], target[half:]
    for j in range(half):
        a, b = source[2 * j], source[2 * j + 1]
        sums[j] = a + b
        differences[j] = a - b


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _transform(row, spare):
    """Transform row (d,), overwriting it and spare (d,): return the one with the result, then the other."""
    width = row.shape[0]
    reached = 1
    while 4 * reached <= width:
        _rotate_two(row, spare)
        row, spare = spare, row
        reached *= 4
    if reached < width:
        _rotate_one(row, spare)
        row, spare = spare, row
    return row, spare


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _transform_group(group):
    """Transform group (d, `_GROUP`) in place along its first axis."""
    width = group.shape[0]
    stride = 1
    while stride < width:
        for start in range(0, width, 2 * stride):
            for i in range(start, start + stride):
                upper, lower = group[i], group[i + stride]
                for r in range(_GROUP):
                    a, b = upper[r], lower[r]
                    upper[r] = a + b
                    lower[r] = a - b
        stride *= 2


@numba.njit(nogil=True, cache=True, error_model="numpy")
def fwht(X):
    """Replace every row of X by its Walsh-Hadamard transform, in Sylvester's order, unnormalised.

    X (n, d) float32 or float64, C-contiguous, d a power of two. Overwrites `X`. O(n d log d); scratch of two rows,
    or of one group.
    """
    n, width = X.shape
    if width <= _NARROW:
        group = np.zeros((width, _GROUP), X.dtype)
        for first in range(0, n, _GROUP):
            rows = X[first : first + _GROUP]
            for r in range(rows.shape[0]):
                for j in range(width):
                    group[j, r] = rows[r, j]
            _transform_group(group)
            for r in range(rows.shape[0]):
                for j in range(width):
                    rows[r, j] = group[j, r]
    else:
        row, spare = np.empty(width, X.dtype), np.empty(width, X.dtype)
        for i in range(n):
            row[:] = X[i]
            row, spare = _transform(row, spare)
            X[i] = row


@numba.njit(nogil=True, cache=True, error_model="numpy")
def hadamard_blocks(X, signs, scale, out):
    """Apply blocks ``H D_{b,0} ... H D_{b,t-1}``, the last factor first, to rows padded with zeros to the width p.

    X (n, d), scale (s,) and out (n, s) of one floating dtype; signs int8 (B, t, p), d <= p a power of two, t >= 1
    and s <= B p. ``out[:, c]`` is ``scale[c]`` times column c of the blocks set side by side. Overwrites `out`.
    O(n B t p log p); scratch of two rows, or of one group.
    """
    n_blocks, _, width = signs.shape
    for block in range(n_blocks):
        first = block * width
        factors = signs[block]
        if width <= _NARROW:
            _narrow_block(X, factors, scale[first : first + width], out[:, first : first + width])
        else:
            _wide_block(X, factors, scale[first : first + width], out[:, first : first + width])


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _narrow_block(X, signs, scale, out):
    """Apply one block: signs (t, p), scale (w,), out (n, w) with w <= p."""
    n, d = X.shape
    n_factors, width = signs.shape
    group = np.zeros((width, _GROUP), X.dtype)
    for first in range(0, n, _GROUP):
        rows, results = X[first : first + _GROUP], out[first : first + _GROUP]
        group[d:] = 0
        for r in range(rows.shape[0]):
            for j in range(d):
                group[j, r] = X.dtype.type(signs[n_factors - 1, j]) * rows[r, j]
        _transform_group(group)
        for factor in range(n_factors - 2, -1, -1):
            for j in range(width):
                sign = X.dtype.type(signs[factor, j])
                for r in range(_GROUP):
                    group[j, r] *= sign
            _transform_group(group)
        for r in range(rows.shape[0]):
            for j in range(scale.shape[0]):
                results[r, j] = scale[j] * group[j, r]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _wide_block(X, signs, scale, out):
    """Apply one block: signs (t, p), scale (w,), out (n, w) with w <= p."""
    n, d = X.shape
    n_factors, width = signs.shape
    row, spare = np.empty(width, X.dtype), np.empty(width, X.dtype)
    for i in range(n):
        row[d:] = 0
        for j in range(d):
            row[j] = X.dtype.type(signs[n_factors - 1, j]) * X[i, j]
        row, spare = _transform(row, spare)
        for factor in range(n_factors - 2, -1, -1):
            for j in range(width):
                row[j] *= X.dtype.type(signs[factor, j])
            row, spare = _transform(row, spare)
        for j in range(scale.shape[0]):
            out[i, j] = scale[j] * row[j]
