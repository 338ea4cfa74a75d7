"""Cosines and sines of projections."""

from __future__ import annotations

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive
from phimap.ops.primitives.activation import check_block


@primitive
def cos_sin(ops: Ops, projected: Array, scale: Array, out: Array, first: int, half: int) -> None:
    """Write ``scale * cos(projected)`` to `out` from column `first`, ``scale * sin`` from column ``first + half``.

    `projected` is (r, k); `scale` (k,) has one entry for each column.

    Raises
    ------
    ValueError
        If a projection is not finite.
    """
    _check_finite(ops, projected)
    width = projected.shape[1]
    ops.multiply(ops.activations["cos"](projected), scale, out[:, first : first + width])
    ops.multiply(ops.activations["sin"](projected), scale, out[:, half + first : half + first + width])


@primitive
def cos_shift(ops: Ops, projected: Array, shift: Array, scale: Array, out: Array, first: int) -> None:
    """Write ``scale * cos(projected + shift)`` (r, k) to `out` from column `first`; `shift` and `scale` are (k,).

    Raises
    ------
    ValueError
        If a projection is not finite.
    """
    _check_finite(ops, projected)
    ops.multiply(ops.activations["cos"](projected + shift), scale, out[:, first : first + projected.shape[1]])


@primitive
def cos_sin_slopes(ops: Ops, features: Array, slopes: Array, out: Array) -> None:
    """Write the derivatives (r, k) of a function with respect to projections to `out`.

    `features` (r, 2 k) are the cosines and then the sines of the projections, `slopes` (r, 2 k) the derivatives of the
    function with respect to them.
    """
    k = features.shape[1] // 2
    ops.copy(features[:, :k] * slopes[:, k:] - features[:, k:] * slopes[:, :k], out, 0)


@cos_sin.override("numpy")
def _(ops: Ops, projected: Array, scale: Array, out: Array, first: int, half: int) -> None:
    from phimap.ops.compiled import trigonometry

    check_block(projected, scale, out, max(first, half + first))
    peak = trigonometry.cos_sin(projected, scale, out, first, half)
    if not peak <= trigonometry.limit(ops.dtype):
        cos_sin.generic(ops, projected, scale, out, first, half)


@cos_shift.override("numpy")
def _(ops: Ops, projected: Array, shift: Array, scale: Array, out: Array, first: int) -> None:
    from phimap.ops.compiled import trigonometry

    check_block(projected, scale, out, first)
    if shift.shape != scale.shape:
        raise ValueError("`shift` must have an entry for each of `scale`. Fit the map again.")
    peak = trigonometry.cos_shift(projected, shift, scale, out, first)
    if not peak <= trigonometry.limit(ops.dtype):
        cos_shift.generic(ops, projected, shift, scale, out, first)


@cos_sin_slopes.override("numpy")
def _(ops: Ops, features: Array, slopes: Array, out: Array) -> None:
    from phimap.ops.compiled import trigonometry

    n, k = out.shape
    if features.shape != (n, 2 * k) or slopes.shape != (n, 2 * k):
        raise ValueError(
            f"`features` and `slopes` must have shape {(n, 2 * k)}, got {features.shape} and {slopes.shape}. "
            "Give two columns for each column of `out`."
        )
    trigonometry.cos_sin_slopes(features, slopes, out)


def _check_finite(ops: Ops, projected: Array) -> None:
    if not ops.is_finite(projected):
        raise ValueError(
            "`X` is too large for this length scale: a projection overflowed. "
            "Standardise the columns of X, or raise `length_scale`."
        )
