"""Products of all columns of two arrays."""

from __future__ import annotations

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def outer(ops: Ops, A: Array, B: Array, out: Array, first: int = 0) -> None:
    """Write products of every column of `A` (r, k) with every column of `B` (r, l), those of B fastest.

    `A` and `B` are dense or CSR. Written to the k l columns of `out` from `first` on.
    """
    A, B = ops.dense(A), ops.dense(B)
    columns = out[:, first : first + A.shape[1] * B.shape[1]]
    # Splitting the last axis gives a view, so that this writes into `out`.
    ops.multiply(A[:, :, None], B[:, None, :], columns.reshape(A.shape[0], A.shape[1], B.shape[1]))
