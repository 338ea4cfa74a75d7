"""Walsh-Hadamard transforms of rows, and chains of such transforms with random signs.

The transform of a row of width 2^k consists of k stages of butterflies ``(a, b) -> (a + b, a - b)`` between entries 1,
2, 4, ... apart (the stride). Rows are stored one after the other in a flat array. A tile of eight contiguous vectors is
loaded once for all stages whose stride is shorter than the tile: first the stages within a vector, then the stages
between vectors. Longer strides are processed three stages at a time, on eight vectors that are a stride apart. Thus
4,096 float32 numbers are read and written three times for twelve stages, from the L1 cache. Rows narrower than a tile
are transformed several at a time.

The operations on a row do not depend on its position, so results do not depend on how rows are split into blocks.

References
----------
Fino, Algazi (1976), *Unified matrix treatment of the fast Walsh-Hadamard transform*.
"""

from __future__ import annotations

import numpy as np

from phimap.ops.compiled.jit import compiled, inlined
from phimap.ops.compiled.vectors import (
    BYTES,
    butterfly,
    flip,
    lanes_of,
    load,
    store,
    within_1,
    within_2,
    within_4,
    within_8,
)

# Largest number of entries of the narrow blocks that are transformed together. In float32 they take 16 kB, half of a
# common L1 cache.
TOGETHER = 4096


@inlined
def _between_two(a, b, c, d, e, f, g, h):
    """Apply one stage of butterflies to the pairs (a, b), (c, d), (e, f) and (g, h) of vectors."""
    a, b = butterfly(a, b)
    c, d = butterfly(c, d)
    e, f = butterfly(e, f)
    g, h = butterfly(g, h)
    return a, b, c, d, e, f, g, h


@inlined
def _load_eight(x, i, step):
    """Load eight vectors of `x` from `i` on, `step` apart."""
    i_upper = i + 4 * step
    a, b, c, d = load(x, i), load(x, i + step), load(x, i + 2 * step), load(x, i + 3 * step)
    e, f, g = load(x, i_upper), load(x, i_upper + step), load(x, i_upper + 2 * step)
    return a, b, c, d, e, f, g, load(x, i_upper + 3 * step)


@inlined
def _store_eight(x, i, step, a, b, c, d, e, f, g, h):
    """Write eight vectors to `x` from `i` on, `step` apart."""
    i_upper = i + 4 * step
    store(x, i, a)
    store(x, i + step, b)
    store(x, i + 2 * step, c)
    store(x, i + 3 * step, d)
    store(x, i_upper, e)
    store(x, i_upper + step, f)
    store(x, i_upper + 2 * step, g)
    store(x, i_upper + 3 * step, h)


@inlined
def _tile(x, signs, i, j, width):
    """Multiply a tile of eight vectors of `x` from `i` on by signs, then apply all stages of rows of `width` within it.

    `signs` is None or an int8 array, whose entries from `j` on belong to the tile.
    """
    lanes = lanes_of(x)
    a, b, c, d, e, f, g, h = _load_eight(x, i, lanes)
    if signs is not None:
        j_upper = j + 4 * lanes
        a, b = flip(a, signs, j), flip(b, signs, j + lanes)
        c, d = flip(c, signs, j + 2 * lanes), flip(d, signs, j + 3 * lanes)
        e, f = flip(e, signs, j_upper), flip(f, signs, j_upper + lanes)
        g, h = flip(g, signs, j_upper + 2 * lanes), flip(h, signs, j_upper + 3 * lanes)
    if width > 1:
        a, b, c, d = within_1(a), within_1(b), within_1(c), within_1(d)
        e, f, g, h = within_1(e), within_1(f), within_1(g), within_1(h)
    if width > 2:
        a, b, c, d = within_2(a), within_2(b), within_2(c), within_2(d)
        e, f, g, h = within_2(e), within_2(f), within_2(g), within_2(h)
    if lanes > 4 and width > 4:
        a, b, c, d = within_4(a), within_4(b), within_4(c), within_4(d)
        e, f, g, h = within_4(e), within_4(f), within_4(g), within_4(h)
    if lanes > 8 and width > 8:
        a, b, c, d = within_8(a), within_8(b), within_8(c), within_8(d)
        e, f, g, h = within_8(e), within_8(f), within_8(g), within_8(h)
    if width > lanes:
        a, b, c, d, e, f, g, h = _between_two(a, b, c, d, e, f, g, h)
    if width > 2 * lanes:
        a, c, b, d, e, g, f, h = _between_two(a, c, b, d, e, g, f, h)
    if width > 4 * lanes:
        a, e, b, f, c, g, d, h = _between_two(a, e, b, f, c, g, d, h)
    _store_eight(x, i, lanes, a, b, c, d, e, f, g, h)


@inlined
def _three_stages(x, i, stride):
    """Apply the stages of strides `stride`, ``2 stride`` and ``4 stride`` to eight vectors of `x`."""
    a, b, c, d, e, f, g, h = _load_eight(x, i, stride)
    a, b, c, d, e, f, g, h = _between_two(a, b, c, d, e, f, g, h)
    a, c, b, d, e, g, f, h = _between_two(a, c, b, d, e, g, f, h)
    a, e, b, f, c, g, d, h = _between_two(a, e, b, f, c, g, d, h)
    _store_eight(x, i, stride, a, b, c, d, e, f, g, h)


