"""The average of a kernel model and boosted trees. Validation rows determine the share of the trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from phimap._progress import Stages
from phimap.config import thread_count
from phimap.learn.calibration import Calibration, calibration_of
from phimap.learn.criterion import Criterion
from phimap.learn.fitted import Fitted
from phimap.learn.left_out import MOST_SCALE_ROWS, LeftOut
from phimap.learn.rows.samples import Reservoir
from phimap.learn.rows.validation import ValidationRows
from phimap.learn.settings import FitSettings
from phimap.learn.solver import HeldOutScores
from phimap.learn.targets.base import Targets
from phimap.learn.trees.bins import most_bins
from phimap.learn.trees.growth import Boosting, TreeRows
from phimap.learn.weights import joined_weights, weighted_mean
from phimap.ops import ops_for, run_tasks


class _Rounds(NamedTuple):
    """Rounds of boosting, which are added in parts.

    The last part is the first that lowers the squared error by less than `_LEAST_GAIN` times the squared error without
    trees. `n_part` is the number of rounds of a part, `most` the largest number of rounds, and `n_leaves` the largest
    number of leaves of a tree from `_SMALL_ROWS` rows on.
    """

    n_part: int
    most: int
    n_leaves: int


# For one target, and for several. With several targets, a round lowers the loss along one direction only, so more
# rounds are needed, and a tree may need other splits for each target.
_ONE, _SEVERAL = _Rounds(50, 250, 31), _Rounds(100, 1000, 64)
#: Least number of rows for which trees are grown. With fewer rows, too few errors would determine the share of the
#: trees in the average.
LEAST_ROWS = 300
# Learning rate.
_RATE = 0.1
# The error of the average is measured after every `_STEP` rounds. The number of rounds with the least error is chosen.
_STEP = 10
# Bytes that one row takes for each column, from `_SMALL_ROWS` rows on and below, and for each target. From there on: 8
# in the joined rows, 1 in their codes, and 5 each in the training part and in all rows. Below: up to 8 in the rows left
# out, and 5 in up to three training parts of two thirds. Per target: two encodings, and targets, sums and derivatives
# of these parts and of all rows.
_COLUMN_BYTES, _SMALL_BYTES, _TARGET_BYTES = 19, 32, 144
# For labels, and with `scoring`, errors are compared at shares of the trees that are multiples of one by this number.
_N_SHARES = 20
#: Number of folds, and least number of rows for which a single part of the rows is left out instead.
FOLDS, FOLDED_ROWS = 3, 4000
# Below this number of rows, the single part consists of one row in `FOLDS`, but at most `_MOST_LEFT_OUT` rows, because
# the validation rows are too few. A model of so few rows has no corrections, so its leave-one-out errors are known at
# every row.
_SMALL_ROWS, _MOST_LEFT_OUT = 8000, 1600
# Largest number of leaves of a tree below `_SMALL_ROWS` rows. With few rows, smaller trees are about as good.
_FEW_LEAVES = 16
# Bytes that one bin takes: three sums in float64 for each leaf of the trees that grow at the same time, one a fold and
# one for all rows.
_BIN_BYTES = 24 * max((FOLDS + 1) * _FEW_LEAVES, 2 * _ONE.n_leaves, 2 * _SEVERAL.n_leaves)
#: If at most one row in this number is left out, the trees that were grown without these rows are kept. Trees of all
#: rows would take as long again.
FEW_LEFT_OUT = 8
# Trees are kept only if they lower the squared error by at least `_LEAST_GAIN` times the squared error without trees.
# This gain must also be at least `_LEAST_RATIO` times its standard error over rows or units.
_LEAST_GAIN, _LEAST_RATIO = 0.005, 1.0


def may_grow(fitted: Fitted, rows: Any, n_rows: int, settings: FitSettings) -> bool:
    """Whether trees are to be tried for a model with a squared loss, if the time limit has not passed.

    The user must request trees, and the kernel must be chosen automatically. The rows must be on this machine, dense,
    not images, numerous enough, and fit the byte budget.
    """
    inputs, n_outputs = fitted.inputs, fitted.targets.n_outputs
    return (
        settings.trees
        and settings.searches_kernel
        and isinstance(rows, Iterable)
        and not inputs.sparse
        and inputs.image_shape is None
        and n_rows >= LEAST_ROWS
        and trees_memory(n_rows, inputs.width, n_outputs) <= settings.memory // 4
    )


def trees_memory(n_rows: int, n_columns: int, n_outputs: int) -> int:
    """Return the bytes that the growth of trees takes for `n_rows` rows; `may_grow` allows a quarter of the budget."""
    of_column = _SMALL_BYTES if n_rows < _SMALL_ROWS else _COLUMN_BYTES
    return n_rows * (n_columns * of_column + n_outputs * _TARGET_BYTES) + n_columns * most_bins(n_columns) * _BIN_BYTES


def with_trees(
    fitted: Fitted, left_out: LeftOut, rows: Any, validation: ValidationRows, settings: FitSettings, stages: Stages
) -> tuple[Fitted, LeftOut]:
    r"""Return the average of the model and boosted trees if it lowers the validation error, else the model itself.

    Parameters
    ----------
    fitted : Fitted
        Solved model.
    left_out : LeftOut
        Errors of the kernel model in fits without the row: at the conformal rows, and at `n_judging` other rows.
    rows : iterable of (X, y, weights)
        All training rows.
    validation : ValidationRows
    settings : FitSettings
    stages : Stages

    Returns
    -------
    fitted : Fitted
    left_out : LeftOut
        Errors of the averaged model at the same rows; unchanged without trees.

    Notes
    -----
    The trees are grown on the unscaled columns. Let e be the errors of the kernel model, and g the errors of the trees,
    at rows that were left out of both. The share of the trees with the least squared error is :math:`\langle e, e - g
    \rangle / |e - g|^2`, clipped to the interval from 0 to 1. The number of rounds minimises the squared error. For
    labels, the share is then chosen again, by the log loss of calibrated probabilities; with `scoring`, by the error of
    the scorer.

    The rows left out are the validation rows; below 8,000 rows, a third of all rows, but at most 1,600; below 4,000
    rows, all rows except those reserved for intervals, in three folds. While the share is chosen, trees are grown
    without the reserved rows, too. The same number of rounds is then grown on all rows, unless at most one row in eight
    was left out.

    **Cost.** Twice the cost of the boosting, once if few rows are left out; with folds, three times.
    """
    n_jobs = settings.n_jobs
    with stages.stage("trees", most_rounds(fitted.targets.n_outputs), "rounds") as advance:
        X, every, keys = _gathered(fitted, rows, validation.sample)
        places = None if validation.units is None else validation.units.places_of(left_out.keys)
        reserved, by_key = left_out.reserved, np.argsort(keys, kind="stable")
        held = by_key[np.searchsorted(keys[by_key], left_out.keys)]
        X_held = X[held]
        n_leaves = _FEW_LEAVES if len(keys) < _SMALL_ROWS else _rounds_of(fitted.targets.n_outputs).n_leaves

        def boosting_of(rows: TreeRows) -> Boosting:
            return Boosting(rows, rate=_RATE, n_leaves=n_leaves, rng=settings.stream("trees"))

        folds = np.where(reserved, -1, _folds(every.rows(held), places) if _takes_folds(validation) else 0)
        parts = [
            (
                boosting_of(every.rows(np.setdiff1d(np.arange(len(keys)), held[(folds == fold) | reserved]))),
                folds == fold,
            )
            for fold in range(folds.max() + 1)
        ]
        criterion = Criterion.of(settings.scoring, fitted.targets)
        grows_again = len(parts) > 1 or len(held) * FEW_LEFT_OUT > len(keys)
        of_all = [boosting_of(every)] if grows_again else []
        # Several threads grow the trees of all rows at the same time. A single thread grows them once the number of
        # rounds is known, so that it grows no round too many.
        beside = of_all if thread_count(n_jobs) > 1 else []
        chosen = _chosen(parts, X_held, (left_out, places), fitted.targets, criterion, n_jobs, advance, beside)
        if chosen is None:
            return fitted, left_out
        n_rounds, share = chosen
        grown = [boosting.rounds(0, n_rounds) for boosting, _ in parts]
        by_fold = [trees.outputs(X_held, n_jobs) for trees in grown]
        # No boosting has seen the reserved rows, so they get the mean over the folds. The rows of a fold get the
        # outputs of the boosting that was grown without this fold.
        outputs = np.mean(by_fold, axis=0)
        for found, (_, own) in zip(by_fold, parts, strict=True):
            outputs[own] = found[own]
        errors = left_out.rows.targets - outputs
        trees = grown[0]
        if of_all:
            grown_on_all = of_all[0].first(n_rounds)
            seen = left_out.rows.targets - grown_on_all.outputs(X_held, n_jobs)
            # Trees normally have smaller errors at the rows on which they were grown. Larger errors mean that the
            # boosting on all rows has diverged.
            if np.square(seen[~reserved]).sum() <= np.square(errors[~reserved]).sum():
                trees = grown_on_all
    left_out = left_out._replace(errors=left_out.errors + share * (errors - left_out.errors))
    calibration = calibration_of(fitted.targets, left_out.part(~reserved), settings.loss)
    trees = replace(trees, share=share, keys=left_out.keys[~reserved], errors=left_out.errors[~reserved])
    return replace(fitted, trees=trees, calibration=calibration), left_out


def _takes_folds(validation: ValidationRows) -> bool:
    """Whether trees are validated in folds of the sample without the reserved rows; if not, on a single part.

    Whole units are left out in folds up to a larger number of rows. Folds are not used if the latest rows are held out.
    """
    if validation.units is None:
        return validation.n_rows < FOLDED_ROWS
    return not validation.units.in_time and validation.n_rows < _SMALL_ROWS


def n_judging(validation: ValidationRows) -> int:
    """Return the number of rows whose errors `with_trees` needs, not counting the conformal rows."""
    n_rows = validation.skipped_keys.size
    if _takes_folds(validation):
        n_rows = validation.sample.keys.size
    elif validation.units is None and validation.n_rows < _SMALL_ROWS:
        n_rows = min(validation.n_rows // FOLDS, _MOST_LEFT_OUT)
    return max(MOST_SCALE_ROWS, n_rows)


def _folds(rows: TreeRows, places: np.ndarray | None) -> np.ndarray:
    """Return the fold (r,) of each row, given the units `places` (r,) of the rows or None.

    No fold divides a unit. Without units, each fold contains the classes in proportion.
    """
    if places is not None:
        return np.unique(places, return_inverse=True)[1] % FOLDS
    labels = rows.labels if rows.has_labels else np.zeros(len(rows.Y))
    folds = np.empty(len(labels), np.intp)
    folds[np.argsort(labels, kind="stable")] = np.arange(len(labels)) % FOLDS
    return folds


def _rounds_of(n_outputs: int) -> _Rounds:
    return _ONE if n_outputs == 1 else _SEVERAL


def most_rounds(n_outputs: int) -> int:
    """Return the largest number of rounds for `n_outputs` targets."""
    return _rounds_of(n_outputs).most


def _gathered(fitted: Fitted, rows: Any, sample: Reservoir) -> tuple[np.ndarray, TreeRows, np.ndarray]:
    """Return the rows of all batches on the host (n, d), the same in bins with their targets, and their keys (n,)."""
    targets = fitted.targets
    parts, Y, weights = zip(
        *((ops_for(X).to_host(X), targets.encode(y), targets.weights(y, weights)) for X, y, weights in rows),
        strict=True,
    )
    joined, X = joined_weights(list(weights), [len(part) for part in parts]), np.concatenate(parts)
    in_bins = TreeRows.of(X, np.concatenate(Y), joined, has_labels=targets.has_labels)
    return X, in_bins, sample.keys_of(0, len(X))


def _chosen(
    parts: Sequence[tuple[Boosting, np.ndarray]],
    X: np.ndarray,
    judging: tuple[LeftOut, np.ndarray | None],
    targets: Targets,
    criterion: Criterion | None,
    n_jobs: int | None,
    advance: Callable[[int], None],
    beside: Sequence[Boosting] = (),
) -> tuple[int, float] | None:
    """Return the number of rounds and the share of the trees; None if trees lower the error too little.

    Parameters
    ----------
    parts : sequence of (Boosting, ndarray of bool, shape (r,))
        For each fold: the boosting without the rows of the fold, and the mask of these rows.
    X : ndarray of shape (r, d)
        The rows left out.
    judging : tuple of LeftOut and ndarray of int, shape (r,), or None
        Errors of the kernel model at these rows, and their units; None if each row is a unit.
    targets : Targets
    criterion : Criterion or None
        The error that the share of the trees minimises; None for the squared error, and for the log loss of labels.
    n_jobs : int or None
    advance : callable
    beside : sequence of Boosting
        Further boostings to which the same rounds are added.
    """
    left_out, places = judging
    if not all(boosting.knows_all_classes for boosting, _ in parts):
        return None
    chooses, sums = ~left_out.reserved, np.zeros((len(X), left_out.errors.shape[1]))
    some, errors = left_out.part(chooses), left_out.errors[chooses]
    counted = left_out.rows.weights_or_ones[chooses]
    least = without = counted @ np.square(errors).sum(axis=1)
    best, grown, (n_part, most, _) = None, [], _rounds_of(errors.shape[1])
    for first in range(0, most, n_part):
        before, boostings = least, [*(boosting for boosting, _ in parts), *beside]
        grown = run_tasks(lambda boosting, last=first + n_part: boosting.grow(last), boostings, n_jobs)[: len(parts)]
        for start in range(0, n_part, _STEP):
            for trees, (_, own) in zip(grown, parts, strict=True):
                sums[own] += trees.rounds(start, start + _STEP).sums(X[own], n_jobs)
            towards = some.predictions - grown[0].outputs_of(sums[chooses])
            share = _least_squares_share(errors, towards, counted)
            error = counted @ np.square(errors + share * towards).sum(axis=1)
            if error < least:
                best, least = (first + start + _STEP, share, towards), error
        advance(n_part)
        if before - least < _LEAST_GAIN * without:
            break
    if best is None:
        return None
    n_rounds, share, towards = best
    gains = -np.square(errors + share * towards).sum(axis=1) + np.square(errors).sum(axis=1)
    deviation = _standard_error(gains, counted, None if places is None else places[chooses])
    if weighted_mean(gains, counted) < max(_LEAST_GAIN * without / counted.sum(), _LEAST_RATIO * deviation):
        return None
    chooses_again = targets.has_labels or criterion is not None
    if chooses_again and not (share := _share_of_least_error(some, towards, share, criterion)):
        return None
    return n_rounds, share


def _standard_error(values: np.ndarray, weights: np.ndarray, places: np.ndarray | None) -> float:
    """Return the standard error of the weighted mean of `values` (r,); values of one unit may be correlated."""
    deviations = weights * (values - weighted_mean(values, weights))
    if places is not None:
        deviations = np.bincount(np.unique(places, return_inverse=True)[1], deviations)
    return float(np.linalg.norm(deviations) / weights.sum())


def _share_of_least_error(some: HeldOutScores, towards: np.ndarray, first: float, criterion: Criterion | None) -> float:
    """Return the share of the trees, from 0 to 1, with the least error by a criterion, on a grid of shares.

    `towards` (r, t) are the predictions of the kernel model minus the outputs of the trees at the rows `some`. Without
    a criterion, the error is the log loss of calibrated probabilities. It is smooth, so the search goes downhill from
    the share next to `first`.
    """

    @cache
    def error(place: int) -> float:
        if not 0 <= place <= _N_SHARES:
            return np.inf
        scores = replace(some, predictions=some.predictions - place / _N_SHARES * towards)
        return Calibration.of(scores).log_loss if criterion is None else criterion.error(scores)

    if criterion is not None:
        return min(range(_N_SHARES + 1), key=error) / _N_SHARES
    place = round(first * _N_SHARES)
    while (best := min(place, place - 1, place + 1, key=error)) != place:
        place = best
    return place / _N_SHARES


def _least_squares_share(errors: np.ndarray, towards: np.ndarray, weights: np.ndarray) -> float:
    """Return the s from 0 to 1 with the least weighted sum of squares of ``errors + s towards``, both (r, t)."""
    square = weights @ np.square(towards).sum(axis=1)
    return float(np.clip(-(weights @ (errors * towards).sum(axis=1)) / square, 0, 1)) if square else 0.0
