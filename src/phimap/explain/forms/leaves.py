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
        self._lower, self._upper, targets = _boxes(trees, width)
        coefs = np.zeros((len(targets), trees.n_outputs))
        coefs[np.arange(len(targets)), targets] = factor * trees.values.astype(np.float64)
        super().__init__(coefs)

    def factors(self, rows: np.ndarray, players: Players, part: slice) -> np.ndarray:
        lower, upper = self._lower[part], self._upper[part]
        result = np.ones((len(rows), len(players), len(lower)))
        for place, columns in enumerate(players):
            for column in columns[columns < lower.shape[1]]:
                numbers = rows[:, column, None]
                result[:, place] *= (lower[:, column] < numbers) & (numbers <= upper[:, column])
        return result


def _boxes(trees: BoostedTrees, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ends (l, width) of the intervals of each leaf, and the index (l,) of the target of its tree."""
    n_splits, n_leaves = trees.columns.size, trees.values.size
    ends = np.full((2, n_splits, width), np.inf)
    ends[0] = -np.inf
    of_leaves, targets = np.full((2, n_leaves, width), np.inf), np.zeros(n_leaves, np.intp)
    of_leaves[0] = -np.inf
    target = np.zeros(n_splits, np.intp)
    for tree, root in enumerate(trees.roots):
        (target if root >= 0 else targets)[root if root >= 0 else -1 - root] = tree % trees.n_outputs
    # Parents come before their children, so the intervals of a split are computed before they are needed.
    for split in range(n_splits):
        for side, child in enumerate(trees.children[split]):
            place = child if child >= 0 else -1 - child
            found, of_target = (ends, target) if child >= 0 else (of_leaves, targets)
            found[:, place], of_target[place] = ends[:, split], target[split]
            # The left child has the interval below the threshold, the right child the interval above.
            column, end = trees.columns[split], 1 - side
            narrower = np.maximum if side else np.minimum
            found[end, place, column] = narrower(found[end, place, column], trees.thresholds[split])
    return of_leaves[0], of_leaves[1], targets
