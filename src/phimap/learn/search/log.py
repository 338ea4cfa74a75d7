"""The record of a search, with one entry for each trial."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from phimap.records import Record, of_entries, of_floats

#: Another loss replaces the squared loss only if it lowers the log loss by this share, because only models with the
#: squared loss accept further rows.
LEAST_GAIN = 0.02
# A smaller log loss counts as this, because a few rows decide between such losses.
_CERTAIN = 0.01


@dataclass(frozen=True)
class SearchLog(Record):
    """The trials of a search, in order.

    Attributes
    ----------
    kernels : tuple of str
        Names of the kernels' families.
    metrics : tuple of str
        ``"none"``, ``"diagonal"`` or ``"full"``.
    rounds : ndarray of int, shape (n_trials,)
        Number of times that the metric had been learned before the trial: 0 or 1; larger in files of earlier versions.
    length_scales : ndarray of shape (n_trials,)
        NaN for a kernel without a width.
    n_components, n_rows : ndarray of int, shape (n_trials,)
        Width of the map, and number of rows of the sample.
    errors : ndarray of shape (n_trials,)
        Mean squared held-out error, divided by the variance of the targets.
    is_complete : bool
        Whether the search ended by itself; False if the time limit ended it.
    losses : tuple of str
        Losses that were compared; empty if the loss was given.
    log_losses : ndarray of shape (n_losses,)
        Held-out log losses of a classifier with each of these losses; with `scoring`, errors by the scorer.
    """

    kernels: tuple[str, ...]
    metrics: tuple[str, ...]
    rounds: np.ndarray = field(metadata=of_entries("index", "?n"))
    length_scales: np.ndarray = field(metadata=of_floats("?n", finite=False))
    n_components: np.ndarray = field(metadata=of_entries("index", "?n"))
    n_rows: np.ndarray = field(metadata=of_entries("index", "?n"))
    errors: np.ndarray = field(metadata=of_floats("?n", finite=False))
    is_complete: bool = True
    losses: tuple[str, ...] = ()
    log_losses: np.ndarray = field(default_factory=lambda: np.zeros(0), metadata=of_floats("?l", finite=False))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield len(self.kernels) == len(self.metrics) == self.errors.size, "a kernel and a metric for each trial"
        yield len(self.losses) == self.log_losses.size, "a log loss for each loss"

    def best_loss(self) -> tuple[str, float]:
        """Return the loss of least log loss, and the ratio of its log loss to the log loss of the squared loss.

        The squared loss is returned unless another loss lowers the log loss by 2 % and by .0002.
        """
        if not self.losses:
            return "squared", 1.0
        best, squared = int(self.log_losses.argmin()), float(self.log_losses[0])
        least = float(self.log_losses[best])
        if squared - least <= LEAST_GAIN * max(squared, _CERTAIN):
            return "squared", 1.0
        return self.losses[best], least / squared


class TrialEntry(NamedTuple):
    """One trial, with one field for each array of `SearchLog`."""

    kernel: str
    metric: str
    round: int
    length_scale: float
    n_components: int
    n_rows: int
    error: float


@dataclass
class TrialLog:
    """The trials so far of a search.

    Attributes
    ----------
    deadline : float
        Time of `time.monotonic` after which no trial begins, except the first one.
    entries : list of TrialEntry
    is_complete : bool
        Whether no trial has been left out.
    is_first : bool
        Whether no trial was run before those of `entries`.
    """

    deadline: float = np.inf
    entries: list[TrialEntry] = field(default_factory=list)
    is_complete: bool = True
    is_first: bool = True

    def is_over(self) -> bool:
        """Whether no further trial may begin."""
        if (self.entries or not self.is_first) and time.monotonic() >= self.deadline:
            self.is_complete = False
        return not self.is_complete

    def branches(self, n_branches: int) -> list[TrialLog]:
        """Return logs for parts of the search that run at the same time. The first trial belongs to the first part."""
        is_first = self.is_first and not self.entries
        return [TrialLog(self.deadline, [], self.is_complete, is_first and part == 0) for part in range(n_branches)]

    def join(self, branches: Sequence[TrialLog]) -> None:
        """Add the trials of branches in the order of the branches, not in the order of time."""
        for branch in branches:
            self.entries += branch.entries
            self.is_complete &= branch.is_complete

    def record(self) -> SearchLog:
        """Return the record of the trials so far. There must be at least one trial."""
        kernels, metrics, *numbers = zip(*self.entries, strict=True)
        rounds, scales, widths, rows, errors = map(np.array, numbers)
        return SearchLog(kernels, metrics, rounds, scales, widths, rows, errors, self.is_complete)
