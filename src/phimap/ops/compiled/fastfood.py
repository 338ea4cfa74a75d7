"""Pairs of Walsh-Hadamard transforms with a permutation and gains between them."""

from __future__ import annotations

import numpy as np

from phimap.ops.compiled.hadamard import TOGETHER, flat_rows, repeat, transform, write_scaled
from phimap.ops.compiled.jit import compiled


def fastfood_blocks(
    X: np.ndarray, signs: np.ndarray, permutations: np.ndarray, gains: np.ndarray, scale: np.ndarray, out: np.ndarray
) -> None:
    """Apply blocks ``H diag(gains_b) P_b H diag(signs_b)`` to rows padded with zeros to the width p.

    X (n, d), gains (B, p), scale (s,) and out (n, s) of one floating dtype; signs int8 (B, p), permutations intp
    (B, p) with entries below p, d <= p a power of two and s <= B p. H is unnormalised and ``(P y)[j]`` is
    ``y[permutation[j]]``. ``out[:, c]`` is ``scale[c]`` times column c of the blocks set side by side. Overwrites
    `out`. O(n B p log p); scratch of two blocks, or of twice `TOGETHER` numbers.
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
    """Write the results of blocks that lie side by side, flips (w,), to columns of `out` from `first` on."""
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
    """Set results (p,) to gains times the values at the places of the permutation."""
    for j in range(results.shape[0]):
        results[j] = gains[j] * values[permutation[j]]
