"""Growing of boosted trees."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from phimap.learn.trees.bins import Bins
from phimap.learn.trees.ensemble import BoostedTrees
from phimap.ops import host
from phimap.ops.primitives.boosting import BinnedRows, GrownTree, TreeLimits, class_derivatives, grow_tree

# Least number of rows in a leaf; least sum of the second derivatives in a leaf; penalty on the squares of leaf values,
# in units of the second derivative of the loss of one row.
_LEAST_ROWS, _LEAST_CURVATURE, _PENALTY = 20, 1e-3, 0.1
# Up to `_FEW_TARGETS` targets, every tree is grown along a single target, each in turn. With more targets, one in
# `_TURN` trees is, and the others are grown along random directions. Three classes have only two independent
# directions, because probabilities depend on differences of sums; there, single targets were better on rare classes.
_FEW_TARGETS, _TURN = 3, 3
# Number of derivatives that are computed together: few enough for the cache to hold them.
_BLOCK = 2**16
# Sums of exponentials in float32 are exact to rounding between this number and its reciprocal.
_SMALLEST_TOTAL = 1e-30


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
    rng : Generator
        Draws the direction of each round; not used for a single target.

    Notes
    -----
    Labels are learned by the log loss, numbers by the squared error in units of the standard deviation of each target.
    Leaf values have a small penalty on their squares: without it, rounds may diverge on rare classes, whose second
    derivatives vanish.

    A round adds one tree for all targets. Its splits lower the loss along one direction of the targets, by the exact
    first and second derivatives along it. Its leaves have a value for each target. Up to three targets, the directions
    are those of single targets, each in turn. With more targets, two of three directions are random. **Source.**
    Iosipoi and Vakhrushev (2022), "SketchBoost", section 3.3, random projections. **Differs from the source in** one
    direction a round instead of several, and in that splits use second derivatives.
    """

    def __init__(self, rows: TreeRows, *, rate: float, n_leaves: int = 31, rng: np.random.Generator):
        self._rows, self._trees, self._rng = rows, list[GrownTree](), rng
        self._limits = TreeLimits(n_leaves, _LEAST_ROWS, _LEAST_CURVATURE, _PENALTY, rate)
        self._binned = BinnedRows.of(rows.codes, rows.bins.counts)
        self._weights = None if rows.weights is None else rows.weights.astype(np.float32)
        # Targets between 0 and 1 for labels, of standard deviation 1 for numbers (n, t).
        self._spread, targets = np.ones(rows.Y.shape[1]), rows.Y
        if not rows.has_labels:
            spread = rows.Y.std(axis=0)
            self._spread = np.where(spread > 0, spread, 1.0)
        elif targets.shape[1] == 1:
            targets = (targets + 1) / 2
        self._targets, self._labels = targets / self._spread, rows.labels.astype(np.int32)
        means = np.average(self._targets, axis=0, weights=rows.weights)
        if rows.has_labels:
            few = np.finfo(np.float64).eps
            means = np.clip(means, few, 1 - few)
            means = np.log(means / (1 - means)) if len(means) == 1 else np.log(means)
        self._baseline = means
        # Sums of the trees at the rows (n, t), and buffers: new memory would take as long as the computation.
        self._sums = np.tile(means, (len(rows.Y), 1))
        self._gradients, self._hessians = (np.ones(self._sums.shape, np.float32) for _ in range(2))

    @property
    def knows_all_classes(self) -> bool:
        """Whether every class occurs in the rows; True for numbers."""
        rows = self._rows
        return not rows.has_labels or np.unique(rows.labels).size == max(2, rows.Y.shape[1])

    def grow(self, n_rounds: int) -> BoostedTrees:
        """Add rounds up to a total of `n_rounds`, and return the added rounds."""
        before, ops = len(self._trees), host(np.float64)
        for _ in range(before, n_rounds):
            self._trees.append(grow_tree(ops, self._binned, *self._derivatives(), self._limits, self._sums))
        return self.rounds(before, n_rounds)

    def first(self, n_rounds: int) -> BoostedTrees:
        """Return the first `n_rounds` rounds. Missing rounds are added."""
        if len(self._trees) < n_rounds:
            self.grow(n_rounds)
        return self.rounds(0, n_rounds)

    def _derivatives(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return derivatives of the loss of each row, weighted, for a round, in float32.

        They are the first and the second derivatives (n,) along the direction of the round, and the first and the
        second derivatives (n, t) by the sums of the targets. Their sums over rows are float64.
        """
        gradients, hessians, direction = self._gradients, self._hessians, self._direction().astype(np.float32)
        n, t = self._sums.shape
        curvatures, ops = np.full(n, direction @ direction), host(np.float32)
        height = max(_BLOCK // t, 1)
        for rows in (slice(start, start + height) for start in range(0, n, height)):
            sums = self._sums[rows]
            if not self._rows.has_labels:
                np.subtract(sums, self._targets[rows], out=gradients[rows])
                continue
            if t == 1:
                means = expit(sums, dtype=np.float32)
                np.subtract(means, self._targets[rows], out=gradients[rows])
                np.multiply(means, np.subtract(1, means, out=hessians[rows]), out=hessians[rows])
                curvatures[rows] = hessians[rows, 0]
                continue
            exponentials, totals = _exponentials(sums)
            class_derivatives(ops, exponentials, totals, self._labels[rows], gradients[rows], hessians[rows])
            # The variance of the direction's entry, if the class is drawn by the probabilities.
            mean, square = exponentials @ direction / totals, exponentials @ direction**2 / totals
            curvatures[rows] = square - mean**2
        slopes, curvatures = gradients @ direction, np.maximum(curvatures, 0)
        if self._weights is None:
            return slopes, curvatures, gradients, hessians
        of_row = self._weights[:, None]
        return self._weights * slopes, self._weights * curvatures, of_row * gradients, of_row * hessians

    def _direction(self) -> np.ndarray:
        """Return the direction (t,) along which the next tree lowers the loss."""
        n_targets, number = self._sums.shape[1], len(self._trees)
        turn = 1 if n_targets <= _FEW_TARGETS else _TURN
        if number % turn < turn - 1:
            return self._rng.standard_normal(n_targets)
        return np.eye(n_targets)[number // turn % n_targets]

    def rounds(self, first: int, last: int) -> BoostedTrees:
        """Return the trees of some rounds, with share 0. The baseline is 0 unless the rounds include the first."""
        rows, n_targets, trees = self._rows, self._targets.shape[1], self._trees[first:last]
        columns, places, children, roots = _joined(trees)
        return BoostedTrees(
            columns,
            rows.bins.thresholds(columns, places),
            children,
            np.concatenate([self._spread * tree.values for tree in trees]).astype(rows.bins.edges.dtype),
            roots,
            np.zeros(n_targets) if first else self._spread * self._baseline,
            rows.has_labels,
            0.0,
            np.empty(0),
            np.empty((0, n_targets)),
        )


def _exponentials(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return exponentials (n, t) of the `sums` (n, t) of each row, up to a factor for each row, and their totals (n,).

    Both are float32. The sums begin as logarithms of probabilities and change slowly, so that their exponentials rarely
    overflow. The largest sum of each row is subtracted only if some do, because finding it takes as long as all the
    rest.
    """
    ones = np.ones(sums.shape[1], np.float32)
    with np.errstate(over="ignore", under="ignore"):
        found = np.exp(sums, dtype=np.float32)
        totals = found @ ones
        if not (totals.min() > _SMALLEST_TOTAL and totals.max() < 1 / _SMALLEST_TOTAL):
            found = np.exp(sums - sums.max(axis=1, keepdims=True), dtype=np.float32)
            totals = found @ ones
    return found, totals


def _joined(trees: list[GrownTree]) -> tuple[np.ndarray, ...]:
    """Return columns, places and children of the splits of all trees in one list, and the root of each tree."""
    leaves_before = np.cumsum([0, *(len(tree.values) for tree in trees)])
    splits_before = leaves_before - np.arange(len(leaves_before))
    children = [
        np.where(tree.children < 0, tree.children - n_leaves, tree.children + n_splits)
        for tree, n_leaves, n_splits in zip(trees, leaves_before, splits_before, strict=False)
    ]
    # The root of a tree of one leaf is that leaf.
    roots = np.where(np.diff(leaves_before) == 1, -1 - leaves_before[:-1], splits_before[:-1])
    columns, places = (np.concatenate(parts) for parts in zip(*((t.columns, t.places) for t in trees), strict=True))
    return columns, places, np.concatenate(children).astype(np.int32), roots.astype(np.int32)
