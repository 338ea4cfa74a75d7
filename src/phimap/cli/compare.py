"""``phimap compare``: compare methods on the user's table."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from phimap._printable import printable
from phimap._progress import Stages
from phimap.cli.groups import RowGroups
from phimap.cli.options import CompareOptions
from phimap.cli.output import write_json
from phimap.cli.outputs import check_report, write_text
from phimap.cli.rows import check_single, note_reading, open_selected
from phimap.cli.standard_input import in_words, readable
from phimap.comparison import Comparison, chosen_methods, compare
from phimap.comparison.rows import mask_of
from phimap.comparison.side_by_side import LEAST_ROWS
from phimap.config import config
from phimap.io import DataError, Rows, read_through
from phimap.io.batching import chosen, joined

# Rows, their targets, their numbers in the file, and the random keys by which rows are sampled.
_Keyed = tuple[Any, np.ndarray, np.ndarray, np.ndarray]


def run(options: CompareOptions) -> None:
    """Run the command."""
    check_report(options.report, [options.data], force=options.force)
    chosen_methods(options.models)
    most = None if isinstance(options.rows, str) else options.rows
    with config(memory=options.memory, n_jobs=options.n_jobs), readable(options.data) as path:
        with Stages(not options.quiet).stage("reading the rows"):
            X, y, groups, table, n_rows = _read(options, path, most)
        if not options.quiet:
            note_reading(in_words(options.data), table)
        if n_rows < LEAST_ROWS:
            rows = f"has {n_rows} row{'s' * (n_rows != 1)}, a comparison needs at least {LEAST_ROWS}"
            raise DataError(f"{in_words(options.data)}: {rows}. Give more rows.")
        found = compare(
            X.reshape(len(X), -1) if isinstance(X, np.ndarray) else X,
            y,
            models=options.models,
            splits=options.splits,
            task=options.task,
            n_components=None if isinstance(options.features, str) else options.features,
            most_rows=None,
            random_state=options.seed,
            groups=groups,
            validation="random" if options.time is None else "last",
            feature_names=None if table.is_image else table.feature_names,
            verbose=not options.quiet,
        )
    found = replace(found, n_all=n_rows)
    if options.report is not None:
        from phimap.report.comparison import page

        write_text(options.report, page(found, in_words(options.data), str(table.target_name)))
    if options.json:
        write_json(found.to_dict())
    else:
        _show(found)


def _read(options: CompareOptions, path: str, most: int | None) -> tuple[Any, np.ndarray, np.ndarray | None, Rows, int]:
    """Return at most `most` random rows of the table, their targets and groups, the table, and its number of rows."""
    groups = RowGroups.read(path, options.data, options.groups, options.time, target=options.target)
    chosen_columns = {name: getattr(options, name) for name in ("target", "columns", "types", "strict")}
    left_out = [*(options.drop or ()), *filter(None, (options.groups, options.time))]
    table, (X, y, numbers, n_rows) = read_through(
        open_selected(path, drop=left_out or None, **chosen_columns),
        lambda rows: _sample(options.data, rows, most, options.seed),
    )
    return X, y, None if groups is None else groups.of_rows(numbers), table, n_rows


def _sample(path: str, table: Rows, most: int | None, seed: int) -> tuple[Any, np.ndarray, np.ndarray, int]:
    """Return at most `most` random rows of a table in file order, their targets and numbers, and the table's length.

    Memory holds up to ``2 * most`` rows in addition to a batch.
    """
    rng = np.random.default_rng(seed)
    kept: list[_Keyed] = []
    n_rows = n_kept = 0
    bound = np.inf
    for X, y, numbers in table.numbered_batches(table.batch_rows):
        y = np.asarray(y)
        check_single(path, table, y)
        keys = rng.random(len(X))
        n_rows += len(X)
        wanted = keys < bound
        kept.append((chosen(X, wanted), y[wanted], numbers[wanted], keys[wanted]))
        n_kept += int(wanted.sum())
        if most is not None and n_kept >= 2 * most:
            kept = [_smallest(kept, most)]
            n_kept, bound = most, kept[0][3].max()
    X, y, numbers, _ = _smallest(kept, n_kept if most is None else min(most, n_kept))
    return X, y, numbers, n_rows


def _smallest(parts: list[_Keyed], n_rows: int) -> _Keyed:
    """The `n_rows` rows with the smallest keys, in the order of the file."""
    X, y, numbers, keys = (joined(list(column)) for column in zip(*parts, strict=True))
    mask = mask_of(np.argsort(keys, kind="stable")[:n_rows], len(keys))
    return chosen(X, mask), y[mask], numbers[mask], keys[mask]


def _show(found: Comparison) -> None:
    """Print the table of methods and the verdict on standard output."""
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 120)
    head, *lines = found.table()
    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for place, name in enumerate(head):
        grid.add_column(escape(name), justify="left" if place in (0, 2) else "right")
    for place, line in enumerate(lines):
        grid.add_row(*(escape(printable(cell)) for cell in line), style="bold" if place == 0 else None)
    console.print(grid)
    for sentence in found.verdict():
        console.print(escape(printable(sentence)))
