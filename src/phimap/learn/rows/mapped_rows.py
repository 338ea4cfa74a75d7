"""Training rows on their way into an accumulator of features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phimap._random import row_uniforms
from phimap.learn.blocks.blocks import FeatureBlock
from phimap.learn.rows.accumulator import Accumulator
from phimap.learn.rows.extreme_rows import ExtremeRows
from phimap.ops import Array

#: Gives, for rows (r, d), targets and weights: their block of features, encoded targets (r, t) and weights (r,).
Mapping = Callable[[Array, Any, np.ndarray | None], tuple[FeatureBlock, np.ndarray, Any]]


class MappedRows(Accumulator):
    """An accumulator of the features of rows, beside that of the extreme rows.

    Parameters
    ----------
    mapping : Mapping
    inner : Accumulator
        Of blocks of features.
    extreme : ExtremeRows, optional
        Is updated with all rows. Its seed gives the keys of the rows.
    resumed : callable, optional
        ``resumed(n_rows)`` is called with the rows of a state that is set.
    held_out_below : float, optional
        Rows with keys up to this one are held out: `inner` does not get them.
    """

    def __init__(
        self,
        mapping: Mapping,
        inner: Any,
        extreme: ExtremeRows | None = None,
        resumed: Callable[[int], None] | None = None,
        *,
        held_out_below: float | None = None,
    ):
        self._mapping, self.inner, self.extreme, self._resumed = mapping, inner, extreme, resumed
        self._held_out_below = held_out_below

    def update(self, rows: Array, targets: Any, weights: np.ndarray | None) -> None:
        self._update_inner(rows, targets, weights)
        if self.extreme is not None:
            self.extreme.update(rows, targets, weights)

    def _update_inner(self, rows: Array, targets: Any, weights: np.ndarray | None) -> None:
        """Map the rows that are not held out, and add their features."""
        if self._held_out_below is not None and self.extreme is not None:
            keys = row_uniforms(self.extreme.n_seen, rows.shape[0], self.extreme.seed)
            kept = np.flatnonzero(keys > self._held_out_below)
            if not kept.size:
                return
            rows, targets = rows[kept], targets[kept]
            weights = None if weights is None else weights[kept]
        self.inner.update(*self._mapping(rows, targets, weights))

    def merge(self, later: MappedRows) -> None:
        self.inner.merge(later.inner)
        if self.extreme is not None and later.extreme is not None:
            self.extreme.join(later.extreme)

    @property
    def state(self) -> tuple[Any, ExtremeRows | None]:
        return self.inner.state, self.extreme

    def resume(self, state: tuple[Any, ExtremeRows | None]) -> None:
        self.inner.resume(state[0])
        self.extreme = state[1]
        if self._resumed is not None and self.extreme is not None:
            self._resumed(self.extreme.n_seen)
