"""What a model leaves of the targets of its training rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from phimap._random import row_uniforms
from phimap.learn.rows.batches import Batch
from phimap.learn.rows.weights import joined_weights
from phimap.learn.solver import LinearSolution
from phimap.ops import ops_for, run_tasks
from phimap.random_map import MapRecord

#: Rows of which outputs are formed at a time, in float64.
TILE_ROWS = 1024


class Outputs:
    """Outputs of several solutions on one map, in float64 and without the features where the map knows how.

    Parameters
    ----------
    solutions : sequence of LinearSolution
    record : MapRecord
    n_jobs : int or None
    """

    def __init__(self, solutions: Sequence[LinearSolution], record: MapRecord, n_jobs: int | None):
        self._coef = np.concatenate([one.coef for one in solutions], axis=1)
        self._intercept = np.concatenate([one.intercept for one in solutions])
        self._n_solutions, self._n_jobs = len(solutions), n_jobs
        self._ops = ops_for(self._coef)
        self._record = record.bind(self._ops)

    def __call__(self, X: np.ndarray) -> list[np.ndarray]:
        """Outputs (n, t) of each solution at the scaled rows of `X` (n, d)."""

        def of_tile(start: int) -> np.ndarray:
            rows = X[start : start + TILE_ROWS].astype(np.float64)
            return self._record.linear_outputs(self._ops, rows, self._coef)

        tiles = run_tasks(of_tile, range(0, len(X), TILE_ROWS), self._n_jobs)
        return np.split(np.concatenate(tiles) + self._intercept, self._n_solutions, axis=1)


@dataclass(frozen=True)
class Residuals:
    """What a model leaves of the targets of its training rows.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Scaled rows.
    weights : ndarray of shape (n,) or None
    keys : ndarray of shape (n,)
        Of the rows in their stream.
    errors : ndarray of shape (n, t)
        Of the fit to all rows.
    held_out : ndarray of bool, shape (n,)
        Rows that judge.
    blind_errors : ndarray of shape (n, t)
        Of a fit without the rows that judge.
    """

    X: np.ndarray
    weights: np.ndarray | None
    keys: np.ndarray
    errors: np.ndarray
    held_out: np.ndarray
    blind_errors: np.ndarray

    def count(self, rows: np.ndarray) -> np.ndarray:
        """What some of the rows count (r,)."""
        return np.ones(rows.size) if self.weights is None else self.weights[rows]

    @classmethod
    def of_batches(
        cls,
        batches: Iterable[Batch],
        errors_of: Callable[[Batch], tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]],
        held_out: np.ndarray,
        seed: int,
    ) -> Residuals:
        """Collect the rows of a stream.

        Parameters
        ----------
        batches : iterable of (X, y, weights)
        errors_of : callable
            Gives, for a batch, scaled rows, errors of the fit to all rows and of the blind fit, and weights or None.
        held_out : ndarray
            Keys of the rows that the blind fit has not seen.
        seed : int
            Of the keys.
        """
        parts, keys, first = [], [], 0
        for batch in batches:
            parts.append(errors_of(batch))
            n = len(parts[-1][0])
            keys.append(row_uniforms(first, n, seed))
            first += n
        X, errors, blind, weights = (list(column) for column in zip(*parts, strict=True))
        every = np.concatenate(keys)
        return cls(
            np.concatenate(X),
            joined_weights(weights, [len(one) for one in X]),
            every,
            np.concatenate(errors),
            np.isin(every, held_out),
            np.concatenate(blind),
        )
