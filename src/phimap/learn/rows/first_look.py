"""The first pass over rows of numbers of which nobody knows yet whether their targets are numbers or labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from phimap.learn.rows.first_pass import FirstPass
from phimap.learn.rows.scaling import ColumnMoments
from phimap.learn.targets.extreme_targets import ExtremeTargets
from phimap.learn.targets.labels import Labels
from phimap.learn.targets.target_numbers import are_usable
from phimap.ops import Array


class FirstLook:
    """What a first pass tells a regressor or a classifier, whichever the rows turn out to be for.

    Parameters
    ----------
    start : callable
        ``start(0)`` is the first pass of a regressor that has seen nothing.
    most_labels : int
        Distinct targets beyond which they are no labels.
    """

    def __init__(self, start: Callable[[int], FirstPass], most_labels: int):
        self._pass = start(0)
        self._most_labels = most_labels
        self._labels: Labels | None = Labels()
        self._are_numbers = True

    @property
    def moments(self) -> ColumnMoments | None:
        """Of the columns; None before the first rows."""
        return self._pass.moments

    def update(self, rows: Array, targets: np.ndarray) -> None:
        """Add checked rows (r, d) and their targets (r,) as they stand in a table."""
        self._pass.add_rows(rows, targets, None)
        numbers = targets.dtype.kind in "fiu"
        if numbers and not are_usable(targets):
            # Whoever is to learn from them refuses them.
            self._labels, self._are_numbers = None, False
        self._are_numbers &= numbers
        if self._are_numbers:
            self._pass.add_numbers(targets.astype(np.float64))
        if self._labels is not None:
            self._labels.update(targets)
            if self._labels.size > self._most_labels:
                self._labels = None

    def told(self, *, labels: bool) -> FirstPass | None:
        """The pass for targets that are labels, or numbers; None if these are not, and a learner has to see for itself.

        It is to be asked once: what it gives shares memory with this.
        """
        if labels:
            if self._labels is None:
                return None
            return replace(self._pass, labels=self._labels, low=None, high=None, extremes=ExtremeTargets())
        if not self._are_numbers:
            return None
        for kept in (self._pass.sample, self._pass.wider_sample):
            if kept is not None and kept.y is not None:
                kept.y = kept.y.astype(np.float64)
        return self._pass
