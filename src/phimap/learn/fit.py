"""A fit, from training rows to a fitted model."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from phimap._progress import Stage, Stages
from phimap._warnings import caller_level
from phimap.config import memory_budget
from phimap.learn.average import may_grow, n_judging, with_trees
from phimap.learn.blocks.blocks import FeatureRows, LazyFeatureBlock, WeightedBlock
from phimap.learn.calibration import Calibration, calibration_of, held_out_log_loss
from phimap.learn.choose_map import choose_map
from phimap.learn.correct import correct, may_correct
from phimap.learn.fitted import Fitted, TrainingState
from phimap.learn.inputs import InputEncoding
from phimap.learn.intervals import with_conformal
from phimap.learn.left_out import MOST_SCALE_ROWS, left_out_rows
from phimap.learn.monotone import signs_of, with_monotone_effects
from phimap.learn.registry import Chosen, choose
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.rows.accumulator import CountingAccumulator, RowSource, accumulate
from phimap.learn.rows.batches import ArrayBatches, Batch, RowShape, batch_rows, smallest_batch
from phimap.learn.rows.feature_stream import FeatureStream, Mapping
from phimap.learn.rows.grouped import warn_of_groups
from phimap.learn.rows.samples import ExtremeRows
from phimap.learn.rows.scaling import Scaling
from phimap.learn.rows.summary import RowSummary
from phimap.learn.rows.units import RowUnits, units_of
from phimap.learn.rows.validation import ValidationRows
from phimap.learn.scaled_map import ScaledMap
from phimap.learn.search.log import LEAST_GAIN
from phimap.learn.settings import Compute, FitSettings
from phimap.learn.solver import HeldOutScores, LinearSolution, Problem
from phimap.learn.targets.base import Targets
from phimap.ops import Array, ops_for

#: Training rows: an iterable of batches, iterated over once in each pass, or a source that makes passes itself.
TrainingRows = Iterable[Batch] | RowSource

# Features are kept between passes only if at least this share of them fits the memory. Keeping a smaller share saves
# little time.
_LEAST_KEPT = 1 / 8


class FitResult(NamedTuple):
    """A fitted model, its state for adding rows (None for solvers in passes), and the stages of the fit."""

    fitted: Fitted
    state: TrainingState | None
    stages: list[Stage]


def fit(
    rows: TrainingRows,
    inputs: InputEncoding,
    targets: Targets,
    settings: FitSettings,
    *,
    summary: RowSummary | None = None,
    groups: np.ndarray | None = None,
    prepared: Callable[[ScaledMap], None] = lambda mapped: None,
) -> FitResult:
    """Fit a model.

    Parameters
    ----------
    rows : TrainingRows
        Checked and encoded rows.
    inputs : InputEncoding
    targets : Targets
        Targets inferred from the first rows.
    settings : FitSettings
    summary : RowSummary, optional
        Summary of the rows; None computes it in a first pass. Not used with groups.
    groups : ndarray of shape (n,), optional
        Group of each row, see `KernelModel.fit`.
    prepared : callable, optional
        ``prepared(mapped)`` is called before the first pass over the features.

    Returns
    -------
    FitResult
    """
    stages, signs = Stages(settings.verbose), signs_of(settings.monotonic_cst, inputs)
    units = held_out_units(rows, groups, settings)
    if summary is None or units is not None:
        with stages.stage("scales", getattr(rows, "n_rows", None), "rows") as advance:
            summary = summarise(rows, settings, labels=targets.has_labels, units=units, advance=advance)
    if units is None and inputs.image_shape is None:
        owners = np.arange(inputs.width) if inputs.encoder is None else inputs.encoder.groups_
        warn_of_groups(summary.random_sample, owners, inputs.names)
    searches = settings.kernel.may_search() or settings.n_components == "auto"
    with stages.stage("search" if searches else "feature map"):
        targets = learn_targets(targets, summary, settings)
        scaling = standardisation(summary, inputs, settings, complete=True)
        mapped, search = choose_map(summary, scaling, inputs, targets, settings, complete=True)
    prepared(mapped)
    extreme = extreme_rows(summary, scaling)
    inputs = inputs.filled(summary.sample.X) if settings.fills_missing else inputs
    unsolved = Fitted(inputs, targets, mapped, settings.seed, summary.n_rows, search, has_units=units is not None)
    late: list[str] = []

    def tries(part: str, model: Fitted) -> bool:
        """Whether a part is to be tried. If the time limit has passed, the name of the part is added to `late`."""
        if not _PARTS[part](model, rows, summary.n_rows, settings):
            return False
        if is_late := settings.is_over:
            late.append(part)
        return not is_late

    def solved(loss: str) -> _Solved:
        """The solved model with this loss, with corrections and trees if they lower the validation error."""
        of_loss = replace(settings, loss=loss)
        shape = RowShape.of(summary.sample.X, targets.n_outputs)
        solver = choose_solver(of_loss, summary.n_rows, mapped.width, shape, n_flops=mapped.record.n_flops)
        stages.tell(f"solver: {solver.name}, {solver.reason}")
        problem = _problem(rows, summary, extreme, mapped, targets, of_loss, solver, stages)
        solution, sums = solver.member(problem)
        validation = problem.validation
        # The features that were kept between passes are dropped, because the next steps need the memory.
        del problem
        fitted = with_solution(unsolved, replace(_checked(solution), choice=solver.reason), loss)
        if sums is None:
            return _Solved(with_conformal(fitted, None, of_loss), None)
        state = TrainingState.start(summary, extreme, sums)
        if signs is not None:
            with stages.stage("monotone effects"):
                fitted = with_monotone_effects(fitted, state, signs, settings)
        learned, parts = None, []
        if sums.statistics is not None and tries("corrections", fitted):
            fitted, learned, before = correct(fitted, state, rows, validation, of_loss, stages)
            if before is not None:
                parts.append((before, fitted.calibration))
        grows = tries("trees", fitted)
        with stages.stage("intervals"):
            n_others = n_judging(validation) if grows else MOST_SCALE_ROWS
            left_out = left_out_rows(fitted, state, validation, learned, of_loss, n_others=n_others)
        if left_out is None:
            return _Solved(fitted, state, tuple(parts))
        if grows:
            before = left_out.part(~left_out.reserved)
            fitted, left_out = with_trees(fitted, left_out, rows, validation, of_loss, stages)
            if fitted.trees is not None:
                parts.append((before, fitted.calibration))
        return _Solved(with_conformal(fitted, left_out, of_loss), state, tuple(parts))

    loss, ratio = settings.first_loss, 1.0
    if settings.loss == "auto" and search is not None:
        loss, ratio = search.best_loss()
    # Corrections and trees need the squared loss. If another loss won without them, the squared loss with these parts
    # is fitted first, and the other loss only if it may still win.
    competes = loss != settings.first_loss and bool([part for part in _PARTS if tries(part, unsolved)])
    found = solved(settings.first_loss if competes else loss)
    of_parts = found.ratio_of_log_losses() if competes else 0.0
    if of_parts > _STRONG_PARTS and ratio < (1 - LEAST_GAIN) * of_parts:
        other = solved(loss)
        # Log losses do not tell which model a scorer prefers.
        found = other if settings.scoring is not None else _of_less_log_loss(found, other, loss)
    untried = tuple(part for part in _PARTS if part in late)
    return FitResult(replace(found.fitted, untried=untried), found.state, stages.finished)


# If corrections and trees lower the log loss below this share of it, no other loss is fitted. Both losses were fitted
# to nine tables, and on five of them the parts lowered it so much. There the held-out log loss of the other loss was
# 1.7 times as large on three tables. It was 6 % smaller on the fourth, but 1.5 times as large on new rows. On the
# fifth, both were nearly zero.
_STRONG_PARTS = 0.9
# Parts that may be added to the kernel model, each with a function that decides whether to try it.
_PARTS: dict[str, Callable[..., bool]] = {"corrections": may_correct, "trees": may_grow}


class _Solved(NamedTuple):
    """A fitted model, its state for adding rows, and what corrections and trees gained.

    The state is None after a solver in passes. For each of these parts that was added, `parts` has scores of the model
    without it, and the calibration of the model with it at the same rows.
    """

    fitted: Fitted
    state: TrainingState | None
    parts: tuple[tuple[HeldOutScores, Calibration | None], ...] = ()

    def ratio_of_log_losses(self) -> float:
        """Return the held-out log loss of a classifier over its log loss without corrections and trees."""
        ratios = (after.log_loss / Calibration.of(before).log_loss for before, after in self.parts if after is not None)
        return math.prod(ratios)


def start_state(
    rows: TrainingRows, inputs: InputEncoding, targets: Targets, settings: FitSettings, classes: Any
) -> FitResult:
    """Start a model from the first rows of an open-ended stream; these rows fix the scaling, the targets and the map.

    The state holds the sums over these rows; the solution is not computed yet. `classes` are labels that may occur
    in later rows, or None.
    """
    stages = Stages(settings.verbose)
    summary = summarise(rows, settings, labels=targets.has_labels, expected=classes)
    targets = learn_targets(targets, summary, settings)
    scaling = standardisation(summary, inputs, settings, complete=False)
    mapped, search = choose_map(summary, scaling, inputs, targets, settings, complete=False)
    sums = RidgeSolver.start(mapped.width, targets.n_outputs, None)
    state = TrainingState.start(summary, extreme_rows(summary, scaling), sums)
    with stages.stage("features and Gram matrix", summary.n_rows, "rows") as advance:
        state.accumulate(rows, mapping_of(mapped, targets, settings.compute), settings.n_jobs, advance)
    inputs = inputs.filled(summary.sample.X) if settings.fills_missing else inputs
    fitted = Fitted(inputs, targets, mapped, settings.seed, summary.n_rows, search)
    kernel = f"kernel ({type(mapped.kernel).__name__}), width ({mapped.width:,})"
    stages.tell(f"fixed by these first rows: {kernel}, scaling and map. Later rows change coefficients alone.", 1)
    return FitResult(fitted, state, stages.finished)


def add_rows(rows: ArrayBatches, fitted: Fitted, state: TrainingState, settings: FitSettings) -> None:
    """Add further rows to the state of a model, in place."""
    state.sample.update(rows.X, rows.y, rows.weights)
    if fitted.map.range is not None:
        fitted.map.range.update(rows.X)
    with Stages(settings.verbose).stage("features and Gram matrix", rows.n_rows, "rows") as advance:
        state.accumulate(rows, mapping_of(fitted.map, fitted.targets, settings.compute), settings.n_jobs, advance)


# The steps ------------------------------------------------------------------------------------------------------


def held_out_units(rows: TrainingRows, groups: np.ndarray | None, settings: FitSettings) -> RowUnits | None:
    """Return the units that are held out together; None if single rows are held out."""
    if groups is None and not settings.last:
        return None
    n_rows = getattr(rows, "n_rows", None) if groups is None else len(groups)
    if n_rows is None:
        if not isinstance(rows, Iterable):
            raise ValueError(
                "`validation` must be 'random' for rows on the workers of a cluster, got 'last'. Fit the rows in one "
                "process, or leave it out."
            )
        n_rows = sum(X.shape[0] for X, _, _ in rows)
    return units_of(groups, n_rows, _sample_seed(settings), last=settings.last)


def _sample_seed(settings: FitSettings) -> int:
    return int(settings.stream("sample").integers(2**63))


def new_summary(
    settings: FitSettings, *, labels: bool | None, first_row: int = 0, units: RowUnits | None = None
) -> RowSummary:
    """Return an empty summary for the rows of a fit; `labels` is None if targets may be labels or numbers."""
    seed, n_rows = _sample_seed(settings), settings.map_rows
    return RowSummary.start(first_row, seed=seed, labels=labels, map_rows=n_rows, budget=settings.memory, units=units)


def summarise(
    rows: TrainingRows,
    settings: FitSettings,
    *,
    labels: bool,
    expected: Any = None,
    units: RowUnits | None = None,
    advance: Callable[[int], None] = lambda n_rows: None,
) -> RowSummary:
    """Return the summary of all rows, after one pass; `expected` are labels that may occur in later rows."""
    # Workers receive the lambda, so it refers to plain values only.
    summary = accumulate(
        rows,
        lambda row: CountingAccumulator(new_summary(settings, labels=labels, first_row=row, units=units), advance),
    ).inner
    if units is not None and summary.n_rows != units.places.size:
        raise ValueError(
            f"`groups` must have an entry for each row of positive weight, got {units.places.size} for "
            f"{summary.n_rows} rows. Give one for every row, and leave out rows of weight 0."
        )
    summary.expect(expected)
    return summary


def learn_targets(targets: Targets, summary: RowSummary, settings: FitSettings) -> Targets:
    """Return the targets, completed from the summary of all training rows; raise if there are too few rows."""
    summary.require_rows()
    return targets.learned(summary, loss=settings.first_loss, class_weight=settings.class_weight)


def standardisation(summary: RowSummary, inputs: InputEncoding, settings: FitSettings, *, complete: bool) -> Scaling:
    """Return the standardisation of the columns. ``"auto"`` keeps the scale of encoded columns."""
    kind = settings.standardize
    return summary.moments.scaling(
        "mean" if kind == "auto" and inputs.encoder is not None else kind, complete=complete, columns=summary.columns
    )


def extreme_rows(summary: RowSummary, scaling: Scaling) -> ExtremeRows:
    """Return an empty record for the rows that lie farthest from the mean in the standardised columns."""
    sample = summary.sample
    return ExtremeRows(sample.seed, centre=summary.moments.mean, factor=scaling.factor, units=sample.units)


def choose_solver(
    settings: FitSettings, n_rows: int | None, width: int, shape: RowShape, *, n_flops: int | None = None
) -> Chosen:
    """Return the solver for `n_rows` rows of `width` features; `n_rows` is None if more rows may come."""
    kept = shape.kept(0 if n_rows is None else n_rows, settings.memory)
    memory = settings.memory - smallest_batch(width, shape.itemsize, shape) - kept
    chosen = settings.alpha == "auto"
    return choose(
        settings.first_loss, settings.solver, n_rows, width, memory, t=shape.n_targets, n_flops=n_flops, chosen=chosen
    )


def batch_height(settings: FitSettings, n_rows: int | None, n_given: int, width: int, shape: RowShape) -> int:
    """Return the number of rows of a batch.

    `n_given` rows are given now. The whole fit has `n_rows` rows; None if more rows may come.
    """
    held = choose_solver(settings, n_rows, width, shape).member.memory(n_rows, width, shape.n_targets)
    return batch_rows(width, shape.itemsize, settings.memory, held + shape.kept(n_given, settings.memory), shape)


def array_batches(rows: Batch, targets: Targets, settings: FitSettings, width: int, *, complete: bool) -> ArrayBatches:
    """Return batches of rows in memory for `width` features; `complete` means that no further rows will come."""
    X, y, _ = rows
    shape, n_rows = RowShape.of(X, targets.n_outputs_of(y)), X.shape[0]
    return ArrayBatches(*rows, batch_height(settings, n_rows if complete else None, n_rows, width, shape))


def mapping_of(mapped: ScaledMap, targets: Targets, compute: Compute) -> Mapping:
    """Return a function from rows, targets and weights to features, encoded targets and weights in the fit."""
    features = mapped.features(compute)
    return lambda X, y, weights: FeatureRows(features(X), targets.encode(y), targets.weights(y, weights))


def feature_rows_of(mapped: ScaledMap, targets: Targets, compute: Compute) -> Callable[..., FeatureRows]:
    """As `mapping_of`, but each call forms features in a new buffer, which no later call overwrites."""
    return lambda *rows: FeatureRows(*mapping_of(mapped, targets, compute)(*rows))


def with_solution(fitted: Fitted, solution: LinearSolution, loss: str) -> Fitted:
    """Return the model with a solution of the encoded targets and its calibration, without any other part."""
    solution = fitted.targets.restore(solution)
    calibration = calibration_of(fitted.targets, solution.held_out, loss)
    no_parts: dict[str, Any] = {"corrections": None, "trees": None, "conformal": None, "untried": ()}
    return replace(fitted, solution=solution, calibration=calibration, loss=loss, **no_parts)


def solve_state(fitted: Fitted, state: TrainingState, settings: FitSettings) -> Fitted:
    """Return the model with the solution for all rows in `state`."""
    stages = Stages(settings.verbose)
    with stages.stage("regularisation"):
        form = feature_rows_of(fitted.map, fitted.targets, settings.compute)
        by_class = fitted.targets.has_labels
        validation = ValidationRows(state.sample, state.extreme, state.sums.n_rows, form, by_class=by_class)
        solution = state.sums.finish(settings.alpha, validation, settings.stream("probes"), settings.n_jobs)
    fitted = with_solution(fitted, _checked(solution), settings.first_loss)
    if (signs := signs_of(settings.monotonic_cst, fitted.inputs)) is not None:
        fitted = with_monotone_effects(fitted, state, signs, settings)
    of_loss = replace(settings, loss=settings.first_loss)
    left_out = left_out_rows(fitted, state, validation, None, of_loss)
    return fitted if left_out is None else with_conformal(fitted, left_out, of_loss)


def _of_less_log_loss(squared: _Solved, other: _Solved, loss: str) -> _Solved:
    """Return one of two classifiers: the first has the squared loss, the other `loss`.

    If a held-out log loss is unknown, the first is returned if it has corrections or trees, because the search has
    compared the losses without them.
    """
    held_out, calibration = other.fitted.solved.held_out, squared.fitted.calibration
    if held_out is None or calibration is None:
        return squared if squared.parts else other
    return squared if held_out_log_loss(held_out, loss) > calibration.log_loss else other


def _problem(
    rows: TrainingRows,
    summary: RowSummary,
    extreme: ExtremeRows,
    mapped: ScaledMap,
    targets: Targets,
    settings: FitSettings,
    solver: Chosen,
    stages: Stages,
) -> Problem:
    """Return the problem of the chosen solver, with the memory and the features that it may keep."""
    n, m, t = summary.n_rows, mapped.width, targets.n_outputs
    dtype, shape = ops_for(summary.sample.X).dtype, RowShape.of(summary.sample.X, t)
    held = solver.member.memory(n, m, t)
    height = batch_rows(m, shape.itemsize, settings.memory, held, shape)
    block_bytes = height * (m * dtype.itemsize + shape.in_batch)
    settings.check_free_memory(held + block_bytes)
    spare = max(settings.memory - held - height * m * dtype.itemsize, 0) // 2
    kept = min(spare, memory_budget())
    repeats = solver.member.repeats_passes and kept >= _LEAST_KEPT * n * m * dtype.itemsize
    kept = kept if repeats else 0
    mapping = partial(_weighted_mapping, mapped, targets, settings.compute, solver.member.takes_signs)
    features = mapped.features(settings.compute)

    def lazy(X: Array, y: np.ndarray, weights: np.ndarray | None) -> FeatureRows:
        block = LazyFeatureBlock(X, features, m, height)
        return FeatureRows(block, targets.encode(y), targets.weights(y, weights))

    form = feature_rows_of(mapped, targets, settings.compute)
    validation = ValidationRows(summary.sample, extreme, n, form, lazy, summary.map_sample, targets.has_labels)
    return Problem(
        FeatureStream(rows, mapping, kept, extreme),
        n,
        m,
        t,
        float(np.finfo(dtype).eps),
        settings.alpha,
        validation,
        held + spare,
        settings.stream("solver"),
        settings.stream("probes"),
        settings.n_jobs,
        stages,
        scored=targets.has_labels and settings.loss != "logistic",
        loss_parameters=targets.loss_parameters,
    )


def _weighted_mapping(mapped: ScaledMap, targets: Targets, compute: Compute, signs: bool) -> Mapping:
    """As `mapping_of`, but weights are never None, and encoded targets are signs -1 and 1 if `signs` is true."""
    mapping = mapping_of(mapped, targets, compute)

    def weighted(X: Array, y: np.ndarray, weights: np.ndarray | None) -> WeightedBlock:
        block, encoded, counted = mapping(X, y, weights)
        encoded = np.where(encoded > 0, 1.0, -1.0) if signs else encoded
        return block, encoded, np.ones(len(encoded)) if counted is None else counted

    return weighted


def _checked(solution: LinearSolution) -> LinearSolution:
    """Return the solution. Raise if a number in it is not finite; warn if it did not converge."""
    if not (np.isfinite(solution.coef).all() and np.isfinite(solution.intercept).all()):
        raise ValueError("the solution is not finite: sums over the rows overflow. Scale X and y down.")
    if solution.status != "solved":
        warnings.warn(
            f"the solution was not reached in {solution.n_passes} passes over the rows: its residual is "
            f"{solution.residual:.1e} at alpha={solution.alpha:.3g}. Raise `alpha`, or accept it.",
            ConvergenceWarning,
            stacklevel=caller_level(),
        )
    return solution
