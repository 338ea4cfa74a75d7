"""``phimap fit``: train on a table, score on held-out rows, write model and report."""

from __future__ import annotations

import os
import re
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from phimap._dask import on_cluster
from phimap._options import flag
from phimap._progress import Stages, Watched
from phimap.cli.checkpoint import checkpoint_of, data_facts
from phimap.cli.describe import some
from phimap.cli.errors import complain
from phimap.cli.first_pass import Overview, check_left, coarse_columns, first_pass, useless_columns
from phimap.cli.groups import RowGroups, RowWeights
from phimap.cli.held_out import score
from phimap.cli.options import FitOptions
from phimap.cli.output import write
from phimap.cli.outputs import (
    Output,
    check_distinct,
    check_replaceable,
    check_report,
    check_writable,
    write_all,
    write_text,
)
from phimap.cli.result import Result, facts, print_summary
from phimap.cli.rows import SplitRows, note_reading, open_selected, rows_read
from phimap.cli.standard_input import MARK, in_words, readable
from phimap.cli.task import choose_task
from phimap.cli.written_kernels import is_written, read_kernel
from phimap.config import config, stated_budget
from phimap.io import read_through
from phimap.io.checkpoint import Checkpoint
from phimap.io.model import is_model_file, save
from phimap.io.npy import ArrayTable
from phimap.kernels import CNTK, NNGP, NTK
from phimap.learn import KernelClassifier, KernelRegressor
from phimap.learn.registry import REGRESSION_LOSSES, memory_in_passes
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.rows.batches import batch_rows
from phimap.learn.rows.summary import ExtremeTargetWarning
from phimap.learn.search.kernel import OTHERS, STATIONARY, kernel_name
from phimap.learn.search.width import most_components
from phimap.learn.targets.kinds import deviance_power, quantile_levels
from phimap.tables.encoding import UnreadCellsWarning

# Kernels of networks by name, with the options that set the architecture of each.
_NETWORKS = {"ntk": (NTK, ("depth",)), "nngp": (NNGP, ("depth",)), "cntk": (CNTK, ("depth", "filter_size", "pooling"))}
# Options that select columns and state how they are read. `drop` is passed separately, because constant columns are
# added to it.
_SELECTED = ("target", "columns", "types", "strict", "dtype", "size", "channels")
# Held-out rows stay in memory if they take at most a quarter of the memory that the solver and the batches leave.
_SHARE_KEPT = 4
# Number of parts of a file. A worker reads the file from the beginning to the end of its part, so more parts mean that
# the file is read more often. Each part is a whole number of batches. Sums do not depend on the number of workers.
_PARTS = 8
# A warning is given if a large --holdout leaves fewer training rows than this.
_FEW_ROWS = 50


def run(options: FitOptions) -> None:
    """Run the command: fit, then write model and report, then print the result."""
    if is_written(options.kernel):
        read_kernel(options.kernel)
    else:
        options = replace(options, kernel=kernel_name(options.kernel, ("auto", *STATIONARY, *OTHERS), "--kernel"))
    _check(options)
    with (
        config(memory=options.memory, n_jobs=options.n_jobs),
        readable(options.data) as path,
        checkpoint_of(options) as checkpoint,
        # A resumed fit uses the memory budget with which the fit was started.
        config(memory=None if checkpoint is None else checkpoint.budget(options.memory)),
    ):
        result = fit_table(replace(options, data=in_words(options.data)), path, checkpoint)
        report_stages = Stages()
        write_all(_outputs(result, report_stages))
    report_seconds = sum(stage.seconds for stage in report_stages.finished)
    if not options.quiet:
        print_summary(result)
    write(facts(result, report_seconds), as_json=options.json)


