"""``phimap bench``: the papers' experiments on the user's machine."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.util import find_spec

from rich.console import Console
from rich.table import Table

from phimap._files import write_whole
from phimap._progress import Stages
from phimap.bench import EXPERIMENTS
from phimap.bench.options import BenchOptions


def run(options: BenchOptions) -> None:
    """Run an experiment, print its tables, and write results and figures into the output folder."""
    if options.name == "list":
        _list()
        return
    if options.name not in EXPERIMENTS:
        raise ValueError(f"NAME must be list or one of {', '.join(EXPERIMENTS)}, got {options.name!r}.")
    if find_spec("pandas") is None:
        raise ImportError("phimap bench needs pandas. Install it: pip install pandas.")
    module, _ = EXPERIMENTS[options.name]
    report = import_module(f"phimap.bench.{module}").report
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
    found = report(options, Stages(verbose=not options.quiet))
    console = Console(width=120)
    for table in found.shown():
        grid = Table(title=table.title)
        for position, column in enumerate(table.columns):
            grid.add_column(column, justify="right" if position else "left")
        for line in table.lines:
            grid.add_row(*line)
        console.print(grid)
    if options.output is not None:
        text = json.dumps({"experiment": options.name, "seed": options.seed, **found.to_dict()}, indent=1)
        write_whole(options.output / f"{options.name}.json", lambda file: file.write(text.encode()))
        for name, draw in found.figures.items():
            draw(options.output / name)
        console.print(f"results and figures: {options.output}", markup=False)


def _list() -> None:
    """Print one line for each experiment, with the published result that it reproduces."""
    width = max(map(len, EXPERIMENTS)) + 2
    sys.stdout.writelines(f"{name:<{width}}{says}\n" for name, (_, says) in EXPERIMENTS.items())
