"""Growing of boosted trees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import expit, softmax

from phimap.config import thread_count
from phimap.learn.trees.bins import Bins
from phimap.learn.trees.ensemble import BoostedTrees
from phimap.ops import host, run_tasks
from phimap.ops.primitives.boosting import BinnedRows, GrownTree, TreeLimits, grow_tree

# Least number of rows in a leaf; least sum of the second derivatives in a leaf; penalty on the squares of leaf values,
# in units of the second derivative of the loss of one row.
_LEAST_ROWS, _LEAST_HESSIAN, _PENALTY = 20, 1e-3, 0.1


#: Largest number of trees that grow at the same time, because each holds sums for all bins.
MOST_TOGETHER = 4


@dataclass(frozen=True)
class TreeRows:
    """Rows to grow trees on.

    Attributes
    ----------
    codes : ndarray of uint8, shape (d, n)
        The bin of each number.
    bins : Bins
    Y : ndarray of shape (n, t)
        Encoded targets.
    weights : ndarray of shape (n,) or None
    has_labels : bool
        Whether the targets are labels.
    """

    codes: np.ndarray
    bins: Bins
    Y: np.ndarray
    weights: np.ndarray | None
    has_labels: bool

    @classmethod
    def of(cls, X: np.ndarray, Y: np.ndarray, weights: np.ndarray | None, *, has_labels: bool) -> TreeRows:
        """Return rows `X` (n, d) in bins of their own."""
        bins = Bins.of(X)
        return cls(bins.codes(X), bins, Y, weights, has_labels)

    def rows(self, chosen: np.ndarray) -> TreeRows:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[chosen]
        # Indexing would return an array in Fortran order, whose columns are not contiguous.
        return replace(self, codes=np.take(self.codes, chosen, axis=1), Y=self.Y[chosen], weights=weights)

    @property
    def labels(self) -> np.ndarray:
        """The index of the class of each row (n,)."""
        return (self.Y[:, 0] > 0).astype(np.intp) if self.Y.shape[1] == 1 else self.Y.argmax(axis=1)


class Boosting:
    """Boosted trees of some rows, to which rounds can be added.

    Parameters
    ----------
    rows : TreeRows
    rate : float
        Learning rate.
    n_leaves : int, default=31
        Largest number of leaves of a tree.
    n_jobs : int or None
        Threads, which share the targets; the trees do not depend on their number.

    Notes
    -----
    Labels are learned by the log loss, numbers by the squared error, each target by itself in units of its standard
    deviation. Leaf values have a small penalty on their squares: without it, rounds may diverge on rare classes, whose
    second derivatives vanish.
    """

    def __init__(self, rows: TreeRows, *, rate: float, n_leaves: int = 31, n_jobs: int | None):
        self._rows, self._trees = rows, list[GrownTree]()
        self._n_jobs = min(thread_count(n_jobs), MOST_TOGETHER)
        self._limits = TreeLimits(n_leaves, _LEAST_ROWS, _LEAST_HESSIAN, _PENALTY, rate)
        self._binned = BinnedRows.of(rows.codes, rows.bins.counts)
        # Targets between 0 and 1 for labels, of standard deviation 1 for numbers (t, n).
        self._spread, targets = np.ones(rows.Y.shape[1]), np.ascontiguousarray(rows.Y.T)
        if not rows.has_labels:
            spread = rows.Y.std(axis=0)
            self._spread = np.where(spread > 0, spread, 1.0)
        elif len(targets) == 1:
            targets = (targets + 1) / 2
        self._targets = targets / self._spread[:, None]
        means = np.average(self._targets, axis=1, weights=rows.weights)
        if rows.has_labels:
            few = np.finfo(np.float64).eps
            means = np.clip(means, few, 1 - few)
            means = np.log(means / (1 - means)) if len(means) == 1 else np.log(means)
        self._baseline = means
        # Sums of the trees at the rows (t, n).
        self._sums = np.tile(means[:, None], (1, len(rows.Y)))

    @property
    def knows_all_classes(self) -> bool:
        """Whether every class occurs in the rows; True for numbers."""
        rows = self._rows
        return not rows.has_labels or np.unique(rows.labels).size == max(2, rows.Y.shape[1])

    def grow(self, n_rounds: int) -> BoostedTrees:
        """Add rounds up to a total of `n_rounds`; a round has a tree for every target. Return the added rounds."""
        n_targets = len(self._targets)
        before = len(self._trees) // n_targets
        for _ in range(before, n_rounds):
            self._trees += run_tasks(partial(self._grown, *self._derivatives()), range(n_targets), self._n_jobs)
        return self.rounds(before, n_rounds)

    def _grown(self, gradients: np.ndarray, hessians: np.ndarray, target: int) -> GrownTree:
        """Return a tree for one target, given the derivatives (t, n), and add its values to the sums of the target."""
        sums, ops = self._sums[target], host(np.float64)
        return grow_tree(ops, self._binned, gradients[target], hessians[target], self._limits, sums)

    def _derivatives(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and second derivatives (t, n) of the loss of each row by the sums of its targets."""
        if self._rows.has_labels:
            means = expit(self._sums) if len(self._sums) == 1 else softmax(self._sums, axis=0)
            gradients, hessians = means - self._targets, means * (1 - means)
        else:
            gradients, hessians = self._sums - self._targets, np.ones_like(self._sums)
        weights = self._rows.weights
        return (gradients, hessians) if weights is None else (weights * gradients, weights * hessians)

    def rounds(self, first: int, last: int) -> BoostedTrees:
        """Return the trees of some rounds, with share 0. The baseline is 0 unless the rounds include the first."""
        rows, n_targets = self._rows, len(self._targets)
        trees = self._trees[first * n_targets : last * n_targets]
        columns, places, children, roots = _joined(trees)
        values = [spread * tree.values for spread, tree in zip(np.resize(self._spread, len(trees)), trees, strict=True)]
        return BoostedTrees(
            columns,
            rows.bins.thresholds(columns, places),
            children,
            np.concatenate(values).astype(rows.bins.edges.dtype),
            roots,
            np.zeros(n_targets) if first else self._spread * self._baseline,
            rows.has_labels,
            0.0,
            np.empty(0),
            np.empty((0, n_targets)),
        )


def _joined(trees: list[GrownTree]) -> tuple[np.ndarray, ...]:
    """Return columns, places and children of the splits of all trees in one list, and the root of each tree."""
    leaves_before = np.cumsum([0, *(tree.values.size for tree in trees)])
    splits_before = leaves_before - np.arange(len(leaves_before))
    children = [
        np.where(tree.children < 0, tree.children - n_leaves, tree.children + n_splits)
        for tree, n_leaves, n_splits in zip(trees, leaves_before, splits_before, strict=False)
    ]
    # The root of a tree of one leaf is that leaf.
    roots = np.where(np.diff(leaves_before) == 1, -1 - leaves_before[:-1], splits_before[:-1])
    columns, places = (np.concatenate(parts) for parts in zip(*((t.columns, t.places) for t in trees), strict=True))
    return columns, places, np.concatenate(children).astype(np.int32), roots.astype(np.int32)
