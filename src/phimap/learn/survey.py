"""The first pass over training data: counts, moments, classes and a random subset of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

from phimap.learn.scaling import Moments
from phimap.ops import Array, ops_for

# Rows on which the length scale is estimated: a median of half a million distances is known to a fraction of a
# percent, less than any error depends on it.
SUBSET_ROWS = 1000


class Survey:
    """What one pass over batches ``(X, y)`` tells.

    Attributes
    ----------
    moments : Moments
    subset : Array
        `SUBSET_ROWS` rows drawn without replacement (all, where there are fewer).
    n_targets : int
    labels : ndarray or None
        The distinct targets, sorted; None unless asked for.
    """

    def __init__(
        self, batches: Iterable[tuple[Array, Any]], rng: np.random.Generator, *, collect_labels: bool
    ):
        keys = np.empty(0)
        parts: list[Array] = []
        labels: list[np.ndarray] = []
        self.n_targets = 1
        self.moments: Moments | None = None
        for X, y in batches:
            if self.moments is None:
                self.moments = Moments(X.shape[1])
            self.moments.update(X)
            if collect_labels:
                labels.append(np.unique(y))
            elif np.ndim(y) == 2:
                self.n_targets = np.shape(y)[1]
            # The rows with the smallest random keys stay: a sample that does not depend on how rows are batched.
            new = rng.random(X.shape[0])
            candidates = np.concatenate([keys, new])
            bound = (
                np.partition(candidates, SUBSET_ROWS - 1)[SUBSET_ROWS - 1]
                if candidates.size > SUBSET_ROWS
                else 2
            )
            parts = [part[np.flatnonzero(kept)] for part, kept in self._split(parts, keys <= bound)]
            parts.append(X[np.flatnonzero(new <= bound)])
            keys = candidates[candidates <= bound]
        if self.moments is None:
            raise ValueError("the training data are empty: no batch of rows was given.")
        self.labels = np.unique(np.concatenate(labels)) if collect_labels else None
        self.subset = _stack(parts)

    @property
    def n_rows(self) -> int:
        return self.moments.n if self.moments else 0

    @staticmethod
    def _split(parts: list[Array], kept: np.ndarray) -> list[tuple[Array, np.ndarray]]:
        """Pair each part with its piece of the mask over all parts' rows."""
        ends = np.cumsum([part.shape[0] for part in parts])
        return list(zip(parts, np.split(kept, ends[:-1]), strict=True)) if parts else []


def _stack(parts: list[Array]) -> Array:
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return np.concatenate([ops_for(part).to_host(part) for part in parts])
