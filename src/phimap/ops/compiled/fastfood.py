"""Pairs of Walsh-Hadamard transforms with a permutation and gains between them."""

from __future__ import annotations

import numba
import numpy as np

from phimap.ops.compiled.hadamard import TOGETHER, flat_rows, repeat, transform, write_scaled
from phimap.ops.compiled.vectors import lanes_of


@numba.njit(nogil=True, cache=True, error_model="numpy")
def fastfood_blocks(X, signs, permutations, gains, scale, out):
    """Apply blocks ``H diag(gains_b) P_b H diag(signs_b)`` to rows padded with zeros to the width p.

    X (n, d), gains (B, p), scale (s,) and out (n, s) of one floating dtype; signs int8 (B, p), permutations intp
    (B, p) with entries below p, d <= p a power of two and s <= B p. H is unnormalised and ``(P y)[j]`` is
    ``y[permutation[j]]``. ``out[:, c]`` is ``scale[c]`` times column c of the blocks set side by side. Overwrites
    `out`. O(n B p log p); scratch of two blocks, or of twice `TOGETHER` numbers.
    """
    n_blocks, width = signs.shape
    tile = 8 * lanes_of(X)
    together = max(1, TOGETHER // width)
    for block in range(0, n_blocks, together):
        stop = min(block + together, n_blocks)
        columns = slice(block * width, min(stop * width, scale.shape[0]))
        flips = flat_rows(signs[block:stop].reshape(1, -1, width), tile)[0]
        values, permuted = np.empty(flips.shape[0], X.dtype), np.zeros(flips.shape[0], X.dtype)
        for i in range(X.shape[0]):
            repeat(X[i], width, values)
            transform(values, flips, 0, values.shape[0], width)
            for b in range(block, stop):
                start = (b - block) * width
                _permute(values[start : start + width], permutations[b], gains[b], permuted[start : start + width])
            transform(permuted, None, 0, permuted.shape[0], width)
            write_scaled(permuted, scale[columns], out[i, columns])


@numba.njit(nogil=True, error_model="numpy")
def _permute(values, permutation, gains, results):
    """Set results (p,) to gains times the values at the places of the permutation."""
    for j in range(results.shape[0]):
        results[j] = gains[j] * values[permutation[j]]
