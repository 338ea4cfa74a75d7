"""Decision trees: a leaf is a product over the columns of indicators of intervals."""

from __future__ import annotations

import numpy as np

from phimap.explain.forms.base import Players
from phimap.explain.forms.products import ProductForm
from phimap.learn.trees.ensemble import BoostedTrees


class LeafForm(ProductForm):
    """The sums of regression trees, times a factor: ``f(x) = sum_l b_l prod_j 1[lower_lj < x_j <= upper_lj]``.

    The sum is over the leaves l of all trees. A leaf has an interval in each column j.

    Parameters
    ----------
    trees : BoostedTrees
    factor : float
        Number by which the values of all leaves are multiplied.
    """

    def __init__(self, trees: BoostedTrees, factor: float):
        width = int(trees.columns.max(initial=-1)) + 1
        self._lower, self._upper = _boxes(trees, width)
        super().__init__(factor * trees.values.astype(np.float64))

    def factors(self, rows: np.ndarray, players: Players, part: slice) -> np.ndarray:
        lower, upper = self._lower[part], self._upper[part]
        result = np.ones((len(rows), len(players), len(lower)))
        for place, columns in enumerate(players):
            for column in columns[columns < lower.shape[1]]:
                numbers = rows[:, column, None]
                result[:, place] *= (lower[:, column] < numbers) & (numbers <= upper[:, column])
        return result


def _boxes(trees: BoostedTrees, width: int) -> np.ndarray:
    """Return the ends (2, l, width) of the intervals of each leaf, lower ends first."""
    unbounded = np.array([-np.inf, np.inf])[:, None, None]
    of_splits, of_leaves = (np.tile(unbounded, (1, n, width)) for n in (trees.columns.size, len(trees.values)))
    # Parents come before their children, so the intervals of a split are computed before they are needed.
    for split, children in enumerate(trees.children):
        for side, child in enumerate(children):
            place, found = (child, of_splits) if child >= 0 else (-1 - child, of_leaves)
            found[:, place] = of_splits[:, split]
            # The left child has the interval below the threshold, the right child the interval above.
            column, end = trees.columns[split], 1 - side
            narrower = np.maximum if side else np.minimum
            found[end, place, column] = narrower(found[end, place, column], trees.thresholds[split])
    return of_leaves
