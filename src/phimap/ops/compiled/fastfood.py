"""Pairs of Walsh-Hadamard transforms with a permutation and a diagonal matrix of gains between them."""

from __future__ import annotations

import numpy as np

from phimap.ops.compiled.hadamard import TOGETHER, flat_rows, repeat, transform, write_scaled
from phimap.ops.compiled.jit import compiled


def fastfood_blocks(
    X: np.ndarray, signs: np.ndarray, permutations: np.ndarray, gains: np.ndarray, scale: np.ndarray, out: np.ndarray
) -> None:
    """Apply blocks ``H diag(gains_b) P_b H diag(signs_b)`` to rows padded with zeros to the width p.

    X (n, d), gains (B, p), scale (s,) and out (n, s) have one floating dtype; signs is int8 (B, p), permutations intp
    (B, p) with entries below p. The width p >= d is a power of two, and s <= B p. H is unnormalised and ``(P_b y)[j]``
    is ``y[permutations[b, j]]``. ``out[:, c]`` is ``scale[c]`` times column c of the blocks' results side by side. Time
    O(n B p log p); scratch for two blocks or twice `TOGETHER` numbers, whichever is larger.
    """
    n_blocks, width = signs.shape
    together = max(1, TOGETHER // width)
    for block in range(0, n_blocks, together):
        some = slice(block, block + together)
        first, last = block * width, min((block + together) * width, scale.shape[0])
        flips = flat_rows(signs[None, some], X.dtype)[0]
        _fastfood_blocks(X, flips, permutations[some], gains[some], scale[first:last], first, out)


@compiled
def _fastfood_blocks(X, flips, permutations, gains, scale, first, out):
    """Write the results of several blocks to the columns of `out` from `first` on; flips (w,) holds all their signs."""
    n_blocks, width = permutations.shape
    values, permuted = np.empty(flips.shape[0], X.dtype), np.zeros(flips.shape[0], X.dtype)
    for i in range(X.shape[0]):
        repeat(X[i], width, values)
        transform(values, flips, 0, values.shape[0], width)
        for b in range(n_blocks):
            block = slice(b * width, (b + 1) * width)
            _permute(values[block], permutations[b], gains[b], permuted[block])
        transform(permuted, None, 0, permuted.shape[0], width)
        write_scaled(permuted, scale, out[i, first : first + scale.shape[0]])


@compiled
def _permute(values, permutation, gains, results):
    """Set ``results[j]`` to ``gains[j] * values[permutation[j]]`` for all j."""
    for j in range(results.shape[0]):
        results[j] = gains[j] * values[permutation[j]]
