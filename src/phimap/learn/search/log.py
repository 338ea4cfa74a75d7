"""The record of a search, with one entry for each trial."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from phimap.records import Record, of_entries, of_floats


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
        Number of times that the metric had been learned: 0 or 1, and more in files of former versions.
    length_scales : ndarray of shape (n_trials,)
        NaN for a kernel without a width.
    n_components, n_rows : ndarray of int, shape (n_trials,)
        Width of the map, and number of rows of the sample.
    errors : ndarray of shape (n_trials,)
        Mean squared held-out error, divided by the variance of the targets.
    is_complete : bool
        Whether the search ended by itself; False if the time limit ended it.
    """

    kernels: tuple[str, ...]
    metrics: tuple[str, ...]
    rounds: np.ndarray = field(metadata=of_entries("index", "?n"))
    length_scales: np.ndarray = field(metadata=of_floats("?n", finite=False))
    n_components: np.ndarray = field(metadata=of_entries("index", "?n"))
    n_rows: np.ndarray = field(metadata=of_entries("index", "?n"))
    errors: np.ndarray = field(metadata=of_floats("?n", finite=False))
    is_complete: bool = True

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield len(self.kernels) == len(self.metrics) == self.errors.size, "a kernel and a metric for each trial"


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
        Time of `time.monotonic` from which no further trial begins, except for the first one.
    entries : list of TrialEntry
    is_complete : bool
        Whether no trial has been left out.
    """

    deadline: float = np.inf
    entries: list[TrialEntry] = field(default_factory=list)
    is_complete: bool = True

    def is_over(self) -> bool:
        """Whether no further trial may begin."""
        if self.entries and time.monotonic() >= self.deadline:
            self.is_complete = False
        return not self.is_complete

    def record(self) -> SearchLog:
        """Return the trials so far, of which there must be at least one."""
        kernels, metrics, *numbers = zip(*self.entries, strict=True)
        rounds, scales, widths, rows, errors = map(np.array, numbers)
        return SearchLog(kernels, metrics, rounds, scales, widths, rows, errors, self.is_complete)
