"""Corrections of a fitted model: exact kernel models of its residuals, region by region."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from phimap._progress import Stages
from phimap.learn.calibration import calibration_of
from phimap.learn.corrections.fit import (
    MOST_PARTITIONS,
    LearnedCorrections,
    corrections_memory,
    corrections_threads,
    learn_corrections,
    left_out_memory,
)
from phimap.learn.corrections.residuals import Outputs, Residuals
from phimap.learn.fitted import Fitted, TrainingState
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.rows.batches import Batch
from phimap.learn.rows.validation import ValidationRows
from phimap.learn.search.metric import inverse_root
from phimap.learn.settings import FitSettings
from phimap.learn.solver import HeldOutScores

# Least number of rows for corrections. With fewer rows, the residuals leave little to correct.
_LEAST_ROWS = 8000


def correct(
    fitted: Fitted, state: TrainingState, rows: Any, validation: ValidationRows, settings: FitSettings, stages: Stages
) -> tuple[Fitted, LearnedCorrections | None, HeldOutScores | None]:
    """Return the model with corrections of its residuals if they lower the validation error, else the model itself.

    The second result contains the corrections, the third the scores at the validation rows of the model without
    corrections, fitted without these rows. Both are None without corrections. If units are held out, the validation
    rows are whole units, so no unit has both training rows and validation rows.

    Parameters
    ----------
    fitted : Fitted
        Solved model.
    state : TrainingState
    rows : iterable of (X, y, weights)
        All training rows.
    validation : ValidationRows
    settings : FitSettings
    stages : Stages
    """
    mapped, targets, n_jobs = fitted.map, fitted.targets, settings.n_jobs
    n_rows = state.sums.n_rows
    keys, conformal = validation.held_out_keys
    with stages.stage("corrections", n_rows, "rows") as advance:
        solution = targets.in_units(fitted.solved)
        held_out, _ = validation.rows_with(keys)
        without = state.sums.without(held_out, solution.alpha, n_jobs)
        if without is None:
            return fitted, None, None
        outputs = Outputs(mapped.record, n_jobs)

        def errors_of(batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
            X, y, weights = batch
            scaled, encoded = mapped.on_host(X), targets.encode(y)
            outputs_of_all, outputs_without = outputs.of_solutions(scaled, (solution, without))
            advance(len(scaled))
            return scaled, encoded - outputs_of_all, encoded - outputs_without, targets.weights(y, weights)

        residuals = Residuals.of_batches(rows, errors_of, keys, state.sample)
        # Regions are tried with and without the metric, because a metric may give little weight to columns that
        # separate neighbouring rows.
        roots = [None] if (back := inverse_root(mapped.metric)) is None else [None, back]
        n_threads = corrections_threads(mapped.width, n_jobs)
        # Without units, the errors at validation rows are known from the choice of the corrections.
        left_out = conformal if validation.units is None else np.concatenate([keys, conformal])
        # With too little memory for their inverses, no row is left out, and the model has no intervals.
        if left_out_memory(left_out.size) > settings.memory // 4:
            left_out = None
        rng = settings.stream("corrections")
        learned = learn_corrections(mapped.kernel, residuals, roots, n_threads, left_out=left_out, rng=rng)
    if learned is None:
        return fitted, None, None
    corrections = learned.corrections
    Y, counted = held_out.targets, held_out.weights
    calibration = calibration_of(targets, HeldOutScores(Y - corrections.errors, Y, counted), settings.loss)
    before = HeldOutScores(held_out.block.times(without.coef, n_jobs) + without.intercept, Y, counted)
    return replace(fitted, corrections=corrections, calibration=calibration), learned, before


def may_correct(fitted: Fitted, rows: Any, n_rows: int, settings: FitSettings) -> bool:
    """Whether corrections are to be tried for a model with a squared loss, if the time limit has not passed.

    The user must request corrections, and the kernel must be stationary and chosen automatically. The rows must be on
    this machine, dense, not images, numerous enough, and fit the byte budget.
    """
    inputs, targets = fitted.inputs, fitted.targets
    wanted = settings.corrections and settings.searches_kernel and fitted.map.kernel.is_stationary
    if not wanted or not isinstance(rows, Iterable) or inputs.sparse or inputs.image_shape is not None:
        return False
    return suffice_for_corrections(n_rows, inputs.width, targets.n_outputs, fitted.map.width, settings.memory)


def suffice_for_corrections(n_rows: int, n_columns: int, n_outputs: int, n_components: int, memory: int) -> bool:
    """Whether the rows are numerous enough for corrections, and fit a quarter of the byte budget `memory`."""
    # Only one thread is counted, so that the number of threads does not affect the choice.
    spare = memory - RidgeSolver.memory(None, n_components) - corrections_memory(n_components)
    n_bytes = n_rows * (n_columns * 8 + n_outputs * 8 * (5 + MOST_PARTITIONS))
    return n_rows >= max(_LEAST_ROWS, 2 * n_components) and n_bytes <= min(spare, memory // 4)
