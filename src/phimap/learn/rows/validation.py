"""The validation rows of a stream. The regularisation is chosen by the errors on these rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap.learn.blocks.blocks import FeatureRows
from phimap.learn.rows.samples import CAPACITY, EXTREME_CAPACITY, ExtremeRows, Reservoir, WeightedRows
from phimap.ops import Array

# Inverse share of the rows that are held out at random, and inverse share of the rows that count as extreme. The
# capacities of the samples limit both numbers of rows.
_HELD_OUT_SHARE = 10
_EXTREME_SHARE = 16
# Inverse share of the rows with leave-one-out predictions, and bounds of the number of such rows. A prediction costs
# m^2 flops; all of them take about 5 % of a fit.
_LEAVE_ONE_OUT_SHARE = 40
_LEAST_LEAVE_ONE_OUT, _MOST_LEAVE_ONE_OUT = 256, 1024


def n_held_out(n_rows: int) -> int:
    """Return the largest number of random rows, out of `n_rows`, that are held out."""
    return min(n_rows // _HELD_OUT_SHARE, CAPACITY)


def n_extreme(n_rows: int) -> int:
    """Return the largest number of rows, out of `n_rows`, that count as extreme."""
    return min(n_rows // _EXTREME_SHARE, EXTREME_CAPACITY)


def n_leave_one_out(n_rows: int) -> int:
    """Return the number of rows, out of `n_rows`, for which leave-one-out predictions are formed."""
    return min(n_rows, max(_LEAST_LEAVE_ONE_OUT, min(n_rows // _LEAVE_ONE_OUT_SHARE, _MOST_LEAVE_ONE_OUT)))


@dataclass(frozen=True)
class ValidationRows:
    """Random rows and extreme rows of a stream. The regularisation is chosen by the errors on these rows.

    The random rows are the rows with the smallest keys, without the extreme rows. Random rows are held out of the sums
    while alpha is chosen. The methods need the samples of a complete pass over the stream.

    Attributes
    ----------
    sample : Reservoir
    extremes : ExtremeRows
        Extreme rows of the same stream, with the seed of `sample`.
    n_rows : int
        Number of rows of the stream.
    features : callable
        ``features(X, y, weights)`` gives the `FeatureRows` of rows, in memory.
    lazy_features : callable or None
        As `features`, but features are computed again for each product; None if all features are held in memory.
    wider_sample : Reservoir or None
        A sample that contains the rows of `sample` and further rows; the keys are the same.
    """

    sample: Reservoir
    extremes: ExtremeRows
    n_rows: int
    features: Callable[[Array, Any, np.ndarray | None], FeatureRows]
    lazy_features: Callable[[Array, Any, np.ndarray | None], FeatureRows] | None = None
    wider_sample: Reservoir | None = None

    def random(self, *, lazy: bool = False) -> FeatureRows | None:
        """Return the rows to hold out; None if there are fewer than two."""
        rows = self._random()
        return self._features(rows, lazy) if len(rows.y) >= 2 else None

    def extreme(self, *, lazy: bool = False) -> FeatureRows | None:
        """Return the extreme rows; None without extreme rows, and if fewer than two rows are to be held out."""
        rows, _ = self.extremes.first(n_extreme(self.n_rows))
        return self._features(rows, lazy) if len(rows.y) and len(self._random().y) >= 2 else None

    @property
    def largest_key(self) -> float:
        """A key that no held-out row exceeds: a pass that skips rows with keys up to it contains no held-out row."""
        return float(self._small_keys()[-1])

    def extreme_with_small_keys(self) -> FeatureRows | None:
        """Return the extreme rows with keys up to `largest_key`, which such a pass also skips; None without any."""
        small = np.intersect1d(self._extreme_keys(), self._small_keys())
        rows = self.sample.rows(np.flatnonzero(np.isin(self.sample.keys, small)))
        return self.features(*rows) if len(rows.y) else None

    def leave_one_out(self) -> FeatureRows:
        """Return random rows for leave-one-out predictions; they may include extreme rows."""
        return self.features(*self.sample.first(n_leave_one_out(self.n_rows)))

    def training_sample(self, n_wanted: int) -> FeatureRows:
        """Return at most `n_wanted` random rows of `wider_sample` that are neither held out nor extreme."""
        assert self.wider_sample is not None
        small = self._small_keys()
        skipped = np.concatenate([small, self._extreme_keys()])
        return self._features(self.wider_sample.first(small.size + n_wanted, without=skipped), lazy=True)

    def _random(self) -> WeightedRows:
        return self.sample.first(n_held_out(self.n_rows), without=self._extreme_keys())

    def _extreme_keys(self) -> np.ndarray:
        return self.extremes.first(n_extreme(self.n_rows))[1]

    def _small_keys(self) -> np.ndarray:
        return np.sort(self.sample.keys)[: n_held_out(self.n_rows)]

    def _features(self, rows: WeightedRows, lazy: bool) -> FeatureRows:
        return (self.lazy_features if lazy and self.lazy_features is not None else self.features)(*rows)
