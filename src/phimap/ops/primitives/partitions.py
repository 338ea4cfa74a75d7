"""Cells of rows in random partitions of space: Mondrian trees, and grids of shifted and scaled cells."""

from __future__ import annotations

import numpy as np

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import host_primitive, primitive
from phimap.ops.primitives.rounding import mixed

# SplitMix64 adds its step to the state for every number. The key of a node is such a state. Its first two numbers are
# the time and the place of the node's cut, and the next two are the keys of the node's children.
_STEPS = np.arange(1, 5, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
_TIME, _PLACE, _CHILDREN = _STEPS[0], _STEPS[1], _STEPS[2:]
# Numbers of cells are clipped to this magnitude, so that they fit int64.
_MOST_CELLS = 2.0**62


@host_primitive
def mondrian_leaves(ops: Ops, rows: np.ndarray, lower: np.ndarray, upper: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return the leaf of each of `rows` (r, d) in each Mondrian tree: uint64 (r, t), a random number for each leaf.

    A tree is a Mondrian process of lifetime 1 on the box from `lower` to `upper` (d,), which contains all rows. The
    waiting time of a box is exponential, and its rate is the sum of the sides. The box is then cut at a uniform place
    of a side, which is drawn in proportion to its length; a row at the cut lies below it. Cuts after time 1 are
    omitted. All numbers of a tree follow from its key, uint64 (t,), so only the nodes on the path of a row are
    computed. Rows and box are float64.
    """
    shape = (len(rows), len(keys))
    low, high = (np.broadcast_to(side, (*shape, rows.shape[1])).copy() for side in (lower, upper))
    state, left = np.broadcast_to(keys, shape).copy(), np.ones(shape)
    active = np.nonzero(np.ones(shape, bool))
    while active[0].size:
        # The sums are formed in the same order as in the compiled loop.
        reach = np.cumsum(high[active] - low[active], axis=1)
        open_, key = reach[:, -1] > 0, state[active]
        time = np.log(((mixed(key + _TIME) >> np.uint64(11)) + np.uint64(1)).astype(np.int64) * 2.0**-53)
        left[active] += np.divide(time, reach[:, -1], out=np.full(len(key), -np.inf), where=open_)
        open_ &= left[active] > 0
        active, reach, key = tuple(index[open_] for index in active), reach[open_], key[open_]
        place = (mixed(key + _PLACE) >> np.uint64(11)).astype(np.int64) * 2.0**-53 * reach[:, -1]
        side = (place[:, None] >= reach[:, :-1]).sum(axis=1)
        before = np.where(side > 0, reach[np.arange(len(side)), side - 1], 0.0)
        bottom, top = low[(*active, side)], high[(*active, side)]
        cut = bottom + (place - before)
        # If no number lies between two neighbouring numbers, the cut is at the lower one. So every cut makes the box
        # smaller.
        cut = np.where(cut >= top, bottom, cut)
        above = rows[active[0], side] > cut
        low[(*(index[above] for index in active), side[above])] = np.where(cut > bottom, cut, top)[above]
        high[(*(index[~above] for index in active), side[~above])] = cut[~above]
        state[active] = mixed(key + _CHILDREN[above.astype(np.intp)])
    return mixed(state)


@host_primitive
def grid_cells(ops: Ops, rows: np.ndarray, factors: np.ndarray, offsets: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return the cell of each of `rows` (r, d) in each grid: uint64 (r, t), a random number for each cell.

    The cell of a row x in a grid is ``floor(factors * x + offsets)``, with `factors` and `offsets` (t, d). The number
    is a hash of the key of the grid, uint64 (t,), plus the cell times a fixed integer for each column. All other arrays
    are float64.
    """
    state = np.zeros((len(rows), len(keys)), np.uint64) + keys
    for j, multiplier in enumerate(_multipliers(rows.shape[1])):
        number = np.floor(rows[:, j, None] * factors[:, j] + offsets[:, j]).clip(-_MOST_CELLS, _MOST_CELLS)
        state += number.astype(np.int64).view(np.uint64) * multiplier
    return mixed(state)


@primitive
def write_cells(ops: Ops, cells: np.ndarray, each: int, width: int, peak: float, out: Array, first: int = 0) -> None:
    """Write `width` signed indicators of `cells` (r, t), on the host, to the columns of `out` from `first` on.

    The entry of a cell, at the column that `columns_of` gives, is -peak if its number is odd, else peak. All other
    entries are zero.
    """
    dense = np.zeros((len(cells), width), ops.dtype)
    np.put_along_axis(dense, columns_of(cells, each, width), signs_of(cells) * peak, axis=1)
    ops.copy(ops.constant(dense), out, first)


def columns_of(cells: np.ndarray, each: int, width: int) -> np.ndarray:
    """The column intp (r, t) of each cell uint64 (r, t), among the `each` columns of its partition.

    The last partition has the remaining columns of the `width` columns. The upper 32 bits of a cell's number choose its
    column.
    """
    firsts = each * np.arange(cells.shape[1])
    widths = np.minimum(each, width - firsts).astype(np.uint64)
    return firsts + ((cells >> np.uint64(32)) * widths >> np.uint64(32)).astype(np.intp)


def signs_of(cells: np.ndarray) -> np.ndarray:
    """Signs (r, t), 1 or -1, of cells uint64 (r, t), by the lowest bits of their numbers."""
    return 1 - 2 * (cells & np.uint64(1)).astype(np.int8)


@mondrian_leaves.override("numpy")
def _(ops: Ops, rows: np.ndarray, lower: np.ndarray, upper: np.ndarray, keys: np.ndarray) -> np.ndarray:
    from phimap.ops.compiled import partitions

    # The compiled loop does not check bounds.
    if not rows.shape[1:] == lower.shape == upper.shape:
        raise ValueError("`lower` and `upper` must have a number for each column of the rows. Fit the map again.")
    out = np.empty((len(rows), len(keys)), np.uint64)
    partitions.mondrian_leaves(rows, lower, upper, keys, _TIME, _PLACE, _CHILDREN, out)
    return out


@grid_cells.override("numpy")
def _(ops: Ops, rows: np.ndarray, factors: np.ndarray, offsets: np.ndarray, keys: np.ndarray) -> np.ndarray:
    from phimap.ops.compiled import partitions

    # The compiled loop does not check bounds.
    if not (factors.shape == offsets.shape == (len(keys), rows.shape[1])):
        raise ValueError("`factors` and `offsets` must have a number for each column and grid. Fit the map again.")
    out = np.empty((len(rows), len(keys)), np.uint64)
    partitions.grid_cells(rows, factors, offsets, keys, _multipliers(rows.shape[1]), _MOST_CELLS, out)
    return out


@write_cells.override("numpy")
def _(ops: Ops, cells: np.ndarray, each: int, width: int, peak: float, out: Array, first: int = 0) -> None:
    from phimap.ops.compiled import partitions

    columns = out[:, first : first + width]
    # The compiled loop does not check bounds.
    if columns.shape != (len(cells), width) or cells.shape[1] != -(-width // each):
        raise ValueError("`cells` must have a number for each partition. Fit the map again.")
    partitions.write_cells(cells, each, ops.dtype.type(peak), columns)


def _multipliers(n: int) -> np.ndarray:
    """Odd integers uint64 (n,) of 64 random bits.

    Sums of their products with two different cells are equal only by chance.
    """
    return mixed(np.arange(1, n + 1, dtype=np.uint64) * _STEPS[0]) | np.uint64(1)
