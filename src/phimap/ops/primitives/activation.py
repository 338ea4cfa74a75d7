"""Write scaled activations of projections: rectified powers, tabulated functions, and functions by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phimap.ops.activations import RECTIFIED
from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def rectify(ops: Ops, projected: Array, order: int, scale: Array, out: Array, first: int) -> None:
    """Write ``scale * (projected > 0) * projected**order`` (r, k) to `out` from column `first`.

    `order` is 0, 1 or 2; `scale` (k,) has one entry for each column.
    """
    values = projected > 0 if order == 0 else projected.clip(min=0)
    ops.multiply(values**2 if order == 2 else values, scale, out[:, first : first + projected.shape[1]])


@primitive
def interpolate(ops: Ops, projected: Array, table: Array, reach: float, scale: Array, out: Array, first: int) -> None:
    """Write ``scale * f(projected)`` (r, k), with f given by a table over ``[-reach, reach]``, to `out` from `first`.

    f is linear between the entries of `table` (t + 1,), which are equally spaced, and constant outside the table.
    `scale` (k,) has one entry for each column.
    """
    last = table.shape[0] - 1
    places = ((projected + reach) * (0.5 * last / reach)).clip(0, last)
    number = ops.truncated(places.clip(0, last - 1))
    slopes = table[1:] - table[:-1]
    values = table[number] + (places - ops.floating(number)) * slopes[number]
    ops.multiply(values, scale, out[:, first : first + projected.shape[1]])


@primitive
def activate(
    ops: Ops, projected: Array, activation: str | Callable[[Array], Array], scale: Array, out: Array, first: int
) -> None:
    """Write ``scale * activation(projected)`` (r, k) to `out` from column `first`.

    `activation` is a name listed in `phimap.ops.activations` or a function of arrays. `scale` (k,) has one entry for
    each column.
    """
    if isinstance(activation, str) and activation in RECTIFIED:
        rectify(ops, projected, RECTIFIED[activation], scale, out, first)
        return
    function = ops.activations[activation] if isinstance(activation, str) else activation
    # Overflow causes no warning here, because the caller tests the features for overflow and reports it.
    with np.errstate(over="ignore", invalid="ignore"):
        values = function(projected)
        if getattr(values, "shape", None) != projected.shape:
            raise ValueError(
                "`activation` must give one real number for each it gets, got shape "
                f"{tuple(np.shape(values))} for shape {tuple(projected.shape)}. Write it with array operations."
            )
        out[:, first : first + projected.shape[1]] = values * scale


def check_block(projected: Array, scale: Array, out: Array, first: int) -> None:
    """Raise if a compiled loop, which does not check bounds, would read or write out of bounds."""
    if scale.shape[0] < projected.shape[1] or first + projected.shape[1] > out.shape[1]:
        raise ValueError("`scale` and `out` must have an entry for each projection. Fit the map again.")


@rectify.override("numpy")
def _(ops: Ops, projected: Array, order: int, scale: Array, out: Array, first: int) -> None:
    from phimap.ops.compiled import activation

    check_block(projected, scale, out, first)
    activation.rectify(projected, order, scale, out, first)


@interpolate.override("numpy")
def _(ops: Ops, projected: Array, table: Array, reach: float, scale: Array, out: Array, first: int) -> None:
    from phimap.ops.compiled import activation

    check_block(projected, scale, out, first)
    activation.interpolate(projected, table, ops.dtype.type(reach), scale, out, first)
