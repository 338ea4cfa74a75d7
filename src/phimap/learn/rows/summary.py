"""The summary of training rows from the first pass: moments, ranges, classes, extreme targets and random samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from phimap.learn.rows.accumulator import Accumulator
from phimap.learn.rows.batches import require_sample, sample_bytes
from phimap.learn.rows.samples import CAPACITY, Reservoir
from phimap.learn.rows.scaling import ColumnMoments, ColumnRange
from phimap.learn.rows.units import RowUnits
from phimap.learn.weights import check_mean_weight
from phimap.ops import Array, ops_for
from phimap.records import Record, of_entries, of_floats, of_indices, of_number

# Largest size of a target. The sum of squares of larger targets could overflow.
LARGEST_TARGET = 1e150
# A warning is given if one row has at least this share of the sum of squared deviations, and there are at least this
# many rows. Among fewer rows, one row often has such a share.
_SHARE, _LEAST_ROWS = 0.9, 20


@dataclass
class Labels(Record):
    """Distinct labels in ascending order.

    Attributes
    ----------
    values : ndarray of shape (k,) or None
        None before the first batch.
    weights : ndarray of shape (k,)
        Total weight of the rows of each label.
    """

    values: np.ndarray | None = field(default=None, metadata=of_entries("any", "k"))
    weights: np.ndarray | None = field(default=None, metadata=of_floats("k", least=0))

    @property
    def size(self) -> int:
        """Number of distinct labels."""
        return 0 if self.values is None else self.values.size

    def update(self, labels: Any, weights: np.ndarray | None = None) -> None:
        """Add labels (r,) of rows with these weights (r,); None stands for ones."""
        values, index = np.unique(labels, return_inverse=True)
        self.merge(Labels(values, np.bincount(index.ravel(), weights).astype(np.float64)))

    def expect(self, labels: Any) -> None:
        """Add labels that may occur in later rows."""
        values = np.unique(np.asarray(labels))
        self.merge(Labels(values, np.zeros(values.size)))

    def merge(self, other: Labels) -> None:
        """Add the labels of another record."""
        if other.values is None or other.weights is None:
            return
        if self.values is None or self.weights is None:
            self.values, self.weights = other.values, other.weights
            return
        if np.array_equal(self.values, other.values):
            self.weights = self.weights + other.weights
            return
        both, weights = np.concatenate([self.values, other.values]), np.concatenate([self.weights, other.weights])
        self.values, index = np.unique(both, return_inverse=True)
        self.weights = np.bincount(index.ravel(), weights)


class ExtremeTargetWarning(UserWarning):
    """One row accounts for most of the variance of the targets."""


@dataclass
class ExtremeTargets(Record):
    """Moments of numeric targets, and the smallest and largest targets with their rows.

    Attributes
    ----------
    moments : ColumnMoments
    n_rows : int
    values, rows : ndarray of shape (2, t)
        Values and row numbers of the smallest and of the largest target.
    """

    moments: ColumnMoments = field(default_factory=ColumnMoments.empty)
    n_rows: int = field(default=0, metadata=of_number(least=0))
    values: np.ndarray = field(
        default_factory=lambda: np.array([[np.inf], [-np.inf]]), metadata=of_floats(2, "t", finite=False)
    )
    rows: np.ndarray = field(default_factory=lambda: np.zeros((2, 1), dtype=np.intp), metadata=of_indices(2, "t"))

    def update(self, y: np.ndarray, numbers: np.ndarray | None = None) -> None:
        """Add numeric targets, (r,) or (r, t), with row numbers `numbers` (r,); None counts rows from 0."""
        y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        if not len(y):
            return
        # Targets whose squares overflow raise an error elsewhere.
        with np.errstate(over="ignore", invalid="ignore"):
            self.moments.update(y)
        if numbers is None:
            numbers = np.arange(self.n_rows, self.n_rows + len(y))
        places = np.stack([y.argmin(axis=0), y.argmax(axis=0)])
        self._take(np.take_along_axis(y, places, axis=0), numbers[places])
        self.n_rows += len(y)

    def merge(self, later: ExtremeTargets) -> None:
        """Add the targets of the rows that follow, whose row numbers start from 0."""
        with np.errstate(over="ignore", invalid="ignore"):
            self.moments.merge(later.moments)
        self._take(later.values, later.rows + self.n_rows)
        self.n_rows += later.n_rows

    def _take(self, values: np.ndarray, rows: np.ndarray) -> None:
        """Update the smallest and largest targets by those of later rows, `values` (2, t); earlier rows win ties."""
        farther = np.stack([values[0] < self.values[0], values[1] > self.values[1]])
        self.values = np.where(farther, values, self.values)
        self.rows = np.where(farther, rows, self.rows)

    def message(self, name: str, row_name: Callable[[int], str] = str) -> str | None:
        """Return a message about a row that causes most of the variance of a target; None otherwise.

        The message calls the targets `name`, and the row ``row_name(number)``.
        """
        if self.n_rows < _LEAST_ROWS:
            return None
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            shares = np.square(self.values - self.moments.mean) / self.moments.squared_deviations
        shares = np.where(np.isfinite(shares), shares, 0.0)
        end, target = np.unravel_index(int(shares.argmax()), shares.shape)
        if shares[end, target] < _SHARE:
            return None
        row = row_name(int(self.rows[end, target]))
        return (
            f"{name} is {self.values[end, target]:g} in row {row}, which alone makes "
            f"{100 * shares[end, target]:.3g} % of the variance. Correct it, or drop the row: the fit follows it."
        )


def largest_target(y: np.ndarray) -> float:
    """Return the largest absolute value of `y`, computed without a copy of `y`; 0 if `y` is empty."""
    return max(-float(y.min()), float(y.max())) if y.size else 0.0


#: Largest number of distinct numeric targets that may be class labels, while the task is not known.
MOST_LABELS = 1000


@dataclass
class RowSummary(Record, Accumulator):
    """A summary of training rows ``(X, y, weights)``, updated batch by batch.

    Attributes
    ----------
    sample : Reservoir
        A random sample of the rows.
    wider_sample : Reservoir or None
        A larger sample, if the map or the search needs more rows, or if units are held out. Without units it contains
        `sample`. With units, `sample` has all rows of some units, and `wider_sample` has random rows of all units.
    labels : Labels or None
        The distinct targets; None if targets are numbers, or there are more than `most_labels`.
    extremes : ExtremeTargets
        Extreme values of numeric targets.
    targets_are_numbers : bool
        Whether all targets so far are numbers.
    overflows : bool
        Whether the square of a target overflows, or a target is NaN. Learners raise an error for such targets.
    most_labels : int or None
        `labels` is kept up to this number of distinct targets; None keeps any number.
    moments : ColumnMoments
        Moments of the columns.
    columns : ColumnRange
        Ranges of the columns; empty for CSR rows.
    n_rows : int
        Rows seen.
    budget : int or None
        Largest number of bytes for the samples and the arrays made from them; None sets no limit. Rows raise an error
        if these bytes do not suffice.
    """

    sample: Reservoir
    wider_sample: Reservoir | None
    labels: Labels | None
    extremes: ExtremeTargets = field(default_factory=ExtremeTargets)
    targets_are_numbers: bool = True
    overflows: bool = False
    most_labels: int | None = field(default=None, metadata=of_number(least=0))
    moments: ColumnMoments = field(default_factory=ColumnMoments.empty)
    columns: ColumnRange = field(default_factory=ColumnRange)
    n_rows: int = field(default=0, metadata=of_number(least=0))
    budget: int | None = field(default=None, metadata=of_number(least=0))

    @classmethod
    def start(
        cls,
        first_row: int,
        *,
        seed: int,
        labels: bool | None,
        map_rows: int = 0,
        budget: int | None = None,
        units: RowUnits | None = None,
    ) -> RowSummary:
        """Return an empty summary for the rows of a stream from `first_row` on.

        Parameters
        ----------
        first_row : int
        seed : int
            Seed of the sample.
        labels : bool or None
            Whether targets are labels; None if not known yet.
        map_rows : int, default=0
            Number of rows for the map and the search. If it exceeds the size of `sample`, a wider sample is kept.
        budget : int, optional
            Largest number of bytes for the samples and the arrays made from them; None sets no limit.
        units : RowUnits, optional
            Units of rows that are held out together; None for single rows.
        """
        wider = None
        if map_rows > CAPACITY or units is not None:
            # Both samples have the same seed, so the wider sample contains the smaller one, unless it is scattered over
            # all units.
            most_bytes = None if budget is None else sample_bytes(budget, wider=True)
            scattered = {"units": units, "scattered": units is not None}
            wider = Reservoir(seed, first_row, most_rows=max(map_rows, CAPACITY), most_bytes=most_bytes, **scattered)
        most_bytes = None if budget is None else sample_bytes(budget)
        sample = Reservoir(seed, first_row, most_bytes=most_bytes, units=units)
        return cls(
            sample,
            wider,
            None if labels is False else Labels(),
            targets_are_numbers=labels is not True,
            most_labels=MOST_LABELS if labels is None else None,
            budget=budget,
        )

    @property
    def target_range(self) -> np.ndarray | None:
        """Smallest and largest numeric targets (2, t); None if targets are labels or overflow."""
        return None if self.overflows or not self.extremes.n_rows else self.extremes.values

    @property
    def random_sample(self) -> Reservoir:
        """A random sample of the rows: `sample`, unless `sample` contains only the rows of some units."""
        return self.sample if self.sample.units is None else self.map_sample

    @property
    def map_sample(self) -> Reservoir:
        """The sample of rows for the map and the search."""
        return self.sample if self.wider_sample is None else self.wider_sample

    def update(self, rows: Array, targets: Any, weights: np.ndarray | None = None) -> None:
        """Add rows (r, d) with their checked targets, (r,) or (r, t), and weights (r,)."""
        if self.budget is not None and not sparse.issparse(rows):
            require_sample(self.n_rows + rows.shape[0], rows.shape[1], ops_for(rows).dtype.itemsize, self.budget)
        self.moments.update(rows, weights)
        self.columns.update(rows)
        self.sample.update(rows, targets, weights)
        if self.wider_sample is not None:
            self.wider_sample.update(rows, targets, weights)
        self.n_rows += rows.shape[0]
        self._add_numbers(targets)
        self._add_labels(targets, weights)

    def merge(self, later: Self) -> None:
        if not later.n_rows:
            return
        self.moments.merge(later.moments)
        self.columns.merge(later.columns)
        self.sample.join(later.sample)
        if self.wider_sample is not None and later.wider_sample is not None:
            self.wider_sample.join(later.wider_sample)
        self.n_rows += later.n_rows
        self.targets_are_numbers = self.targets_are_numbers and later.targets_are_numbers
        self.overflows = self.overflows or later.overflows
        if self.labels is not None and later.labels is not None:
            self.labels.merge(later.labels)
        else:
            self.labels = None
        self.extremes.merge(later.extremes)

    @property
    def state(self) -> RowSummary:
        return self

    def resume(self, state: RowSummary) -> None:
        for part in fields(state):
            setattr(self, part.name, getattr(state, part.name))

    def require_rows(self) -> None:
        """Raise unless there are at least two rows, whose mean weight is not too small."""
        if not self.n_rows:
            raise ValueError("the training data are empty: no batch of rows was given. Give at least 2 rows.")
        if self.n_rows < 2:
            raise ValueError(f"a fit needs at least 2 rows, got {self.n_rows} sample. Give more rows.")
        check_mean_weight(self.moments.n, self.n_rows)

    def expect(self, classes: Any) -> None:
        """Add labels that may occur in later rows; `classes` may be None."""
        if classes is not None and self.labels is not None:
            self.labels.expect(classes)

    def for_targets(self, *, labels: bool) -> RowSummary | None:
        """Return the summary for targets that are labels, or for targets that are numbers.

        The result is None if the targets are of the other kind.

        If the summary was started for one kind of targets, the method returns the summary itself. Otherwise the result
        shares memory with this summary.
        """
        if self.most_labels is None:
            return self
        if labels:
            kept = {"extremes": ExtremeTargets(), "targets_are_numbers": False, "most_labels": None}
            return None if self.labels is None or self.overflows else replace(self, **kept)
        if not self.targets_are_numbers or self.overflows:
            return None
        samples = {name: _with_numbers(getattr(self, name)) for name in ("sample", "wider_sample")}
        return replace(self, labels=None, most_labels=None, **samples)

    def _add_numbers(self, targets: Any) -> None:
        """Update the extremes with further targets, if all targets so far are numbers."""
        if not self.targets_are_numbers:
            return
        if self.most_labels is not None:
            if targets.dtype.kind not in "fiu":
                self.targets_are_numbers = False
                return
            if not largest_target(targets) <= LARGEST_TARGET:
                self.overflows = True
            if self.overflows:
                return
            targets = targets.astype(np.float64)
        self.extremes.update(targets)

    def _add_labels(self, targets: Any, weights: np.ndarray | None) -> None:
        """Add labels; drop all labels if there are more than `most_labels`."""
        if self.labels is not None:
            self.labels.update(targets, weights)
            if self.most_labels is not None and self.labels.size > self.most_labels:
                self.labels = None


def _with_numbers(sample: Reservoir | None) -> Reservoir | None:
    """Return the sample with its targets as float64."""
    return sample if sample is None or sample.y is None else replace(sample, y=sample.y.astype(np.float64))
