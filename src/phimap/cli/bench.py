"""``phimap bench``: the papers' experiments on the user's machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.table import Table

from phimap._files import write_whole
from phimap._progress import Stages
from phimap.bench import EXPERIMENTS
from phimap.bench import experiment as experiments
from phimap.bench.experiment import Request


def bench(request: Request) -> None:
    """Run an experiment, print its tables, and write results and figures into the output folder."""
    if request.name not in EXPERIMENTS:
        raise ValueError(f"NAME must be one of {', '.join(EXPERIMENTS)}, got {request.name!r}.")
    module, _ = EXPERIMENTS[request.name]
    report = import_module(f"phimap.bench.{module}").report
    if request.output is not None:
        request.output.mkdir(parents=True, exist_ok=True)
    found: experiments.Report = report(request, Stages(verbose=not request.quiet))
    console = Console(width=120)
    for table in found.tables:
        console.print(_rendered(table))
    if request.output is not None:
        _write_json(request, found.rows)
        for name, draw in found.figures.items():
            draw(request.output / name)
        console.print(f"results and figures: {request.output}")


def _rendered(table: experiments.Table) -> Table:
    rendered = Table(title=table.title)
    for position, column in enumerate(table.columns):
        rendered.add_column(column, justify="right" if position else "left")
    for row in table.rows:
        rendered.add_row(*row)
    return rendered


def _write_json(request: Request, rows: Sequence[Mapping[str, Any]]) -> None:
    # NaN, for what was not measured, is not JSON.
    plain = [{key: None if value != value else value for key, value in row.items()} for row in rows]
    text = json.dumps({"experiment": request.name, "seed": request.seed, "rows": plain}, indent=1)
    if request.output is not None:
        write_whole(request.output / f"{request.name}.json", lambda file: file.write(text.encode()))
