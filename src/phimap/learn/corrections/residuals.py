"""Residuals: errors of a linear model at its training rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import DTypeLike

from phimap.learn.rows.batches import Batch
from phimap.learn.rows.samples import Reservoir
from phimap.learn.solver import LinearSolution
from phimap.learn.weights import joined_weights
from phimap.ops import ops_for, run_tasks
from phimap.random_map import MapRecord

Result = TypeVar("Result")

#: Number of rows of a tile. Outputs are computed in float64 for one tile at a time.
TILE_ROWS = 1024


class Outputs:
    """Outputs of linear models with the same map, in float64.

    Parameters
    ----------
    record : MapRecord
    n_jobs : int or None
    dtype : dtype, default=float64
        Dtype of the features. float32 features take less time, and add an error of up to about 1e-4 times the norm of
        the coefficients.
    """

    def __init__(self, record: MapRecord, n_jobs: int | None, dtype: DTypeLike = np.float64):
        self._record, self._n_jobs, self._ops = record, n_jobs, ops_for(np.empty(0, dtype))

    def __call__(self, X: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Outputs (n, k) of coefficients `coef` (m, k) for the scaled rows `X` (n, d)."""
        return np.concatenate(self.of_tiles(X, coef, lambda start, features, coef: features @ coef))

    def of_tiles(
        self, X: np.ndarray, coef: np.ndarray, task: Callable[[int, np.ndarray, np.ndarray], Result]
    ) -> list[Result]:
        """Return ``task(start, F, C)`` for each tile of the scaled rows `X` (n, d).

        `start` is the first row of the tile. The outputs of coefficients `coef` (m, k) for the tile are ``F C``, and
        those for some of its rows and some of the k columns are ``F[rows] @ C[:, columns]``. The columns of C are
        contiguous.
        """
        record, coef = self._record.unwhitened(coef)
        bound, coef = record.bind(self._ops), np.asfortranarray(coef)

        def of_tile(start: int) -> Result:
            rows = self._ops.constant(X[start : start + TILE_ROWS])
            features = self._ops.empty((len(rows), record.n_components))
            bound.apply(self._ops, rows, features)
            # Not `linear_outputs`, which would round the coefficients to the dtype of the features.
            return task(start, features.astype(np.float64, copy=False), coef)

        return run_tasks(of_tile, range(0, len(X), TILE_ROWS), self._n_jobs)

    def of_solutions(self, X: np.ndarray, solutions: Sequence[LinearSolution]) -> list[np.ndarray]:
        """Outputs (n, t) of each solution for the scaled rows `X` (n, d)."""
        coef = np.concatenate([one.coef for one in solutions], axis=1)
        intercept = np.concatenate([one.intercept for one in solutions])
        return np.split(self(X, coef) + intercept, len(solutions), axis=1)


@dataclass(frozen=True)
class Residuals:
    """Errors of two fits at all training rows: a fit to all rows, and the training fit, without the held-out rows.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Scaled rows.
    weights : ndarray of shape (n,) or None
    keys : ndarray of shape (n,)
        Keys of the rows, as in the sample of the stream.
    errors : ndarray of shape (n, t)
        Errors of the fit to all rows.
    held_out : ndarray of bool, shape (n,)
        Whether a row is held out of the training fit for validation.
    training_fit_errors : ndarray of shape (n, t)
        Errors of the training fit.
    """

    X: np.ndarray
    weights: np.ndarray | None
    keys: np.ndarray
    errors: np.ndarray
    held_out: np.ndarray
    training_fit_errors: np.ndarray

    def count(self, rows: np.ndarray) -> np.ndarray:
        """Weights (r,) of the rows with indices `rows` (r,); ones if all weights are one."""
        return np.ones(rows.size) if self.weights is None else self.weights[rows]

    def loss(self, rows: np.ndarray, errors: np.ndarray) -> float:
        """Weighted sum of the squares of `errors` (r, t) at the rows with indices `rows` (r,)."""
        return float(self.count(rows) @ np.square(errors).sum(axis=1))

    @classmethod
    def of_batches(
        cls,
        batches: Iterable[Batch],
        errors_of: Callable[[Batch], tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]],
        held_out: np.ndarray,
        sample: Reservoir,
    ) -> Residuals:
        """Compute the residuals of the rows of a stream.

        Parameters
        ----------
        batches : iterable of (X, y, weights)
        errors_of : callable
            Returns for a batch: the scaled rows, errors of the fit to all rows, errors of the training fit, and weights
            or None.
        held_out : ndarray
            Keys of the held-out rows.
        sample : Reservoir
            A sample of the stream. It computes the keys of the rows.
        """
        X, errors, training_fit_errors, weights = zip(*map(errors_of, batches), strict=True)
        rows = np.concatenate(X)
        keys = sample.keys_of(0, len(rows))
        return cls(
            rows,
            joined_weights(list(weights), [len(one) for one in X]),
            keys,
            np.concatenate(errors),
            np.isin(keys, held_out),
            np.concatenate(training_fit_errors),
        )
