"""What an experiment gives, and what the experiments share: the frame of results, the tables and the findings."""

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
        A row a line; the index is not printed.
    formats : mapping of str to str
        Format specifications by column. Missing values are printed as "-".
    """

    title: str
    frame: pd.DataFrame
    formats: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """The head."""
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
    measurements : DataFrame
        A row a measurement, for the file of results.
    tables : sequence of Table
    figures : dict
        Writer of each figure by the name of its file.
    findings : sequence of Finding
        Ours beside the papers'.
    """

    measurements: pd.DataFrame
    tables: Sequence[ResultTable]
    figures: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)
    findings: Sequence[Finding] = ()

    def shown(self) -> list[ResultTable]:
        """The tables, and ours beside the papers'."""
        if not self.findings:
            return list(self.tables)
        frame = pd.DataFrame(self.findings).rename(columns={"size": "size run"})
        frame["place"] = frame["paper"] + ", " + frame["place"]
        return [*self.tables, ResultTable("beside the papers", frame.drop(columns="paper"))]

    def to_dict(self) -> dict[str, Any]:
        """Measurements and findings as plain values, None for what was not measured: NaN is not JSON."""
        plain = self.measurements.astype(object).where(self.measurements.notna(), None)
        return {"rows": plain.to_dict("records"), "findings": [asdict(one) for one in self.findings]}


def measured(
    stages: Stages, name: str, measurements: Iterable[Mapping[str, Any]], total: int | None = None
) -> pd.DataFrame:
    """A frame of all measurements, taken one by one under a bar that counts them."""
    rows = []
    with stages.stage(name, total) as advance:
        for row in measurements:
            rows.append(row)
            advance(1)
    return pd.DataFrame(rows)


def spread(
    frame: pd.DataFrame, index: str | list[str], column: str, value: str, how: Any = "mean", head: str = "{}"
) -> pd.DataFrame:
    """`value` of each group of `index` as `how` sums it up, a column for each value of `column`, least first.

    Groups keep the order of their first occurrence. `head` is the format of the names of the new columns.
    """
    wide = frame.pivot_table(index=index, columns=column, values=value, aggfunc=how, sort=False)
    return wide.sort_index(axis=1).rename(columns=head.format).rename_axis(columns=None).reset_index()


def mean_and_standard_deviation(values: Sequence[float] | np.ndarray | pd.Series) -> str:
    """Mean of the values, with the standard deviation of one where there are more."""
    deviation = f" ± {np.std(values, ddof=1):.1g}" if len(values) > 1 else ""
    return f"{np.mean(values):.4g}{deviation}"
