"""Kernels of wide networks with activation ``max(t, 0) + slope min(t, 0)``: all layers in one pass over the angles.

A pair of unit rows at angle t is represented by ``short = sqrt(1 - cos t)`` and ``long = sqrt(1 + cos t)``. Their
product is ``sin t``, half the difference of their squares is ``cos t``, and `acute_angle` gives t. A layer thus takes
two square roots and one polynomial. ``1 - kappa(t)`` is computed without forming kappa(t), so that small angles keep
their relative accuracy.
"""

from __future__ import annotations

import math

import numpy as np

from phimap.ops.compiled.angles import acute_angle
from phimap.ops.compiled.jit import compiled, inlined
from phimap.ops.compiled.trigonometry import cosine_and_sine
from phimap.ops.compiled.vectors import (
    LONG_BYTES,
    choose,
    lanes_of_long,
    load_long,
    multiply,
    multiply_add,
    multiply_subtract,
    root,
    spread,
    store,
    subtract,
)


@inlined
def _parts(short, long):
    """Return the cosines, the angles and their supplements, given `short` and `long` of the angles."""
    one, half_turn, is_acute = spread(short, 1.0), spread(short, math.pi), subtract(long, short)
    acute = acute_angle(choose(is_acute, short, long), choose(is_acute, long, short))
    obtuse = subtract(half_turn, acute)
    # The cosine is computed from the smaller of `short` and `long`, so the cosine of equal rows is exactly 1.
    cosine = choose(is_acute, subtract(one, multiply(short, short)), subtract(multiply(long, long), one))
    return cosine, choose(is_acute, acute, obtuse), choose(is_acute, obtuse, acute)


@inlined
def _next(short, long, cosine, angle, supplement, fold):
    """Return `short` and `long` of the angle after a layer."""
    zero = spread(short, 0.0)
    if fold == 1.0:
        # The absolute value maps x and -x to the same output.
        is_acute = subtract(long, short)
        cosine = choose(is_acute, cosine, subtract(zero, cosine))
        angle = choose(is_acute, angle, supplement)
        short, long = choose(is_acute, short, long), choose(is_acute, long, short)
    # 1 - kappa(t) = 1 - cos t + 2 fold (t cos t - sin t) / pi.
    excess = multiply_subtract(angle, cosine, multiply(short, long))
    complement = multiply_add(excess, spread(short, 2.0 * fold / math.pi), multiply(short, short))
    complement = choose(complement, complement, zero)
    rest = subtract(spread(short, 2.0), complement)
    return root(complement), root(choose(rest, rest, zero))


@compiled
def _fill(angles, fold, depth, is_tangent, out):
    lanes = lanes_of_long(angles)
    for start in range(0, angles.size, lanes):
        # The last vector may overlap the previous vector. It then writes the same values there.
        place = min(start, angles.size - lanes)
        angle = load_long(angles, place)
        zero, per_turn = spread(angle, 0.0), spread(angle, 1.0 / math.pi)
        share, linear, scale = spread(angle, 2.0 * fold), spread(angle, 1.0 - 2.0 * fold), spread(angle, math.sqrt(2.0))
        of_half = cosine_and_sine(multiply(angle, spread(angle, 0.5)))
        long, short = multiply(scale, of_half[0]), multiply(scale, of_half[1])
        cosine, angle, supplement = _parts(short, long)
        values = cosine
        for layer in range(depth):
            if layer:
                short, long = _next(short, long, cosine, angle, supplement, fold)
                cosine, angle, supplement = _parts(short, long)
            kappa0 = multiply(supplement, per_turn)
            kappa1 = multiply_add(cosine, kappa0, multiply(multiply(short, long), per_turn))
            dual = multiply_add(cosine, linear, multiply(choose(kappa1, kappa1, zero), share))
            values = multiply_add(values, multiply_add(kappa0, share, linear), dual) if is_tangent else dual
        store(out, place, values)


def folded_layers(angles: np.ndarray, fold: float, depth: int, is_tangent: bool) -> np.ndarray:
    """Return ``K_L`` of unit rows at these angles if `is_tangent`, else ``Sigma_L``.

    The result has the shape and dtype of `angles`. `fold` is 0.5 for the ReLU: see the primitive `folded_layers`.
    O(depth) operations for each entry.
    """
    flat = np.ascontiguousarray(angles).reshape(-1)
    wide = np.pad(flat, (0, max(0, LONG_BYTES // flat.itemsize - flat.size)))
    out = np.empty_like(wide)
    _fill(wide, fold, depth, is_tangent, out)
    return out[: flat.size].reshape(angles.shape)
