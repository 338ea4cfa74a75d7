"""Outputs and coefficients of a fitted linear model on the features of a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from phimap._dask import by_blocks, typical_rows
from phimap.kernels import Kernel
from phimap.learn.blocks.batch_features import BatchFeatures
from phimap.learn.corrections.corrections import Corrections
from phimap.learn.extrapolation import ExtrapolationGuard
from phimap.learn.frames import FrameRows
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.rows.batches import RowShape, batch_rows
from phimap.learn.rows.column_range import ColumnRange
from phimap.learn.rows.scaling import Scaling
from phimap.learn.solver import LinearSolution
from phimap.learn.targets.target_units import TargetUnits
from phimap.ops import Array, ops_for
from phimap.random_map import RandomMap


class LinearOutputs(FrameRows, ABC):
    """The fitted half of a learner: what its coefficients are, and what they give on new rows."""

    scaling_: Scaling
    metric_: np.ndarray
    feature_map_: RandomMap
    device: str
    n_jobs: int | None
    #: Units in which the solver saw the targets; None where it saw them as they are.
    target_units_: TargetUnits | None = None
    #: What is added to the outputs region by region; None where nothing is.
    corrections_: Corrections | None = None
    #: Of the training rows; None in files of earlier versions.
    _range: ColumnRange | None = None

    def requirements(self) -> Iterator[tuple[bool, str]]:
        """What must be true of a model from a file: see `Record.requirements`."""
        record, scaling = self.feature_map_.record_, self.scaling_
        yield isinstance(getattr(self.feature_map_, "kernel_", None), Kernel), "the kernel of its feature map"
        yield scaling.shift.size == self._row_width, "a scaling of its rows"
        width = scaling.shift.size if scaling.root is None else scaling.root.shape[1]
        yield record.n_features == width, "a feature map of the scaled rows"
        shape = getattr(self, "image_shape_", None)
        yield shape is None or prod(shape) == self.n_features_in_, "images of its rows"
        low = None if self._range is None else self._range.low
        yield low is None or low.size == self._row_width, "ranges of its columns"
        solution: LinearSolution | None = vars(self).get("solution_")
        if solution is not None:
            yield solution.coef.shape[0] == record.n_components, "a coefficient for each feature"
            n_outputs = solution.coef.shape[1]
            units, corrections = self.target_units_, self.corrections_
            yield units is None or units.shift.size in (1, n_outputs), "units for its targets"
            yield corrections is None or corrections.coefs.shape[1] == n_outputs, "corrections of its targets"
            yield self._serves(n_outputs), "an output for each target or class"
        solver: RidgeSolver | None = vars(self).get("solver_")
        yield solver is None or solver.serves(record.n_components), "sums over its features"

    @abstractmethod
    def _current_solution(self) -> LinearSolution:
        """The solution for all rows seen so far."""

    def _serves(self, n_outputs: int) -> bool:
        """Whether so many outputs of the linear model are those of the targets."""
        return n_outputs > 0

    @abstractmethod
    def _decode(self, scores: np.ndarray) -> np.ndarray:
        """Outputs (n, t) of the linear model as targets."""

    @by_blocks
    def predict(self, X: Any) -> np.ndarray:
        """Predict targets.

        Parameters
        ----------
        X : array-like, data frame, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        ndarray, or Dask array where `X` is one, of shape (n_samples,) or, for regression, (n_samples, n_targets)
            Labels of the kind that `fit` saw, or numbers: float32 for float32 input, else float64. Targets that
            float32 does not hold to three digits of their range, such as times in seconds, are predicted in float64.

        Raises
        ------
        ValueError
            If `X` has another width than in `fit`, is empty or is not finite.

        Warns
        -----
        OutsideWarning
            If rows lie far outside of the training rows, once for all of them, with their share.

        Notes
        -----
        Outputs of a stationary kernel go back towards the mean of the training rows at such rows, as those of the exact
        kernel do, where random features would oscillate. Let x' be the nearest row within the ranges of the columns in
        training, widened: the output's distance from the mean is multiplied by ``min(1, 2 k(x, x') / k(x, x))``. Other
        kernels grow with x. CSR rows are not looked at.
        """
        return self._decode(self._scores(X))

    def _typical_rows(self, X: Any) -> Any:
        """Rows of the kind of a Dask collection, or of what an encoder makes of it."""
        return typical_rows(X) if self.encoder_ is None else np.zeros((1, self._row_width), np.float32)

    def _scaled(self, rows: Array) -> Array:
        ops = ops_for(rows)
        return self.scaling_.bind(ops).apply(ops, rows)

    def _scaled_on_host(self, rows: Array) -> np.ndarray:
        """Scaled rows (r, d), dense."""
        ops = ops_for(rows)
        return ops.to_host(ops.dense(self._scaled(rows)))

    def _features(self) -> BatchFeatures:
        return BatchFeatures(self.scaling_, self.feature_map_.record_, self.device, self.n_jobs)

    def _scores(self, X: Any) -> np.ndarray:
        """Outputs (n, t) of the linear model, batch by batch."""
        check_is_fitted(self, "feature_map_")
        X = self._rows_of(X)
        solution = self._current_solution()
        shape = RowShape.of(X, solution.coef.shape[1])
        rows = batch_rows(self.feature_map_.record_.n_components, X.dtype.itemsize, None, 0, shape)
        features, outside = self._features(), ExtrapolationGuard(self._range, self.kernel_, self._scaled_on_host)
        dtype, units = ops_for(X).dtype, self.target_units_
        scores = np.empty((X.shape[0], solution.coef.shape[1]), dtype if units is None else np.float64)
        # Within the range of float32, whatever the targets are.
        coef = (solution.coef if units is None else np.ldexp(solution.coef, -units.exponent)).astype(dtype)
        for start in range(0, X.shape[0], rows):
            part = slice(start, start + rows)
            scores[part] = features(X[part]).times(coef, self.n_jobs)
            if self.corrections_ is not None:
                scores[part] += self.corrections_.outputs(self._scaled_on_host(X[part]), self.n_jobs)
            outside.look(X[part], start)
        if units is not None:
            scores = np.ldexp(scores, units.exponent)
        scores += solution.intercept.astype(scores.dtype)
        if solution.centre is not None:
            outside.draw_back(scores, solution.centre.astype(scores.dtype))
        outside.tell(self._column_names(), len(scores))
        if not np.isfinite(scores).all():
            raise ValueError(
                f"predictions overflow {scores.dtype}: coefficients or targets were too large. Scale y down."
            )
        return scores

    def _column_names(self) -> np.ndarray:
        """Names of the columns that the kernel sees, their numbers where they have none."""
        if self.encoder_ is not None:
            return self.encoder_.get_feature_names_out()
        return getattr(self, "feature_names_in_", np.arange(self._row_width))

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel that the features estimate."""
        check_is_fitted(self, "feature_map_")
        return self.feature_map_.kernel_

    @property
    def relevances_(self) -> np.ndarray:
        """Shares (n_features,) of the columns in the metric, which sum to 1; one has that of all its numbers."""
        check_is_fitted(self, "feature_map_")
        diagonal = self.metric_ if self.metric_.ndim == 1 else np.diag(self.metric_)
        if self.encoder_ is not None:
            counted = diagonal * self.encoder_.variances_
            diagonal = np.bincount(self.encoder_.groups_, counted, minlength=self.n_features_in_)
        return diagonal / diagonal.sum()

    @property
    def alpha_(self) -> float:
        """The regularisation: as given, or as chosen; `solution_.criterion` says by what."""
        return self._fitted().alpha

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients (m,), or (t, m) for several targets."""
        coef = self._fitted().coef
        return coef[:, 0] if coef.shape[1] == 1 else coef.T

    @property
    def intercept_(self) -> Any:
        """Intercept, a float or (t,) for several targets."""
        intercept = self._fitted().intercept
        return float(intercept[0]) if intercept.shape[0] == 1 else intercept

    def _fitted(self) -> LinearSolution:
        check_is_fitted(self, "feature_map_")
        return self._current_solution()
