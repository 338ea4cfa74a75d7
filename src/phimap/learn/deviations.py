"""Standard deviations of predictions.

They are computed as if the model were the posterior mean of a Gaussian process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from phimap._validation import check_outputs
from phimap.config import size_text
from phimap.features.nystroem.nystroem import NystroemRecord
from phimap.features.power_series.dot_product import DotProductFeatures
from phimap.learn.fitted import Fitted, TrainingState
from phimap.learn.ridge.predictive import MOST_COLUMNS, Corrected, FunctionVariance, Noise, Points, Predictive
from phimap.learn.rows.samples import WeightedRows
from phimap.learn.settings import Compute, FitSettings
from phimap.ops import Array, ops_for, single_threaded_blas

# Number of rows of a block. Each block reads the whole factor of the Gram matrix; with this many rows, that takes
# little of the time.
_ROWS = 512
# Least number of rows, landmarks excluded, from which the noise is estimated. With 100 rows, the relative standard
# error of the variance is 1/7.
_LEAST_VALIDATION_ROWS = 100
# Number of float64 arrays with the features of a block that exist at the same time.
_ARRAYS = 4
# Reasons, for an error message, why a model has no sums over its rows, by `LinearSolution.form`.
_NO_SUMS = {
    "cg": "was solved by conjugate gradients, which factorise nothing. Use solver='cholesky', with more memory or "
    "fewer components",
    "quasi-newton": "minimises another loss than the squared one, which has none. Use loss='squared'",
}
_NOT_SAVED = "was saved without its statistics. Save it with save(model, path, statistics=True)"


@dataclass(frozen=True)
class Deviations:
    """Standard deviations of new targets, from the factor of the Gram matrix and the estimated noise.

    Attributes
    ----------
    fitted : Fitted
    predictive : Predictive
    """

    fitted: Fitted
    predictive: Predictive

    @classmethod
    def of(cls, fitted: Fitted, state: TrainingState | None, settings: FitSettings) -> Deviations:
        """Factorise the Gram matrix, and estimate the noise from the leave-one-out errors of the sample."""
        if state is None:
            reason = _NO_SUMS.get(fitted.solved.form, _NOT_SAVED)
            raise ValueError(f"`return_std` needs the sums over the training rows, and this model {reason}.")
        m = fitted.map.width
        needed = state.sums.leverages_memory(m) + 8 * _ARRAYS * _ROWS * m
        if needed > settings.memory:
            raise MemoryError(
                f"`return_std` needs {size_text(needed)} for a factor of {m} features, over the budget of "
                f"{size_text(settings.memory)}. Use fewer components, or raise `memory`."
            )
        return cls(fitted, _predictive(fitted, state, settings))

    def at(self, X: Any, compute: Compute) -> np.ndarray:
        """Return float64 standard deviations (n, t) of targets; `X` are rows as users pass them."""
        rows, units = self.fitted.inputs.rows(X), self.fitted.targets.units
        parts = [np.sqrt(self.predictive.variances(points)) for _, points in _points(self.fitted, rows, compute)]
        found = np.concatenate(parts)
        return check_outputs("standard deviations", found if units is None else np.ldexp(found, units.exponent))


def _predictive(fitted: Fitted, state: TrainingState, settings: FitSettings) -> Predictive:
    """Return the predictive variances of a model, with the noise estimated from leave-one-out errors of the sample."""
    part, targets = fitted.corrections if fitted.trees is None else fitted.trees, fitted.targets
    leverages = state.sums.leverages(fitted.solved.alpha, settings.n_jobs)
    sample = state.sample.rows(np.argsort(state.sample.keys, kind="stable"))
    function = FunctionVariance(leverages, _spread(fitted, sample.X, settings.compute), settings.stream("variance"))
    parts = [
        _leave_one_out(fitted, function, sample, part, points)
        for part, points in _points(fitted, sample.X, settings.compute)
    ]
    errors, ratios, inputs, weights = (_joined(list(column)) for column in zip(*parts, strict=True))
    rows, corrected = _validation_rows(fitted, sample.X), None
    if part is not None:
        rows, validation_errors = part.validation_errors(np.sort(state.sample.keys))
        if not rows.any():
            raise ValueError(
                "`return_std` needs the rows at which corrections and trees were validated, and the sample of this "
                "model holds none of them. Fit it again."
            )
        errors[rows] = validation_errors
    errors, ratios = errors[rows], ratios[rows]
    inputs, weights = (None if column is None else column[rows] for column in (inputs, weights))
    if part is not None:
        corrected = Corrected.of_errors(errors, ratios, weights, targets.encode(sample.y[rows]))
        ratios = corrected.share * ratios
    return Predictive(function, Noise.of_errors(errors, ratios, inputs, weights), corrected)


def _leave_one_out(
    fitted: Fitted, function: FunctionVariance, sample: WeightedRows, part: slice, points: Points
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Return the leave-one-out errors (r, t) of the sample rows in `part`, and the rows' ratios, inputs and weights.

    The ratio (r,) is ``var f / sigma^2`` at a row in a fit without it, see `FunctionVariance`.
    """
    y, targets = sample.y[part], fitted.targets
    weights = targets.weights(y, None if sample.weights is None else sample.weights[part])
    solution = targets.in_units(fitted.solved)
    with single_threaded_blas():
        errors = targets.encode(y) - points.features @ solution.coef - solution.intercept
    ratios, free = function.leave_one_out(points, weights)
    return errors / free[:, None], ratios, points.inputs, weights


