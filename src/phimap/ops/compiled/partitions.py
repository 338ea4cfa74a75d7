"""Cells of random partitions: leaves of Mondrian trees and cells of grids, found row by row."""

from __future__ import annotations

import numpy as np

from phimap.ops.compiled.jit import compiled
from phimap.ops.compiled.packed import mixed

# Number of grids whose cells are found for all rows of a tile before the next grids follow. The pitches and shifts of
# these grids then stay in the cache: for 32 columns they take 32 KB.
_GRIDS = 64


@compiled
def mondrian_leaves(rows, lower, upper, keys, times, places, children, out):
    """Write the leaf of each row in each tree to out uint64 (r, t).

    rows (r, d), lower and upper (d,) are float64, keys is uint64 (t,). The hash of a node's key plus an offset gives a
    random number or the key of a child. The offsets are `times` for the time of the split, `places` for its place, and
    `children` for the left and the right child. Scratch memory of 2 d numbers.
    """
    d = rows.shape[1]
    low, high = np.empty(d), np.empty(d)
    for i in range(rows.shape[0]):
        row = rows[i]
        for tree in range(keys.shape[0]):
            low[:], high[:] = lower, upper
            key, left = keys[tree], 1.0
            while True:
                size = 0.0
                for j in range(d):
                    size += high[j] - low[j]
                if size <= 0.0:
                    break
                left += np.log(np.int64((mixed(key + times) >> np.uint64(11)) + np.uint64(1)) * 2.0**-53) / size
                if left <= 0.0:
                    break
                place = np.int64(mixed(key + places) >> np.uint64(11)) * 2.0**-53 * size
                j, before, after = 0, 0.0, high[0] - low[0]
                while j < d - 1 and place >= after:
                    j += 1
                    before = after
                    after += high[j] - low[j]
                cut = low[j] + (place - before)
                # If no number lies between two neighbouring numbers, the cut is at the lower one. So every cut makes
                # the box smaller.
                if cut >= high[j]:
                    cut = low[j]
                if row[j] > cut:
                    low[j] = cut if cut > low[j] else high[j]
                    key = mixed(key + children[1])
                else:
                    high[j] = cut
                    key = mixed(key + children[0])
            out[i, tree] = mixed(key)


@compiled
def grid_cells(rows, factors, offsets, keys, multipliers, most, out):
    """Write the cell of each row in each grid to out uint64 (r, t).

    rows (r, d), factors and offsets (t, d) are float64, keys is uint64 (t,), multipliers is uint64 (d,). Numbers of
    cells are clipped to -most ... most.
    """
    for first in range(0, keys.shape[0], _GRIDS):
        last = min(first + _GRIDS, keys.shape[0])
        for i in range(rows.shape[0]):
            row = rows[i]
            for grid in range(first, last):
                key, factor, offset = keys[grid], factors[grid], offsets[grid]
                for j in range(row.shape[0]):
                    number = np.floor(row[j] * factor[j] + offset[j])
                    if number > most:
                        number = most
                    if number < -most:
                        number = -most
                    key += np.uint64(np.int64(number)) * multipliers[j]
                out[i, grid] = mixed(key)


@compiled
def write_cells(cells, each, peak, out):
    """Write signed indicators of cells uint64 (r, t) to out (r, m), with `each` columns for each partition.

    Partition i has the columns from ``i * each`` on, and the last partition has the remaining columns. peak has the
    dtype of out, and t is m / each, rounded up.
    """
    width = out.shape[1]
    for i in range(out.shape[0]):
        row = out[i]
        row[:] = 0
        for t in range(cells.shape[1]):
            first = t * each
            columns = np.uint64(min(each, width - first))
            place = ((cells[i, t] >> np.uint64(32)) * columns) >> np.uint64(32)
            row[first + np.int64(place)] = -peak if cells[i, t] & np.uint64(1) else peak
