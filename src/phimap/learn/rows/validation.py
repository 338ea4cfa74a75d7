"""Held-out rows of a stream. Validation rows choose the regularisation; conformal rows are not used in any choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from phimap.learn.blocks.blocks import FeatureRows
from phimap.learn.rows.samples import CAPACITY, EXTREME_CAPACITY, ExtremeRows, Reservoir, WeightedRows
from phimap.learn.rows.units import RowUnits
from phimap.ops import Array

# One row in `_HELD_OUT_SHARE` is held out at random, and one row in `_EXTREME_SHARE` counts as extreme. The capacities
# of the samples limit both numbers of rows.
_HELD_OUT_SHARE = 10
_EXTREME_SHARE = 16
# Largest number of random rows that are held out as validation rows: three quarters of the sample. The other rows of
# the sample are conformal rows, whose number is also limited to a tenth of all rows.
_MOST_HELD_OUT = 3 * CAPACITY // 4
#: Conformal rows are reserved only if there are at least this many rows. With fewer rows, a tenth gives no useful
#: quantile, and the search needs all rows.
LEAST_ROWS = 1000
# Least number of validation units, and least number of conformal units. The latter is larger, because a quantile of the
# errors needs more units than their mean. Each part takes at most one in `_UNITS_SHARE` of all units.
_LEAST_UNITS, _LEAST_CONFORMAL_UNITS, _UNITS_SHARE = 20, 50, 4
# One row in `_LEAVE_ONE_OUT_SHARE` gets a leave-one-out prediction. The number of these rows is kept within two bounds.
# With m features a prediction costs m^2 flops, and all predictions take about 5 % of a fit.
_LEAVE_ONE_OUT_SHARE = 40
_LEAST_LEAVE_ONE_OUT, _MOST_LEAVE_ONE_OUT = 256, 1024


def n_held_out(n_rows: int) -> int:
    """Return the largest number of random rows, out of `n_rows`, that are held out."""
    return min(n_rows // _HELD_OUT_SHARE, _MOST_HELD_OUT)


def n_extreme(n_rows: int) -> int:
    """Return the largest number of rows, out of `n_rows`, that count as extreme."""
    return min(n_rows // _EXTREME_SHARE, EXTREME_CAPACITY)


def n_leave_one_out(n_rows: int) -> int:
    """Return the number of rows, out of `n_rows`, for which leave-one-out predictions are formed."""
    return min(n_rows, max(_LEAST_LEAVE_ONE_OUT, min(n_rows // _LEAVE_ONE_OUT_SHARE, _MOST_LEAVE_ONE_OUT)))


class HeldOutKeys(NamedTuple):
    """Keys of the rows that are held out.

    Attributes
    ----------
    validation : ndarray of shape (r,)
        Ascending keys of the rows whose errors determine alpha, corrections and calibration.
    conformal : ndarray of shape (c,)
        Ascending keys of the rows that are not used in any choice. Their errors give intervals. Empty below 1,000 rows.
    """

    validation: np.ndarray
    conformal: np.ndarray

    @classmethod
    def of_sample(cls, sample: Reservoir, n_rows: int, *, by_class: bool = False) -> HeldOutKeys:
        """Return the keys for a stream of `n_rows` rows, given its sample of the rows with the smallest keys.

        With `by_class`, both parts contain the classes in proportion. Units are never divided. If units are moments in
        time, the validation rows are the latest rows, and the conformal rows are the latest of the other rows.
        """
        units = sample.units
        keys = np.sort(sample.keys) if units is not None else sample.keys[sample.order(by_class=by_class)]
        in_time = units is not None and units.in_time
        few = n_rows < LEAST_ROWS and not in_time
        if units is None:
            end = min(n_held_out(n_rows), 3 * keys.size // 4)
            last = end + (0 if few else min(n_rows // _HELD_OUT_SHARE, keys.size - end))
        else:
            wanted, most = n_rows // _HELD_OUT_SHARE, units.n_units // _UNITS_SHARE
            first = units.first_units(0, wanted, min(_LEAST_UNITS, most), 3 * keys.size // 4)
            end = int(units.sizes[:first].sum())
            n_units = min(_LEAST_CONFORMAL_UNITS, most)
            second = first if few else units.first_units(first, wanted, n_units, keys.size - end)
            last = int(units.sizes[:second].sum())
        return cls(np.sort(keys[:end]), np.sort(keys[end:last]))


@dataclass(frozen=True)
class ValidationRows:
    """Random rows and extreme rows of a stream. The regularisation is chosen by the errors on these rows.

    The random rows are the rows with the smallest keys, without the extreme rows. If targets are labels, the random
    rows contain the classes in proportion. Random rows are held out of the sums while alpha is chosen. If units are
    held out, the random rows are whole units, and there are no extreme rows: an extreme row that is left out alone
    would be predicted from the other rows of its unit. The methods need the samples of a complete pass over the stream.

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
    by_class : bool
        Whether targets are labels, so that the random rows contain the classes in proportion.
    """

    sample: Reservoir
    extremes: ExtremeRows
    n_rows: int
    features: Callable[[Array, Any, np.ndarray | None], FeatureRows]
    lazy_features: Callable[[Array, Any, np.ndarray | None], FeatureRows] | None = None
    wider_sample: Reservoir | None = None
    by_class: bool = False

    @property
    def units(self) -> RowUnits | None:
        """The units that are held out together; None for single rows."""
        return self.sample.units

    @property
    def held_out_keys(self) -> HeldOutKeys:
        """The keys of the rows that are held out."""
        return HeldOutKeys.of_sample(self.sample, self.n_rows, by_class=self.by_class)

    def random(self, *, lazy: bool = False) -> FeatureRows | None:
        """Return the random rows to hold out while alpha is chosen; None if there are fewer than two."""
        rows = self._random()
        if self.units is not None and not len(rows.y):
            raise ValueError(
                f"`groups` must have a group of at most {3 * self.sample.keys.size // 4:,} rows to hold out, got "
                f"{int(self.units.sizes[0]):,} rows in the smallest. Give `alpha`, or divide the groups."
            )
        return self._features(rows, lazy) if len(rows.y) >= 2 else None

    def extreme(self, *, lazy: bool = False) -> FeatureRows | None:
        """Return the extreme rows; None without extreme rows, and if fewer than two rows are to be held out."""
        rows = self.extremes.rows(self._extreme())
        return self._features(rows, lazy) if len(rows.y) and len(self._random().y) >= 2 else None

    @property
    def skipped_keys(self) -> np.ndarray:
        """Sorted keys (r,) of rows that a pass must skip to contain no held-out row."""
        return self.held_out_keys.validation

    def skipped_extremes(self) -> FeatureRows | None:
        """Return the extreme rows with keys in `skipped_keys`. A pass that skips these keys must add the rows later.

        None if there are no such rows.
        """
        both = np.intersect1d(self._extreme_keys(), self.skipped_keys)
        rows = self.sample.rows(np.flatnonzero(np.isin(self.sample.keys, both)))
        return self.features(*rows) if len(rows.y) else None

    def leave_one_out(self) -> FeatureRows:
        """Return random rows for leave-one-out predictions; they may include extreme rows."""
        return self.features(*self.sample.first(n_leave_one_out(self.n_rows), by_class=self.by_class))

    def training_sample(self, n_wanted: int) -> FeatureRows:
        """Return at most `n_wanted` random rows of `wider_sample` that are neither held out nor extreme."""
        assert self.wider_sample is not None
        without, wider = np.concatenate([self.skipped_keys, self._extreme_keys()]), self.wider_sample
        return self._features(wider.rows(wider.others(n_wanted, without)), lazy=True)

    def chooses(self) -> np.ndarray | None:
        """Return a mask (n_rows,) of the rows that may choose alpha: all rows except the conformal rows.

        None if there are no conformal rows.
        """
        if not (conformal := self.held_out_keys.conformal).size:
            return None
        return ~np.isin(self.sample.keys_of(0, self.n_rows), conformal)

    def rows_with(self, keys: np.ndarray) -> tuple[FeatureRows, np.ndarray]:
        """Return the rows of the sample that have one of the `keys`, in the order of their keys, and their keys."""
        order = np.argsort(self.sample.keys, kind="stable")
        chosen = order[np.isin(self.sample.keys[order], keys)]
        return self.features(*self.sample.rows(chosen)), self.sample.keys[chosen]

    def _random(self) -> WeightedRows:
        n_rows = self.skipped_keys.size
        return self.sample.first(n_rows, without=self._extreme_keys(), by_class=self.by_class)

    def _extreme(self) -> np.ndarray:
        """Indices of the extreme rows without the conformal rows; empty if units are held out."""
        if self.units is not None:
            return np.empty(0, np.intp)
        order = np.argsort(self.extremes.ranks, kind="stable")[: n_extreme(self.n_rows)]
        return order[~np.isin(self.extremes.keys[order], self.held_out_keys.conformal)]

    def _extreme_keys(self) -> np.ndarray:
        return self.extremes.keys[self._extreme()]

    def _features(self, rows: WeightedRows, lazy: bool) -> FeatureRows:
        return (self.lazy_features if lazy and self.lazy_features is not None else self.features)(*rows)
