"""The convolutional neural tangent kernel of pairs of images, summed displacement by displacement.

A convolution shifts both pixels of a pair equally, so pixel pairs ``(p, p + delta)`` of different displacements delta
do not interact. For each displacement the whole recursion runs on one plane, the overlap of one image with the other
shifted by delta. A sum over equal shifts is a box sum on that plane. A plane of a small image fits in the L1 cache.

One pair of images for each lane of a vector is processed at a time. A shift by a pixel is then a shift by a whole
vector, even if the plane is narrow.
"""

from __future__ import annotations

import math

import numpy as np

from phimap.ops.compiled.angles import acute_angle
from phimap.ops.compiled.jit import compiled, inlined
from phimap.ops.compiled.vectors import (
    add,
    choose,
    lanes_of_long,
    load_long,
    magnitude,
    multiply,
    multiply_add,
    root,
    spread,
    store,
    subtract,
)

# Cosines that differ from 1 by at most this count as 1, because rounding gives such cosines to equal patches.
_PARALLEL = 64 * np.finfo(np.float64).eps


@inlined
def _duals(x, fold):
    """Return pi times both duals of ``sqrt(1 - fold) t + sqrt(fold) |t|`` at a vector of cosines.

    For ``fold = 0.5``, the ReLU, the duals are kappa1 and kappa0.
    """
    zero, one = spread(x, 0.0), spread(x, 1.0)
    size = magnitude(x)
    rest = subtract(one, size)
    rest = choose(subtract(rest, spread(x, _PARALLEL)), rest, zero)
    short, long = root(rest), root(add(one, size))
    acute = acute_angle(short, long)
    supplement = choose(x, subtract(spread(x, math.pi), acute), acute)
    kappa1 = multiply_add(x, supplement, multiply(short, long))
    kappa1 = choose(kappa1, kappa1, zero)
    if fold != 0.5:
        share, linear = spread(x, 2.0 * fold), spread(x, math.pi * (1.0 - 2.0 * fold))
        kappa1, supplement = multiply_add(share, kappa1, multiply(linear, x)), multiply_add(share, supplement, linear)
    return kappa1, supplement


@inlined
def _down(plane, first, n_rows, pitch, sums, start):
    """Set `sums` from `start` on to the sum of `n_rows` rows of a plane, of `pitch` numbers each, from `first` on."""
    lanes = lanes_of_long(plane)
    for k in range(0, pitch, lanes):
        total = load_long(plane, first + k)
        if n_rows > 2:
            total = add(total, add(load_long(plane, first + pitch + k), load_long(plane, first + 2 * pitch + k)))
        for a in range(3 if n_rows > 2 else 1, n_rows):
            total = add(total, load_long(plane, first + a * pitch + k))
        store(sums, start + k, total)


@inlined
def _across(sums, middle, radius):
    """Return the sum of the vectors at most `radius` vectors from `middle`."""
    lanes = lanes_of_long(sums)
    total = load_long(sums, middle)
    # A radius of 1 is the most common; its terms need no loop.
    if radius > 0:
        total = add(total, add(load_long(sums, middle - lanes), load_long(sums, middle + lanes)))
    for b in range(2, radius + 1):
        total = add(total, add(load_long(sums, middle - b * lanes), load_long(sums, middle + b * lanes)))
    return total


