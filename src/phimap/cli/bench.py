"""``phimap bench``: the papers' experiments on the user's machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from phimap.bench import EXPERIMENTS
from phimap.bench.approximation import LARGE, MULTIPLES, PUBLISHED, SMALL, Row, best, run, summary
from phimap.bench.datasets import SETS, load
from phimap.io.model import write_whole
from phimap.learn.stages import Stages
from phimap.projections import REGISTRY


def bench(
    name: str,
    data: Path | None,
    sets: Sequence[str] | None,
    projections: Sequence[str] | None,
    repeats: int,
    seed: int,
    output: Path | None,
    quiet: bool,
) -> None:
    """Run an experiment, print its tables, and write results and figures into `output`."""
    if name not in EXPERIMENTS:
        raise ValueError(f"NAME must be one of {', '.join(EXPERIMENTS)}, got {name!r}.")
    chosen = list(projections or sorted(REGISTRY))
    for projection in chosen:
        if projection not in REGISTRY:
            raise ValueError(f"--projections must be among {', '.join(sorted(REGISTRY))}, got {projection!r}.")
    if repeats < 2:
        raise ValueError(f"--repeats must be at least 2, got {repeats}: a deviation needs two draws.")
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    # Every set is read before the first is measured: a missing file shows at once.
    loaded = [load(each, data, seed) for each in sets or SETS]
    rows: list[Row] = []
    stages = Stages(verbose=not quiet)
    for dataset in loaded:
        total = len(chosen) * len(MULTIPLES) * repeats
        with stages.stage(dataset.name, total) as advance:
            rows += run(
                dataset,
                chosen,
                repeats=repeats,
                classify=name == "classification",
                seed=seed,
                advance=lambda advance=advance: advance(1),
            )
    entries = summary(rows)
    console = Console(width=120)
    for dataset in loaded:
        console.print(_table(entries, dataset.name, "ridge" if name == "classification" else "error"))
    console.print(_best_table(rows, [dataset.name for dataset in loaded]))
    if output is not None:
        _write(output, name, rows, entries)
        console.print(f"results and figures: {output}")


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


def _write(folder: Path, name: str, rows: Sequence[Row], entries: Sequence[dict[str, Any]]) -> None:
    from phimap.bench.figures import curves

    results = {"experiment": name, "rows": [asdict(row) for row in rows], "summary": list(entries)}
    # NaN, for what was not measured, is not JSON.
    text = json.dumps(_without_nan(results), indent=1)
    write_whole(folder / f"{name}.json", lambda file: file.write(text.encode()))
    for dataset in dict.fromkeys(row.dataset for row in rows):
        curves(entries, dataset, folder / f"{name}_{dataset}.png")


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and value != value else value
