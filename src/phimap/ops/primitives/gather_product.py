"""Products of selected columns of two arrays."""

from __future__ import annotations

import numpy as np

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def gather_product(
    ops: Ops, A: Array, columns_a: Array, B: Array, columns_b: Array, scale: float, out: Array, first: int = 0
) -> None:
    """Write ``scale * A[:, columns_a] * B[:, columns_b]`` (r, k) to `out` from column `first` on.

    `A` or `B` may have a single row, which is multiplied with every row of the other array. The columns are intp (k,).
    """
    a, b = ops.columns(A, columns_a) * scale, ops.columns(B, columns_b)
    ops.multiply(a, b, out[:, first : first + columns_a.shape[0]])


def check_columns(columns: np.ndarray, width: int) -> None:
    """Raise unless all `columns` are valid indices for an array of `width` columns."""
    if columns.min(initial=0) < 0 or columns.max(initial=0) >= width:
        raise ValueError(f"`columns` must be below {width}. Fit the map again.")


@gather_product.override("numpy")
def _(
    ops: Ops, A: Array, columns_a: Array, B: Array, columns_b: Array, scale: float, out: Array, first: int = 0
) -> None:
    from phimap.ops.compiled import countsketch

    # The compiled loop does not check bounds.
    check_columns(columns_a, A.shape[1])
    check_columns(columns_b, B.shape[1])
    if columns_a.shape != columns_b.shape or first + columns_a.shape[0] > out.shape[1]:
        raise ValueError("`out` must have a column for each pair of columns. Fit the map again.")
    countsketch.gather_product(A, columns_a, B, columns_b, ops.dtype.type(scale), out, first)
