"""Distances between rows and landmarks, from differences."""

from __future__ import annotations

import numpy as np

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def sums_of_differences(ops: Ops, X: Array, Y: Array, power: int) -> Array:
    """Return ``sum_j |x_j - y_j|^power`` (r, l) for dense rows of `X` (r, d) and `Y` (l, d); `power` is 1 or 2.

    The sums have the dtype of the backend and a relative error of a few eps.
    """
    differences = abs(X[:, None, :] - Y[None, :, :])
    return (differences if power == 1 else differences * differences).sum(-1)


@sums_of_differences.override("numpy")
def _(ops: Ops, X: Array, Y: Array, power: int) -> Array:
    from phimap.ops.compiled.distances import sums_of_differences

    out = np.empty((X.shape[0], Y.shape[0]), X.dtype)
    sums_of_differences(np.ascontiguousarray(X), np.ascontiguousarray(Y.T), power, out)
    return out