def fit_table(options: FitOptions, path: str, checkpoint: Checkpoint | None) -> Result:
    """Read the table at `path`, choose the task, fit a learner, and score it on the held-out rows."""
    start, stages = time.perf_counter(), Stages(verbose=not options.quiet)
    most_rows, room = _batch_rows_and_room(options)
    # Workers may run in other folders, so the path must be absolute.
    path = os.path.abspath(path) if options.scheduler is not None else path
    selected = partial(open_selected, path, keeps_text=True, **{name: getattr(options, name) for name in _SELECTED})
    of_loss = _task_of_loss(options.loss)
    asked = of_loss or "auto" if options.task == "auto" else options.task
    # A learner that summarises rows before the task is known.
    probe = _learner(options, of_loss or "regression", options.standardize).set_params(scoring=None)

    # Open the table, and make the first pass. The rows are numbers, or columns for an encoder.
    split_by = options.groups, options.time, options.holdout, options.seed, options.target
    groups = RowGroups.read(path, options.data, *split_by)
    weights = RowWeights.read(path, options.data, options.weights, options.target)
    left_out = [*(options.drop or ()), *filter(None, (options.groups, options.time, options.weights))]
    table = selected(drop=left_out or None)
    with stages.stage("checking the data", table.n_rows, "rows") as advance:
        facts_of = partial(
            first_pass,
            options=options,
            task=asked,
            learner=probe,
            most_rows=most_rows,
            most_kept=room,
            advance=advance,
            groups=groups,
        )
        table, overview = read_through(table, facts_of)
    if not options.quiet:
        note_reading(options.data, table)
        _note_left_out(options.data, [f"{one.name!r} ({one.note})" for one in overview.left_out])
        _note_units(options.data, overview)
    check_left(options.data, overview.n_train, overview.n_rows)
    if overview.n_train < min(_FEW_ROWS, overview.n_held_out):
        left = f"{overview.n_train} of {overview.n_rows:,} rows are left to train on, since --holdout is"
        complain(f"{options.data}: only {left} {options.holdout:g}. Give a smaller one, such as 0.1.", "warning")

    # Summarise the training rows as numbers, and choose the task.
    rows = rows_read(table, most_rows, options.memory)
    split = table, options.holdout, options.seed, options.by_class, rows
    training = SplitRows(*split, False, overview.encoder, overview.n_train, groups=groups)
    if overview.encoder is not None:
        with stages.stage("scales", overview.n_train, "rows") as advance:
            overview = overview.with_summary(probe.new_summary(), Watched(training, advance))
    if checkpoint is not None:
        checkpoint.agree("data", data_facts(table, overview))
    task, why = choose_task(asked, options.data, overview, by_loss=options.task == "auto" and of_loss is not None)
    standardize = "global" if table.is_image and options.standardize == "auto" else options.standardize
    learner = _learner(options, task, standardize)
    if overview.encoder is None and standardize in ("auto", "columns"):
        useless = useless_columns(table, overview)
        # Columns of arrays are identified by position, so all columns are kept.
        if useless and not table.is_image and not isinstance(table, ArrayTable):
            if not options.quiet:
                _note_left_out(options.data, [f"{name!r} ({why})" for name, why in useless.items()])
            table = selected(drop=[*left_out, *useless])
            training = replace(training, table=table)
            summary = learner.new_summary(labels=task == "classification")
            overview = replace(overview.with_summary(summary, training), held_out=None)
    coarse = coarse_columns(table, overview.summary, options.dtype) if overview.encoder is None else None
    # Among the losses of numbers, only squared errors are dominated by one extreme target.
    extreme = overview.extreme if task == "regression" and options.loss in ("auto", "squared") else None
    for doubt in filter(None, (coarse, extreme, overview.copies)):
        complain(f"{options.data}: {doubt}", "warning")

    # Fit. The warning about an extreme target was already given, with the number of its row in the file.
    n_before = len(stages.finished)
    names = None if overview.encoder is not None or table.is_image else table.feature_names
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtremeTargetWarning)
        if options.scheduler is not None:
            _fit_on_workers(learner, training, overview.n_train, options.scheduler, names)
        else:
            # The first pass did not weigh the rows. Rows of weight 0 are left out, so the number of rows is not known.
            weighted = training if weights is None else replace(training, weights=weights, n_rows=None)
            learner.fit_batches(
                weighted,
                overview.encoder,
                checkpoint=checkpoint,
                summary=overview.summary if weights is None else None,
                feature_names=names,
                groups=overview.of_training,
            )
    learner.target_name_ = str(table.target_name)
    learner.sample_shape_ = table.sample_shape
    learner.resized_ = options.size
    learner.input_dtype_ = options.dtype

    # Score the held-out rows.
    held_out = replace(training, held_out=True, n_rows=None, kept=overview.held_out)
    scores = None
    if overview.n_held_out:
        with stages.stage("held-out rows", overview.n_held_out, "rows") as advance:
            # The overview counts every row once, whatever its weight.
            mean = None if weights is not None or overview.target is None else overview.target["mean"]
            with warnings.catch_warnings():
                # The first pass has told of such cells among the training rows, unless the user gives the kind.
                warnings.simplefilter("ignore", UnreadCellsWarning)
                scores = score(learner, task, held_out, advance, overview.summary.sample, mean)
        for doubt in filter(None, (scores.unseen(), scores.hardly_scored())):
            complain(f"{options.data}: held out, {doubt}", "warning")
    if (missing := _missing_score(options, overview)) is not None:
        complain(f"{options.data}: {missing}", "warning")
    # Timings are not part of the model, so that the same seed gives the same model file.
    finished = [*stages.finished[:n_before], *vars(learner).pop("stages_"), *stages.finished[n_before:]]
    return Result(options, table, overview, task, why, learner, scores, finished, time.perf_counter() - start)


