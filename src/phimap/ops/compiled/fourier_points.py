"""Pairs of Fourier transforms with random phases; one row for each lane of a vector is processed at a time.

The first transform does not sort its frequencies: phases and positions are permuted to match their order. The second
transform is an inverse one, whose results are in natural order.
"""

from __future__ import annotations

import numpy as np

from phimap.ops.compiled.convolution import forward, inverse, stages_of
from phimap.ops.compiled.fourier_steps import times
from phimap.ops.compiled.jit import compiled
from phimap.ops.compiled.vectors import add, broadcast, lanes_of, load, store, transpose


def fourier_points(
    X: np.ndarray,
    factors: np.ndarray,
    phases: np.ndarray,
    frequencies: np.ndarray,
    n_points: int,
    scale: np.ndarray,
    out: np.ndarray,
) -> None:
    """Apply blocks ``F_n^* P_b D_b1 F_h D_b2`` to the rows of X times factors, and write the parts to `out` (r, s).

    The real and imaginary parts alternate and are multiplied by scale (s,). Shapes are as in
    `primitives.fourier_blocks`; h and n are products of powers of 2, 3 and 5. Time O(r s log(n)); scratch for one group
    of rows.
    """
    n_blocks, half = frequencies.shape
    # Compiled code does not check bounds; a damaged model file may contain any index or length.
    whole = phases.shape == (n_blocks, 2, half, 2) and factors.shape == X.shape[1:] and X.shape[1] <= 2 * half
    if (
        not whole
        or not 0 <= frequencies.min() <= frequencies.max() < n_points
        or out.shape[1] > 2 * n_blocks * n_points
    ):
        raise ValueError("`frequencies`, `phases` and `scale` must belong together. Fit the map again.")
    first, second = stages_of(half, X.dtype), stages_of(n_points, X.dtype)
    # For each frequency, its position in the input of the second transform. Frequencies are in the order in which the
    # first transform leaves them.
    places = np.argsort(second.order)[frequencies[:, first.order]]
    inner = np.ascontiguousarray(phases[:, 0, first.order])
    _fourier_points(
        X, factors, phases[:, 1], inner, places, n_points, scale, out,
        first.radices, first.twiddles, second.radices, second.twiddles,
    )  # fmt: skip


@compiled
def _fourier_points(
    X, factors, outer, inner, places, n_points, scale, out, radices_1, twiddles_1, radices_2, twiddles_2
):
    """Compute the result of `fourier_points` in `out`; outer and inner are (B, h, 2), places is (B, h)."""
    n, d = X.shape
    s = out.shape[1]
    n_blocks, half = places.shape
    lanes = lanes_of(X)
    flat, target = X.reshape(-1), out.reshape(-1)
    ones = load(np.ones(lanes, X.dtype), 0)
    rows = np.zeros(2 * lanes * half, X.dtype)
    turned, values = np.empty_like(rows), np.empty(2 * lanes * n_points, X.dtype)
    for first in range(0, n, lanes):
        n_rows = min(lanes, n - first)
        whole = d - d % lanes if n_rows == lanes else 0
        for j in range(0, whole, lanes):
            transpose(flat, first * d + j, d, load(factors, j), rows, lanes * j, lanes, ones)
        for lane in range(n_rows):
            for j in range(whole, d):
                rows[lanes * j + lane] = factors[j] * X[first + lane, j]
        for b in range(n_blocks):
            for k in range(half):
                i = 2 * lanes * k
                cos, sin = broadcast(outer[b, k, 0]), broadcast(outer[b, k, 1])
                a, p = times(load(rows, i), load(rows, i + lanes), cos, sin)
                store(turned, i, a)
                store(turned, i + lanes, p)
            forward(turned, radices_1, twiddles_1)
            values[:] = 0
            for k in range(half):
                i, j = 2 * lanes * k, 2 * lanes * places[b, k]
                cos, sin = broadcast(inner[b, k, 0]), broadcast(inner[b, k, 1])
                a, p = times(load(turned, i), load(turned, i + lanes), cos, sin)
                store(values, j, add(load(values, j), a))
                store(values, j + lanes, add(load(values, j + lanes), p))
            inverse(values, radices_2, twiddles_2)
            start = 2 * n_points * b
            width = min(2 * n_points, s - start)
            ready = width - width % lanes if n_rows == lanes else 0
            for c in range(0, ready, lanes):
                transpose(values, lanes * c, lanes, ones, target, first * s + start + c, s, load(scale, start + c))
            for lane in range(n_rows):
                for c in range(ready, width):
                    out[first + lane, start + c] = scale[start + c] * values[lanes * c + lane]
