"""Sums over the decision trees of an ensemble, tree by tree, so that a tree stays in the nearest cache."""

from __future__ import annotations

import numpy as np

from phimap.ops.compiled.jit import compiled


@compiled
def add_tree_values(rows, columns, thresholds, children, values, roots, out):
    """Add the values (l, t) of the leaves of rows (r, d) to out (r, t).

    rows and out are float64, thresholds and values are of one dtype, the other arrays are int32. A split s leads to
    children[s, 0] or children[s, 1]; -1 - l is the leaf with values[l].
    """
    for root in roots:
        for i in range(rows.shape[0]):
            place = root
            while place >= 0:
                # An index replaces a branch, because the processor would mispredict half of the branches.
                place = children[place, np.intp(rows[i, columns[place]] > thresholds[place])]
            for j in range(out.shape[1]):
                out[i, j] += values[-1 - place, j]
