"""The report of an experiment, with its tables and findings, and helpers for the frame of measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from phimap._progress import Stages


@dataclass(frozen=True)
class ResultTable:
    """A table to print; the first column is aligned left, the others right.

    Attributes
    ----------
    title : str
    frame : DataFrame
        One row for each line; the index is not printed.
    formats : mapping of str to str
        Format specifications by column. Missing values are printed as "-".
    """

    title: str
    frame: pd.DataFrame
    formats: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """Headings of the columns."""
        return list(self.frame.columns)

    @property
    def lines(self) -> list[tuple[str, ...]]:
        """The lines as text."""
        text = [
            ["-" if pd.isna(value) else format(value, self.formats.get(name, "")) for value in self.frame[name]]
            for name in self.columns
        ]
        return list(zip(*text, strict=True))


@dataclass(frozen=True)
class Finding:
    """Our result for one result of a paper: a line of the page of the papers.

    Attributes
    ----------
    paper : str
        Authors and year, as in "Zandieh et al. (2021)".
    place : str
        The table, figure, section or theorem, and its line: "Table 2, CT slices, NTKSketch".
    quantity : str
        The measured quantity with its unit: "accuracy (%)".
    size : str
        Size of the run: rows, features, draws; also those of the paper if they differ.
    ours : str
    published : str
        "-" if the paper states no number.
    """

    paper: str
    place: str
    quantity: str
    size: str
    ours: str
    published: str = "-"


@dataclass(frozen=True)
class Report:
    """The results of an experiment.

    Attributes
    ----------
    measurements : DataFrame
        One row for each measurement, for the file of results.
    tables : sequence of Table
    figures : dict
        For each file name, the function that writes the figure.
    findings : sequence of Finding
        Our results beside the published ones.
    """

    measurements: pd.DataFrame
    tables: Sequence[ResultTable]
    figures: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)
    findings: Sequence[Finding] = ()

    def shown(self) -> list[ResultTable]:
        """The tables, and a table of the findings."""
        if not self.findings:
            return list(self.tables)
        frame = pd.DataFrame(self.findings).rename(columns={"size": "size run"})
        frame["place"] = frame["paper"] + ", " + frame["place"]
        return [*self.tables, ResultTable("beside the papers", frame.drop(columns="paper"))]

    def to_dict(self) -> dict[str, Any]:
        """Measurements and findings as plain values, with None for missing values, as NaN is not JSON."""
        plain = self.measurements.astype(object).where(self.measurements.notna(), None)
        return {"rows": plain.to_dict("records"), "findings": [asdict(one) for one in self.findings]}


def measured(
    stages: Stages, name: str, measurements: Iterable[Mapping[str, Any]], total: int | None = None
) -> pd.DataFrame:
    """A frame of all measurements, taken one by one with a progress bar."""
    rows = []
    with stages.stage(name, total) as advance:
        for row in measurements:
            rows.append(row)
            advance(1)
    return pd.DataFrame(rows)


def spread(
    frame: pd.DataFrame, index: str | list[str], column: str, value: str, how: Any = "mean", head: str = "{}"
) -> pd.DataFrame:
    """`value` of each group of `index`, aggregated by `how`, with a column for each value of `column`, ascending.

    Groups keep the order of their first occurrence. `head` is the format of the names of the new columns.
    """
    wide = frame.pivot_table(index=index, columns=column, values=value, aggfunc=how, sort=False)
    return wide.sort_index(axis=1).rename(columns=head.format).rename_axis(columns=None).reset_index()


def mean_and_standard_deviation(values: Sequence[float] | np.ndarray | pd.Series) -> str:
    """Mean of the values and, if there are several, their standard deviation."""
    deviation = f" ± {np.std(values, ddof=1):.1g}" if len(values) > 1 else ""
    return f"{np.mean(values):.4g}{deviation}"
