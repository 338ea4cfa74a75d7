"""The convolutional neural tangent kernel of pairs of images, by displacement.

Windows move both pixels of a pair by the same shift, so pixel pairs ``(p, p + delta)`` of one displacement delta never
meet those of another: for each displacement the whole recursion runs on one plane, the overlap of one image with the
other moved by delta, and a sum over equal shifts is an ordinary box sum there. A plane of a small image fits in the
nearest cache.

A plane is stored as one row of numbers with a gap of zeros as wide as the window's radius after each of its rows, and
as many rows of zeros before and after: a box sum is then a sum of shifted vectors without any test for edges.
"""

from __future__ import annotations

import math

import numba
import numpy as np

# arcsin(s) / s = 1 + t P(t) with t = s^2: P is the polynomial through the series at Chebyshev nodes of [0, 1/4],
# whose error falls 14-fold a degree (the singularity is at t = 1).
_DEGREE = 14
_NODES = 0.125 * (1.0 + np.cos((np.arange(_DEGREE + 1) + 0.5) * np.pi / (_DEGREE + 1)))
_SERIES = [math.comb(2 * k, k) / (4.0**k * (2 * k + 1)) for k in range(1, 40)]
_ARCSIN = (
    np.polynomial.Polynomial.fit(_NODES, np.polynomial.polynomial.polyval(_NODES, _SERIES), _DEGREE).convert().coef
)
_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13, _C14 = (float(c) for c in _ARCSIN)
# Cosines of equal patches differ from 1 by the rounding of their sums, a few eps each for products, sums and roots.
_PARALLEL = 64 * np.finfo(np.float64).eps


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def _duals(cosine, inverse, factor, relu, step):
    """Set relu (k,) to ``factor / inverse * kappa1`` and step (k,) to ``factor * kappa0`` of cosine * inverse.

    Where inverse is 0 both are 0. `cosine` (k,) is overwritten.
    """
    for k in range(cosine.shape[0]):
        scale = inverse[k]
        x = cosine[k] * scale
        size = abs(x)
        rest = 1.0 - size
        rest = rest if rest > _PARALLEL else 0.0
        small = size < 0.5
        square, half = size * size, 0.5 * rest
        t = square if small else half
        # Four polynomials in t: their chains of operations run side by side.
        u = t * t
        v = u * u
        low = (_C0 + _C1 * t) + (_C2 + _C3 * t) * u
        middle = (_C4 + _C5 * t) + (_C6 + _C7 * t) * u
        high = (_C8 + _C9 * t) + (_C10 + _C11 * t) * u
        top = (_C12 + _C13 * t) + _C14 * u
        series = 1.0 + t * (((top * v + high) * v + middle) * v + low)
        of_sine, of_chord = 0.5 * math.pi - size * series, 2.0 * math.sqrt(half) * series
        acute = of_sine if small else of_chord
        obtuse = math.pi - acute
        supplement = obtuse if x > 0.0 else acute
        kappa1 = math.sqrt(rest * (1.0 + size)) + x * supplement
        kappa1 = kappa1 if kappa1 > 0.0 else 0.0
        # 0 times what is finite where no pixel is: N is at least the square of the least root.
        inside = factor / math.pi if scale > 0.0 else 0.0
        divisor = scale if scale > 0.0 else 1.0
        relu[k] = inside * kappa1 / divisor
        step[k] = inside * supplement


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _box(source, spare, radius, pitch, margin, length):
    """Replace the plane at ``source[margin:margin + length]``, rows `pitch` apart, by its sums over windows.

    What it leaves in the gaps is no sum of a window.
    """
    # Parts of vectors, so that no index is taken for one that counts from the end.
    n = length + 2 * radius
    first = margin - radius
    sums, middle = spare[:n], source[first : first + n]
    for k in range(n):
        sums[k] = middle[k]
    for a in range(1, radius + 1):
        above, below = source[first - a * pitch :], source[first + a * pitch :]
        for k in range(n):
            sums[k] += above[k] + below[k]
    result, middle = source[margin : margin + length], spare[radius : radius + length]
    for k in range(length):
        result[k] = middle[k]
    for b in range(1, radius + 1):
        left, right = spare[radius - b :], spare[radius + b :]
        for k in range(length):
            result[k] += left[k] + right[k]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def pixel_pairs(X, Y, inverse_x, inverse_y, filter_size, flat, pairs, out):
    """Set ``out[k]`` to the sum over pixel pairs of P_L of images ``X[pairs[k, 0]]`` and ``Y[pairs[k, 1]]``.

    X (n, c, h, w) and Y (m, c, h, w) float64, C-contiguous; inverse_x (n, L, h, w) and inverse_y (m, L, h, w): roots
    of the reciprocal of N_1, ..., N_L, 0 where N is 0; pairs intp (r, 2), out (r,). Only pairs of equal pixels count
    where `flat`. Overwrites `out`. O(h^2 w^2 (L q + c)) operations a pair, O(h w (L q + c)) where flat; scratch of
    O(h w) numbers.
    """
    _, _, height, width = X.shape
    radius = filter_size // 2
    most = (height + 2 * radius + 2) * (width + radius)
    planes = np.zeros((6, most))
    reach_y, reach_x = (0, 0) if flat else (height - 1, width - 1)
    for k in range(pairs.shape[0]):
        i, j = pairs[k]
        total = 0.0
        for down in range(-reach_y, reach_y + 1):
            for right in range(-reach_x, reach_x + 1):
                total += _plane(X[i], Y[j], inverse_x[i], inverse_y[j], down, right, filter_size, planes)
        out[k] = total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _plane(x, y, inverse_x, inverse_y, down, right, filter_size, planes):
    """Sum of P_L over pixels p of x (c, h, w) and p + (down, right) of y, both inside."""
    channels, height, width = x.shape
    depth = inverse_x.shape[0]
    radius = filter_size // 2
    rows, columns = height - abs(down), width - abs(right)
    pitch = columns + radius
    margin, length = (radius + 1) * pitch, rows * pitch
    size = length + 2 * margin
    relu, tangent, step, spare, inverse, cosine = (
        planes[0][:size],
        planes[1][:size],
        planes[2][:size],
        planes[3][:size],
        planes[4][:size],
        planes[5][:size],
    )
    relu[:], tangent[:], spare[:], inverse[:] = 0.0, 0.0, 0.0, 0.0
    top_x, left_x = max(0, -down), max(0, -right)
    top_y, left_y = max(0, down), max(0, right)
    for channel in range(channels):
        for i in range(rows):
            of_x, of_y = x[channel, top_x + i][left_x:], y[channel, top_y + i][left_y:]
            row = relu[margin + i * pitch :]
            for j in range(columns):
                row[j] += of_x[j] * of_y[j]
    factor = 1.0 / (filter_size * filter_size)
    inside = slice(margin, margin + length)
    for layer in range(depth):
        last = layer == depth - 1
        for i in range(rows):
            of_x, of_y = inverse_x[layer, top_x + i][left_x:], inverse_y[layer, top_y + i][left_y:]
            row = inverse[margin + i * pitch :]
            for j in range(columns):
                row[j] = of_x[j] * of_y[j]
        cosine[:] = relu
        _box(cosine, spare, radius, pitch, margin, length)
        _duals(cosine[inside], inverse[inside], factor, relu[inside], step[inside])
        if last:
            break
        if layer == 0:
            tangent[:] = relu
        else:
            for k in range(margin, margin + length):
                tangent[k] = tangent[k] * step[k] + relu[k]
        _box(tangent, spare, radius, pitch, margin, length)
    total = 0.0
    for k in range(margin, margin + length):
        total += tangent[k] * step[k]
    return total
