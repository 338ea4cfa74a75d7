"""What an experiment is asked, and what it gives: rows, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Request:
    """The options of ``phimap bench``; None leaves the choice to the experiment.

    Attributes
    ----------
    name : str
        The experiment.
    data : Path or None
        Folder of the data sets.
    sets, projections, methods : sequence of str or None
    depths, widths : sequence of int or None
        Depths of networks, numbers of features.
    rows : int or None
        Most rows of a set.
    repeats : int or None
        Draws of each map.
    seed : int
        Of the first draw and of the splits.
    output : Path or None
        Folder for results and figures.
    quiet : bool
        No progress bars.
    """

    name: str
    data: Path | None = None
    sets: Sequence[str] | None = None
    projections: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    depths: Sequence[int] | None = None
    widths: Sequence[int] | None = None
    rows: int | None = None
    repeats: int | None = None
    seed: int = 0
    output: Path | None = None
    quiet: bool = False

    def draws(self, default: int, *, least: int = 1) -> int:
        """`repeats` or the default, at least `least`."""
        repeats = default if self.repeats is None else self.repeats
        if repeats < least:
            why = ": a deviation needs two draws" if least == 2 else ""
            raise ValueError(f"--repeats must be at least {least}, got {repeats}{why}.")
        return repeats

    def chosen(self, methods: Iterable[str]) -> list[str]:
        """`methods`, or those of them that were asked for."""
        known = list(methods)
        for method in self.methods or ():
            if method not in known:
                raise ValueError(f"--methods must be among {', '.join(known)}, got {method!r}.")
        return list(self.methods or known)


@dataclass(frozen=True)
class Table:
    """A table of text; the first column is aligned left, the others right.

    Attributes
    ----------
    title : str
    columns : sequence of str
    rows : sequence of sequence of str
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Report:
    """What an experiment found.

    Attributes
    ----------
    rows : sequence of dict
        Every measurement, for the file of results.
    tables : sequence of Table
    figures : dict
        Writer of each figure by the name of its file.
    """

    rows: Sequence[Mapping[str, Any]]
    tables: Sequence[Table]
    figures: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)


def mean_and_deviation(values: Sequence[float]) -> str:
    """Mean of the values, with the deviation of one where there are more."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{mean:.4g}"
    deviation = (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5
    return f"{mean:.4g} ± {deviation:.1g}"
