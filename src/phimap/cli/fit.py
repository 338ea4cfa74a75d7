"""``phimap fit``: train on a table, score on held-out rows, write model and report."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from phimap._progress import Stage, Stages, peak_memory
from phimap.cli.describe import inputs_text, kernel_text
from phimap.cli.errors import complain
from phimap.cli.outputs import Output, check_distinct, check_writable, write_all, write_text
from phimap.cli.scoring import Scores
from phimap.cli.source import (
    Overview,
    SplitRows,
    check_constant_columns,
    choose_task,
    coarse_columns,
    open_selected,
    survey,
)
from phimap.config import config
from phimap.io import Table
from phimap.io.model import save
from phimap.kernels import CNTK, NNGP, NTK
from phimap.learn import KernelClassifier, KernelRegressor
from phimap.learn.data.batches import batch_rows
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.search.kernel import OTHERS, STATIONARY

# Kernels of networks, and the options that shape them.
_NETWORKS = {"ntk": (NTK, ("depth",)), "nngp": (NNGP, ("depth",)), "cntk": (CNTK, ("depth", "filter_size", "pooling"))}


@dataclass(frozen=True)
class Request:
    """The options of ``phimap fit``."""

    data: str
    target: str | None
    kernel: str
    features: int
    depth: int | None
    filter_size: int | None
    pooling: str | None
    length_scale: float | str
    alpha: float | str
    task: str
    holdout: float
    seed: int
    standardize: str
    columns: list[str] | None
    drop: list[str]
    size: tuple[int, int] | None
    channels: int | None
    model: Path | None
    report: Path | None
    memory: str | None
    n_jobs: int | None
    device: str
    dtype: str
    statistics: bool
    quiet: bool


@dataclass(frozen=True)
class Result:
    """A finished fit: what the report and the summary are made from."""

    request: Request
    table: Table
    overview: Overview
    task: str
    why: str
    model: Any
    scores: Scores | None
    stages: list[Stage]
    seconds: float


def run(request: Request) -> None:
    """Carry out the command."""
    _check(request)
    with config(memory=request.memory, n_jobs=request.n_jobs):
        result = _fit(request)
        timed = Stages()
        write_all(_outputs(result, timed))
    report_seconds = sum(stage.seconds for stage in timed.finished)
    if not request.quiet:
        _summarise(result, report_seconds)
    sys.stdout.writelines(f"{name} {value}\n" for name, value in _lines(result, report_seconds))


def _outputs(result: Result, timed: Stages) -> Iterator[Output]:
    """The files asked for, the report being made once the model is safe."""
    request = result.request
    if request.model is not None:
        yield request.model, lambda path: save(result.model, path, statistics=request.statistics)
    if request.report is not None:
        from phimap.cli.reporting import page

        with timed.stage("report"), _spinner("report", quiet=request.quiet):
            text = page(result)
        yield request.report, lambda path: write_text(path, text)


def _check(request: Request) -> None:
    """Refuse what can be refused before the data are read."""
    if request.kernel not in STATIONARY | OTHERS:
        names = ", ".join(sorted(STATIONARY | OTHERS))
        raise ValueError(f"--kernel must be one of {names}, got {request.kernel!r}.")
    if request.features < 2:
        raise ValueError(f"--features must be at least 2, got {request.features}. Use for example 4096.")
    _, shaping = _NETWORKS.get(request.kernel, (None, ()))
    for name in sorted({name for _, names in _NETWORKS.values() for name in names}):
        if getattr(request, name) is not None and name not in shaping:
            kernels = ", ".join(kernel for kernel, (_, names) in _NETWORKS.items() if name in names)
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} applies to {kernels}, got it with --kernel {request.kernel}. Leave it out.")
    if request.depth is not None and request.depth < 1:
        raise ValueError(f"--depth must be at least 1, got {request.depth}.")
    if not 0 <= request.holdout < 1:
        raise ValueError(f"--holdout must be at least 0 and below 1, got {request.holdout:g}. Use for example 0.1.")
    if request.seed < 0:
        raise ValueError(f"--seed must not be negative, got {request.seed}. Use for example 0.")
    for option, value in (("--alpha", request.alpha), ("--length-scale", request.length_scale)):
        if not isinstance(value, str) and not (np.isfinite(value) and value > 0):
            raise ValueError(f"{option} must be a positive number or auto, got {value:g}.")
    if not isinstance(request.length_scale, str) and request.kernel not in STATIONARY:
        names = ", ".join(sorted(STATIONARY))
        raise ValueError(f"--length-scale applies to {names}, got it with --kernel {request.kernel}. Leave it out.")
    check_distinct(request.model, request.report)
    check_writable("--model", request.model, [request.data])
    check_writable("--report", request.report, [request.data])


def _fit(request: Request) -> Result:
    start = time.perf_counter()
    kept = RidgeSolver.memory(request.features)
    rows = batch_rows(request.features, np.dtype(request.dtype).itemsize, request.memory, kept)
    images = {"size": request.size, "channels": request.channels}
    table = open_selected(request.data, request.target, request.columns, request.drop, dtype=request.dtype, **images)
    rows = min(rows, table.batch_rows)
    stages = Stages(verbose=not request.quiet)
    with stages.stage("checking the data"):
        overview = survey(request.data, table, request.holdout, request.seed, rows)
    if overview.n_train < 2:
        raise ValueError(
            f"{request.data}: {overview.n_train} of {overview.n_rows} rows are left to train on, a fit needs at least "
            "2. Give more rows, or a smaller --holdout."
        )
    task, why = choose_task(request.task, request.data, overview)
    standardize = ("global" if table.is_image else "columns") if request.standardize == "auto" else request.standardize
    if standardize == "columns":
        check_constant_columns(request.data, overview.features)
    if request.dtype == "float32" and (coarse := coarse_columns(overview.features, request.dtype)) is not None:
        complain(f"{request.data}: {coarse}", "warning")
    model = _learner(request, task, standardize)
    model.fit_batches(SplitRows(table, request.holdout, request.seed, rows, held_out=False))
    if not table.is_image:
        model.feature_names_in_ = np.array(table.feature_names, dtype=np.str_)
    model.target_name_ = str(table.target_name)
    model.sample_shape_ = table.sample_shape
    model.resized_ = request.size
    model.input_dtype_ = request.dtype
    scores = None
    if overview.n_held_out:
        scores = Scores(task, getattr(model, "classes_", None))
        with stages.stage("held-out rows", overview.n_held_out) as advance:
            for X, y in SplitRows(table, request.holdout, request.seed, rows, held_out=True):
                scores.update(y, predict_unnamed(model, X))
                advance(len(X))
        if (unseen := scores.unseen()) is not None:
            complain(f"{request.data}: held out, {unseen}", "warning")
    # Timings belong to this run: without them a seed gives the same model file each time.
    finished = [stages.finished[0], *vars(model).pop("stages_"), *stages.finished[1:]]
    return Result(request, table, overview, task, why, model, scores, finished, time.perf_counter() - start)


def predict_unnamed(model: Any, X: np.ndarray) -> np.ndarray:
    """Predictions (r,) for rows `X` (r, d) whose columns are known to be the model's."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names", category=UserWarning)
        return model.predict(X)


