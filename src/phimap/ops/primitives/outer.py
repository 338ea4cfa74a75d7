"""Products of all columns of two arrays."""

from __future__ import annotations

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def outer(ops: Ops, A: Array, B: Array, out: Array, first: int = 0) -> None:
    """Write products of every column of `A` (r, k) with every column of `B` (r, l) to `out` from column `first` on.

    `A` and `B` are dense or CSR. The k l products are ordered with the column of B varying fastest.
    """
    A, B = ops.dense(A), ops.dense(B)
    columns = out[:, first : first + A.shape[1] * B.shape[1]]
    # Splitting the last axis by `reshape` gives a view, so the products are written into `out`.
    ops.multiply(A[:, :, None], B[:, None, :], columns.reshape(A.shape[0], A.shape[1], B.shape[1]))
