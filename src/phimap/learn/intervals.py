"""The conformal scores of a fitted model, from errors of training rows that were not used in any choice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from phimap.learn.calibration import calibration_of
from phimap.learn.conformal import Conformal, ErrorScale, class_scores
from phimap.learn.fitted import Fitted
from phimap.learn.left_out import MOST_SCALE_ROWS, LeftOut
from phimap.learn.settings import FitSettings
from phimap.learn.solver import HeldOutScores

# Least number of rows from whose errors the scale is learned. Fewer errors do not show how the size of the errors
# varies.
_LEAST_SCALE_ROWS = 200


def with_conformal(fitted: Fitted, left_out: LeftOut | None, settings: FitSettings) -> Fitted:
    """Return the model with its conformal scores, or without them if no errors of left-out rows are available.

    Parameters
    ----------
    fitted : Fitted
        Solved model.
    left_out : LeftOut or None
        Errors of the model at rows left out. After a solver in passes it is None: the scores then come from the
        held-out rows that also chose alpha, and the scale is 1.
    settings : FitSettings

    Notes
    -----
    The final model is fitted to all rows, including the conformal rows. The error of a conformal row is its error in a
    fit without this row, with the same alpha. The error of a new row is of the same kind, but the model was fitted to
    one more row. With groups, the fit omits the whole group of the row. With ``validation="last"``, it omits all
    conformal and validation rows, which are the latest.
    """
    if left_out is None:
        held_out = fitted.solved.held_out
        return fitted if held_out is None else replace(fitted, conformal=_conformal(fitted, held_out, None, settings))
    if fitted.calibration is None:
        # If alpha was given and groups are left out, the solver returns no held-out scores, so these errors calibrate.
        others = ~left_out.conformal
        calibrates = others if others.any() else left_out.conformal
        calibration = calibration_of(fitted.targets, left_out.part(calibrates), settings.loss)
        fitted = replace(fitted, calibration=calibration)
    scale = None
    rows = np.flatnonzero(~left_out.conformal)[:MOST_SCALE_ROWS]
    if not fitted.targets.has_labels and rows.size >= _LEAST_SCALE_ROWS:
        weights = None if left_out.rows.weights is None else left_out.rows.weights[rows]
        Z = np.asarray(left_out.rows.block.rows(rows).to_host(), dtype=np.float64)
        scale = ErrorScale.of_errors(Z, left_out.errors[rows], weights)
    scores = _conformal(fitted, left_out.part(left_out.conformal), (left_out, scale), settings)
    return replace(fitted, conformal=scores)


def _conformal(
    fitted: Fitted, left_out: HeldOutScores, scaled: tuple[LeftOut, ErrorScale | None] | None, settings: FitSettings
) -> Conformal | None:
    """Return the distribution of the scores of left-out rows.

    `scaled` is a pair of the rows, with their features, and the scale of their errors. It is None after a solver in
    passes: the predictions are then in the units of the targets, and the scale is 1.
    """
    predictions, targets, weights = left_out.predictions, left_out.targets, left_out.weights
    if fitted.targets.has_labels:
        if (probabilities := fitted.probabilities_of(predictions, settings.loss)) is None:
            return None
        labels = (targets[:, 0] > 0).astype(np.intp) if targets.shape[1] == 1 else targets.argmax(axis=1)
        return Conformal.of_scores(class_scores(probabilities)[np.arange(len(labels)), labels][:, None], weights)
    centre, unit = fitted.targets.interval_centre(predictions)
    sizes, units = np.abs(fitted.targets.per_target(targets) - centre), fitted.targets.units
    sizes = sizes if unit is None else sizes / unit
    if scaled is None:
        return Conformal.of_scores(sizes, weights)
    found, scale = scaled
    if scale is None:
        return Conformal.of_scores(sizes if units is None else np.ldexp(sizes, units.exponent), weights)
    Z = np.asarray(found.rows.block.rows(np.flatnonzero(found.conformal)).to_host(), dtype=np.float64)
    return Conformal.of_scores(sizes / scale.of_outputs(Z @ scale.coef), weights, scale)
