"""``phimap plan``: the time, memory and traffic of a fit, predicted before it is started."""

from __future__ import annotations

import sys
from dataclasses import replace

from rich.console import Console
from rich.table import Table as Grid

from phimap._progress import Stages
from phimap.advice import Cost, cost, measure_machine
from phimap.cli.options import PlanOptions
from phimap.cli.output import write_json
from phimap.cli.table_size import TableSize, table_size
from phimap.config import size_text, stated_budget, thread_count
from phimap.io import DataError
from phimap.learn.search.effort import EFFORTS
from phimap.learn.search.kernel import OTHERS, STATIONARY, kernel_name
from phimap.learn.search.width import affordable_width, most_components
from phimap.theory import REFERENCE

# For kernels without Fourier features, the names of their maps in the cost model.
_KINDS = {"ntk": "ntk", "nngp": "ntk", "cntk": "ntk"}


def run(options: PlanOptions) -> None:
    """Run the command."""
    kernel = kernel_name(options.kernel, ("auto", *STATIONARY, *OTHERS), "--kernel")
    for name, least in (("rows", 2), ("columns", 1), ("targets", 1), ("features", 2), ("workers", 1)):
        value = getattr(options, name)
        if isinstance(value, int) and value < least:
            raise ValueError(f"--{name} must be at least {least}, got {value}. Use for example 4096.")
    sizes, budget = _sizes(options), stated_budget(options.memory)
    found = _cost(options, kernel, sizes, budget)
    # The budget does not include the memory of the process itself, with its imported libraries.
    fits = max(found.worker_memory, found.driver_memory) - found.machine.process <= budget
    if options.json:
        write_json(found.to_dict() | {"rows_estimated": sizes.estimated, "notes": list(sizes.notes), "fits": fits})
    else:
        _show(found, sizes, budget, fits)


def _sizes(options: PlanOptions) -> TableSize:
    """Return the sizes of the table. Options replace the sizes that the file states."""
    if options.data is None:
        if options.rows is None or options.columns is None:
            raise ValueError("a plan needs a table, or both --rows and --columns. Name a file, or give them.")
        return TableSize(options.rows, options.columns, options.targets or 1, options.format)
    if options.data == "-":
        raise DataError("standard input has no size before it is read. Give --rows and --columns.")
    found = table_size(options.data, options.target, options.task)
    estimated = found.estimated and options.rows is None
    notes = {
        f"{found.n_rows:,} rows are an estimate, from the length of the first lines": estimated,
        "categories and text become more columns than are counted here; give --columns if you know": (
            found.mixed and options.columns is None
        ),
        "one column is taken for the target; name it with --target": options.target is None,
    }
    return replace(
        found,
        n_rows=options.rows or found.n_rows,
        n_columns=options.columns or found.n_columns,
        n_outputs=options.targets or found.n_outputs,
        estimated=estimated,
        notes=tuple(note for note, holds in notes.items() if holds),
    )


def _cost(options: PlanOptions, kernel: str, sizes: TableSize, budget: int) -> Cost:
    """Predict the cost on this machine, or on the reference machine of the documentation."""
    if options.machine == "reference":
        machine = REFERENCE
    else:
        with Stages(not options.quiet).stage("measuring this machine"):
            machine = measure_machine()
    n_train = round(sizes.n_rows * (1 - (options.holdout or 0.0)))
    most = affordable_width(n_train, most_components(budget), EFFORTS["normal"])
    return cost(
        sizes.n_rows,
        sizes.n_columns,
        # For few rows, the number of features is at most the number of rows.
        min(most, max(n_train, 1)) if isinstance(options.features, str) else options.features,
        sizes.n_outputs,
        kernel=_KINDS.get(kernel, "dense"),
        dtype=options.dtype,
        solver=options.solver,
        file_format=sizes.file_format,
        search=kernel == "auto",
        holdout=options.holdout,
        workers=options.workers,
        # On a cluster, a task has one thread by default.
        threads=1 if options.workers > 1 and options.n_jobs is None else thread_count(options.n_jobs),
        memory=budget,
        machine=machine,
    )


def _show(found: Cost, sizes: TableSize, budget: int, fits: bool) -> None:
    """Print a table of the stages, and the totals, on standard output."""
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 120)
    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for place, head in enumerate(("stage", "time", "share", "of which")):
        grid.add_column(head, justify="left" if place in (0, 3) else "right")
    for stage in found.stages:
        # Parts that take less than a hundredth of a stage are not shown.
        parts = [f"{name} {_time(seconds)}" for name, seconds in stage.parts.items() if seconds >= 0.01 * stage.seconds]
        share = f"{stage.seconds / found.seconds:.0%}"
        grid.add_row(stage.name, _time(stage.seconds), share, ", ".join(parts) if len(parts) > 1 else "")
    console.print(grid)
    work = found.workload
    places = "one process" if work.workers == 1 else f"{work.workers:,} workers"
    threads = f"{work.threads} {'thread' if work.threads == 1 else 'threads'}"
    solving = f", {size_text(found.driver_memory)} the one that solves" if work.workers > 1 else ""
    size = f"{work.n_rows:,} rows x {work.n_columns:,} columns, {work.n_components:,} features"
    speed = f"{_time(found.seconds)}, {found.rows_per_second:,.0f} rows/s, {places} of {threads}"
    memory = f"Memory {size_text(found.worker_memory)} a process{solving}; budget {size_text(budget)}."
    lines = [f"{size}: {speed}.", f"Solver {found.solver}. {memory}"]
    if work.workers > 1:
        lines.append(f"{size_text(found.bytes_sent)} between workers, {found.n_tasks:,} parts of the table.")
    if not fits:
        lines.append("This does not fit the budget. Use fewer --features, more --workers, or raise --memory.")
    lines += [f"Note: {note}." for note in sizes.notes]
    lines.append(
        f"Rates of {found.machine.name}. The times hold for an idle machine: within some 1.3 times for a given kernel, "
        "within 2 if it is searched."
    )
    for line in lines:
        console.print(line, markup=False)


def _time(seconds: float) -> str:
    """Seconds in a suitable unit."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.2f} s" if seconds < 10 else f"{seconds:,.0f} s"
