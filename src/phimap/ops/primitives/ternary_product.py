"""Products with matrices whose entries are 1, -1 and 0."""

from __future__ import annotations

import numpy as np

from phimap.ops.base import TERNARY_PLACES, Array, Ops
from phimap.ops.primitive import primitive


@primitive
def ternary_product(ops: Ops, X: Array, codes: Array) -> Array:
    """Return the product (r, s) of dense `X` (r, d) and the transpose of a matrix (s, d) with entries 1, -1 and 0.

    Entry ``[c, p]`` of `codes`, uint8 (s, 2 k), encodes columns 4 p to 4 p + 3 of row c as base-3 digits, the lowest
    digit first: digit 1 means 1, digit 2 means -1. Columns from d on are 0.
    """
    digits = codes[:, :, None] // ops.constant(np.array(TERNARY_PLACES, np.uint8)) % 3
    matrix = ops.floating(digits == 1) - ops.floating(digits == 2)
    return ops.matmul(X, matrix.reshape(codes.shape[0], -1)[:, : X.shape[1]].T)


@ternary_product.override("numpy")
def _(ops: Ops, X: Array, codes: Array) -> Array:
    from phimap.ops.compiled.signed_sums import CODED, N_CODES, ternary_products

    # The compiled loop does not check bounds; a damaged model file may contain any index.
    if codes.shape[1] % 2 or X.shape[1] > CODED * codes.shape[1] or (codes.size and codes.max() >= N_CODES):
        raise ValueError(f"`codes` must be below {N_CODES}, two for every eight columns of `X`. Fit the map again.")
    out = ops.empty((X.shape[0], codes.shape[0]))
    ternary_products(X, codes, out)
    return out