@inlined
def _two_stages(x, i, stride):
    """Apply the stages of strides `stride` and ``2 stride`` to four vectors of `x`."""
    a, b = butterfly(load(x, i), load(x, i + stride))
    c, d = butterfly(load(x, i + 2 * stride), load(x, i + 3 * stride))
    a, c = butterfly(a, c)
    b, d = butterfly(b, d)
    store(x, i, a)
    store(x, i + stride, b)
    store(x, i + 2 * stride, c)
    store(x, i + 3 * stride, d)


@inlined
def _one_stage(x, i, stride):
    """Apply the stage of stride `stride` to two vectors of `x`."""
    a, b = butterfly(load(x, i), load(x, i + stride))
    store(x, i, a)
    store(x, i + stride, b)


@compiled
def transform(x, signs, first, last, width):
    """Transform the contiguous rows of `width` in ``x[first:last]`` in place.

    The entries are first multiplied by `signs`, int8 (at least last - first,), or None for no signs. ``last - first``
    is a multiple of the width and of the tile, eight vectors.
    """
    lanes = lanes_of(x)
    tile = 8 * lanes
    if width <= tile:
        for i in range(first, last, tile):
            _tile(x, signs, i, i - first, width)
        return
    for row in range(first, last, width):
        stop = row + width
        for i in range(row, stop, tile):
            _tile(x, signs, i, i - first, tile)
        stride = tile
        # If four stages remain, two passes of two stages follow instead of one pass of three stages and one of a single
        # stage.
        while 8 * stride <= width and 16 * stride != width:
            for start in range(row, stop, 8 * stride):
                for i in range(start, start + stride, lanes):
                    _three_stages(x, i, stride)
            stride *= 8
        while 4 * stride <= width:
            for start in range(row, stop, 4 * stride):
                for i in range(start, start + stride, lanes):
                    _two_stages(x, i, stride)
            stride *= 4
        if stride < width:
            for i in range(row, row + stride, lanes):
                _one_stage(x, i, stride)


@compiled
def fwht(X):
    """Replace every row of X by its unnormalised Walsh-Hadamard transform, in Sylvester's order.

    X (n, d) is float32 or float64 and C-contiguous; d is a power of two. Time O(n d log d); scratch for one tile.
    """
    flat = X.reshape(-1)
    tile = 8 * lanes_of(X)
    # If rows are narrower than a tile, the last tile may be incomplete.
    whole = flat.shape[0] - flat.shape[0] % tile
    transform(flat, None, 0, whole, X.shape[1])
    if whole < flat.shape[0]:
        rest = np.zeros(tile, X.dtype)
        rest[: flat.shape[0] - whole] = flat[whole:]
        transform(rest, None, 0, tile, X.shape[1])
        flat[whole:] = rest[: flat.shape[0] - whole]


def hadamard_blocks(X: np.ndarray, signs: np.ndarray, scale: np.ndarray, out: np.ndarray) -> None:
    """Apply blocks ``H D_{b,0} ... H D_{b,t-1}``, the last factor first, to rows padded with zeros to the width p.

    X (n, d), scale (s,) and out (n, s) have one floating dtype; signs is int8 (B, t, p) with t >= 1. The width p >= d
    is a power of two, and s <= B p. ``out[:, c]`` is ``scale[c]`` times column c of the blocks' results side by side.
    Time O(n B t p log p); scratch for one block or `TOGETHER` numbers, whichever is larger.
    """
    n_blocks, _, width = signs.shape
    together = max(1, TOGETHER // width)
    for block in range(0, n_blocks, together):
        first, last = block * width, min((block + together) * width, scale.shape[0])
        factors = flat_rows(signs[block : block + together].transpose(1, 0, 2), X.dtype)
        _hadamard_blocks(X, factors, width, scale[first:last], first, out)


def flat_rows(parts: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Flatten parts (t, B, p) to rows (t, B p), each padded with zeros to a multiple of a tile of `dtype`."""
    rows = parts.reshape(parts.shape[0], -1)
    tile = 8 * BYTES // dtype.itemsize
    missing = -rows.shape[1] % tile
    return np.ascontiguousarray(np.pad(rows, [(0, 0), (0, missing)]) if missing else rows)


@compiled
def _hadamard_blocks(X, factors, width, scale, first, out):
    """Write the results of several blocks to the columns of `out` from `first` on; factors (t, w) holds their signs."""
    values = np.empty(factors.shape[1], X.dtype)
    for i in range(X.shape[0]):
        repeat(X[i], width, values)
        for factor in range(factors.shape[0] - 1, -1, -1):
            transform(values, factors[factor], 0, values.shape[0], width)
        write_scaled(values, scale, out[i, first : first + scale.shape[0]])


@compiled
def repeat(x, width, values):
    """Fill `values` with copies of x (d,), each padded with zeros to `width`."""
    d = x.shape[0]
    for start in range(0, values.shape[0] - width + 1, width):
        row = values[start : start + width]
        for j in range(d):
            row[j] = x[j]
        row[d:] = 0
    values[values.shape[0] - values.shape[0] % width :] = 0


@compiled
def write_scaled(values, scale, results):
    """Set results (w,) to scale (w,) times the first w entries of `values`."""
    for c in range(scale.shape[0]):
        results[c] = scale[c] * values[c]
