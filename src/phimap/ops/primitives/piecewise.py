"""Piecewise linear functions of columns."""

from __future__ import annotations

import numpy as np

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def piecewise_linear(ops: Ops, X: Array, knots: Array, inverses: Array, levels: Array) -> Array:
    """Return a piecewise linear function of each column of dense `X` (r, d), as a new array.

    The function of column j is constant up to ``knots[j, 0]``. On the piece that begins at ``knots[j, i]`` and has the
    inverse length ``inverses[j, i]``, it goes from ``levels[j, i]`` to ``levels[j, i + 1]``. It is constant after the
    last piece. Knots (d, k) ascend, and every piece ends where the next one begins; `levels` has the shape (d, k + 1).
    """
    out = X * 0 + levels[:, 0]
    for i in range(knots.shape[1]):
        out = out + ((X - knots[:, i]) * inverses[:, i]).clip(0, 1) * (levels[:, i + 1] - levels[:, i])
    return out


@piecewise_linear.override("numpy")
def _(ops: Ops, X: Array, knots: Array, inverses: Array, levels: Array) -> Array:
    from phimap.ops.compiled.piecewise import piecewise_linear

    out = np.empty(X.shape, X.dtype)
    piecewise_linear(np.ascontiguousarray(X), knots, inverses, levels, out)
    return out
