"""A finished fit, and its summary on the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from phimap._printable import printable
from phimap._progress import Stage, peak_memory
from phimap.cli.describe import inputs_text, length_scale_of, metric_kind, search_facts
from phimap.cli.first_pass import Overview
from phimap.cli.options import FitOptions
from phimap.cli.output import Fact
from phimap.cli.scoring import Scores
from phimap.cli.written_kernels import kernel_text
from phimap.io import Rows


@dataclass(frozen=True)
class Result:
    """A finished fit, with everything that the report and the printed summary show.

    `why` is the reason for the choice of the task. `seconds` is the time from opening the table to the last score.
    """

    options: FitOptions
    table: Rows
    overview: Overview
    task: str
    why: str
    model: Any
    scores: Scores | None
    stages: list[Stage]
    seconds: float

    @property
    def n_components(self) -> int:
        """Number of features of the model, given by the user or chosen."""
        return self.model.feature_map_.record_.n_components


def facts(result: Result, report_seconds: float) -> list[Fact]:
    """The facts that are printed on standard output."""
    found = result.scores.facts() if result.scores else []
    found += [
        Fact("task", result.task),
        Fact("rows_trained", result.overview.n_train),
        Fact("rows_held_out", result.overview.n_held_out),
        Fact("alpha", result.model.alpha_, ".4g"),
        Fact("kernel", kernel_text(result.model.kernel_)),
        Fact("metric", metric_kind(result.model)),
        Fact("features", result.n_components),
        Fact("solver", result.model.solution_.form),
    ]
    if result.options.verbose or result.options.json:
        found.append(Fact("solver_choice", result.model.solution_.choice))
    length_scale = length_scale_of(result.model.kernel_)
    if length_scale is not None:
        found.append(Fact("length_scale", length_scale, ".4g"))
    found += [Fact("seconds", result.seconds, ".2f"), Fact("peak_memory_mb", peak_memory() / 2**20, ".0f")]
    if result.options.model is not None:
        found.append(Fact("model", str(result.options.model)))
    if result.options.report is not None:
        found += [Fact("report", str(result.options.report)), Fact("report_seconds", report_seconds, ".2f")]
    return found


def print_summary(result: Result) -> None:
    """Print further results as a table on standard error. Facts on standard output and stages are not repeated."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Grid

    def shown(text: str) -> str:
        return escape(printable(text))

    grid = Grid(box=None, show_header=False, padding=(0, 2, 0, 0))
    grid.add_column(style="dim")
    grid.add_column()
    overview = result.overview
    grid.add_row(
        "data",
        shown(f"{result.options.data}, {overview.n_rows:,} rows, {inputs_text(result.table, overview.names_left_out)}"),
    )
    grid.add_row("target", shown(f"{result.table.target_name} ({result.why})"))
    grid.add_row("map", type(result.model.feature_map_).__name__)
    for name, value in search_facts(result.model, result.stages):
        if name != "metric":
            grid.add_row(name, shown(value))
    Console(stderr=True, highlight=False).print(grid)
