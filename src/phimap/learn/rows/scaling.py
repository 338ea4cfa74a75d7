"""Moments and ranges of the columns, accumulated over a stream, and a frozen record of the scaling of inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from scipy import sparse

from phimap._validation import is_none
from phimap.learn.rows.column_forms import Ranks, Squash
from phimap.learn.weights import total_weight, weighted_mean, weighted_sum
from phimap.ops import Array, Ops, ops_for
from phimap.records import Record, of_floats, of_number, with_lengths

# A column varies if half of its range exceeds its largest absolute value times `_ROUNDINGS` machine epsilons; a smaller
# range is due to rounding. A variance counts as accurate between `_LEAST_SQUARE` and ``1 / _LEAST_SQUARE``, where
# squares neither underflow nor overflow.
_ROUNDINGS, _LEAST_SQUARE = 8, 1e-280


@dataclass(frozen=True)
class Scaling(Record):
    """``(x - shift) * factor``, column by column, then a product with the root of a metric.

    Attributes
    ----------
    shift : ndarray of shape (n_features,)
        Zero if the input is sparse, because a shift would make it dense.
    factor : ndarray of shape (n_features,)
    root : ndarray of shape (n_features, k) or None
        Matrix that multiplies the scaled rows; None for the identity. A diagonal metric is part of `factor`.
    squash : Squash or None
        Squashing that is applied to the columns first; None if no column is squashed.
    ranks : Ranks or None
        Ranks that replace the columns first; None if no column is replaced. Never given together with `squash`.
    """

    shift: np.ndarray = field(metadata=of_floats("d"))
    factor: np.ndarray = field(metadata=of_floats("d"))
    root: np.ndarray | None = field(default=None, metadata=of_floats("d", "k"))
    squash: Squash | None = field(default=None, metadata=with_lengths(n_features="d"))
    ranks: Ranks | None = field(default=None, metadata=with_lengths(n_features="d"))

    @property
    def form(self) -> Squash | Ranks | None:
        """The transformation of the columns before the scaling, `squash` or `ranks`; None if columns are unchanged."""
        return self.ranks if self.squash is None else self.squash

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.squash is None or self.ranks is None, "one form of its columns"

    def apply(self, ops: Ops, X: Array) -> Array:
        """Return the scaled rows of `X` (r, d) as a new array; the record must be bound to `ops`.

        CSR rows stay CSR, unless the scaling squashes columns, ranks them, shifts them, or has a `root`.
        """
        if not ops.is_finite(self.factor):
            raise ValueError(
                f"`X` is too near 0 for {ops.dtype}: the spread of a column has no inverse. Scale X, or pass float64."
            )
        if self.form is not None:
            X = self.form.apply(ops, X)
        if ops.is_sparse(X) and not self.shift.any():
            scaled = ops.scale_columns(X, self.factor)
        else:
            scaled = (ops.dense(X) - self.shift) * self.factor
        # The product is computed in tiles, so the number of threads does not change the result.
        return scaled if self.root is None else ops.matmul_rows(ops.dense(scaled), self.root, None)

    @classmethod
    def of_form(cls, form: Squash | Ranks, X: np.ndarray) -> Scaling:
        """Return the scaling that transforms columns by `form`, then shifts and scales them to mean 0 and variance 1.

        Means and variances are estimated from random rows `X` (n, d).
        """
        moments = ColumnMoments.empty(X.shape[1])
        moments.update(form.apply(ops_for(X), X).astype(np.float64))
        squash, ranks = (form, None) if isinstance(form, Squash) else (None, form)
        scaling = replace(moments.scaling("columns"), squash=squash, ranks=ranks)
        return scaling if form.others is None else replace(scaling, factor=np.where(form.others, 1, scaling.factor))

    def rooted(self, root: np.ndarray | None) -> Scaling:
        """Return this scaling, followed by the root of a metric: factors (n_features,) or a matrix (n_features, k)."""
        if root is None:
            return self
        return replace(self, factor=self.factor * root) if root.ndim == 1 else replace(self, root=root)


@dataclass
class ColumnMoments(Record):
    """Weight, means and sums of squared deviations of columns, updated batch by batch.

    Without weights, the weight is the number of rows. Batches are merged by the update of Chan, Golub and LeVeque
    (1983), which avoids cancellation.

    Attributes
    ----------
    mean, squared_deviations : ndarray of shape (d,)
    n : float
        Total weight.
    sparse : bool
        Whether any rows were CSR.
    """

    mean: np.ndarray = field(metadata=of_floats("d"))
    squared_deviations: np.ndarray = field(metadata=of_floats("d", least=0))
    n: float = field(default=0, metadata=of_number(least=0))
    sparse: bool = False

    @classmethod
    def empty(cls, n_features: int = 1) -> ColumnMoments:
        """Return empty moments. The first rows may have any number of columns if `n_features` is 1."""
        return cls(np.zeros(n_features), np.zeros(n_features))

    def update(self, X: Array, weights: np.ndarray | None = None) -> None:
        """Add the rows of `X` (r, d), dense, CSR or tensor, with positive `weights` (r,)."""
        rows = total_weight(weights, X.shape[0])
        # Squares of extreme values overflow; `scaling` then takes the range of the column.
        with np.errstate(over="ignore", invalid="ignore"):
            self._add(rows, *self._moments(X, weights, rows))

    def _moments(self, X: Array, weights: np.ndarray | None, rows: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the means of rows of total weight `rows`, and the sums of squared deviations from them."""
        if sparse.issparse(X):
            self.sparse = True
            counted = np.ones(X.shape[0]) if weights is None else weights
            mean = X.T @ counted / rows
            deviations = np.maximum(X.multiply(X).T @ counted - rows * mean**2, 0)
        elif weights is not None:
            host = ops_for(X).to_host(X)
            mean = weighted_mean(host, weights)
            deviations = weighted_sum(np.square(host - mean), weights)
        else:
            # Sums along contiguous columns are several times as fast as sums across rows.
            columns = np.array(ops_for(X).to_host(X).T, dtype=np.float64, order="C")
            mean = columns.mean(axis=1)
            columns -= mean[:, None]
            deviations = np.square(columns, out=columns).sum(axis=1)
        return mean, deviations

    def merge(self, other: ColumnMoments) -> None:
        """Add the rows of other moments."""
        self.sparse = self.sparse or other.sparse
        if other.n:
            self._add(other.n, other.mean, other.squared_deviations)

    def _add(self, rows: float, mean: np.ndarray, deviations: np.ndarray) -> None:
        """Add rows of total weight `rows`, given their means and sums of squared deviations from these means."""
        total = self.n + rows
        step = mean - self.mean
        self.squared_deviations = self.squared_deviations + (deviations + step**2 * (self.n * rows / total))
        self.mean = self.mean + step * (rows / total)
        self.n = total

    def constant_columns(self) -> np.ndarray:
        """Indices of the columns whose standard deviation is below the rounding error of their mean."""
        spread = np.sqrt(self.squared_deviations / (self.n or 1))
        return np.flatnonzero(spread <= 8 * np.finfo(np.float64).eps * np.abs(self.mean))

    def _deviations(self, columns: ColumnRange | None) -> np.ndarray:
        """Return the standard deviation of each column, 0 for constant columns.

        Squared deviations are inaccurate for columns whose spread is near the rounding of their mean, or whose squares
        overflow or underflow. If such a column takes many values, its standard deviation is its range over 8.
        """
        variances = self.squared_deviations / (self.n or 1)
        variances[self.constant_columns()] = 0
        deviations = np.sqrt(variances)
        if columns is None or columns.low is None or columns.high is None:
            return deviations
        low, high = columns.low, columns.high
        varies = high / 2 - low / 2 > _ROUNDINGS * np.finfo(np.float64).eps * np.maximum(np.abs(low), np.abs(high))
        with np.errstate(invalid="ignore"):
            resolved = (variances > _LEAST_SQUARE) & (variances < 1 / _LEAST_SQUARE)
        return np.where(varies & ~resolved, (high / 2 - low / 2) / (_DEVIATIONS / 2), deviations)

    def scaling(self, kind: str | bool, *, complete: bool = False, columns: ColumnRange | None = None) -> Scaling:
        """Return the standardisation of the columns.

        Parameters
        ----------
        kind : {"auto", "columns", "global", "mean"} or False
            ``"columns"`` scales each column to mean 0 and variance 1. ``"global"`` shifts each column to mean 0, and
            scales all columns by one factor, such that their mean variance is 1; it is meant for columns in one unit,
            such as pixels. ``"auto"`` is ``"columns"`` for dense rows; it leaves CSR rows unchanged, because rare
            columns would dominate. ``"mean"`` shifts dense columns to mean 0 and leaves CSR rows unchanged. False
            changes nothing. CSR rows are never shifted.
        complete : bool
            Whether these are the moments of all training rows. If so, the factor of constant columns is 0 for
            ``"columns"``, so they are 0 in new rows too. Otherwise their factor is 1, because later training rows may
            differ.
        columns : ColumnRange, optional
            Ranges of the columns, which give the deviations of columns whose squared deviations are inaccurate.
        """
        d = self.mean.shape[0]
        if kind is False or (kind in ("auto", "mean") and self.sparse):
            return Scaling(np.zeros(d), np.ones(d))
        if kind == "mean":
            return Scaling(self.mean.copy(), np.ones(d))
        deviations = self._deviations(columns)
        if kind == "global":
            deviations = np.full(d, np.sqrt(np.square(deviations).mean()))
        constant = 0.0 if complete and kind != "global" else 1.0
        factor = np.divide(1, deviations, out=np.full(d, constant), where=deviations > 0)
        return Scaling(np.zeros(d) if self.sparse else self.mean.copy(), factor)


