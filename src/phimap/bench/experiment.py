"""What an experiment gives, and the parts that the experiments share: the loop, the choice and the words of results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from phimap._progress import Stages

#: A frozen dataclass: one result of an experiment.
Measurement = TypeVar("Measurement")


@dataclass(frozen=True)
class Table:
    """A table of text; the first column is aligned left, the others right.

    Attributes
    ----------
    title : str
    columns : sequence of str
    lines : sequence of sequence of str
    """

    title: str
    columns: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Finding:
    """What a run gave for one figure of a paper: a line of the page of the papers.

    Attributes
    ----------
    paper : str
        Authors and year, as in "Zandieh et al. (2021)".
    place : str
        The table, figure, section or theorem, and the line of it: "Table 2, CT slices, NTKSketch".
    quantity : str
        What the figures are, with their unit: "accuracy (%)".
    size : str
        What was run: rows, features, draws; where the paper has other ones, those as well.
    ours : str
    published : str
        "-" where the paper states no number.
    """

    paper: str
    place: str
    quantity: str
    size: str
    ours: str
    published: str = "-"


@dataclass(frozen=True)
class Report:
    """What an experiment found.

    Attributes
    ----------
    measurements : sequence of dict
        For the file of results.
    tables : sequence of Table
    figures : dict
        Writer of each figure by the name of its file.
    findings : sequence of Finding
        Ours beside the papers'.
    """

    measurements: Sequence[Mapping[str, Any]]
    tables: Sequence[Table]
    figures: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)
    findings: Sequence[Finding] = ()


def findings_table(findings: Sequence[Finding]) -> Table:
    """Ours beside the papers', as ``phimap bench`` prints it."""
    lines = [(f"{one.paper}, {one.place}", one.quantity, one.size, one.ours, one.published) for one in findings]
    return Table("beside the papers", ("place", "quantity", "size run", "ours", "published"), lines)


def measured(
    stages: Stages, name: str, measurements: Iterable[Measurement], total: int | None = None
) -> list[Measurement]:
    """All of the measurements, taken one by one under a bar that counts them."""
    found = []
    with stages.stage(name, total) as advance:
        for measurement in measurements:
            found.append(measurement)
            advance(1)
    return found


def as_dicts(measurements: Iterable[Any]) -> list[dict[str, Any]]:
    """Dataclasses as the file of results holds them."""
    return [asdict(one) for one in measurements]


def having(measurements: Iterable[Measurement], **facts: Any) -> list[Measurement]:
    """Those of the measurements that have these values of their attributes."""
    return [one for one in measurements if all(getattr(one, name) == value for name, value in facts.items())]


def grouped(measurements: Iterable[Measurement], *names: str) -> dict[tuple[Any, ...], list[Measurement]]:
    """The measurements by their values of these attributes, in the order of first occurrence."""
    groups: dict[tuple[Any, ...], list[Measurement]] = {}
    for one in measurements:
        groups.setdefault(tuple(getattr(one, name) for name in names), []).append(one)
    return groups


def values(measurements: Iterable[Any], name: str) -> np.ndarray:
    """The values (k,) of one attribute."""
    return np.array([getattr(one, name) for one in measurements])


def mean_and_standard_deviation(values: Sequence[float] | np.ndarray) -> str:
    """Mean of the values, with the standard deviation of one where there are more."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{mean:.4g}"
    standard_deviation = (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5
    return f"{mean:.4g} ± {standard_deviation:.1g}"
