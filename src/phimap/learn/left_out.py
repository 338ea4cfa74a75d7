"""Errors of a fitted ridge model at training rows.

Each row is predicted by a fit without this row, or without its unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phimap.learn.blocks.blocks import FeatureRows
from phimap.learn.blocks.centred_rows import times_root, without_root
from phimap.learn.corrections.fit import LearnedCorrections
from phimap.learn.corrections.left_out import LeftOutRows, corrected_errors
from phimap.learn.corrections.residuals import Outputs
from phimap.learn.fitted import Fitted, TrainingState
from phimap.learn.ridge.alpha_objectives import solve_positive
from phimap.learn.ridge.cholesky import NotPositiveDefiniteError
from phimap.learn.ridge.predictive import Leverages
from phimap.learn.rows.validation import LEAST_ROWS, ValidationRows
from phimap.learn.settings import FitSettings
from phimap.learn.solver import HeldOutScores, LinearSolution
from phimap.ops import single_threaded_blas

# Number of rows whose quadratic forms are computed at a time, from float64 copies of their features.
_ROWS = 512
# Least number of rows, not counting the conformal rows, to which a small byte budget reduces the rows left out.
_LEAST_OTHERS = 256
#: Largest number of rows from whose errors the scale of intervals is learned.
MOST_SCALE_ROWS = 768


class LeftOut(NamedTuple):
    """Training rows, and the errors of models that were fitted without them.

    Attributes
    ----------
    rows : FeatureRows
        Features and encoded targets.
    keys : ndarray of shape (r,)
        Ascending keys of the rows.
    errors : ndarray of shape (r, t)
        Errors in encoded targets.
    conformal : ndarray of bool, shape (r,)
        Whether a row took part in no choice of the fit.
    """

    rows: FeatureRows
    keys: np.ndarray
    errors: np.ndarray
    conformal: np.ndarray

    @property
    def reserved(self) -> np.ndarray:
        """Mask (r,) of the rows that serve the intervals alone; none below 1,000 rows, where all rows are conformal."""
        return self.conformal & ~self.conformal.all()

    def part(self, chosen: np.ndarray) -> HeldOutScores:
        """Return predictions, targets and weights of the rows `chosen`, a mask or indices."""
        targets = self.rows.targets[chosen]
        weights = None if self.rows.weights is None else self.rows.weights[chosen]
        return HeldOutScores(targets - self.errors[chosen], targets, weights)


def left_out_rows(
    fitted: Fitted,
    state: TrainingState,
    validation: ValidationRows,
    learned: LearnedCorrections | None,
    settings: FitSettings,
    *,
    n_others: int = MOST_SCALE_ROWS,
) -> LeftOut | None:
    """Return the errors of conformal rows and of other rows; None without conformal rows, and if memory is too small.

    The other rows are the validation rows. For a model without corrections, further random rows of the sample are
    added. With units, these are all whole units of the sample, and they are added only if `n_others` is large enough.
    If the stream has too few rows for conformal rows, all rows count as conformal.

    Parameters
    ----------
    fitted : Fitted
        Solved model.
    state : TrainingState
    validation : ValidationRows
    learned : LearnedCorrections or None
        The corrections of the model.
    settings : FitSettings
    n_others : int, default=768
        Largest number of rows that are not conformal, where single rows are left out. A small byte budget lowers it.

    Notes
    -----
    **Cost.** A factorisation, and ``m^2`` flops for each of at most 4,096 rows. With corrections also the cost of
    `corrected_errors`.
    """
    held_out, units = validation.held_out_keys, validation.units
    in_time = units is not None and units.in_time
    others, m = held_out.validation, fitted.map.width
    # The budget must hold the map, the sums and their factor, two parts of `_ROWS` rows in float64, and the features of
    # all rows left out.
    spare = settings.memory - fitted.map.record.n_bytes - 2 * state.sums.leverages_memory(m) - 16 * _ROWS * m
    n_others = min(n_others, max(spare // (8 * m) - held_out.conformal.size, _LEAST_OTHERS))
    if units is None or (not in_time and n_others >= validation.sample.keys.size):
        found = np.setdiff1d(validation.sample.keys, np.concatenate(held_out))
        if units is not None:
            # The sample may hold only some rows of its last unit, which is therefore left out.
            n_whole = np.searchsorted(np.cumsum(units.sizes), validation.sample.keys.size, "right")
            found = found[units.places_of(found) < n_whole]
        found = np.concatenate([others, [] if learned else found])
        others = found[:n_others]
    keys = np.concatenate([others, held_out.conformal])
    if not held_out.conformal.size:
        if in_time or validation.n_rows >= LEAST_ROWS:
            return None
        keys = validation.sample.keys
    rows, keys = validation.rows_with(keys)
    conformal = np.isin(keys, held_out.conformal) if held_out.conformal.size else np.ones(keys.size, bool)
    n_together = keys.size if units is not None else 0
    n_bytes = state.sums.leverages_memory(m) + 8 * (m + n_together) * keys.size
    if learned is not None:
        n_bytes += learned.inverses_bytes
    # If the memory was too small for the inverses of the corrections, no row may be left out.
    if n_bytes > settings.memory or (learned is not None and not learned.left_out.any()):
        return None
    if units is None:
        together = None
    else:
        places = np.zeros(keys.size, np.int64) if in_time else units.places_of(keys)
        together = [np.flatnonzero(places == place) for place in np.unique(places)]
    solution = fitted.targets.in_units(fitted.solved)
    try:
        leverages = state.sums.leverages(solution.alpha, settings.n_jobs)
    except NotPositiveDefiniteError:
        return None
    if learned is None:
        return LeftOut(rows, keys, left_out_errors(rows, solution, leverages, together), conformal)
    validates, known = learned.corrections.validation_errors(keys)
    errors = np.empty(rows.targets.shape)
    errors[validates] = known
    # Without units, only conformal rows are left out, see `correct`.
    chosen = np.flatnonzero(conformal) if together is None else np.arange(keys.size)
    some = _rows_at(rows, chosen)
    of_map = LeftOutRows(some, keys[chosen], left_out_errors(some, solution, leverages, together), together)
    outputs = Outputs(fitted.map.record, settings.n_jobs, learned.residuals.X.dtype)
    errors[chosen] = corrected_errors(learned, of_map, leverages, outputs)
    return LeftOut(rows, keys, errors, conformal)


def _rows_at(rows: FeatureRows, chosen: np.ndarray) -> FeatureRows:
    """Return the rows at the indices `chosen`."""
    weights = None if rows.weights is None else rows.weights[chosen]
    return FeatureRows(rows.block.rows(chosen), rows.targets[chosen], weights)


def left_out_errors(
    rows: FeatureRows, solution: LinearSolution, leverages: Leverages, units: Sequence[np.ndarray] | None = None
) -> np.ndarray:
    r"""Return the errors (r, t) at training rows of fits with the same alpha that leave out the row, or its unit.

    Parameters
    ----------
    rows : FeatureRows
        Training rows, with encoded targets.
    solution : LinearSolution
        Solution in the units of encoded targets, for all training rows.
    leverages : Leverages
    units : sequence of ndarray of int, optional
        Indices of rows that are left out together; by default each row is left out by itself.

    Notes
    -----
    Let A be the centred Gram matrix of all training rows, z_i the centred features of row i, s_i the root of its
    weight, and S the diagonal matrix of the roots of a unit. With :math:`H_{ij} = s_i s_j [z_i^T (A + \alpha I)^{-1}
    z_j + 1 / \sum w]` for rows i and j of the unit, and e the errors of the solution at these rows, the errors of a fit
    without the unit are :math:`S^{-1} (I - H)^{-1} S e`. **Error.** Rounding. **Cost.** ``m^2`` flops for each row, and
    ``|G|^3`` for a unit of |G| rows.
    """
    Z = rows.block.to_host()
    parts = [slice(first, first + _ROWS) for first in range(0, len(Z), _ROWS)]

    def centred(chosen: slice | np.ndarray) -> np.ndarray:
        # A float64 copy of all rows would double their memory, so the rows are processed in parts.
        return Z[chosen].astype(np.float64) - leverages.mean

    with single_threaded_blas():
        offset = leverages.mean @ solution.coef + solution.intercept
        outputs = np.concatenate([centred(part) @ solution.coef for part in parts]) + offset
        errors = times_root(rows.targets - outputs, rows.weights)
        left_out = np.empty_like(errors)
        roots = np.ones(len(Z)) if rows.weights is None else np.sqrt(rows.weights)
        if units is None:
            for part in parts:
                forms = leverages.quadratic_forms(centred(part)) + 1 / leverages.weight
                free = np.maximum(1 - np.square(roots[part]) * forms, np.finfo(np.float64).eps)
                left_out[part] = errors[part] / free[:, None]
        else:
            for unit in units:
                half = leverages.half_forms(centred(unit)) * roots[unit]
                free = np.eye(unit.size) - half.T @ half - np.outer(roots[unit], roots[unit]) / leverages.weight
                left_out[unit] = solve_positive(free, errors[unit])
    return without_root(left_out, rows.weights)
