"""Standard deviations of predictions: the features as those of a Gaussian process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from phimap._validation import check_samples
from phimap.config import memory_budget
from phimap.features.nystroem.nystroem import NystroemRecord
from phimap.kernels import StationaryKernel
from phimap.learn.data.kept_rows import WeightedRows
from phimap.learn.ridge.predictive import FunctionVariance, Noise, Points, Predictive
from phimap.learn.streamed import StreamedFit
from phimap.ops import Array, ops_for, single_threaded_blas

# Rows at a time, in float64: enough that the factor is read seldom, and few beside it.
_ROWS = 512
# Arrays (rows, m) in float64 that are held meanwhile.
_ARRAYS = 4


class StandardDeviations(StreamedFit):
    """The half of a regressor that tells how sure its predictions are."""

    _predictive: Predictive

    def _standard_deviations(self, X: Any) -> np.ndarray:
        """Standard deviations (n, t) of targets, in float64."""
        X = check_samples(self, X, reset=False)
        predictive = self._current_predictive()
        parts = [np.sqrt(predictive.variances(points)) for _, points in self._points(X)]
        found = np.concatenate(parts)
        return found if self.target_units_ is None else np.ldexp(found, self.target_units_.exponent)

    def _current_predictive(self) -> Predictive:
        """The factor and the noise, found when they are first needed and kept until more rows come."""
        if not hasattr(self, "_predictive"):
            solution = self._current_solution()
            if not hasattr(self, "solver_"):
                reason = (
                    "was solved by conjugate gradients, which factorise nothing. Use solver='cholesky', with more "
                    "memory or fewer components"
                    if solution.form == "cg"
                    else "was saved without its statistics. Save it with save(model, path, statistics=True)"
                )
                raise ValueError(f"`return_std` needs the sums over the training rows, and this model {reason}.")
            self._check_memory()
            self._predictive = self._new_predictive()
        return self._predictive

    def _check_memory(self) -> None:
        m = self._width()
        needed, budget = self.solver_.leverages_memory(m) + 8 * _ARRAYS * _ROWS * m, memory_budget(self.memory)
        if needed > budget:
            raise MemoryError(
                f"`return_std` needs {needed / 2**30:.2f} GB for a factor of {m} features, over the budget of "
                f"{budget / 2**30:.2f} GB. Use fewer components, or raise `memory`."
            )

    def _new_predictive(self) -> Predictive:
        """The predictive variance, its noise from the errors that rows of the sample have where each is left out."""
        leverages = self.solver_.leverages(self._current_solution().alpha, self.n_jobs)
        sample = self._sample.rows(np.argsort(self._sample.keys, kind="stable"))
        function = FunctionVariance(leverages, self._spread(sample.X), self._streams()["variance"])
        parts = [self._left_out(function, sample, part, points) for part, points in self._points(sample.X)]
        errors, ratios, inputs, weights = (list(column) for column in zip(*parts, strict=True))
        return Predictive(function, Noise.of_errors(*map(_joined, (errors, ratios, inputs, weights))))

    def _left_out(self, function: FunctionVariance, sample: WeightedRows, part: slice, points: Points):
        """Of a part of the sample: errors (r, t) where each row is left out, variances, inputs and weights."""
        X, y, weights = (None if column is None else column[part] for column in sample)
        counted = self._row_weights(y, weights)
        solution, units = self._current_solution(), self.target_units_
        coef, intercept = solution.coef, solution.intercept
        if units is not None:
            coef, intercept = (np.ldexp(one, -units.exponent) for one in (coef, intercept - units.shift))
        with single_threaded_blas():
            errors = self._encode(y) - points.features @ coef - intercept
        ratios, free = function.left_out(points, counted)
        return errors / free[:, None], ratios, points.inputs, counted

    def _spread(self, X: Array) -> np.ndarray | None:
        """Root mean square of each feature (m,) where all features are draws for a stationary kernel; else None."""
        if self._is_projection or not all(isinstance(part, StationaryKernel) for _, part in self.kernel_.terms()):
            return None
        squares = sum(np.square(points.features).sum(axis=0) for _, points in self._points(X))
        return np.sqrt(squares / X.shape[0])

    @property
    def _is_projection(self) -> bool:
        """Whether features are those of landmarks, which leave out a part of the kernel."""
        return isinstance(self.feature_map_.record_, NystroemRecord)

    def _points(self, X: Array) -> Iterator[tuple[slice, Points]]:
        """What is known of the rows of `X`, a few of them at a time."""
        features, ops = self._features(), ops_for(X)
        scaling = self.scaling_.bind(ops)
        for start in range(0, X.shape[0], _ROWS):
            part = slice(start, min(start + _ROWS, X.shape[0]))
            Z = np.asarray(features(X[part]).to_host(), dtype=np.float64)
            rows = ops.to_host(scaling.apply(ops, X[part]))
            missing = np.zeros(Z.shape[0])
            if self._is_projection:
                missing = np.maximum(self.kernel_.diag(rows) - np.square(Z).sum(axis=1), 0)
            inputs = None if sparse.issparse(rows) else np.asarray(rows, dtype=np.float64)
            yield part, Points(Z, inputs, missing)

    def __getstate__(self) -> Any:
        # As large as the statistics, and made of them in seconds.
        return {name: value for name, value in super().__getstate__().items() if name != "_predictive"}  # pyright: ignore


def _joined(parts: list[Any]) -> Any:
    """Arrays below one another; None where they are."""
    return None if parts[0] is None else np.concatenate(parts)
