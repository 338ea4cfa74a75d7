"""``phimap fit``: train on a table, score on held-out rows, write model and report."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from phimap._progress import Stages
from phimap.cli.describe import some
from phimap.cli.distributed import check_scheduler, fit_on_workers, seen_by_workers
from phimap.cli.errors import complain
from phimap.cli.first_pass import Overview, coarse_columns, constant_columns, first_pass
from phimap.cli.held_out import score
from phimap.cli.noted import checkpoint_of, data_facts
from phimap.cli.options import FitOptions
from phimap.cli.output import write
from phimap.cli.outputs import Output, check_distinct, check_replaceable, check_writable, is_page, write_all, write_text
from phimap.cli.result import Result, facts, summarise
from phimap.cli.rows import SplitRows, open_selected, tell_of
from phimap.cli.standard_input import in_words, readable
from phimap.cli.task import choose_task
from phimap.config import config, memory_budget
from phimap.io import MixedTable, Rows
from phimap.io.checkpoint import Checkpoint
from phimap.io.model import is_model_file, save
from phimap.io.npy import ArrayTable
from phimap.kernels import CNTK, NNGP, NTK
from phimap.learn import KernelClassifier, KernelRegressor
from phimap.learn.registry import memory_in_passes
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.rows.batches import batch_rows, rows_within
from phimap.learn.search.kernel import OTHERS, STATIONARY
from phimap.learn.search.names import kernel_name
from phimap.learn.search.width import most_components
from phimap.learn.targets.extreme_targets import ExtremeTargetWarning
from phimap.tables import TableEncoder

# Kernels of networks, and the options that shape them.
_NETWORKS = {"ntk": (NTK, ("depth",)), "nngp": (NNGP, ("depth",)), "cntk": (CNTK, ("depth", "filter_size", "pooling"))}
# Share of the memory that is left for which held-out rows are kept.
_SHARE_KEPT = 4


def run(options: FitOptions) -> None:
    """Carry out the command."""
    options = replace(options, kernel=kernel_name(options.kernel, ("auto", *STATIONARY, *OTHERS), "--kernel"))
    _check(options)
    with (
        config(memory=options.memory, n_jobs=options.n_jobs),
        readable(options.data) as path,
        checkpoint_of(options) as checkpoint,
        # A fit that goes on has the memory that it had.
        config(memory=None if checkpoint is None else checkpoint.budget(options.memory)),
    ):
        seen = seen_by_workers(options, path)
        result = _fit(replace(options, data=in_words(options.data)), seen, checkpoint)
        timed = Stages()
        write_all(_outputs(result, timed))
    report_seconds = sum(stage.seconds for stage in timed.finished)
    if not options.quiet:
        summarise(result, report_seconds)
    write(facts(result, report_seconds), as_json=options.json)


def _outputs(result: Result, timed: Stages) -> Iterator[Output]:
    """The files asked for, the report being made once the model is safe."""
    options = result.options
    if options.model is not None:
        yield options.model, lambda path: save(result.model, path, statistics=options.statistics)
    if options.report is not None:
        from phimap.cli.reporting import page

        with timed.stage("report"), _spinner("report", quiet=options.quiet):
            text = page(result)
        yield options.report, lambda path: write_text(path, text)


def _check(options: FitOptions) -> None:
    """Refuse what can be refused before the data are read."""
    if not isinstance(options.features, str) and options.features < 2:
        raise ValueError(f"--features must be at least 2, got {options.features}. Use for example 4096.")
    _, shaping = _NETWORKS.get(options.kernel, (None, ()))
    for name in sorted({name for _, names in _NETWORKS.values() for name in names}):
        if getattr(options, name) is not None and name not in shaping:
            kernels = ", ".join(kernel for kernel, (_, names) in _NETWORKS.items() if name in names)
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} applies to {kernels}, got it with --kernel {options.kernel}. Leave it out.")
    if options.depth is not None and options.depth < 1:
        raise ValueError(f"--depth must be at least 1, got {options.depth}.")
    if not 0 <= options.holdout < 1:
        raise ValueError(f"--holdout must be at least 0 and below 1, got {options.holdout:g}. Use for example 0.1.")
    if options.every is not None and options.checkpoint is None:
        raise ValueError("--every applies with --checkpoint, got it alone. Name a folder, or leave it out.")
    if options.seed < 0:
        raise ValueError(f"--seed must not be negative, got {options.seed}. Use for example 0.")
    for option, value in (("--alpha", options.alpha), ("--length-scale", options.length_scale)):
        if not isinstance(value, str) and not (np.isfinite(value) and value > 0):
            raise ValueError(f"{option} must be a positive number or auto, got {value:g}.")
    check_scheduler(options)
    check_distinct(options.model, options.report)
    check_writable("--model", options.model, [options.data])
    check_writable("--report", options.report, [options.data])
    if not options.force:
        check_replaceable("--model", options.model, is_model_file, "phimap model")
        check_replaceable("--report", options.report, is_page, "HTML page")


def _fit(options: FitOptions, path: str, checkpoint: Checkpoint | None) -> Result:
    start = time.perf_counter()
    # The learner takes the solver that fits.
    most = most_components(memory_budget(options.memory)) if isinstance(options.features, str) else options.features
    kept = min(RidgeSolver.memory(None, most), memory_in_passes(most))
    rows = batch_rows(most, np.dtype(options.dtype).itemsize, options.memory, kept)
    # Beside what the solver holds and a batch there may be room for rows that need not be read again.
    room = (memory_budget() - kept - rows * most * np.dtype(options.dtype).itemsize) // _SHARE_KEPT
    table = open_selected(path, options)
    stages = Stages(verbose=not options.quiet)
    # The learner makes its first pass on the workers, where there are some.
    learner = None if options.scheduler is not None else _learner(options, "regression", options.standardize)
    with stages.stage("checking the data", table.n_rows, "rows") as advance:
        look = partial(first_pass, options.data, advance=advance, learner=learner, most_kept=room)
        try:
            overview = look(table, options, _rows_read(rows, table, options))
        except MixedTable:
            # The first block held numbers alone.
            table = open_selected(path, options, mixed=True)
            overview = look(table, options, _rows_read(rows, table, options))
    if checkpoint is not None:
        checkpoint.agree("data", data_facts(overview))
    rows = _rows_read(rows, table, options)
    if not options.quiet:
        tell_of(options.data, table)
        _tell_of_columns(options.data, overview.encoder)
    if overview.n_train < 2:
        raise ValueError(
            f"{options.data}: {overview.n_train} of {overview.n_rows} rows are left to train on, a fit needs at least "
            "2. Give more rows, or a smaller --holdout."
        )
    task, why = choose_task(options.task, options.data, overview)
    standardize = "global" if table.is_image and options.standardize == "auto" else options.standardize
    if standardize in ("auto", "columns") and overview.encoder is None:
        table, overview = _without_constant_columns(options, path, table, overview)
    if (
        options.dtype == "float32"
        and overview.encoder is None
        and (coarse := coarse_columns(overview.features, options.dtype)) is not None
    ):
        complain(f"{options.data}: {coarse}", "warning")
    if task == "regression" and overview.extreme is not None:
        complain(f"{options.data}: {overview.extreme}", "warning")
    model = _learner(options, task, standardize)
    rows_of = partial(SplitRows, table, options.holdout, options.seed, rows, encoder=overview.encoder)
    with warnings.catch_warnings():
        # The learner would tell of it again, by its place among the training rows.
        warnings.simplefilter("ignore", ExtremeTargetWarning)
        training = rows_of(held_out=False, n_rows=overview.n_train)
        seen = None if overview.look is None else overview.look.told(labels=task == "classification")
        if options.scheduler is not None:
            fit_on_workers(model, training, overview.n_train, options.scheduler)
        elif seen is not None:
            model._fit_seen(training, seen, checkpoint)
        else:
            model.fit_batches(training, encoder=overview.encoder, checkpoint=checkpoint)
    if overview.encoder is None and not table.is_image:
        model.feature_names_in_ = np.array(table.feature_names, dtype=np.str_)
    model.target_name_ = str(table.target_name)
    model.sample_shape_ = table.sample_shape
    model.resized_ = options.size
    model.input_dtype_ = options.dtype
    scores = None
    if overview.n_held_out:
        with stages.stage("held-out rows", overview.n_held_out, "rows") as advance:
            scores = score(model, task, rows_of(held_out=True, kept=overview.held_out), advance)
        if (unseen := scores.unseen()) is not None:
            complain(f"{options.data}: held out, {unseen}", "warning")
    # Timings belong to this run: without them a seed gives the same model file each time.
    finished = [stages.finished[0], *vars(model).pop("stages_"), *stages.finished[1:]]
    return Result(options, table, overview, task, why, model, scores, finished, time.perf_counter() - start)


def _rows_read(rows: int, table: Rows, options: FitOptions) -> int:
    """Rows of a batch: those of which features are formed, or fewer where the table is wide."""
    return rows_within(min(rows, table.batch_rows), table.row_bytes, options.memory)


def _without_constant_columns(options: FitOptions, path: str, table: Rows, overview: Overview) -> tuple[Rows, Overview]:
    """The table on the columns that vary, which is said; arrays, whose columns go by place, stay as they are."""
    constant = constant_columns(options.data, overview.features)
    if not constant or table.is_image or isinstance(table, ArrayTable):
        return table, overview
    if not options.quiet:
        complain(f"{options.data}: left out as columns: {some([*map(repr, constant)])} (constant).", "note")
    left = replace(options, drop=[*(options.drop or ()), *constant])
    # The rows that were kept have all columns.
    features = overview.features.without(constant)
    return open_selected(path, left), replace(overview, features=features, held_out=None, look=None)


def _tell_of_columns(data: str, encoder: TableEncoder | None) -> None:
    """Say which columns an encoder leaves out."""
    columns = encoder.summary_ if encoder is not None else ()
    left_out = [f"{column.name!r} ({column.note})" for column in columns if column.kind == "left out"]
    if left_out:
        complain(f"{data}: left out as columns: {some(left_out)}.", "note")


def _learner(options: FitOptions, task: str, standardize: str) -> Any:
    kind = KernelRegressor if task == "regression" else KernelClassifier
    kernel: Any = options.kernel
    if kernel in _NETWORKS:
        network, names = _NETWORKS[kernel]
        shape = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
        # A kernel that is named by text alone may get a metric, as in Python.
        kernel = network(**shape) if shape else kernel
    return kind(
        kernel,
        options.features,
        alpha=options.alpha,
        length_scale=options.length_scale,
        metric=None if options.metric == "none" else options.metric,
        effort=options.effort,
        corrections=None if options.corrections == "none" else options.corrections,
        standardize=False if standardize == "none" else standardize,
        # Passes keep no sums.
        solver="cholesky" if options.statistics else "auto",
        device=options.device,
        memory=options.memory,
        n_jobs=options.n_jobs,
        random_state=options.seed,
        verbose=not options.quiet,
    )


def _spinner(text: str, *, quiet: bool) -> Any:
    """A sign of life while something without a known length runs."""
    if quiet or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(text)
