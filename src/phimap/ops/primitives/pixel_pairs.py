"""The convolutional neural tangent kernel of pairs of images, summed displacement by displacement."""

from __future__ import annotations

import math

import numpy as np

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def pixel_pairs(
    ops: Ops,
    X: Array,
    Y: Array,
    inverse_x: Array,
    inverse_y: Array,
    filter_size: int,
    flat: bool,
    fold: float,
    pairs: np.ndarray,
) -> np.ndarray:
    """Return the convolutional tangent kernel summed over pixel pairs, for r pairs of images: float64 (r,) on the host.

    `X` (n, c, h, w) and `Y` (m, c, h, w) are images; row k of `pairs`, intp (r, 2), selects one image of each.
    `inverse_x` (n, L, h, w) and `inverse_y` (m, L, h, w) hold ``1 / sqrt(N_l)`` for l = 1, ..., L, and 0 where N_l is
    0; N_l and P_L are defined in `phimap.kernels.CNTK`. If `flat`, only pairs of equal pixels are summed. The
    activation is ``sqrt(1 - fold) t + sqrt(fold) |t|``; `fold` = 0.5 is the ReLU.
    """
    height, width = X.shape[2:]
    reach_y, reach_x = (0, 0) if flat else (height - 1, width - 1)
    first, second = ops.constant(pairs.T)
    total = np.zeros(pairs.shape[0])
    for down in range(-reach_y, reach_y + 1):
        rows_x, rows_y = _overlap(height, down), _overlap(height, -down)
        sums = ops.empty((2 * reach_x + 1, pairs.shape[0]))
        for right in range(-reach_x, reach_x + 1):
            of_x = (..., rows_x, _overlap(width, right))
            of_y = (..., rows_y, _overlap(width, -right))
            products = (X[of_x][first] * Y[of_y][second]).sum(1)
            inverse = inverse_x[of_x][first] * inverse_y[of_y][second]
            sums[reach_x + right] = _recursion(ops, products, inverse, filter_size, fold).sum((1, 2))
        total += ops.column_sums(sums)
    return total


@pixel_pairs.override("numpy")
def _(
    ops: Ops,
    X: Array,
    Y: Array,
    inverse_x: Array,
    inverse_y: Array,
    filter_size: int,
    flat: bool,
    fold: float,
    pairs: np.ndarray,
) -> np.ndarray:
    from phimap.ops.compiled import pixel_pairs

    out = np.empty(pairs.shape[0])
    pixel_pairs.pixel_pairs(X, Y, inverse_x, inverse_y, filter_size, flat, fold, pairs, out)
    return out


def _overlap(size: int, shift: int) -> slice:
    """Return the slice of pixels p along an axis for which p + shift is also inside the image."""
    return slice(max(0, -shift), size - max(0, shift))


def _recursion(ops: Ops, relu: Array, inverse: Array, filter_size: int, fold: float) -> Array:
    """Return planes P_L (r, h, w), whose sum is the kernel, from `relu` = G_0 (r, h, w) and `inverse` (r, L, h, w)."""
    factor = 1.0 / (math.pi * filter_size**2)
    # Rounding of sums moves the cosines of equal patches away from 1 by at most this amount.
    parallel = 64 * float(np.finfo(ops.dtype).eps)
    depth, linear = inverse.shape[1], math.pi * (1 - 2 * fold)
    roots, inside = ops.reciprocal(inverse) * factor, ops.floating(inverse > 0) * factor
    tangent = step = 0.0 * relu
    for layer in range(depth):
        cosine = _box(relu, filter_size) * inverse[:, layer]
        size = abs(cosine)
        remainder = 1 - size
        remainder = remainder * (remainder > parallel)
        # The angle is computed from the chord, since arccos loses digits near 1.
        acute = 2 * ops.arcsin((0.5 * remainder) ** 0.5)
        supplement = acute + (cosine > 0) * (math.pi - 2 * acute)
        step = (2 * fold * supplement + linear) * inside[:, layer]
        if layer == depth - 1:
            break
        kappa1 = ((remainder * (1 + size)) ** 0.5 + cosine * supplement).clip(min=0)
        relu = (2 * fold * kappa1 + linear * cosine) * roots[:, layer]
        tangent = _box(tangent * step + relu, filter_size)
    return tangent * step


def _box(planes: Array, filter_size: int) -> Array:
    """Return the sums over square windows around every pixel of planes (r, h, w)."""
    for axis in (1, 2):
        size = planes.shape[axis]
        sums = 1.0 * planes
        for shift in range(1, min(filter_size // 2, size - 1) + 1):
            ahead, behind = _part(axis, slice(shift, size)), _part(axis, slice(size - shift))
            # `sums[behind] += ...` would write the slice twice: by += and by item assignment. A view is written once.
            target = sums[behind]
            target += planes[ahead]
            target = sums[ahead]
            target += planes[behind]
        planes = sums
    return planes


def _part(axis: int, part: slice) -> tuple[slice, ...]:
    """Return the index that selects `part` of `axis` (1 for rows, 2 for columns) of planes (r, h, w)."""
    return (slice(None),) * axis + (part,)