def check_standardisation(kind: str | bool | None) -> str | bool:
    """Check `kind`, and return it in the form that `ColumnMoments.scaling` takes."""
    if is_none(kind):
        return False
    if kind not in ("auto", "columns", "global"):
        raise ValueError(
            f"`standardize` must be one of 'auto', 'columns', 'global' or None, got {kind!r}. "
            "Use 'columns' to scale each column."
        )
    return kind


# Margin on each side of the range of a column, as a share of the length of the range. With this margin, on 15 real
# tables of 500 to 4,000 rows, less than 0.2 % of new rows lay so far outside that it affected the kernel.
_WIDENED = 0.5
# Typical range of a few thousand normal numbers, in standard deviations. If the range of a column is longer, the column
# has a long tail or is mostly constant, so the ends of its range are a poor guide to new values. The margin is then
# multiplied by the square of the ratio of the two lengths.
_DEVIATIONS = 8.0
# Largest number of entries of several short rows that are viewed as one long row. NumPy compares long rows faster.
_LONG = 1024
# Number of rows whose distances are computed at a time.
_ROWS_AT_A_TIME = 64
# For n training rows the margin is multiplied by 1 + `_FEW_ROWS` / n, because few rows give a poor estimate of the
# range.
_FEW_ROWS = 20.0


