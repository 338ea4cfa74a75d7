"""Standardisation of inputs as a streamed sum and a frozen record."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from phimap._validation import is_none
from phimap.learn.weights import total_weight, weighted_mean, weighted_sum
from phimap.ops import Array, Ops, ops_for
from phimap.records import Record, of_floats, of_number, with_lengths

# Deviations from the median, in robust standard deviations, that make a tail heavy.
_HEAVY = 10.0
# The middle half of normal numbers, in standard deviations.
_MIDDLE_HALF = 1.349


@dataclass(frozen=True)
class Squash(Record):
    """``arcsinh((x - centre) * factor)``, column by column: linear in the middle, logarithmic in the tails.

    Attributes
    ----------
    centre, factor : ndarray of shape (n_features,)
        Median, and inverse robust standard deviation: the spread of the middle half over 1.349.
    others : ndarray of shape (n_features,) or None
        1 for columns that stay as they are, whose factor is 0; None where there are none.
    """

    centre: np.ndarray = field(metadata=of_floats("d"))
    factor: np.ndarray = field(metadata=of_floats("d"))
    others: np.ndarray | None = field(default=None, metadata=of_floats("d"))

    @property
    def n_features(self) -> int:
        """Columns d."""
        return self.centre.shape[0]

    @classmethod
    def of_sample(cls, X: np.ndarray, amounts: np.ndarray | None = None) -> Squash | None:
        """For random rows (n, d), dense; None where no column has a heavy tail.

        `amounts` (d,) says which columns may be squashed; None is all of them.
        """
        X = X.astype(np.float64)
        low, centre, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
        spread, deviation = (high - low) / _MIDDLE_HALF, X.std(axis=0)
        # Half of a column may be one value, mostly zero.
        spread = np.where(spread > 0, spread, deviation)
        factor = np.divide(1, spread, out=np.ones_like(spread), where=spread > 0)
        others = None
        if amounts is not None:
            factor, others = factor * amounts, 1.0 - amounts
        return cls(centre, factor, others) if np.abs((X - centre) * factor).max() > _HEAVY else None

    def apply(self, ops: Ops, X: Array) -> Array:
        """The rows of `X` (r, d) squashed, as a new dense array; on a record bound to `ops`."""
        squashed = ops.arcsinh((ops.dense(X) - self.centre) * self.factor)
        return squashed if self.others is None else squashed + ops.dense(X) * self.others


@dataclass(frozen=True)
class Scaling(Record):
    """``(x - shift) * factor``, column by column, and then the root of a metric.

    Attributes
    ----------
    shift : ndarray of shape (n_features,)
        Zero where the input is sparse, which a shift would fill.
    factor : ndarray of shape (n_features,)
    root : ndarray of shape (n_features, k) or None
        What scaled rows are multiplied by; None where it is the identity. A diagonal metric is part of `factor`.
    squash : Squash or None
        What columns go through before all else; None where they are taken as they are.
    """

    shift: np.ndarray = field(metadata=of_floats("d"))
    factor: np.ndarray = field(metadata=of_floats("d"))
    root: np.ndarray | None = field(default=None, metadata=of_floats("d", "k"))
    squash: Squash | None = field(default=None, metadata=with_lengths(n_features="d"))

    def apply(self, ops: Ops, X: Array) -> Array:
        """The rows of `X` (r, d) scaled, as a new array; on a record bound to `ops`.

        CSR stays CSR unless the columns are shifted, as those of a model fitted on dense rows are.
        """
        if not ops.is_finite(self.factor):
            raise ValueError(
                f"`X` is too near 0 for {ops.dtype}: the spread of a column has no inverse. Scale X, or pass float64."
            )
        if self.squash is not None:
            X = self.squash.apply(ops, X)
        if ops.is_sparse(X) and not self.shift.any():
            scaled = ops.scale_columns(X, self.factor)
        else:
            scaled = (ops.dense(X) - self.shift) * self.factor
        # Rows are multiplied in tiles, so that the number of threads changes no bit.
        return scaled if self.root is None else ops.matmul_rows(ops.dense(scaled), self.root, None)

    @classmethod
    def squashed(cls, squash: Squash, X: np.ndarray) -> Scaling:
        """Squashed columns to mean 0 and variance 1, as far as random rows `X` (n, d) tell."""
        moments = ColumnMoments.empty(X.shape[1])
        moments.update(squash.apply(ops_for(X), X).astype(np.float64))
        scaling = replace(moments.scaling("columns"), squash=squash)
        return scaling if squash.others is None else replace(scaling, factor=np.where(squash.others, 1, scaling.factor))

    def rooted(self, root: np.ndarray | None) -> Scaling:
        """The scaling, then the root of a metric: factors (n_features,) or a matrix (n_features, k)."""
        if root is None:
            return self
        return replace(self, factor=self.factor * root) if root.ndim == 1 else replace(self, root=root)


@dataclass
class ColumnMoments(Record):
    """Weight, means and sums of squared deviations of columns, batch by batch.

    The weight of rows that have none is their number. Batches are merged by the update of Chan, Golub and LeVeque
    (1983), which does not cancel.

    Attributes
    ----------
    mean, squared_deviations : ndarray of shape (d,)
    n : float
        The weight.
    sparse : bool
        Whether CSR rows were among them.
    """

    mean: np.ndarray = field(metadata=of_floats("d"))
    squared_deviations: np.ndarray = field(metadata=of_floats("d", least=0))
    n: float = field(default=0, metadata=of_number(least=0))
    sparse: bool = False

    @classmethod
    def empty(cls, n_features: int) -> ColumnMoments:
        """Return the moments of no rows."""
        return cls(np.zeros(n_features), np.zeros(n_features))

    def update(self, X: Array, weights: np.ndarray | None = None) -> None:
        """Add the rows of `X` (r, d), dense, CSR or tensor, with positive `weights` (r,)."""
        rows = total_weight(weights, X.shape[0])
        if weights is not None and sparse.issparse(X):
            self.sparse = True
            mean = X.T @ weights / rows
            deviations = np.maximum(X.multiply(X).T @ weights - rows * mean**2, 0)
        elif weights is not None:
            host = ops_for(X).to_host(X)
            mean = weighted_mean(host, weights)
            deviations = weighted_sum(np.square(host - mean), weights)
        elif sparse.issparse(X):
            self.sparse = True
            mean = np.asarray(X.sum(axis=0, dtype=np.float64)).ravel() / rows
            squares = np.asarray(X.multiply(X).sum(axis=0, dtype=np.float64)).ravel()
            deviations = np.maximum(squares - rows * mean**2, 0)
        else:
            # Columns that lie in one piece are summed several times as fast as those across rows.
            columns = np.array(ops_for(X).to_host(X).T, dtype=np.float64, order="C")
            mean = columns.mean(axis=1)
            columns -= mean[:, None]
            deviations = np.square(columns, out=columns).sum(axis=1)
        self._add(rows, mean, deviations)

    def merge(self, other: ColumnMoments) -> None:
        """Add the rows of another."""
        self.sparse = self.sparse or other.sparse
        if other.n:
            self._add(other.n, other.mean, other.squared_deviations)

    def _add(self, rows: float, mean: np.ndarray, deviations: np.ndarray) -> None:
        """Add rows of this weight with their means and squared deviations from these."""
        total = self.n + rows
        step = mean - self.mean
        self.squared_deviations = self.squared_deviations + (deviations + step**2 * (self.n * rows / total))
        self.mean = self.mean + step * (rows / total)
        self.n = total

    def constant_columns(self) -> np.ndarray:
        """Indices of the columns whose spread is below the rounding of their mean."""
        spread = np.sqrt(self.squared_deviations / (self.n or 1))
        return np.flatnonzero(spread <= 8 * np.finfo(np.float64).eps * np.abs(self.mean))

    def scaling(self, kind: str | bool, *, complete: bool = False) -> Scaling:
        """The standardisation of this kind.

        ``"columns"``: each column to mean 0 and variance 1; constant ones become 0, and if no more training rows are to
        come (`complete`) so do all values that new rows have there. ``"global"``: one factor for all columns, to a mean
        variance of 1 about their means: for inputs in one unit, such as pixels. False: none. ``"auto"``: columns, but
        none of CSR rows, where rare columns would outweigh all others. ``"mean"``: mean 0, in the scale that they have.
        """
        d = self.mean.shape[0]
        if kind is False or (kind in ("auto", "mean") and self.sparse):
            return Scaling(np.zeros(d), np.ones(d))
        if kind == "mean":
            return Scaling(self.mean.copy(), np.ones(d))
        variances = self.squared_deviations / (self.n or 1)
        variances[self.constant_columns()] = 0
        if kind == "global":
            variances = np.full(d, variances.mean())
        constant = 0.0 if complete and kind != "global" else 1.0
        factor = np.divide(1, np.sqrt(variances), out=np.full(d, constant), where=variances > 0)
        return Scaling(np.zeros(d) if self.sparse else self.mean.copy(), factor)


def check_standardisation(kind: str | bool | None) -> str | bool:
    """`kind` as `ColumnMoments.scaling` knows it."""
    if is_none(kind):
        return False
    if kind not in ("auto", "columns", "global"):
        raise ValueError(
            f"`standardize` must be one of 'auto', 'columns', 'global' or None, got {kind!r}. "
            "Use 'columns' to scale each column."
        )
    return kind
