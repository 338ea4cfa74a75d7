"""The rows on which the regularisation is chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap.learn.blocks.blocks import FeatureRows
from phimap.learn.rows.extreme_rows import EXTREME_CAPACITY, ExtremeRows
from phimap.learn.rows.kept_rows import WeightedRows
from phimap.learn.rows.reservoir import CAPACITY, Reservoir
from phimap.ops import Array

# Shares of all rows: those at random, and at most of those that lie farthest out.
_HELD_OUT_SHARE = 10
_OUTLYING_SHARE = 16
# Share of the rows of which leave-one-out predictions are formed, and how many at the least and at the most. Each costs
# m^2 flops; together they take some 5 % of a fit.
_LEFT_OUT_SHARE = 40
_LEAST_LEFT_OUT, _MOST_LEFT_OUT = 256, 1024


def n_held_out(n_rows: int) -> int:
    """Random rows, of `n_rows`, that judge at the most."""
    return min(n_rows // _HELD_OUT_SHARE, CAPACITY)


def n_extreme(n_rows: int) -> int:
    """Rows, of `n_rows`, that are judged as outlying at the most."""
    return min(n_rows // _OUTLYING_SHARE, EXTREME_CAPACITY)


def n_left_out(n_rows: int) -> int:
    """Rows, of `n_rows`, of which leave-one-out predictions are formed."""
    return min(n_rows, max(_LEAST_LEFT_OUT, min(n_rows // _LEFT_OUT_SHARE, _MOST_LEFT_OUT)))


@dataclass(frozen=True)
class ValidationRows:
    """Rows kept of a stream, from which those that judge are taken when they are needed.

    Attributes
    ----------
    sample : Reservoir
    outlying : OutlyingRows
    mapped : callable
        ``mapped(X, y, weights)`` gives the block of features, the targets (r, t) and the weights of rows.
    """

    sample: Reservoir
    outlying: ExtremeRows
    mapped: Callable[[Array, Any, np.ndarray | None], FeatureRows]

    def of(self, n_rows: int) -> tuple[FeatureRows | None, FeatureRows | None]:
        """Random rows and outlying ones, no row being both, of `n_rows` in all; None where they are too few."""
        outlying, keys = self.outlying.first(n_extreme(n_rows))
        held_out = self.sample.first(n_held_out(n_rows), without=keys)
        if len(held_out.y) < 2:
            return None, None
        return self.mapped(*held_out), self.mapped(*outlying) if len(outlying.y) else None

    def last_key(self, n_rows: int) -> float:
        """The largest key of the rows that may be held out, of `n_rows` in all: other rows have larger ones."""
        return float(np.sort(self.sample.keys)[: n_held_out(n_rows)][-1])

    def not_held_out(self, n_rows: int) -> FeatureRows | None:
        """Rows, of `n_rows` in all, that are not held out though their keys are small: outlying ones."""
        keys = self.outlying.first(n_extreme(n_rows))[1]
        small = np.sort(self.sample.keys)[: n_held_out(n_rows)]
        found = self.sample.rows(np.flatnonzero(np.isin(self.sample.keys, np.intersect1d(keys, small))))
        return self.mapped(*found) if len(found.y) else None

    def left_out(self, n_rows: int) -> FeatureRows:
        """Random rows, of `n_rows` in all, of which leave-one-out predictions are formed."""
        return self.mapped(*self.sample.first(n_left_out(n_rows)))

    def others(self, n_rows: int, rows: Reservoir, n_wanted: int) -> WeightedRows:
        """Rows of a reservoir that `of` does not give, at random and as many as are wanted where it has them."""
        judging = np.sort(self.sample.keys)[: n_held_out(n_rows)]
        outlying = self.outlying.first(n_extreme(n_rows))[1]
        return rows.first(judging.size + n_wanted, without=np.concatenate([judging, outlying]))