def _missing_score(options: FitOptions, overview: Overview) -> str | None:
    """Return a message if a score of the held-out rows is missing although rows were to be held out; else None."""
    if not options.holdout or overview.n_held_out > (overview.target is not None):
        return None
    drawn = "no row was" if not overview.n_held_out else "one row was"
    lacks = "there is no score" if not overview.n_held_out else "R2 is not defined"
    return (
        f"{drawn} held out of {overview.n_rows}, so {lacks}. Give more rows, or a --holdout larger than "
        f"{options.holdout:g}."
    )


def _fit_on_workers(
    model: Any, split: SplitRows, n_rows: int, address: str, feature_names: Sequence[str] | None
) -> None:
    """Fit a learner on the `n_rows` training rows of `split`, in parts that workers read."""
    n_batches = -(-n_rows // split.batch_rows)
    each = -(-n_batches // _PARTS)
    parts = [(start, min(start + each, n_batches)) for start in range(0, n_batches, each)]
    first_rows = [start * split.batch_rows for start, _ in parts]
    with on_cluster(address):
        model.fit_parts(parts, first_rows, split.between, split.encoder, feature_names=feature_names)


def _outputs(result: Result, stages: Stages) -> Iterator[Output]:
    """Yield the files to write. The report is rendered only after the model has been written."""
    options = result.options
    # A model that is loaded later must not print progress.
    result.model.verbose = False
    if options.model is not None:
        yield options.model, lambda path: save(result.model, path, statistics=options.statistics)
    if options.report is not None:
        from phimap.cli.reporting import page

        with stages.stage("report"), _spinner(quiet=options.quiet):
            text = page(result)
        yield options.report, lambda path: write_text(path, text)


def _check(options: FitOptions) -> None:
    """Check the options that do not depend on the data."""
    if not isinstance(options.features, str) and options.features < 2:
        raise ValueError(f"--features must be at least 2, got {options.features}. Use for example 4096.")
    _, shaping = _NETWORKS.get(options.kernel, (None, ()))
    for name in sorted({name for _, names in _NETWORKS.values() for name in names}):
        if getattr(options, name) is not None and name not in shaping:
            kernels = ", ".join(kernel for kernel, (_, names) in _NETWORKS.items() if name in names)
            raise ValueError(f"{flag(name)} applies to {kernels}, got it with --kernel {options.kernel}. Leave it out.")
    for name, loss in (("quantile", "quantile"), ("power", "tweedie")):
        if getattr(options, name) is not None and options.loss != loss:
            raise ValueError(f"--{name} applies to --loss {loss}, got it with --loss {options.loss}. Leave it out.")
    if options.quantile is not None:
        quantile_levels(options.quantile)
    if options.power is not None:
        deviance_power(options.loss, options.power)
    if _task_of_loss(options.loss) not in (None, options.task) and options.task != "auto":
        raise ValueError(
            f"--loss {options.loss} is for {_task_of_loss(options.loss)}, got it with --task {options.task}. "
            "Leave one of them out."
        )
    if options.depth is not None and options.depth < 1:
        raise ValueError(f"--depth must be at least 1, got {options.depth}.")
    if not 0 <= options.holdout < 1:
        raise ValueError(f"--holdout must be at least 0 and below 1, got {options.holdout:g}. Use for example 0.1.")
    if options.every is not None and options.checkpoint is None:
        raise ValueError("--every applies with --checkpoint, got it alone. Name a folder, or leave it out.")
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", options.device):
        raise ValueError(f"--device must be auto, cpu or cuda, got {options.device!r}.")
    if options.seed < 0:
        raise ValueError(f"--seed must not be negative, got {options.seed}. Use for example 0.")
    for option, value in (("--alpha", options.alpha), ("--length-scale", options.length_scale)):
        if not isinstance(value, str) and not (np.isfinite(value) and value > 0):
            raise ValueError(f"{option} must be a positive number or auto, got {value:g}.")
    if options.scheduler is not None and options.checkpoint is not None:
        raise ValueError(
            "--checkpoint works without --scheduler, got both. Leave one out: workers that die are replaced."
        )
    if options.scheduler is not None and (options.groups or options.time):
        raise ValueError("--groups and --time work without --scheduler, got it. Leave --scheduler out.")
    if options.scheduler is not None and options.weights:
        raise ValueError("--weights works without --scheduler, got both. Leave --scheduler out.")
    if options.scheduler is not None and options.data == MARK:
        raise ValueError("--scheduler needs a file that the workers can read, got standard input. Store it first.")
    check_distinct(("--model", options.model), ("--report", options.report))
    check_writable("--model", options.model, [options.data])
    if not options.force:
        check_replaceable("--model", options.model, is_model_file, "phimap model")
    check_report(options.report, [options.data], force=options.force)


def _task_of_loss(loss: str) -> str | None:
    """The task that a loss is for; None if the loss suits both tasks."""
    if loss in ("auto", "squared"):
        return None
    return "regression" if loss in REGRESSION_LOSSES else "classification"


def _batch_rows_and_room(options: FitOptions) -> tuple[int, int]:
    """Return the number of rows whose features are formed at a time, and the bytes available to keep held-out rows."""
    # The learner chooses a solver that fits the budget, so the estimate assumes the solver that needs less memory.
    budget = stated_budget()
    most = most_components(budget) if isinstance(options.features, str) else options.features
    kept, itemsize = min(RidgeSolver.memory(None, most), memory_in_passes(most)), np.dtype(options.dtype).itemsize
    rows = batch_rows(most, itemsize, budget, kept)
    return rows, (budget - kept - rows * most * itemsize) // _SHARE_KEPT


def _note_units(data: str, overview: Overview) -> None:
    """Write a note that lists the columns of text whose numbers need more than a decimal point to be read."""
    summaries = () if overview.encoder is None else overview.encoder.summary_
    measured = [
        f"{one.name!r} ({one.note})" for one in summaries if re.search(" without |parentheses|commas", one.note)
    ]
    if measured:
        complain(f"{data}: taken for numbers: {some(measured)}.", "note")


def _note_left_out(data: str, columns: list[str]) -> None:
    """Write a note that lists the columns that are left out; `columns` states the reason for each."""
    if columns:
        complain(f"{data}: left out as columns: {some(columns)}.", "note")


def _learner(options: FitOptions, task: str, standardize: str) -> Any:
    kind = KernelRegressor if task == "regression" else KernelClassifier
    # Classifiers do not have the parameters of losses of numbers.
    shaping = {"quantile": options.quantile, "power": options.power} if task == "regression" else {}
    kernel: Any = options.kernel
    if kernel in _NETWORKS:
        network, names = _NETWORKS[kernel]
        shape = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
        # Without options for the architecture, the kernel stays a name, because a metric may be learned for named
        # kernels.
        kernel = network(**shape) if shape else kernel
    elif is_written(kernel):
        kernel = read_kernel(kernel)
    return kind(
        kernel,
        options.features,
        loss="squared" if options.loss == "auto" and task == "regression" else options.loss,
        **{name: value for name, value in shaping.items() if value is not None},
        alpha=options.alpha,
        length_scale=options.length_scale,
        metric=None if options.metric == "none" else options.metric,
        effort=options.effort,
        scoring=options.scoring,
        time_limit=options.time_limit,
        corrections=None if options.corrections == "none" else options.corrections,
        trees=None if options.trees == "none" else options.trees,
        validation="random" if options.time is None else "last",
        standardize=False if standardize == "none" else standardize,
        # The statistics are sums, which a solver that makes several passes does not keep.
        solver="cholesky" if options.statistics else "auto",
        device=options.device,
        memory=options.memory,
        n_jobs=options.n_jobs,
        random_state=options.seed,
        # The note on the choice of a solver is omitted, because few users are interested in it.
        verbose=2 if options.verbose else not options.quiet,
    )


def _spinner(*, quiet: bool) -> Any:
    """A progress indicator for the report, which takes an unknown time."""
    if quiet or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status("report")
