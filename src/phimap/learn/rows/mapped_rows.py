"""Training rows on their way into a fold of features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phimap._random import row_uniforms
from phimap.learn.blocks.blocks import FeatureBlock
from phimap.learn.rows.accumulator import Accumulator
from phimap.learn.rows.extreme_rows import ExtremeRows
from phimap.ops import Array

#: Gives, for rows (r, d), targets and weights, the block of features, targets (r, t) and what rows count (r,), or None.
Mapped = Callable[[Array, Any, np.ndarray | None], tuple[FeatureBlock, np.ndarray, Any]]


class MappedRows(Accumulator):
    """A fold of the features of rows, and those of the rows that lie farthest out.

    Attributes
    ----------
    fold : Fold
        Of features.
    outlying : OutlyingRows or None
        Counts the rows, too: with `below`, those that its seed gives a key up to this are kept from the fold.
    """

    def __init__(
        self,
        mapped: Mapped,
        fold: Any,
        outlying: ExtremeRows | None = None,
        advance: Callable[[int], None] | None = None,
        *,
        below: float | None = None,
    ):
        self._mapped, self.fold, self.outlying, self._advance = mapped, fold, outlying, advance
        self._below = below

    def update(self, rows: Array, targets: Any, weights: np.ndarray | None) -> None:
        self._give(rows, targets, weights)
        if self.outlying is not None:
            self.outlying.update(rows, targets, weights)
        if self._advance is not None:
            self._advance(rows.shape[0])

    def _give(self, rows: Array, targets: Any, weights: np.ndarray | None) -> None:
        """Give the fold the features of the rows that are not kept from it."""
        if self._below is not None and self.outlying is not None:
            keys = row_uniforms(self.outlying.n_seen, rows.shape[0], self.outlying.seed)
            given = np.flatnonzero(keys > self._below)
            if not given.size:
                return
            rows, targets = rows[given], targets[given]
            weights = None if weights is None else weights[given]
        self.fold.update(*self._mapped(rows, targets, weights))

    def merge(self, later: MappedRows) -> None:
        self.fold.merge(later.fold)
        if self.outlying is not None and later.outlying is not None:
            self.outlying.join(later.outlying)

    @property
    def state(self) -> tuple[Any, ExtremeRows | None]:
        return self.fold.state, self.outlying

    def resume(self, state: tuple[Any, ExtremeRows | None]) -> None:
        self.fold.resume(state[0])
        self.outlying = state[1]
        if self._advance is not None and self.outlying is not None:
            self._advance(self.outlying.n_seen)
