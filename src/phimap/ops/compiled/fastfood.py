"""Pairs of Walsh-Hadamard transforms with a permutation and gains between them."""

from __future__ import annotations

import numba
import numpy as np

from phimap.ops.compiled.hadamard import _GROUP, _NARROW, _transform, _transform_group


@numba.njit(nogil=True, cache=True, error_model="numpy")
def fastfood_blocks(X, signs, permutations, gains, scale, out):
    """Apply blocks ``H diag(gains_b) P_b H diag(signs_b)`` to rows padded with zeros to the width p.

    X (n, d), gains (B, p), scale (s,) and out (n, s) of one floating dtype; signs int8 (B, p), permutations intp
    (B, p) with entries below p, d <= p a power of two and s <= B p. H is unnormalised and ``(P y)[j]`` is
    ``y[permutation[j]]``. ``out[:, c]`` is ``scale[c]`` times column c of the blocks set side by side. Overwrites
    `out`. O(n B p log p); scratch of two rows, or of two groups.
    """
    n_blocks, width = signs.shape
    for block in range(n_blocks):
        first = block * width
        results, factors = out[:, first : first + width], scale[first : first + width]
        if width <= _NARROW:
            _narrow_block(X, signs[block], permutations[block], gains[block], factors, results)
        else:
            _wide_block(X, signs[block], permutations[block], gains[block], factors, results)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _narrow_block(X, signs, permutation, gains, scale, out):
    """Apply one block: signs, permutation, gains (p,), scale (w,), out (n, w) with w <= p."""
    n, d = X.shape
    width = signs.shape[0]
    group, permuted = np.zeros((width, _GROUP), X.dtype), np.empty((width, _GROUP), X.dtype)
    for first in range(0, n, _GROUP):
        rows, results = X[first : first + _GROUP], out[first : first + _GROUP]
        group[d:] = 0
        for r in range(rows.shape[0]):
            for j in range(d):
                group[j, r] = X.dtype.type(signs[j]) * rows[r, j]
        _transform_group(group)
        for j in range(width):
            source, gain = group[permutation[j]], gains[j]
            for r in range(_GROUP):
                permuted[j, r] = gain * source[r]
        _transform_group(permuted)
        for r in range(rows.shape[0]):
            for j in range(scale.shape[0]):
                results[r, j] = scale[j] * permuted[j, r]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _wide_block(X, signs, permutation, gains, scale, out):
    """Apply one block: signs, permutation, gains (p,), scale (w,), out (n, w) with w <= p."""
    n, d = X.shape
    width = signs.shape[0]
    row, spare = np.empty(width, X.dtype), np.empty(width, X.dtype)
    for i in range(n):
        row[d:] = 0
        for j in range(d):
            row[j] = X.dtype.type(signs[j]) * X[i, j]
        row, spare = _transform(row, spare)
        for j in range(width):
            spare[j] = gains[j] * row[permutation[j]]
        spare, row = _transform(spare, row)
        for j in range(scale.shape[0]):
            out[i, j] = scale[j] * spare[j]
