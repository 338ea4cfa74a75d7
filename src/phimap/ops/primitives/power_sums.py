"""Polynomials in the cosines of pixel pairs. Each coefficient is a product of two numbers, one for each pixel."""

from __future__ import annotations

import numpy as np

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def power_sums(ops: Ops, left: Array, right: Array, cosine: Array) -> Array:
    """Return ``sum_k left_k right_k cosine^k`` (r, h, w) for coefficients `left` and `right` (r, h, w, K), K >= 1."""
    values = left[..., -1] * right[..., -1]
    for k in range(left.shape[-1] - 2, -1, -1):
        values = values * cosine + left[..., k] * right[..., k]
    return values


@power_sums.override("numpy")
def _(ops: Ops, left: Array, right: Array, cosine: Array) -> Array:
    from phimap.ops.compiled.power_sums import power_sums

    out = np.empty_like(cosine)
    power_sums(left, right, cosine, out)
    return out