def _validation_rows(fitted: Fitted, X: Array) -> np.ndarray | slice:
    """Return a mask of the sample rows from which the noise is estimated.

    Landmarks are left out, because the features are exact there, unless too few rows would remain.
    """
    record = fitted.map.record
    if not isinstance(record, NystroemRecord):
        return slice(None)
    landmarks = {row.tobytes() for row in record.landmarks.astype(np.float64)}
    rows = fitted.map.on_host(X).astype(np.float64)
    others = np.array([row.tobytes() not in landmarks for row in rows])
    return others if others.sum() >= _LEAST_VALIDATION_ROWS else slice(None)


def _spread(fitted: Fitted, X: Array, compute: Compute) -> np.ndarray | None:
    """Return the root mean square (m,) of each feature if all are random draws for a stationary kernel, else None."""
    if _truncates(fitted) or not fitted.map.kernel.is_stationary:
        return None
    squares = sum(np.square(points.features).sum(axis=0) for _, points in _points(fitted, X, compute))
    return np.sqrt(squares / X.shape[0])


def _truncates(fitted: Fitted) -> bool:
    """Return whether the features omit a part of the kernel, as Nystroem features and truncated series do."""
    feature_map = fitted.map.feature_map
    is_series = isinstance(feature_map, DotProductFeatures) and fitted.map.kernel.is_stationary
    return is_series or isinstance(fitted.map.record, NystroemRecord)


def _points(fitted: Fitted, X: Array, compute: Compute) -> Iterator[tuple[slice, Points]]:
    """Yield slices of up to 512 rows of `X`, each with the `Points` of its rows."""
    features, corrections = fitted.map.features(compute), fitted.corrections
    ops, truncates = ops_for(X), _truncates(fitted)
    scaling = fitted.map.scaling.bind(ops)
    for start in range(0, X.shape[0], _ROWS):
        part = slice(start, min(start + _ROWS, X.shape[0]))
        Z = np.asarray(features(X[part]).to_host(), dtype=np.float64)
        rows: Any = ops.to_host(scaling.apply(ops, X[part]))
        missing = np.zeros(Z.shape[0])
        if truncates:
            missing = np.maximum(fitted.map.kernel.diag(rows) - np.square(Z).sum(axis=1), 0)
        inputs = None
        if rows.shape[1] <= MOST_COLUMNS:
            inputs = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
        out_of_range = np.zeros(len(Z)) if corrections is None else corrections.out_of_range(rows)
        yield part, Points(Z, inputs, missing, out_of_range)


def _joined(parts: list[Any]) -> Any:
    """Concatenate arrays; return None if the parts are None."""
    return None if parts[0] is None else np.concatenate(parts)
