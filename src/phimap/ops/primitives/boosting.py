"""Growth of a decision tree, and the arrangement of rows in which it is fast."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phimap.ops.base import Ops
from phimap.ops.primitive import host_primitive


class BinnedRows(NamedTuple):
    """Rows whose numbers are replaced by codes of bins: small integers in the order of the numbers.

    More than half the rows of a sparse column have the same code. The rows in such a common bin are not added up: its
    sums are those of the leaf minus those of the other bins. Indicators and counts take much less time this way.

    Attributes
    ----------
    codes : ndarray of uint8, shape (d, n)
        Code of each number, column by column.
    bin_starts : ndarray of int64, shape (d + 1,)
        First bin of each column in a list of the bins of all columns.
    common : ndarray of int64, shape (d,)
        The common bin of each column in this list; -1 for a column without.
    entries : ndarray of int32, shape (e,)
        Bins of the first row in this list, those of the second row, and so on, without common bins.
    entry_starts : ndarray of int64, shape (n + 1,)
        First entry of each row.
    """

    codes: np.ndarray
    bin_starts: np.ndarray
    common: np.ndarray
    entries: np.ndarray
    entry_starts: np.ndarray

    @classmethod
    def of(cls, codes: np.ndarray, n_bins: np.ndarray) -> BinnedRows:
        """Return rows with the given `codes` (d, n), which are less than ``n_bins`` (d,) in each column."""
        d, n = codes.shape
        if (codes.max(axis=1, initial=0) >= n_bins).any():
            raise ValueError("`codes` must be less than the number of bins of their column. Fit the model again.")
        bin_starts = np.concatenate([[0], np.cumsum(n_bins)]).astype(np.int64)
        common, counts = np.full(d, -1, np.int64), np.zeros(n, np.int64)
        for j, column in enumerate(codes):
            sizes = np.bincount(column, minlength=1)
            if 2 * sizes.max() > n:
                common[j] = sizes.argmax()
            counts += column != common[j]
        entry_starts = np.concatenate([[0], np.cumsum(counts)])
        entries, following = np.empty(entry_starts[-1], np.int32), entry_starts[:-1].copy()
        for j, column in enumerate(codes):
            others = np.flatnonzero(column != common[j])
            entries[following[others]] = bin_starts[j] + column[others]
            following[others] += 1
        return cls(codes, bin_starts, np.where(common < 0, -1, bin_starts[:-1] + common), entries, entry_starts)


class TreeLimits(NamedTuple):
    """Limits of the growth of a tree, and what its values depend on.

    Attributes
    ----------
    n_leaves : int
        Largest number of leaves.
    least_rows : int
        Least number of rows in a leaf.
    least_curvature : float
        Least sum of the curvatures in a leaf.
    penalty : float
        Penalty on the squares of the leaf values.
    rate : float
        Learning rate, by which leaf values are multiplied.
    """

    n_leaves: int
    least_rows: int
    least_curvature: float
    penalty: float
    rate: float


class GrownTree(NamedTuple):
    """A tree with l leaves for t targets.

    Attributes
    ----------
    columns, places : ndarray of int32, shape (l - 1,)
        Column of each split, and the last code that goes to the left.
    children : ndarray of int32, shape (l - 1, 2)
        Left and right child of each split: a later split, or ``-1 - i`` for the leaf i.
    values : ndarray of shape (l, t)
        Values of the leaves.
    """

    columns: np.ndarray
    places: np.ndarray
    children: np.ndarray
    values: np.ndarray


@host_primitive
def grow_tree(
    ops: Ops,
    rows: BinnedRows,
    slopes: np.ndarray,
    curvatures: np.ndarray,
    gradients: np.ndarray,
    hessians: np.ndarray,
    limits: TreeLimits,
    sums: np.ndarray,
) -> GrownTree:
    r"""Return a tree that lowers a loss of t targets, and add its leaf values to `sums` (n, t).

    Parameters
    ----------
    ops : Ops
    rows : BinnedRows
    slopes, curvatures : ndarray of shape (n,)
        First and second derivatives of the loss of each row along one direction of the targets. The splits depend on
        them.
    gradients, hessians : ndarray of shape (n, t)
        First and second derivatives of the loss of each row by each target. The leaf values depend on them.
    limits : TreeLimits
    sums : ndarray of shape (n, t)

    Notes
    -----
    Let G and H be the sums of the gradients and of the hessians of a target over the rows in a leaf, and p the penalty.
    The value :math:`v = -G / (H + p)` minimises :math:`G v + (H + p) v^2 / 2`. For sums G and H of the slopes and of
    the curvatures, a split into the parts 1 and 2 lowers twice this loss by :math:`G_1^2 / (H_1 + p) + G_2^2 / (H_2 +
    p) - G^2 / (H + p)`. The tree begins with one leaf. The leaf whose best split lowers the loss most is split next.
    Among equal splits, the first column and the lowest code win.
    """
    members, parents = [np.arange(len(slopes))], [(-1, -1)]
    best = [_best_split(rows, members[0], slopes, curvatures, limits)]
    splits, children = np.empty((0, 2), np.int32), np.empty((0, 2), np.int32)
    while len(members) < limits.n_leaves:
        left = max(range(len(members)), key=lambda leaf: best[leaf][0])
        gain, column, place = best[left]
        if gain <= 0:
            break
        is_left, (parent, side) = rows.codes[column, members[left]] <= place, parents[left]
        if parent >= 0:
            children[parent, side] = len(splits)
        parents[left : left + 1], new = [(len(splits), 0)], (len(splits), 1)
        splits, children = np.vstack([splits, [(column, place)]]), np.vstack([children, [(0, 0)]])
        parents, members = [*parents, new], [*members, members[left][~is_left]]
        members[left] = members[left][is_left]
        best.append((0.0, 0, 0))
        for leaf in (left, -1):
            best[leaf] = _best_split(rows, members[leaf], slopes, curvatures, limits)
    values = np.empty((len(members), gradients.shape[1]))
    for leaf, (rows_of_leaf, (parent, side)) in enumerate(zip(members, parents, strict=True)):
        gradient, hessian = gradients[rows_of_leaf].sum(axis=0), hessians[rows_of_leaf].sum(axis=0)
        values[leaf] = -limits.rate * gradient / (hessian + limits.penalty)
        sums[rows_of_leaf] += values[leaf]
        if parent >= 0:
            children[parent, side] = -1 - leaf
    return GrownTree(splits[:, 0].astype(np.int32), splits[:, 1].astype(np.int32), children.astype(np.int32), values)


def _best_split(
    rows: BinnedRows, members: np.ndarray, slopes: np.ndarray, curvatures: np.ndarray, limits: TreeLimits
) -> tuple[float, int, int]:
    """Return the gain, the column and the place of the best split of some rows; the gain is 0 if none lowers the loss.

    The lowest place is returned among places that divide the rows alike.
    """
    best = (0.0, -1, -1)
    slope, curvature = slopes[members].sum(), curvatures[members].sum()
    for column, codes in enumerate(rows.codes[:, members] if len(members) else ()):
        g, h, n = (np.cumsum(np.bincount(codes, w)) for w in (slopes[members], curvatures[members], None))
        is_allowed = np.minimum(n, len(members) - n) >= limits.least_rows
        is_allowed &= np.minimum(h, curvature - h) >= limits.least_curvature
        parts = g**2 / (h + limits.penalty) + (slope - g) ** 2 / (curvature - h + limits.penalty)
        gains = np.where(is_allowed, parts - slope**2 / (curvature + limits.penalty), 0)
        place = int(np.argmax(gains))
        if gains[place] > best[0]:
            best = float(gains[place]), column, place
    return best


@grow_tree.override("numpy")
def _(
    ops: Ops,
    rows: BinnedRows,
    slopes: np.ndarray,
    curvatures: np.ndarray,
    gradients: np.ndarray,
    hessians: np.ndarray,
    limits: TreeLimits,
    sums: np.ndarray,
) -> GrownTree:
    from phimap.ops.compiled import boosting

    # The compiled loop does not check bounds.
    n_rows = rows.codes.shape[1]
    if not gradients.shape == hessians.shape == sums.shape == (n_rows, sums.shape[1]) or not (
        len(slopes) == len(curvatures) == n_rows
    ):
        raise ValueError("derivatives and `sums` must have a number for each row. Fit the model again.")
    return GrownTree(*boosting.grow_tree(rows, slopes, curvatures, gradients, hessians, limits, sums))


@host_primitive
def class_derivatives(
    ops: Ops,
    exponentials: np.ndarray,
    totals: np.ndarray,
    labels: np.ndarray,
    gradients: np.ndarray,
    hessians: np.ndarray,
) -> None:
    r"""Set the derivatives of the log loss of t classes by the sums of the classes.

    Parameters
    ----------
    ops : Ops
    exponentials : ndarray of shape (n, t)
        Exponentials of the sums of each row; a factor for each row does not matter.
    totals : ndarray of shape (n,)
        Sums of the exponentials of each row.
    labels : ndarray of int32, shape (n,)
        The class of each row.
    gradients, hessians : ndarray of shape (n, t)
        Receive the first derivatives ``p - y`` and the second derivatives ``p (1 - p)``, with p the probabilities and y
        the indicators of the classes.
    """
    probabilities = exponentials / totals[:, None]
    gradients[:] = probabilities
    hessians[:] = probabilities * (1 - probabilities)
    gradients[np.arange(len(labels)), labels] -= 1


@class_derivatives.override("numpy")
def _(
    ops: Ops,
    exponentials: np.ndarray,
    totals: np.ndarray,
    labels: np.ndarray,
    gradients: np.ndarray,
    hessians: np.ndarray,
) -> None:
    from phimap.ops.compiled import boosting

    # The compiled loop does not check bounds.
    n, t = exponentials.shape
    if not gradients.shape == hessians.shape == (n, t) or not len(totals) == len(labels) == n:
        raise ValueError("derivatives, `totals` and `labels` must have a number for each row. Fit the model again.")
    if n and not 0 <= labels.min() <= labels.max() < t:
        raise ValueError(
            f"`labels` must be from 0 to {t - 1}, got {labels.min()} to {labels.max()}. Fit the model again."
        )
    boosting.class_derivatives(exponentials, totals, labels, gradients, hessians)
