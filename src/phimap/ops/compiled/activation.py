"""Rectified powers of a tile of projections, in one pass."""

from __future__ import annotations

import numba


@numba.njit(nogil=True, cache=True, error_model="numpy")
def rectify(projected, order, scale, out, first):
    """Write ``scale * (P > 0) * P**order`` to columns of `out` from `first`.

    projected (n, k), scale (k,) and out (n, m) of one floating dtype, rows contiguous; order is 0, 1 or 2.
    Overwrites `out`. A negative infinity gives zero; NaN stays NaN for orders 1 and 2 and gives zero for order 0.
    """
    n, k = projected.shape
    zero = projected.dtype.type(0)
    for i in range(n):
        row = projected[i]
        target = out[i, first : first + k]
        # One loop for each order: a choice inside the loop would be made once an element.
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
