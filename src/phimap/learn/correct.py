"""Corrections of a fitted model: exact kernel models of its residuals, region by region."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from phimap._progress import Stages
from phimap.config import thread_count
from phimap.learn.blocks.blocks import FeatureRows
from phimap.learn.calibration import calibration_of
from phimap.learn.corrections.fit import corrections_memory, learn_corrections
from phimap.learn.corrections.residuals import Outputs, Residuals
from phimap.learn.fitted import Fitted, TrainingState
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.rows.batches import Batch
from phimap.learn.rows.validation import n_held_out
from phimap.learn.search.metric import inverse_root
from phimap.learn.settings import FitSettings
from phimap.learn.solver import HeldOutScores

# Least number of rows for corrections. With fewer rows, the residuals leave little to correct.
_LEAST_ROWS = 8000


def correct(fitted: Fitted, state: TrainingState, rows: Any, settings: FitSettings, stages: Stages) -> Fitted:
    """Return the model with corrections of its residuals if they lower the validation error, else the model itself.

    Parameters
    ----------
    fitted : Fitted
        Solved model.
    state : TrainingState
    rows : iterable of (X, y, weights), or RowSource
        All training rows. No corrections are tried for a `RowSource` that is not iterable (rows on other machines).
    settings : FitSettings
    stages : Stages
    """
    mapped, targets, n_jobs = fitted.map, fitted.targets, settings.n_jobs
    n_rows = state.sums.n_rows
    if not isinstance(rows, Iterable) or not _serve(fitted, state, settings):
        return fitted
    validation = state.sample.first(n_held_out(n_rows))
    keys = np.sort(state.sample.keys)[: len(validation.y)]
    Y, counted = targets.encode(validation.y), targets.weights(validation.y, validation.weights)
    with stages.stage("corrections", n_rows, "rows") as advance:
        solution = targets.in_units(fitted.solved)
        held_out = FeatureRows(mapped.features(settings.compute)(validation.X), Y, counted)
        without = state.sums.without(held_out, solution.alpha, n_jobs)
        if without is None:
            return fitted
        outputs = Outputs((solution, without), mapped.record, n_jobs)

        def errors_of(batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
            X, y, weights = batch
            scaled, encoded = mapped.on_host(X), targets.encode(y)
            outputs_of_all, outputs_without = outputs(scaled)
            advance(len(scaled))
            return scaled, encoded - outputs_of_all, encoded - outputs_without, targets.weights(y, weights)

        residuals = Residuals.of_batches(rows, errors_of, keys, state.sample.seed)
        # Regions are tried with and without the metric, because a metric may hide columns that separate neighbours.
        roots = [None] if (back := inverse_root(mapped.metric)) is None else [None, back]
        # Each thread holds the matrices of a region, so memory limits the number of threads.
        n_threads = max(1, min(thread_count(n_jobs), settings.compute.memory // corrections_memory(mapped.width, 1)))
        corrections = learn_corrections(mapped.kernel, residuals, roots, n_threads)
    if corrections is None:
        return fitted
    calibration = calibration_of(targets, HeldOutScores(Y - corrections.errors, Y, counted), settings.loss)
    return replace(fitted, corrections=corrections, calibration=calibration)


def _serve(fitted: Fitted, state: TrainingState, settings: FitSettings) -> bool:
    """Whether corrections are to be tried.

    They must be requested, the kernel must be a stationary one chosen automatically, and the state must have sums. The
    rows must be dense, not images, numerous enough, and fit the byte budget.
    """
    inputs, m, n_rows = fitted.inputs, fitted.map.width, state.sums.n_rows
    wanted = settings.corrections and settings.searches_kernel and fitted.map.kernel.is_stationary
    if (
        not wanted
        or time.monotonic() >= settings.deadline
        or state.sums.statistics is None
        or inputs.sparse
        or inputs.image_shape is not None
    ):
        return False
    # Only one thread is counted, so that the number of threads does not affect the choice.
    spare = settings.memory - RidgeSolver.memory(None, m) - corrections_memory(m, 1)
    n_bytes = n_rows * (inputs.width * 8 + fitted.targets.n_outputs * 48)
    return n_rows >= max(_LEAST_ROWS, 2 * m) and n_bytes <= min(spare, settings.memory // 4)
