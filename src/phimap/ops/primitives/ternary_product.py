"""Products with matrices of ones, minus ones and zeros."""

from __future__ import annotations

import numpy as np

from phimap.ops.base import TERNARY_PLACES, Array, Ops
from phimap.ops.primitive import primitive


@primitive
def ternary_product(ops: Ops, X: Array, codes: Array) -> Array:
    """Multiply `X` (r, d) dense with the transpose of a matrix of ones, minus ones and zeros: (r, s).

    Entry ``[c, p]`` of `codes`, uint8 (s, 2 k), has the entries of row c from column 4 p on as digits of base 3, the
    lowest first: 1 is 1, 2 is -1. Columns from d on are 0.
    """
    digits = codes[:, :, None] // ops.constant(np.array(TERNARY_PLACES, np.uint8)) % 3
    matrix = ops.floating(digits == 1) - ops.floating(digits == 2)
    return ops.matmul(X, matrix.reshape(codes.shape[0], -1)[:, : X.shape[1]].T)


@ternary_product.override("numpy")
def _(ops: Ops, X: Array, codes: Array) -> Array:
    from phimap.ops.compiled.signed_sums import CODED, N_CODES, ternary_products

    # The compiled loop reads where it is told to; a damaged model file may name any place.
    if codes.shape[1] % 2 or X.shape[1] > CODED * codes.shape[1] or (codes.size and codes.max() >= N_CODES):
        raise ValueError(f"`codes` must be below {N_CODES}, two for every eight columns of `X`. Fit the map again.")
    out = ops.empty((X.shape[0], codes.shape[0]))
    ternary_products(X, codes, out)
    return out
