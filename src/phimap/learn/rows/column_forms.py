"""Transformations of columns before the kernel: compressed tails, and ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from phimap.ops import Array, Ops
from phimap.ops.primitives.piecewise import piecewise_linear
from phimap.records import Record, of_floats

# A column has a heavy tail if a value lies more than this many robust standard deviations from the median.
_HEAVY = 10.0
# Interquartile range of the standard normal distribution.
_MIDDLE_HALF = 1.349


@dataclass(frozen=True)
class Squash(Record):
    """``arcsinh((x - centre) * factor)``, column by column: linear in the middle, logarithmic in the tails.

    Attributes
    ----------
    centre, factor : ndarray of shape (n_features,)
        Median, and 1.349 over the interquartile range, which is the inverse of a robust standard deviation.
    others : ndarray of shape (n_features,) or None
        1 for columns that are not squashed, whose factor is 0; None if all columns are squashed.
    """

    centre: np.ndarray = field(metadata=of_floats("d"))
    factor: np.ndarray = field(metadata=of_floats("d"))
    others: np.ndarray | None = field(default=None, metadata=of_floats("d"))

    @property
    def n_features(self) -> int:
        """Number d of columns."""
        return self.centre.shape[0]

    @classmethod
    def of_sample(cls, X: np.ndarray, amounts: np.ndarray | None = None) -> Squash | None:
        """Return the squashing for random dense rows (n, d); None if no column has a heavy tail.

        `amounts` (d,) is 1 for columns that may be squashed, else 0; None allows all of them.
        """
        X = X.astype(np.float64)
        low, centre, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
        spread, deviation = (high - low) / _MIDDLE_HALF, X.std(axis=0)
        # The interquartile range is 0 if one value, usually zero, fills half of a column.
        spread = np.where(spread > 0, spread, deviation)
        factor = np.divide(1, spread, out=np.ones_like(spread), where=spread > 0)
        others = None
        if amounts is not None:
            factor, others = factor * amounts, 1.0 - amounts
        return cls(centre, factor, others) if np.abs((X - centre) * factor).max() > _HEAVY else None

    def apply(self, ops: Ops, X: Array) -> Array:
        """Return the squashed rows of `X` (r, d) as a new dense array; the record must be bound to `ops`."""
        squashed = ops.arcsinh((ops.dense(X) - self.centre) * self.factor)
        return squashed if self.others is None else squashed + ops.dense(X) * self.others


# Number of quantiles between which ranks are interpolated.
_QUANTILES = 128
# Least distance of neighbouring knots, relative to their absolute value and in absolute terms. At these distances,
# knots are distinct in float32, and inverse distances are finite.
_CLOSEST, _LEAST_GAP = 1e-6, 1e-30
# Quantiles are computed from at most this number of entries of the sample, rows times columns.
_MOST_ENTRIES = 4_000_000


@dataclass(frozen=True)
class Ranks(Record):
    r"""The share of training rows below a value, column by column, shifted and scaled to mean 0 and variance 1.

    Attributes
    ----------
    knots : ndarray of shape (n_features, k)
        Values at which the pieces begin, in ascending order; unused entries at the end repeat the largest value.
    inverses : ndarray of shape (n_features, k)
        Inverse lengths of the pieces; 0 for unused entries.
    levels : ndarray of shape (n_features, k + 1)
        Ranks at the knots and at the end of the last piece.
    others : ndarray of shape (n_features,) or None
        1 for unchanged columns, whose levels are 0; None if all columns become ranks.

    Notes
    -----
    Increasing transformations of a column do not change its ranks. The distance between two ranks is proportional to
    the number of training rows between them. If many rows have the same value, its rank is the middle of their ranks.
    Values outside the range of the training rows have the rank of the nearest training row.

    The distribution function F is interpolated between up to 129 quantiles of a sample, and the rank is
    :math:`\sqrt{12} (F - 1/2)`. **Error.** Less than 1/128 in F from the interpolation, and about
    :math:`1 / (2 \sqrt{n})` from a sample of n rows. **Cost.** A binary search for each value.
    """

    knots: np.ndarray = field(metadata=of_floats("d", "k"))
    inverses: np.ndarray = field(metadata=of_floats("d", "k", least=0))
    levels: np.ndarray = field(metadata=of_floats("d", None))
    others: np.ndarray | None = field(default=None, metadata=of_floats("d"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.levels.shape[1] == self.knots.shape[1] + 1, "a level for each end of a piece"
        yield bool((np.diff(self.knots, axis=1) >= 0).all()), "knots in ascending order"

    @property
    def n_features(self) -> int:
        """Number d of columns."""
        return self.knots.shape[0]

    @classmethod
    def of_sample(cls, X: np.ndarray, amounts: np.ndarray | None = None) -> Ranks:
        """Return the ranks for random dense rows (n, d).

        `amounts` (d,) is 1 for columns that may become ranks, else 0; None allows all of them.
        """
        rows = X[: max(1, _MOST_ENTRIES // X.shape[1])]
        shares = np.linspace(0, 1, min(_QUANTILES, len(rows)) + 1)
        # Quantiles are chosen among the data values. A value of many rows is then exactly a knot.
        quantiles = np.quantile(rows, shares, axis=0, method="nearest").astype(np.float64).T
        columns = [_pieces(*_distribution(column, shares)) for column in quantiles]
        width = max(1, max(len(inverses) for _, inverses, _ in columns))
        knots, inverses, levels = (
            np.stack(parts) for parts in zip(*(_padded(column, width) for column in columns), strict=True)
        )
        others = None
        if amounts is not None:
            levels, others = levels * np.asarray(amounts, np.float64)[:, None], 1.0 - amounts
        return cls(knots, inverses, levels, others)

    def apply(self, ops: Ops, X: Array) -> Array:
        """Return the ranks of the rows of `X` (r, d) as a new dense array; the record must be bound to `ops`."""
        ranks = piecewise_linear(ops, ops.dense(X), self.knots, self.inverses, self.levels)
        return ranks if self.others is None else ranks + ops.dense(X) * self.others


def _distribution(quantiles: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct quantiles that are not too close to each other.

    Also return, for each of them, the mean of the `shares` of all quantiles equal or close to it.
    """
    least = np.maximum(_CLOSEST * np.abs(quantiles), _LEAST_GAP)
    starts = [0]
    for place in range(1, len(quantiles)):
        if quantiles[place] - quantiles[starts[-1]] > least[place]:
            starts.append(place)
    stops = [*starts[1:], len(quantiles)]
    return quantiles[starts], np.array([shares[first:stop].mean() for first, stop in zip(starts, stops, strict=True)])


def _pieces(values: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pieces of a linear interpolation: knots (k + 1,), inverse lengths (k,), and ranks (k + 1,) at the knots."""
    return values, 1 / np.diff(values), (shares - 0.5) * np.sqrt(12)


def _padded(pieces: tuple[np.ndarray, np.ndarray, np.ndarray], width: int) -> tuple[np.ndarray, ...]:
    """Knots (width,), inverse lengths (width,) and ranks (width + 1,), padded with pieces of constant rank."""
    knots, inverses, levels = pieces
    missing = width - len(inverses)
    knots = np.concatenate([knots, np.repeat(knots[-1:], missing)])[:width]
    return knots, np.pad(inverses, (0, missing)), np.pad(levels, (0, missing), mode="edge")
