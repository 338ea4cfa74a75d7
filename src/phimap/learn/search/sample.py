"""The rows on which a search learns and validates, and their folds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from phimap.ops import Array

# With at least this many rows, and at least this many units if rows form units, a single part is held out. Otherwise
# rows are divided into folds, and each fold is held out once. With four folds instead of three, fits took 1.4 times as
# long and erred as much, on 53 tables with fewer rows, which are not among those of docs/results/tabular.md. With a
# single part, the errors of two of 18 tables with 1,000 to 1,500 rows rose by a third and more.
_FEW_ROWS, _FEW_UNITS = 1500, 400
_FOLDS = 3
# The single part that is held out has one row in `_SHARE`, but at least and at most these numbers of rows. The least
# number is at most one row in `_FOLDS`.
_SHARE = 4
_LEAST_HELD_OUT, _MOST_HELD_OUT = 500, 4096


@dataclass(frozen=True)
class SearchSample:
    """Standardised rows in random order, with encoded targets and weights.

    The first k rows contain the classes in proportion, for any k.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n, d)
    Y : ndarray of shape (n, t)
    weights : ndarray of shape (n,)
    parts : ndarray of shape (d,) or None
        Group of each column. The columns of a group share one weight in a diagonal metric. None means no groups.
    labels : ndarray of shape (n,) or None
        Classes of the rows, which each fold holds in proportion; None for numbers.
    places : ndarray of int, shape (n,), or None
        Number of the unit of each row; units are held out as a whole. None holds out single rows.
    in_time : bool
        Whether units are moments in time, late moments with small numbers, so that the latest rows are held out.
    learns_metric : bool
        Whether a metric may be learned on these columns; False if there are too many.
    """

    X: Array
    Y: np.ndarray
    weights: np.ndarray
    parts: np.ndarray | None = None
    labels: np.ndarray | None = None
    places: np.ndarray | None = None
    in_time: bool = False
    learns_metric: bool = True

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return self.Y.shape[0]

    def first(self, n_rows: int) -> SearchSample:
        """The sample of the first `n_rows` rows, which are a random sample of all rows."""
        first = slice(n_rows)
        labels, places = (None if part is None else part[first] for part in (self.labels, self.places))
        X, Y, weights = self.X[first], self.Y[first], self.weights[first]
        return replace(self, X=X, Y=Y, weights=weights, labels=labels, places=places)

    def of_columns(self, columns: np.ndarray) -> SearchSample:
        """The sample with only some of the columns. They must be few enough for a metric to be learned."""
        parts = None if self.parts is None else np.unique(self.parts[columns], return_inverse=True)[1]
        return replace(self, X=self.X[:, columns], parts=parts, learns_metric=True)

    def folds(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pairs of training rows and held-out rows: one pair, or three if there are few rows.

        If `in_time`, there is one pair, and its held-out rows are the latest. Units are never divided.
        """
        every = np.arange(self.n_rows)
        places = every if self.places is None else np.unique(self.places, return_inverse=True)[1]
        few_units = self.places is not None and places.max() < _FEW_UNITS
        if (self.n_rows >= _FEW_ROWS and not few_units) or self.in_time:
            least = min(_LEAST_HELD_OUT, self.n_rows // _FOLDS)
            return [self.split(every, min(max(self.n_rows // _SHARE, least), _MOST_HELD_OUT))]
        n_folds = min(_FOLDS, int(places.max()) + 1)
        fold_of = places % n_folds
        if self.labels is not None and self.places is None:
            # The rows of a class are assigned to the folds in turn.
            fold_of[np.argsort(self.labels, kind="stable")] = every % n_folds
        return [(np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)) for fold in range(n_folds)]

    def split(
        self, rows: np.ndarray, n_held_out: int, rng: np.random.Generator | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Divide rows in random order into training rows and about `n_held_out` held-out rows.

        Units are held out in the order of their numbers, unless `rng` gives another order. If `in_time`, the latest
        rows are held out. If all rows are of one unit, single rows are held out.
        """
        units = np.zeros(1, int) if self.places is None else np.unique(self.places[rows], return_inverse=True)[1]
        if not units.any():
            return rows[n_held_out:], rows[:n_held_out]
        if rng is not None and not self.in_time:
            units = rng.permutation(int(units.max()) + 1)[units]
        sizes = np.cumsum(np.bincount(units))
        # At least one unit is held out, and at least one is not.
        n_units = int(np.clip(np.argmin(np.abs(sizes - n_held_out)) + 1, 1, sizes.size - 1))
        return rows[units >= n_units], rows[units < n_units]

    @property
    def n_learned(self) -> int:
        """Number of training rows of a fold."""
        return self.folds()[0][0].size

    def spread(self) -> float:
        """Weighted variance of the targets, summed over targets; 1 if they are constant."""
        mean = np.average(self.Y, axis=0, weights=self.weights)
        spread = float(np.average(np.square(self.Y - mean).sum(axis=1), weights=self.weights))
        return spread if spread > 0 else 1.0
