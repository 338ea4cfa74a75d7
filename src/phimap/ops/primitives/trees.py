"""Sums over the decision trees of an ensemble."""

from __future__ import annotations

import numpy as np

from phimap.ops.base import Ops
from phimap.ops.primitive import host_primitive


@host_primitive
def add_tree_values(
    ops: Ops,
    rows: np.ndarray,
    columns: np.ndarray,
    thresholds: np.ndarray,
    children: np.ndarray,
    values: np.ndarray,
    roots: np.ndarray,
    out: np.ndarray,
) -> None:
    """Add to `out` (r, t) the `values` (l, t) of the leaves in which `rows` (r, d) lie.

    A row goes on from split s to ``children[s, 0]`` if its number in ``columns[s]`` is at most ``thresholds[s]``, else
    to ``children[s, 1]``. A child c >= 0 is a later split, and ``-1 - l`` is the leaf with ``values[l]``. Each tree
    begins at its number in `roots`. Rows and `out` are float64.
    """
    for root in roots:
        place = np.full(len(rows), root)
        while (inside := np.flatnonzero(place >= 0)).size:
            split = place[inside]
            is_above = rows[inside, columns[split]] > thresholds[split]
            place[inside] = children[split, is_above.astype(np.intp)]
        out += values[-1 - place]


@add_tree_values.override("numpy")
def _(
    ops: Ops,
    rows: np.ndarray,
    columns: np.ndarray,
    thresholds: np.ndarray,
    children: np.ndarray,
    values: np.ndarray,
    roots: np.ndarray,
    out: np.ndarray,
) -> None:
    from phimap.ops.compiled import trees

    # The compiled loop does not check bounds.
    if out.shape != (len(rows), values.shape[1]) or (columns.size and columns.max() >= rows.shape[1]):
        raise ValueError(
            "`rows` must have a number for each column of the trees, and `out` a number for each row and target. Fit "
            "the model again."
        )
    trees.add_tree_values(rows, columns, thresholds, children, values, roots, out)
