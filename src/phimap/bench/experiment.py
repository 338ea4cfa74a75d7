"""The report of an experiment with its tables and findings, and helper functions for frames of measurements."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from phimap._files import DataError
from phimap._progress import Stages


@dataclass(frozen=True)
class ResultTable:
    """A table to print. The first column is aligned left, the other columns right.

    Attributes
    ----------
    title : str
    frame : DataFrame
        Contents of the table; the index is not printed.
    formats : mapping of str to str
        Format specifications by column name. Missing values are printed as "-".
    """

    title: str
    frame: pd.DataFrame
    formats: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, title: str, frame: pd.DataFrame, columns: Mapping[str, tuple[str, str]]) -> Self:
        """Make a table of the `columns` of a frame, a mapping from names to headings and formats."""
        shown = frame[list(columns)].set_axis([heading for heading, _ in columns.values()], axis=1)
        return cls(title, shown, dict(columns.values()))

    @property
    def columns(self) -> list[str]:
        """Headings of the columns."""
        return list(self.frame.columns)

    @property
    def lines(self) -> list[tuple[str, ...]]:
        """Cells of each line, formatted as text."""
        text = [
            ["-" if pd.isna(value) else format(value, self.formats.get(name, "")) for value in self.frame[name]]
            for name in self.columns
        ]
        return list(zip(*text, strict=True))


@dataclass(frozen=True)
class Finding:
    """One published result and ours: a line of the documentation page about the papers.

    Attributes
    ----------
    paper : str
        Authors and year, as in "Zandieh et al. (2021)".
    place : str
        Place in the paper, with the line of a table, as in "Table 2, CT slices, NTKSketch".
    quantity : str
        The measured quantity with its unit, as in "accuracy (%)".
    size : str
        Numbers of rows, features and draws of our run.
    ours : str
    published : str
        Published value; "-" if the paper does not state one.
    published_size : str
        Numbers of rows, features and draws in the paper; "-" if the paper has no such experiment.
    """

    paper: str
    place: str
    quantity: str
    size: str
    ours: str
    published: str = "-"
    published_size: str = "-"


@dataclass(frozen=True)
class Report:
    """The results of an experiment.

    Attributes
    ----------
    measurements : DataFrame
        One row for each measurement, as written to the file of results.
    tables : sequence of ResultTable
    figures : dict
        Functions that write a figure to a path, by file name.
    findings : sequence of Finding
        Our results and the published ones.
    """

    measurements: pd.DataFrame
    tables: Sequence[ResultTable]
    figures: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)
    findings: Sequence[Finding] = ()

    def shown(self) -> list[ResultTable]:
        """Return the tables, followed by a table of the findings if there are any."""
        if not self.findings:
            return list(self.tables)
        frame = pd.DataFrame(self.findings)
        frame = frame.rename(columns={"size": "size run", "published_size": "size published"})
        frame["place"] = frame["paper"] + ", " + frame["place"]
        return [*self.tables, ResultTable("beside the papers", frame.drop(columns="paper"))]

    def to_dict(self) -> dict[str, Any]:
        """Return measurements and findings as plain values. Missing values are None because JSON has no NaN."""
        plain = self.measurements.astype(object).where(self.measurements.notna(), None)
        return {"rows": plain.to_dict("records"), "findings": [asdict(one) for one in self.findings]}


def measured(
    stages: Stages, name: str, measurements: Iterable[Mapping[str, Any]], total: int | None = None
) -> pd.DataFrame:
    """Return a frame of all measurements, which are taken one by one with a progress bar."""
    rows = []
    with stages.stage(name, total) as advance:
        for row in measurements:
            rows.append(row)
            advance(1)
    return pd.DataFrame(rows)


def read_sets(read: Callable[[str], Any], names: Iterable[str], optional: Container[str]) -> tuple[list, list]:
    """Return the sets of these names, and a list with a table of the missing sets, empty if no set is missing.

    A set in `optional` is missing if its file does not exist. For other sets, this raises `DataError`.
    """
    found, missing = [], []
    for name in names:
        try:
            found.append(read(name))
        except DataError as error:
            if name not in optional:
                raise
            missing.append({"set": name, "why": str(error)})
    return found, [ResultTable("sets that are not there", pd.DataFrame(missing))] if missing else []


def spread(
    frame: pd.DataFrame, index: str | list[str], column: str, value: str, how: Any = "mean", head: str = "{}"
) -> pd.DataFrame:
    """Aggregate `value` by `how` in a pivot table: rows by `index`, and columns by `column` in ascending order.

    Rows are in order of first occurrence. `head` formats the names of the new columns.
    """
    wide = frame.pivot_table(index=index, columns=column, values=value, aggfunc=how, sort=False)
    return wide.sort_index(axis=1).rename(columns=head.format).rename_axis(columns=None).reset_index()


def accuracy_table(title: str, found: pd.DataFrame, seconds: str = ".2f") -> ResultTable:
    """Return a table with the mean accuracy and the least seconds of each method at each number of features.

    The number of features is 0 for methods without features; its cell shows "-".
    `seconds` is the format of the seconds. A column `disagreement` is averaged and shown unless all values are missing.
    """
    how = {"accuracy": "mean", "seconds": "min"}
    columns = {"method": ("method", ""), "n_components": ("features", ","), "accuracy": ("accuracy (%)", ".2f")}
    columns["seconds"] = ("seconds", seconds)
    if "disagreement" in found and found["disagreement"].notna().any():
        how["disagreement"], columns["disagreement"] = "mean", ("unlike exact (%)", ".1f")
    frame = found.groupby(["method", "n_components"], sort=False, as_index=False).agg(how)
    return ResultTable.of(title, frame.replace({"n_components": 0}, pd.NA), columns)


def mean_and_standard_deviation(values: Sequence[float] | np.ndarray | pd.Series) -> str:
    """Format the mean of the values and, if there are several values, their standard deviation."""
    deviation = f" ± {np.std(values, ddof=1):.1g}" if len(values) > 1 else ""
    return f"{np.mean(values):.4g}{deviation}"
