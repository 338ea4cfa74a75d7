"""``phimap bench``: the papers' experiments on the user's machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from phimap.bench import EXPERIMENTS
from phimap.bench.approximation import LARGE, MULTIPLES, PUBLISHED, SMALL, Row, best, run, summary
from phimap.bench.datasets import SETS, Dataset, load
from phimap.bench.double_descent import RATIOS, Point
from phimap.bench.double_descent import run as run_double_descent
from phimap.io.model import write_whole
from phimap.learn.stages import Stages
from phimap.projections import REGISTRY

#: Sets of each experiment where the user names none.
_SETS = {"double-descent": ("sonar", "MNIST")}


@dataclass(frozen=True)
class Request:
    """The options of ``phimap bench``."""

    name: str
    data: Path | None
    sets: Sequence[str] | None
    projections: Sequence[str] | None
    repeats: int
    seed: int
    output: Path | None
    quiet: bool


def bench(request: Request) -> None:
    """Run an experiment, print its tables, and write results and figures into the output folder."""
    if request.name not in EXPERIMENTS:
        raise ValueError(f"NAME must be one of {', '.join(EXPERIMENTS)}, got {request.name!r}.")
    if request.repeats < 2:
        raise ValueError(f"--repeats must be at least 2, got {request.repeats}: a deviation needs two draws.")
    for projection in request.projections or ():
        if projection not in REGISTRY:
            raise ValueError(f"--projections must be among {', '.join(sorted(REGISTRY))}, got {projection!r}.")
    if request.output is not None:
        request.output.mkdir(parents=True, exist_ok=True)
    names = request.sets or _SETS.get(request.name) or [name for name in SETS if name not in ("sonar", "digits")]
    # Every set is read before the first is measured: a missing file shows at once.
    loaded = [load(name, request.data, request.seed) for name in names]
    console = Console(width=120)
    run = _double_descent if request.name == "double-descent" else _projections
    run(request, loaded, console)
    if request.output is not None:
        console.print(f"results and figures: {request.output}")


def _double_descent(request: Request, loaded: Sequence[Dataset], console: Console) -> None:
    points: list[Point] = []
    stages = Stages(verbose=not request.quiet)
    for dataset in loaded:
        with stages.stage(dataset.name, len(RATIOS) * request.repeats) as advance:
            step = partial(advance, 1)
            points += run_double_descent(dataset, repeats=request.repeats, seed=request.seed, advance=step)
    for dataset in loaded:
        table = Table(title=f"{dataset.name}: median errors against features over training rows")
        for column in ("features / rows", "training", "test", "kernel"):
            table.add_column(column, justify="right")
        for ratio in RATIOS:
            of_ratio = [point for point in points if (point.dataset, point.ratio) == (dataset.name, ratio)]
            medians = (np.median([getattr(p, name) for p in of_ratio]) for name in ("train", "test", "approximation"))
            table.add_row(f"{ratio:g}", *(f"{median:.3g}" for median in medians))
        console.print(table)
    if request.output is not None:
        from phimap.bench.figures import double_descent

        _write_json(request, [asdict(point) for point in points])
        for dataset in loaded:
            double_descent(points, dataset.name, request.output / f"double-descent_{dataset.name}.png")


def _projections(request: Request, loaded: Sequence[Dataset], console: Console) -> None:
    chosen = request.projections or sorted(REGISTRY)
    classify = request.name == "classification"
    rows: list[Row] = []
    stages = Stages(verbose=not request.quiet)
    for dataset in loaded:
        with stages.stage(dataset.name, len(chosen) * len(MULTIPLES) * request.repeats) as advance:
            options = {"repeats": request.repeats, "classify": classify, "seed": request.seed}
            rows += run(dataset, chosen, advance=partial(advance, 1), **options)
    entries = summary(rows)
    for dataset in loaded:
        console.print(_table(entries, dataset.name, "ridge" if classify else "error"))
    console.print(_best_table(rows, [dataset.name for dataset in loaded]))
    if request.output is not None:
        from phimap.bench.figures import curves

        _write_json(request, [asdict(row) for row in rows])
        for dataset in loaded:
            curves(entries, dataset.name, request.output / f"{request.name}_{dataset.name}.png")


def _table(entries: Sequence[dict[str, Any]], dataset: str, measure: str) -> Table:
    table = Table(title=f"{dataset}: {'relative error' if measure == 'error' else 'test accuracy, ridge (%)'}")
    table.add_column("projection")
    for multiple in MULTIPLES:
        table.add_column(f"s = {multiple}d", justify="right")
    by_key = {(e["projection"], e["multiple"]): e for e in entries if e["dataset"] == dataset}
    for projection in dict.fromkeys(name for name, _ in by_key):
        cells = []
        for multiple in MULTIPLES:
            entry = by_key.get((projection, multiple))
            cells.append(f"{entry[measure]:.4g} ± {entry[f'{measure}_deviation']:.1g}" if entry else "-")
        table.add_row(projection, *cells)
    return table


def _best_table(rows: Sequence[Row], names: Sequence[str]) -> Table:
    """Table 7 of the survey: best methods by error, ours beside the published."""
    table = Table(title="least error (ties within the noise; - where most tie)")
    for column in ("data set", "small s (2d, 4d)", "published", "large s (16d, 32d)", "published"):
        table.add_column(column)
    for name in names:
        of_set = [row for row in rows if row.dataset == name]
        published = PUBLISHED.get(name)
        cells = []
        for multiples, part in ((SMALL, 0), (LARGE, 1)):
            cells.append(", ".join(best(of_set, multiples)) or "-")
            cells.append("" if published is None else ", ".join(published[part]) or "-")
        table.add_row(name, *cells)
    return table


def _write_json(request: Request, rows: Sequence[dict[str, Any]]) -> None:
    # NaN, for what was not measured, is not JSON.
    plain = [{key: None if value != value else value for key, value in row.items()} for row in rows]
    text = json.dumps({"experiment": request.name, "seed": request.seed, "rows": plain}, indent=1)
    if request.output is not None:
        write_whole(request.output / f"{request.name}.json", lambda file: file.write(text.encode()))
