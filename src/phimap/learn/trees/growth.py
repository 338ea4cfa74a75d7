"""Growing of boosted trees by scikit-learn's histogram gradient boosting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from phimap.config import thread_count
from phimap.learn.trees.ensemble import BoostedTrees, rounded_down
from phimap.ops import openmp_threads

#: Number of rows for each thread. With fewer rows, OpenMP's threads mostly wait for each other, and keep the processor
#: busy while they wait.
ROWS_OF_THREAD = 25_000
# Penalty on the squares of leaf values, in units of the second derivative of the loss of one row.
_PENALTY = 0.1
# Most bins that scikit-learn allows for a column.
_MOST_BINS = 255


@dataclass(frozen=True)
class TreeRows:
    """Rows to grow trees on.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, t)
        Encoded targets.
    weights : ndarray of shape (n,) or None
    has_labels : bool
        Whether the targets are labels.
    """

    X: np.ndarray
    Y: np.ndarray
    weights: np.ndarray | None
    has_labels: bool

    def rows(self, chosen: np.ndarray) -> TreeRows:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[chosen]
        return replace(self, X=self.X[chosen], Y=self.Y[chosen], weights=weights)

    @property
    def labels(self) -> np.ndarray:
        """The index of the class of each row (n,)."""
        return (self.Y[:, 0] > 0).astype(np.intp) if self.Y.shape[1] == 1 else self.Y.argmax(axis=1)


class _Continued:
    """Keeps the bins of the rows, and the sums of the trees at the rows, from one `fit` to the next.

    With ``warm_start``, scikit-learn would compute both again in each `fit`. The rows must stay the same.
    """

    _bins: Any = None
    _sums: Any = None

    def _bin_data(self, *args: Any, **options: Any) -> np.ndarray:
        if self._bins is None:
            binned = super()._bin_data(*args, **options)  # pyright: ignore[reportAttributeAccessIssue]
            self._bins = binned, self._bin_mapper
        binned, self._bin_mapper = self._bins
        return binned

    def _raw_predict(self, X: np.ndarray, *args: Any, **options: Any) -> np.ndarray:
        if self._bins is None or X is not self._bins[0]:
            return super()._raw_predict(X, *args, **options)  # pyright: ignore[reportAttributeAccessIssue]
        if self._sums is None:
            self._sums = super()._raw_predict(X, *args, **options)  # pyright: ignore[reportAttributeAccessIssue]
        # `fit` adds the values of every further tree to this array.
        return self._sums


class _Classifier(_Continued, HistGradientBoostingClassifier):
    pass


class _Regressor(_Continued, HistGradientBoostingRegressor):
    pass


class Boosting:
    """Boosted trees of some rows, to which rounds can be added.

    Parameters
    ----------
    rows : TreeRows
    rate : float
        Learning rate.
    n_leaves : int, default=31
        Largest number of leaves of a tree.
    seed : int
    n_jobs : int or None
        Threads; the trees do not depend on their number.

    Notes
    -----
    Labels are learned by the log loss, numbers by the squared error, each target by itself in units of its standard
    deviation. Leaf values have a small penalty on their squares: without it, rounds may diverge on rare classes, whose
    second derivatives vanish. The last bits of the rows are left out. Otherwise a split could separate numbers that
    differ only by rounding, and the same rows, computed on another machine, could reach other leaves.
    """

    def __init__(self, rows: TreeRows, *, rate: float, n_leaves: int = 31, seed: int, n_jobs: int | None):
        self._rows = replace(rows, X=_truncated(rows.X))
        self._n_threads = max(1, min(thread_count(n_jobs), len(rows.X) // ROWS_OF_THREAD))
        kind: Any = _Classifier if rows.has_labels else _Regressor
        self._n_rounds, self._centre, self._spread = 0, np.zeros(rows.Y.shape[1]), np.ones(rows.Y.shape[1])
        if not rows.has_labels:
            spread = rows.Y.std(axis=0)
            self._centre, self._spread = rows.Y.mean(axis=0), np.where(spread > 0, spread, 1.0)
        self._models: list[Any] = [
            kind(
                learning_rate=rate,
                max_leaf_nodes=n_leaves,
                l2_regularization=_PENALTY,
                max_bins=_n_bins(self._rows.X),
                early_stopping=False,
                warm_start=True,
                random_state=seed,
            )
            for _ in range(1 if rows.has_labels else rows.Y.shape[1])
        ]

    @property
    def knows_all_classes(self) -> bool:
        """Whether every class occurs in the rows; True for numbers."""
        rows = self._rows
        return not rows.has_labels or np.unique(rows.labels).size == max(2, rows.Y.shape[1])

    def grow(self, n_rounds: int) -> BoostedTrees:
        """Add rounds up to a total of `n_rounds`; a round has a tree for every target. Return the added rounds."""
        rows, has_labels, before = self._rows, self._rows.has_labels, self._n_rounds
        with openmp_threads(self._n_threads):
            for target, model in enumerate(self._models):
                y = rows.labels if has_labels else (rows.Y[:, target] - self._centre[target]) / self._spread[target]
                # The sums of the trees at the rows are kept from the second `fit` on, so the first has one round.
                for total in (n_rounds,) if before else (1, n_rounds):
                    model.set_params(max_iter=total).fit(rows.X, y, rows.weights)
        self._n_rounds = n_rounds
        return self.rounds(before, n_rounds)

    def rounds(self, first: int, last: int) -> BoostedTrees:
        """Return the trees of some rounds, with share 0. The baseline is 0 unless the rounds include the first."""
        # scikit-learn's trees are only accessible through private attributes. Tests compare the outputs with
        # scikit-learn's.
        baseline = np.concatenate([np.ravel(model._baseline_prediction) for model in self._models])
        baseline = np.zeros_like(baseline) if first else self._centre + self._spread * baseline
        trees = [tree.nodes for n in range(first, last) for model in self._models for tree in model._predictors[n]]
        return _converted(trees, baseline, self._spread, self._rows)


def _n_bins(X: np.ndarray) -> int:
    """Return the largest number of bins that a column needs.

    A column with fewer distinct numbers than bins has a bin for each, so that fewer bins change no tree. They save
    time, because every sum over rows is formed for all bins.
    """
    most = 2
    for column in X.T:
        most = max(most, np.unique(column).size)
        if most >= _MOST_BINS:
            return _MOST_BINS
    return most


def _truncated(X: np.ndarray) -> np.ndarray:
    """Return the rows with the last bits of their numbers set to zero: 4 bits in float32, 16 in float64."""
    kind, last = (np.uint32, 4) if X.dtype == np.float32 else (np.uint64, 16)
    bits = np.ascontiguousarray(X).view(kind)
    return (bits & ~np.array((1 << last) - 1, kind)).view(X.dtype)


def _converted(trees: list[np.ndarray], baseline: np.ndarray, spread: np.ndarray, rows: TreeRows) -> BoostedTrees:
    """Return the record of scikit-learn's trees; the values of tree i are in units of ``spread[i % t]``."""
    is_leaf = [nodes["is_leaf"].astype(bool) for nodes in trees]
    n_leaves = np.cumsum([0, *(leaves.sum() for leaves in is_leaf)])
    n_splits = np.cumsum([0, *((~leaves).sum() for leaves in is_leaf)])
    roots, children = np.empty(len(trees), np.int32), []
    for i, (nodes, leaves) in enumerate(zip(trees, is_leaf, strict=True)):
        place = np.where(leaves, -n_leaves[i] - np.cumsum(leaves), n_splits[i] + np.cumsum(~leaves) - 1)
        splits, roots[i] = nodes[~leaves], place[0]
        children.append(np.stack([place[splits["left"]], place[splits["right"]]], axis=1))
    splits = np.concatenate([nodes[~leaves] for nodes, leaves in zip(trees, is_leaf, strict=True)])
    units = np.repeat(np.resize(spread, len(trees)), np.diff(n_leaves))
    values = units * np.concatenate([nodes["value"][leaves] for nodes, leaves in zip(trees, is_leaf, strict=True)])
    dtype, n_outputs = rows.X.dtype, baseline.size
    return BoostedTrees(
        splits["feature_idx"].astype(np.int32),
        rounded_down(splits["num_threshold"], dtype),
        np.concatenate(children).astype(np.int32),
        values.astype(dtype),
        roots,
        baseline,
        rows.has_labels,
        0.0,
        np.empty(0),
        np.empty((0, n_outputs)),
    )
