"""Projections mapped to signs and zeros by thresholds, written dense or as packed bits."""

from __future__ import annotations

import numpy as np

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import host_primitive, primitive


@primitive
def write_ternary(
    ops: Ops, projected: Array, lower: Array | None, upper: Array, closed: bool, scale: float, out: Array, first: int
) -> None:
    """Write `scale` where `projected` (r, k) is above `upper` (k,), ``-scale`` where it is below `lower` (k,), else 0.

    The result is written to `out` from column `first` on. If `lower` is None, no value counts as below. If `closed`, a
    value equal to `lower` counts as below.
    """
    columns = out[:, first : first + projected.shape[1]]
    columns[...] = projected > upper
    if lower is not None:
        columns -= 1.0 * (projected <= lower if closed else projected < lower)
    columns *= scale


@host_primitive
def pack_ternary(
    ops: Ops, projected: Array, lower: Array, upper: Array, closed: bool, planes: np.ndarray, first: int
) -> None:
    """Set bits of `planes`, uint64 (q, r, w), for the columns from `first` on, whose bits must be zero on entry.

    With two planes, a bit of the first is set where `projected` (r, k) is above `upper` (k,) or below `lower` (k,), a
    bit of the second where it is below `lower`. If `closed`, a value equal to `lower` counts as below. With one plane,
    bits are set above `upper`, and `lower` is ignored.
    """
    above, below = projected > upper, projected <= lower if closed else projected < lower
    for plane, bits in zip(planes, (above | below if len(planes) == 2 else above, below), strict=False):
        row = np.zeros((bits.shape[0], 64 * plane.shape[1]), np.bool_)
        row[:, first : first + bits.shape[1]] = bits
        plane |= np.packbits(row, axis=1, bitorder="little").view("<u8")


@pack_ternary.override("numpy")
def _(ops: Ops, projected: Array, lower: Array, upper: Array, closed: bool, planes: np.ndarray, first: int) -> None:
    from phimap.ops.compiled import packed

    values, below, above = (np.ascontiguousarray(part) for part in (projected, lower, upper))
    packed.pack_ternary(values, below, above, closed, planes, first)
