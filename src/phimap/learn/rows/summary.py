"""The summary of training rows from the first pass: moments, ranges, classes and random samples."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from phimap.learn.rows.accumulator import Accumulator
from phimap.learn.rows.batches import require_sample, sample_bytes
from phimap.learn.rows.column_range import ColumnRange
from phimap.learn.rows.samples import CAPACITY, Reservoir
from phimap.learn.rows.scaling import ColumnMoments
from phimap.learn.rows.target_facts import LARGEST_TARGET, ExtremeTargets, Labels, largest_target
from phimap.ops import Array, ops_for
from phimap.records import Record, of_number

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
        A larger sample that contains `sample`, if the map or the search needs more rows.
    labels : Labels or None
        The distinct targets; None if targets are numbers, or there are more than `most_labels`.
    extremes : ExtremeTargets
        Extreme values of numeric targets.
    targets_are_numbers : bool
        Whether all targets so far are numbers.
    overflows : bool
        Whether the square of a target overflows, or a target is NaN. Learners refuse such targets.
    most_labels : int or None
        Largest number of distinct targets up to which `labels` is kept; None keeps any number.
    moments : ColumnMoments or None
        Moments of the columns; None before the first batch.
    columns : ColumnRange
        Ranges of the columns; empty for CSR rows.
    n_rows : int
        Rows seen.
    budget : int or None
        Largest number of bytes for the samples and the arrays made from them; None sets no limit. Rows for which the
        bytes do not suffice are refused.
    """

    sample: Reservoir
    wider_sample: Reservoir | None
    labels: Labels | None
    extremes: ExtremeTargets = field(default_factory=ExtremeTargets)
    targets_are_numbers: bool = True
    overflows: bool = False
    most_labels: int | None = field(default=None, metadata=of_number(least=0))
    moments: ColumnMoments | None = None
    columns: ColumnRange = field(default_factory=ColumnRange)
    n_rows: int = field(default=0, metadata=of_number(least=0))
    budget: int | None = field(default=None, metadata=of_number(least=0))

    @classmethod
    def start(
        cls, first_row: int, *, seed: int, labels: bool | None, map_rows: int = 0, budget: int | None = None
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
            Number of rows for the map and the search. A wider sample is kept if it exceeds the size of `sample`.
        budget : int, optional
            Largest number of bytes for the samples and the arrays made from them; None sets no limit.
        """
        wider = None
        if map_rows > CAPACITY:
            # Both samples have the same seed, so the wider sample contains the other sample.
            most_bytes = None if budget is None else sample_bytes(budget, wider=True)
            wider = Reservoir(seed, first_row, most_rows=map_rows, most_bytes=most_bytes)
        sample = Reservoir(seed, first_row, most_bytes=None if budget is None else sample_bytes(budget))
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
        return None if self.overflows or self.extremes.moments is None else self.extremes.values

    @property
    def map_sample(self) -> Reservoir:
        """The sample of rows for the map and the search."""
        return self.sample if self.wider_sample is None else self.wider_sample

    def update(self, rows: Array, targets: Any, weights: np.ndarray | None = None) -> None:
        """Add rows (r, d) with their checked targets, (r,) or (r, t), and weights (r,)."""
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
        self._add_numbers(targets)
        self._add_labels(targets, weights)

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

    def for_targets(self, *, labels: bool) -> RowSummary | None:
        """Return the summary for targets that are labels, or for numbers; None if the targets are not of this kind.

        A summary that was started for one kind of targets is returned itself. Otherwise the result shares memory with
        this summary.
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
        """Add the extremes of targets, if all targets so far are numbers."""
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