@compiled
def pixel_pairs(X, Y, inverse_x, inverse_y, filter_size, flat, fold, pairs, out):
    """Set ``out[k]`` to the sum of P_L over all pixel pairs of images ``X[pairs[k, 0]]`` and ``Y[pairs[k, 1]]``.

    X (n, c, h, w) and Y (m, c, h, w) are float64 and C-contiguous. inverse_x (n, L, h, w) and inverse_y (m, L, h, w)
    hold ``1 / sqrt(N_l)`` for l = 1, ..., L, and 0 where N_l is 0; N_l and P_L are defined in `phimap.kernels.CNTK`.
    pairs is intp (r, 2), out (r,). If `flat`, only pairs of equal pixels are summed. `fold` is 0.5 for the ReLU: see
    the primitive `pixel_pairs`. O(h^2 w^2 (L q + c)) operations for a pair of images with filters of q x q pixels,
    O(h w (L q + c)) if flat; scratch of O(h w (L + c)) numbers for each image.
    """
    _, _, height, width = X.shape
    depth = inverse_x.shape[1]
    radius = min(filter_size // 2, max(height, width) - 1)
    lanes = lanes_of_long(out)
    factor = 1.0 / (filter_size * filter_size * math.pi)
    rows_x, rows_y = _rows(X, inverse_x, factor), _rows(Y, inverse_y, 1.0)
    packed_x, packed_y = np.empty((2, rows_x.shape[1] * lanes))
    planes = np.empty((4, height * width * lanes))
    sums = np.empty((2, (width + 2 * radius) * lanes))
    totals = np.empty(lanes)
    reach_y, reach_x = (0, 0) if flat else (height - 1, width - 1)
    chosen_x, chosen_y = np.full((2, lanes), -1)
    for start in range(0, pairs.shape[0], lanes):
        end = min(start + lanes, pairs.shape[0])
        # Unused lanes repeat the last pair.
        group = pairs[np.minimum(np.arange(start, start + lanes), end - 1)]
        _pack(rows_x, group[:, 0], chosen_x, packed_x)
        _pack(rows_y, group[:, 1], chosen_y, packed_y)
        totals[:] = 0.0
        for down in range(-reach_y, reach_y + 1):
            for right in range(-reach_x, reach_x + 1):
                shift = (down, right)
                _plane(packed_x, packed_y, X.shape[1:], depth, radius, shift, factor, fold, planes, sums, totals)
        out[start:end] = totals[: end - start]


@compiled
def _rows(images, inverse, factor):
    """Return one row for each image: the image (c, h, w), then for each layer `inverse` and ``factor / inverse``.

    Where `inverse` is 0, the quotient is 0.
    """
    n, channels, height, width = images.shape
    depth = inverse.shape[1]
    rows = np.empty((n, channels + 2 * depth, height, width))
    rows[:, :channels] = images
    for i in range(n):
        for layer in range(depth):
            values, roots = rows[i, channels + 2 * layer], rows[i, channels + 2 * layer + 1]
            values[:] = inverse[i, layer]
            for p in range(height):
                for q in range(width):
                    roots[p, q] = factor / values[p, q] if values[p, q] > 0.0 else 0.0
    return rows.reshape(n, -1)


@compiled
def _pack(rows, wanted, chosen, out):
    """Write the rows with indices `wanted` to `out`, one in each lane; `chosen` records the rows that `out` holds."""
    if np.array_equal(wanted, chosen):
        return
    chosen[:] = wanted
    lanes = wanted.shape[0]
    for k in range(rows.shape[1]):
        for lane in range(lanes):
            out[k * lanes + lane] = rows[wanted[lane], k]


@compiled
def _plane(x, y, shape, depth, radius, shift, factor, fold, planes, all_sums, totals):
    """Add to totals (lanes,) the sum of P_L over pixel pairs p of image x and p + shift of image y, both inside.

    x and y are results of `_pack` for images of the given shape (c, h, w).
    """
    channels, height, width = shape
    down, right = shift
    lanes = lanes_of_long(totals)
    rows, columns = height - abs(down), width - abs(right)
    pitch, margin, size = columns * lanes, radius * lanes, height * width * lanes
    corner_x = (max(0, -down) * width + max(0, -right)) * lanes
    corner_y = (max(0, down) * width + max(0, right)) * lanes
    relu, next_relu, tangent, next_tangent = planes[0], planes[1], planes[2], planes[3]
    sums, tangent_sums = all_sums[0], all_sums[1]
    for zeros in (sums, tangent_sums):
        zeros[:margin], zeros[margin + pitch : pitch + 2 * margin] = 0.0, 0.0
    for i in range(rows):
        for k in range(0, pitch, lanes):
            of_x, of_y = corner_x + i * width * lanes + k, corner_y + i * width * lanes + k
            total = multiply(load_long(x, of_x), load_long(y, of_y))
            for channel in range(1, channels):
                total = multiply_add(load_long(x, of_x + channel * size), load_long(y, of_y + channel * size), total)
            store(relu, i * pitch + k, total)
    total = load_long(totals, 0)
    share = spread(total, factor)
    for layer in range(depth):
        plane = (channels + 2 * layer) * size
        for i in range(rows):
            first, end = max(0, i - radius), min(rows, i + radius + 1)
            _down(relu, first * pitch, end - first, pitch, sums, margin)
            if layer > 1:
                _down(tangent, first * pitch, end - first, pitch, tangent_sums, margin)
            # P_1 = W(G_1), so the second layer (index 1) needs no sums of tangents.
            of_tangent = tangent_sums if layer > 1 else sums
            for k in range(0, pitch, lanes):
                of_x, of_y = plane + corner_x + i * width * lanes + k, plane + corner_y + i * width * lanes + k
                cosine = multiply(multiply(_across(sums, margin + k, radius), load_long(x, of_x)), load_long(y, of_y))
                kappa1, kappa0 = _duals(cosine, fold)
                kappa0 = multiply(kappa0, share)
                product = multiply(_across(of_tangent, margin + k, radius), kappa0)
                if layer == depth - 1:
                    total = add(total, product)
                    continue
                value = multiply(multiply(load_long(x, of_x + size), load_long(y, of_y + size)), kappa1)
                store(next_relu, i * pitch + k, value)
                store(next_tangent, i * pitch + k, add(product, value))
        relu, next_relu = next_relu, relu
        tangent, next_tangent = next_tangent, tangent
    store(totals, 0, total)
