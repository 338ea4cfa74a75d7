"""Products of chosen columns of two arrays."""

from __future__ import annotations

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def gather_product(
    ops: Ops, A: Array, columns_a: Array, B: Array, columns_b: Array, scale: float, out: Array, first: int = 0
) -> None:
    """Write ``scale * A[:, columns_a] * B[:, columns_b]`` (r, k) to columns `first` on of `out`.

    Of `A` and `B` one may have a single row, which serves all; the columns are intp (k,).
    """
    a, b = ops.columns(A, columns_a) * scale, ops.columns(B, columns_b)
    ops.multiply(a, b, out[:, first : first + columns_a.shape[0]])


@gather_product.override("numpy")
def _(
    ops: Ops, A: Array, columns_a: Array, B: Array, columns_b: Array, scale: float, out: Array, first: int = 0
) -> None:
    from phimap.ops.compiled import countsketch

    countsketch.gather_product(A, columns_a, B, columns_b, ops.dtype.type(scale), out, first)