@dataclass
class ColumnRange(Record):
    """Smallest and largest value of each column of dense rows, and the margin within which new values count as near.

    Attributes
    ----------
    low, high : ndarray of shape (d,) or None
        None if no dense rows were seen.
    margin : ndarray of shape (d,) or None
        Length by which the range is widened on each side; None before `settled`.
    radius : float
        Root mean square distance of scaled rows from their mean.
    """

    low: np.ndarray | None = field(default=None, metadata=of_floats("d"))
    high: np.ndarray | None = field(default=None, metadata=of_floats("d"))
    margin: np.ndarray | None = field(default=None, metadata=of_floats("d", least=0, finite=False))
    radius: float = field(default=0.0, metadata=of_number(least=0, finite=False))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        known = self.low is not None and self.high is not None
        yield known or self.margin is None, "both ends of its range where it has a margin"

    def update(self, X: Array) -> None:
        """Add rows (r, d); CSR rows are ignored."""
        if X.shape[0] and not sparse.issparse(X):
            low, high = _least_and_largest(ops_for(X).to_host(X))
            self.merge(ColumnRange(low.astype(np.float64), high.astype(np.float64)))

    def merge(self, other: ColumnRange) -> None:
        """Add the rows of another range; the margin does not change."""
        if self.low is None or self.high is None:
            self.low, self.high = other.low, other.high
        elif other.low is not None and other.high is not None:
            self.low, self.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)

    def settled(self, moments: ColumnMoments, scaled: Array) -> Self:
        """Return the range with its margin and its radius.

        The margin is computed from the moments of all rows, the radius from scaled sample rows (n, k).
        """
        if self.low is None or self.high is None:
            return self
        rows = ops_for(scaled).to_host(scaled)
        deviation = np.sqrt(moments.squared_deviations / (moments.n or 1))
        with np.errstate(over="ignore"):
            spread = self.high - self.low
            in_deviations = np.divide(spread, deviation, out=np.zeros_like(spread), where=deviation > 0)
            tail = np.square(np.maximum(in_deviations / _DEVIATIONS, 1))
            margin = _WIDENED * (1 + _FEW_ROWS / (moments.n or 1)) * spread * tail
            # Allow for the rounding of values to float32.
            margin += np.finfo(np.float32).eps * np.maximum(np.abs(self.low), np.abs(self.high))
            mean = rows.mean(axis=0, dtype=np.float64)
            # A few rows are processed at a time, because a float64 copy of all rows would take much memory.
            parts = (rows[start : start + _ROWS_AT_A_TIME] - mean for start in range(0, len(rows), _ROWS_AT_A_TIME))
            distances = sum(float(np.square(part).sum()) for part in parts)
            return replace(self, margin=margin, radius=float(np.sqrt(distances / len(rows))))

    def out_of_range(self, X: np.ndarray) -> np.ndarray:
        """Indices of the rows of `X` (r, d) that have a value outside of the widened range of its column."""
        if self.margin is None:
            return np.zeros(0, np.intp)
        low, high = self.ends(X.dtype)
        # Most batches have no value outside of the ranges, which the smallest and largest values of the columns show
        # quickly.
        least, largest = _least_and_largest(X)
        columns = np.flatnonzero((least < low) | (largest > high))
        if not columns.size:
            return columns
        some = X[:, columns]
        return np.flatnonzero(((some < low[columns]) | (some > high[columns])).any(axis=1))

    def nearest(self, X: np.ndarray) -> np.ndarray:
        """Return for each row of `X` the nearest row within the widened ranges (r, d)."""
        return np.clip(X, *self.ends(X.dtype))

    def farthest(self, row: np.ndarray) -> int:
        """Return the column in which a row (d,) lies farthest outside, relative to the column's widened range."""
        low, high = self.ends(np.dtype(np.float64))
        with np.errstate(over="ignore", invalid="ignore"):
            outside = np.maximum(low - row, row - high)
            return int(np.nanargmax(np.where(outside > 0, outside / (high - low + np.finfo(np.float64).tiny), 0.0)))

    def ends(self, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the widened ranges (d,) in a dtype; the margin must be known."""
        assert self.low is not None
        assert self.high is not None
        assert self.margin is not None
        with np.errstate(over="ignore"):
            return (self.low - self.margin).astype(dtype), (self.high + self.margin).astype(dtype)


def _least_and_largest(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest values (d,) of the columns of `X` (r, d), which has at least one row."""
    n_rows, d = X.shape
    # Several short rows are viewed as one long row, because NumPy compares long rows faster.
    group = max(1, min(_LONG // d, n_rows))
    if group == 1 or not X.flags.c_contiguous:
        return X.min(axis=0), X.max(axis=0)
    whole = n_rows // group * group
    parts = X[:whole].reshape(-1, group * d), X[whole:]
    lows = [parts[0].min(axis=0).reshape(group, d), parts[1]]
    highs = [parts[0].max(axis=0).reshape(group, d), parts[1]]
    return np.concatenate(lows).min(axis=0), np.concatenate(highs).max(axis=0)
