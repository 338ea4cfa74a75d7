"""The first pass over training data: moments, classes and a random sample of rows."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
from scipy import sparse

from phimap.learn.rows.accumulator import Accumulator
from phimap.learn.rows.batches import require_sample, sample_bytes
from phimap.learn.rows.column_range import ColumnRange
from phimap.learn.rows.reservoir import CAPACITY, Reservoir
from phimap.learn.rows.scaling import ColumnMoments
from phimap.learn.targets.extreme_targets import ExtremeTargets
from phimap.learn.targets.labels import Labels
from phimap.ops import Array, ops_for
from phimap.records import Record, of_floats, of_number


@dataclass
class FirstPass(Record, Accumulator):
    """What one pass over batches ``(X, y, weights)`` tells.

    Attributes
    ----------
    sample : Reservoir
    wider_sample : Reservoir or None
        The same rows and more, where the map wants to see more; they are not kept beyond its fit.
    labels : Labels or None
        None where targets are no labels.
    moments : Moments or None
        None before the first batch.
    columns : ColumnRange
        Empty for CSR rows.
    n_rows : int
        Rows seen.
    low, high : ndarray of shape (t,) or None
        Range of the targets; None where they are labels.
    budget : int or None
        Bytes for all that is made of the samples: rows of which it does not hold them are refused.
    extremes : ExtremeTargets
        Empty where they are labels.
    """

    sample: Reservoir
    wider_sample: Reservoir | None
    labels: Labels | None
    extremes: ExtremeTargets
    moments: ColumnMoments | None = None
    columns: ColumnRange = field(default_factory=ColumnRange)
    n_rows: int = field(default=0, metadata=of_number(least=0))
    low: np.ndarray | None = field(default=None, metadata=of_floats("t"))
    high: np.ndarray | None = field(default=None, metadata=of_floats("t"))
    budget: int | None = field(default=None, metadata=of_number(least=0))

    @classmethod
    def start(
        cls, first_row: int, *, seed: int, collect_labels: bool, map_rows: int = 0, budget: int | None = None
    ) -> FirstPass:
        """Return the pass over rows from `first_row` of a stream on, which has seen none.

        Parameters
        ----------
        first_row : int
        seed : int
            Seed of the sample.
        collect_labels : bool
            Whether targets are labels.
        map_rows : int, default=0
            Rows that the map wants to see, where they are more than the sample has.
        budget : int, optional
            Bytes for all that is made of the samples; None does not bound it.
        """
        wider = None
        if map_rows > CAPACITY:
            # One seed gives one order: these rows begin with those of the sample.
            most_bytes = None if budget is None else sample_bytes(budget, wider=True)
            wider = Reservoir(seed, first_row, most_rows=map_rows, most_bytes=most_bytes)
        sample = Reservoir(seed, first_row, most_bytes=None if budget is None else sample_bytes(budget))
        return cls(sample, wider, Labels() if collect_labels else None, ExtremeTargets(), budget=budget)

    @property
    def map_sample(self) -> Reservoir:
        """The rows for the map."""
        return self.sample if self.wider_sample is None else self.wider_sample

    def update(self, rows: Array, targets: Any, weights: np.ndarray | None) -> None:
        """Add rows (r, d) with their checked targets and weights (r,)."""
        self.add_rows(rows, targets, weights)
        if self.labels is not None:
            self.labels.update(targets, weights)
        else:
            self.add_numbers(targets)

    def add_rows(self, rows: Array, targets: Any, weights: np.ndarray | None) -> None:
        """Add rows (r, d), and for the sample their targets, about which nothing else is learned."""
        if self.budget is not None and not sparse.issparse(rows):
            require_sample(self.n_rows + rows.shape[0], rows.shape[1] * ops_for(rows).dtype.itemsize, self.budget)
        if self.moments is None:
            self.moments = ColumnMoments.empty(rows.shape[1])
        self.moments.update(rows, weights)
        self.columns.update(rows)
        self.sample.update(rows, targets, weights)
        if self.wider_sample is not None:
            self.wider_sample.update(rows, targets, weights)
        self.n_rows += rows.shape[0]

    def add_numbers(self, targets: np.ndarray) -> None:
        """Add checked targets that are numbers, (r,) or (r, t)."""
        self._widen(*(np.atleast_1d(end(targets, axis=0)) for end in (np.min, np.max)))
        self.extremes.update(targets)

    def merge(self, later: Self) -> None:
        if later.moments is None:
            return
        if self.moments is None:
            self.moments = ColumnMoments.empty(later.moments.mean.size)
        self.moments.merge(later.moments)
        self.columns.merge(later.columns)
        self.sample.join(later.sample)
        if self.wider_sample is not None and later.wider_sample is not None:
            self.wider_sample.join(later.wider_sample)
        self.n_rows += later.n_rows
        if self.labels is not None and later.labels is not None:
            self.labels.merge(later.labels)
        if later.low is not None and later.high is not None:
            self._widen(later.low, later.high)
        self.extremes.merge(later.extremes)

    @property
    def state(self) -> FirstPass:
        return self

    def resume(self, state: FirstPass) -> None:
        for part in fields(state):
            setattr(self, part.name, getattr(state, part.name))

    def _widen(self, low: np.ndarray, high: np.ndarray) -> None:
        """Widen the range of the targets to (t,) values."""
        self.low = low if self.low is None else np.minimum(self.low, low)
        self.high = high if self.high is None else np.maximum(self.high, high)
