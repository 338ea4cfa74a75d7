"""Rectified powers and tabulated functions of a tile of projections, computed in one pass."""

from __future__ import annotations

import numba

from phimap.ops.compiled.jit import compiled


@compiled
def rectify(projected, order, scale, out, first):
    """Write ``scale * (P > 0) * P**order`` to the columns of `out` from `first` on, P being `projected`.

    projected (n, k), scale (k,) and out (n, m) have one floating dtype and contiguous rows; order is 0, 1 or 2.
    Negative infinity gives zero; NaN stays NaN for orders 1 and 2 and gives zero for order 0.
    """
    n, k = projected.shape
    zero = projected.dtype.type(0)
    for i in range(n):
        row = projected[i]
        target = out[i, first : first + k]
        # There is one loop for each order, because a test inside the loop would run for every element.
        if order == 0:
            for j in range(k):
                target[j] = scale[j] if row[j] > zero else zero
        elif order == 1:
            for j in range(k):
                target[j] = scale[j] * (zero if row[j] <= zero else row[j])
        else:
            for j in range(k):
                x = zero if row[j] <= zero else row[j]
                target[j] = (scale[j] * x) * x


@compiled
def interpolate(projected, table, reach, scale, out, first):
    """Write ``scale * f(P)`` to columns of `out` from `first`, f linear between table entries on ``[-reach, reach]``.

    projected P (n, k), table (t + 1,), scale (k,), out (n, m) and the number reach have one floating dtype and
    contiguous rows. Outside ``[-reach, reach]`` f is constant; f(NaN) is the first entry of the table.
    """
    n, k = projected.shape
    last = table.shape[0] - 1
    zero, top = projected.dtype.type(0), projected.dtype.type(last)
    density = projected.dtype.type(0.5) * top / reach
    for i in range(n):
        row = projected[i]
        target = out[i, first : first + k]
        for j in range(k):
            place = (row[j] + reach) * density
            place = place if place > zero else zero
            place = place if place < top else top
            number = min(numba.int32(place), last - 1)
            lower = table[number]
            target[j] = scale[j] * (lower + (place - projected.dtype.type(number)) * (table[number + 1] - lower))