def _learner(request: Request, task: str, standardize: str) -> Any:
    kind = KernelRegressor if task == "regression" else KernelClassifier
    kernel: Any = request.kernel
    if kernel in _NETWORKS:
        network, names = _NETWORKS[kernel]
        kernel = network(**{name: getattr(request, name) for name in names if getattr(request, name) is not None})
    return kind(
        kernel,
        request.features,
        alpha=request.alpha,
        length_scale=request.length_scale,
        standardize=False if standardize == "none" else standardize,
        device=request.device,
        memory=request.memory,
        n_jobs=request.n_jobs,
        random_state=request.seed,
        verbose=not request.quiet,
    )


def _lines(result: Result, report_seconds: float) -> list[tuple[str, str]]:
    """The result as names and values, one a line."""
    lines = result.scores.lines() if result.scores else []
    lines += [
        ("task", result.task),
        ("rows_trained", str(result.overview.n_train)),
        ("rows_held_out", str(result.overview.n_held_out)),
        ("alpha", f"{result.model.alpha_:.4g}"),
    ]
    length_scale = getattr(result.model.kernel_, "length_scale", None)
    if length_scale is not None:
        lines.append(("length_scale", f"{float(length_scale):.4g}"))
    lines += [("seconds", f"{result.seconds:.2f}"), ("peak_memory_mb", f"{peak_memory() / 2**20:.0f}")]
    if result.request.model is not None:
        lines.append(("model", str(result.request.model)))
    if result.request.report is not None:
        lines += [("report", str(result.request.report)), ("report_seconds", f"{report_seconds:.2f}")]
    return lines


def _summarise(result: Result, report_seconds: float) -> None:
    """Show the result as a table, on standard error: standard output holds the plain lines."""
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid(box=None, show_header=False, padding=(0, 2, 0, 0))
    grid.add_column(style="dim")
    grid.add_column()
    overview = result.overview
    grid.add_row("data", f"{result.request.data}, {overview.n_rows:,} rows, {inputs_text(result.table)}")
    grid.add_row("task", f"{result.task} of {result.table.target_name} ({result.why})")
    grid.add_row("split", f"{overview.n_train:,} rows to train, {overview.n_held_out:,} held out")
    grid.add_row("kernel", kernel_text(result.model.kernel_))
    grid.add_row("map", f"{type(result.model.feature_map_).__name__}, {result.request.features:,} features")
    for stage in result.stages:
        grid.add_row(stage.name, f"{stage.seconds:.2f} s")
    if result.request.report is not None:
        grid.add_row("report", f"{report_seconds:.2f} s")
    Console(stderr=True, highlight=False).print(grid)


def _spinner(text: str, *, quiet: bool) -> Any:
    """A sign of life while something without a known length runs."""
    if quiet:
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(text)
