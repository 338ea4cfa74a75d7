"""Boosted trees as a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from scipy.special import softmax

from phimap.learn.validated import ValidatedPart
from phimap.ops import host, run_tasks
from phimap.ops.primitives.trees import add_tree_values
from phimap.records import Record, of_entries, of_floats, of_number

# Number of rows that are evaluated together by all trees.
_TILE_ROWS = 1024


@dataclass(frozen=True, repr=False)
class BoostedTrees(ValidatedPart, Record):
    r"""Sums of decision trees for encoded targets, and the share that they have in the outputs of a model.

    A leaf has a value for each of the t targets. For labels the sums :math:`s` of these values are log-odds: the
    outputs are :math:`\tanh(s / 2)` for two classes, encoded as -1 and 1, and the softmax of the sums for more classes.
    The outputs thus estimate the means of the encoded labels. For numbers the outputs are the sums.

    Attributes
    ----------
    columns : ndarray of int, shape (k,)
        Column of each split. Columns refer to unscaled rows.
    thresholds : ndarray of shape (k,)
        Rows whose number in the column is at most the threshold go to the left child, other rows to the right child.
    children : ndarray of int, shape (k, 2)
        Left and right child of each split: the index of a later split, or ``-1 - l`` for the leaf l.
    values : ndarray of shape (l, t)
        Values of the leaves.
    roots : ndarray of int, shape (n_trees,)
        First split of each tree, or ``-1 - l`` for a tree of one leaf.
    baseline : ndarray of shape (t,)
        Sums before the first tree.
    has_labels : bool
        Whether the targets are labels.
    share : float
        Weight of the trees in the average with the kernel model.
    keys : ndarray of shape (r,)
        Keys of the validation rows, ascending. Model files without statistics hold neither keys nor errors.
    errors : ndarray of shape (r, t)
        Errors of the averaged model at the validation rows, fitted without these rows.
    """

    columns: np.ndarray = field(metadata=of_entries("index", "?k", least=0))
    thresholds: np.ndarray = field(metadata=of_floats("?k"))
    children: np.ndarray = field(metadata=of_entries("index", "?k", 2))
    values: np.ndarray = field(metadata=of_floats("l", "t"))
    roots: np.ndarray = field(metadata=of_entries("index", "n"))
    baseline: np.ndarray = field(metadata=of_floats("t"))
    has_labels: bool
    share: float = field(metadata=of_number(least=0, most=1))
    keys: np.ndarray = field(metadata=of_floats("?r", ascending=True))
    errors: np.ndarray = field(metadata=of_floats("?r", "t"))

    def __repr__(self) -> str:
        return f"BoostedTrees({self.roots.size} trees, share={self.share:.3g})"

    def requirements(self) -> Iterator[tuple[bool, str]]:
        places, children = np.arange(self.columns.size), self.children
        yield bool(((children > places[:, None]) | (children < 0)).all()), "splits that lead to later splits"
        ends = np.append(children, self.roots)
        yield bool(((ends >= -len(self.values)) & (ends < places.size)).all()), "splits and leaves that exist"

    @property
    def n_outputs(self) -> int:
        """Number t of encoded targets."""
        return self.baseline.size

    @property
    def predict_alone(self) -> bool:
        """Whether the trees have the weight 1, so that the kernel model is not used."""
        return self.share == 1

    def rounds(self, first: int, last: int) -> Self:
        """Return the trees of some rounds. The baseline is 0 unless the rounds include the first."""
        baseline = np.zeros_like(self.baseline) if first else self.baseline
        return replace(self, roots=self.roots[first:last], baseline=baseline)

    def sums(self, X: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the sums float64 (n, t) of all trees for rows `X` (n, d) on the host."""
        out, ops = np.tile(self.baseline.astype(np.float64), (len(X), 1)), host(np.float64)
        trees = self.columns, self.thresholds, self.children, self.values, self.roots

        def add(start: int) -> None:
            part = slice(start, start + _TILE_ROWS)
            add_tree_values(ops, np.ascontiguousarray(X[part], np.float64), *trees, out[part])

        run_tasks(add, range(0, len(X), _TILE_ROWS), n_jobs)
        return out

    def outputs_of(self, sums: np.ndarray) -> np.ndarray:
        """Return the outputs (n, t) of rows with the given `sums` (n, t)."""
        if not self.has_labels:
            return sums
        return np.tanh(sums / 2) if sums.shape[1] == 1 else softmax(sums, axis=1)

    def outputs(self, X: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the outputs float64 (n, t), in encoded targets, for rows `X` (n, d) on the host."""
        return self.outputs_of(self.sums(X, n_jobs))


def trees_text(trees: BoostedTrees) -> str:
    """Return the number of trees and their share of the output as text."""
    if trees.predict_alone:
        return f"{trees.roots.size:,}, which alone predict: the kernel model is not used"
    # A share below 1 must not be printed as 100 %.
    return f"{trees.roots.size:,}, with {min(100 * trees.share, 99):.0f} % of the output"


def rounded_down(thresholds: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the thresholds, rounded down to numbers of `dtype`. Rows of `dtype` still reach the same leaves."""
    with np.errstate(over="ignore"):
        rounded = thresholds.astype(dtype)
    return np.where(rounded > thresholds, np.nextafter(rounded, np.array(-np.inf, dtype)), rounded)
