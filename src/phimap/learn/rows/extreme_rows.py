"""The rows of a stream that lie farthest from its centre."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from phimap.learn.rows.kept_rows import KeptRows, WeightedRows
from phimap.ops import Array, ops_for
from phimap.records import of_floats

# Rows that are kept. Of 6,000 to 35,000 rows, 64 leave the choice of alpha a little more noise, 256 no less.
EXTREME_CAPACITY = 128


@dataclass
class ExtremeRows(KeptRows):
    """The rows of largest ``|(x - centre) * factor|``, the first to come among equals.

    With the seed of the `Reservoir` that sees the same stream, rows have the same keys in both.

    Attributes
    ----------
    centre, factor : ndarray of shape (n_features,)
    distances : ndarray of shape (n_kept,)
        Squared.
    """

    centre: np.ndarray = field(kw_only=True, metadata=of_floats("d"))
    factor: np.ndarray = field(kw_only=True, metadata=of_floats("d"))
    distances: np.ndarray = field(default_factory=lambda: np.empty(0), metadata=of_floats("?n"))

    def begun(self, first_row: int) -> ExtremeRows:
        """A record for the rows of the same stream from `first_row` on, which has seen none."""
        return ExtremeRows(self.seed, first_row, centre=self.centre, factor=self.factor)

    @property
    def ranks(self) -> np.ndarray:
        return -self.distances

    def first(self, n_rows: int) -> tuple[WeightedRows, np.ndarray]:
        """The `n_rows` most outlying rows and their keys."""
        chosen = np.argsort(self.ranks, kind="stable")[:n_rows]
        return self.rows(chosen), self.keys[chosen]

    def _ranks_of(self, X: Array, keys: np.ndarray) -> np.ndarray:
        if sparse.issparse(X):
            squares = X.multiply(X) @ np.square(self.factor) - 2 * (X @ (self.centre * np.square(self.factor)))
            return -(squares + np.square(self.centre * self.factor).sum())
        host = ops_for(X).to_host(X)
        deviations = (host - self.centre.astype(host.dtype)) * self.factor.astype(host.dtype)
        return -np.square(deviations).sum(axis=1)

    def _least(self, ranks: np.ndarray, X: Array) -> np.ndarray:
        # The order of arrival decides among equals.
        return np.sort(np.argsort(ranks, kind="stable")[:EXTREME_CAPACITY])

    def _keep(self, keys: np.ndarray, ranks: np.ndarray) -> None:
        super()._keep(keys, ranks)
        self.distances = -ranks
