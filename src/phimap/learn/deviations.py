"""Standard deviations of predictions: the features as those of a Gaussian process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from phimap.config import memory_budget, size_text
from phimap.features.nystroem.nystroem import NystroemRecord
from phimap.features.power_series.dot_product import DotProductFeatures
from phimap.learn.ridge.local_noise import MOST_COLUMNS
from phimap.learn.ridge.predictive import Corrected, FunctionVariance, Noise, Points, Predictive
from phimap.learn.rows.kept_rows import WeightedRows
from phimap.learn.streamed import StreamedFit
from phimap.ops import Array, ops_for, single_threaded_blas

# Rows at a time, in float64: enough that the factor is read seldom, and few beside it.
_ROWS = 512
# Rows that are no landmarks, by which noise can be judged: their mean square is known to a seventh.
_LEAST_JUDGES = 100
# Arrays (rows, m) in float64 that are held meanwhile.
_ARRAYS = 4
# Why a model has no sums over its rows, by the form of its solution, or else.
_NO_SUMS = {
    "cg": "was solved by conjugate gradients, which factorise nothing. Use solver='cholesky', with more memory or "
    "fewer components",
    "quasi-newton": "minimises Huber's loss, which has none. Use loss='squared'",
}
_NOT_SAVED = "was saved without its statistics. Save it with save(model, path, statistics=True)"


class StandardDeviations(StreamedFit):
    """The half of a regressor that tells how sure its predictions are."""

    _predictive: Predictive

    def _standard_deviations(self, X: Any) -> np.ndarray:
        """Standard deviations (n, t) of targets, in float64."""
        X = self._rows_of(X)
        predictive = self._current_predictive()
        parts = [np.sqrt(predictive.variances(points)) for _, points in self._points(X)]
        found = np.concatenate(parts)
        return found if self.target_units_ is None else np.ldexp(found, self.target_units_.exponent)

    def _current_predictive(self) -> Predictive:
        """The factor and the noise, found when they are first needed and kept until more rows come."""
        if not hasattr(self, "_predictive"):
            solution = self._current_solution()
            if not hasattr(self, "solver_"):
                reason = _NO_SUMS.get(solution.form, _NOT_SAVED)
                raise ValueError(f"`return_std` needs the sums over the training rows, and this model {reason}.")
            self._check_memory()
            self._predictive = self._new_predictive()
        return self._predictive

    def _check_memory(self) -> None:
        m = self._width()
        needed, budget = self.solver_.leverages_memory(m) + 8 * _ARRAYS * _ROWS * m, memory_budget(self.memory)
        if needed > budget:
            raise MemoryError(
                f"`return_std` needs {size_text(needed)} for a factor of {m} features, over the budget of "
                f"{size_text(budget)}. Use fewer components, or raise `memory`."
            )

    def _new_predictive(self) -> Predictive:
        """The predictive variance, its noise from the errors that rows of the sample have where each is left out."""
        leverages = self.solver_.leverages(self._current_solution().alpha, self.n_jobs)
        sample = self._sample.rows(np.argsort(self._sample.keys, kind="stable"))
        function = FunctionVariance(leverages, self._spread(sample.X), self._streams()["variance"])
        parts = [self._left_out(function, sample, part, points) for part, points in self._points(sample.X)]
        errors, ratios, inputs, weights = (_joined(list(column)) for column in zip(*parts, strict=True))
        judges, corrected = self._judges(sample.X), None
        if self.corrections_ is not None:
            judges, errors[judges] = (known := self.corrections_.blind_errors(np.sort(self._sample.keys)))[0], known[1]
        errors, ratios = errors[judges], ratios[judges]
        inputs, weights = (None if column is None else column[judges] for column in (inputs, weights))
        if self.corrections_ is not None:
            targets = self._encode(sample.y[judges])
            corrected = Corrected.of_errors(errors, ratios, weights, targets)
            ratios = corrected.share * ratios
        return Predictive(function, Noise.of_errors(errors, ratios, inputs, weights), corrected)

    def _left_out(self, function: FunctionVariance, sample: WeightedRows, part: slice, points: Points):
        """Of a part of the sample: errors (r, t) where each row is left out, variances, inputs and weights."""
        y = sample.y[part]
        counted = self._row_weights(y, None if sample.weights is None else sample.weights[part])
        solution, units = self._current_solution(), self.target_units_
        solution = solution if units is None else units.apply_to(solution)
        with single_threaded_blas():
            errors = self._encode(y) - points.features @ solution.coef - solution.intercept
        ratios, free = function.leave_one_out(points, counted)
        return errors / free[:, None], ratios, points.inputs, counted

    def _judges(self, X: Array) -> np.ndarray | slice:
        """Those rows of the sample whose errors say how large the noise is.

        At landmarks the features leave nothing out, as they do at new rows, and so their errors say less.
        """
        record, ops = self.feature_map_.record_, ops_for(X)
        if not isinstance(record, NystroemRecord):
            return slice(None)
        landmarks = {row.tobytes() for row in record.landmarks.astype(np.float64)}
        rows = ops.to_host(ops.dense(self.scaling_.bind(ops).apply(ops, X))).astype(np.float64)
        judges = np.array([row.tobytes() not in landmarks for row in rows])
        return judges if judges.sum() >= _LEAST_JUDGES else slice(None)

    def _spread(self, X: Array) -> np.ndarray | None:
        """Root mean square of each feature (m,) where all features are draws for a stationary kernel; else None."""
        if self._leaves_out or not self._is_stationary:
            return None
        squares = sum(np.square(points.features).sum(axis=0) for _, points in self._points(X))
        return np.sqrt(squares / X.shape[0])

    @property
    def _is_stationary(self) -> bool:
        return self.kernel_.is_stationary

    @property
    def _leaves_out(self) -> bool:
        """Whether features leave out a part of the kernel: those of landmarks, and a series cut off."""
        is_series = isinstance(self.feature_map_, DotProductFeatures) and self._is_stationary
        return is_series or isinstance(self.feature_map_.record_, NystroemRecord)

    def _points(self, X: Array) -> Iterator[tuple[slice, Points]]:
        """What is known of the rows of `X`, a few of them at a time."""
        features, ops = self._features(), ops_for(X)
        scaling = self.scaling_.bind(ops)
        for start in range(0, X.shape[0], _ROWS):
            part = slice(start, min(start + _ROWS, X.shape[0]))
            Z = np.asarray(features(X[part]).to_host(), dtype=np.float64)
            rows: Any = ops.to_host(scaling.apply(ops, X[part]))
            missing = np.zeros(Z.shape[0])
            if self._leaves_out:
                missing = np.maximum(self.kernel_.diag(rows) - np.square(Z).sum(axis=1), 0)
            inputs = None
            if rows.shape[1] <= MOST_COLUMNS:
                inputs = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
            beyond = np.zeros(len(Z)) if self.corrections_ is None else self.corrections_.beyond(rows)
            yield part, Points(Z, inputs, missing, beyond)

    def __getstate__(self) -> Any:
        # The factor is as large as the statistics, and is made of them in seconds.
        return {name: value for name, value in super().__getstate__().items() if name != "_predictive"}  # pyright: ignore


def _joined(parts: list[Any]) -> Any:
    """Arrays below one another; None where they are."""
    return None if parts[0] is None else np.concatenate(parts)
