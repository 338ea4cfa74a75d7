"""``phimap bench``: the papers' experiments on the user's machine."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from phimap._files import write_whole
from phimap._progress import Stages
from phimap.bench import EXPERIMENTS, experiment
from phimap.bench.options import BenchOptions


def run(options: BenchOptions) -> None:
    """Run an experiment, print its tables, and write results and figures into the output folder."""
    if options.name == "list":
        _list()
        return
    if options.name not in EXPERIMENTS:
        raise ValueError(f"NAME must be list or one of {', '.join(EXPERIMENTS)}, got {options.name!r}.")
    module, _ = EXPERIMENTS[options.name]
    report = import_module(f"phimap.bench.{module}").report
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
    found: experiment.Report = report(options, Stages(verbose=not options.quiet))
    console = Console(width=120)
    compared = [experiment.findings_table(found.findings)] if found.findings else []
    for table in (*found.tables, *compared):
        console.print(_rendered(table))
    if options.output is not None:
        _write_json(options.output / f"{options.name}.json", options, found)
        for name, draw in found.figures.items():
            draw(options.output / name)
        console.print(f"results and figures: {options.output}", markup=False)


def _list() -> None:
    """Print the experiments and what each reproduces, one a line."""
    width = max(map(len, EXPERIMENTS)) + 2
    sys.stdout.writelines(f"{name:<{width}}{says}\n" for name, (_, says) in EXPERIMENTS.items())


def _rendered(table: experiment.Table) -> Table:
    rendered = Table(title=table.title)
    for position, column in enumerate(table.columns):
        rendered.add_column(column, justify="right" if position else "left")
    for line in table.lines:
        rendered.add_row(*line)
    return rendered


def _write_json(path: Path, options: BenchOptions, found: experiment.Report) -> None:
    # NaN, for what was not measured, is not JSON.
    plain = [{key: None if value != value else value for key, value in one.items()} for one in found.measurements]
    results = {"experiment": options.name, "seed": options.seed, "rows": plain}
    results["findings"] = experiment.as_dicts(found.findings)
    text = json.dumps(results, indent=1)
    write_whole(path, lambda file: file.write(text.encode()))
