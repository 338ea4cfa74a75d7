"""Rows far outside of the training rows, where features know nothing."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from scipy import sparse

from phimap.kernels import Kernel
from phimap.learn.rows.column_range import ColumnRange
from phimap.ops import Array, ops_for

# Where a stationary kernel between a row and the nearest one in range falls below this share of its largest value, the
# row is a far one.
_NEAR = 0.5
# Differences in length scales that are as good as infinite, and whose squares float64 holds.
_INFINITE = 1e100


class OutsideWarning(UserWarning):
    """Rows to be predicted lie far outside of the training rows.

    Attributes
    ----------
    n_far : int
    example : str
        One value of such a row, in words.
    ending : str
        What becomes of their predictions, and what to do.
    """

    def __init__(self, n_far: int, n_rows: int, example: str, ending: str):
        self.n_far, self.example, self.ending = n_far, example, ending
        share = 100 * n_far / n_rows
        size = f"{share:.0f}" if share >= 10 else f"{share:.2g}"
        super().__init__(
            f"{size} % of the rows ({n_far:,} of {n_rows:,}) lie far outside of the training rows, "
            f"for example with {example}: their predictions {ending}"
        )

    def among(self, n_far: int, n_rows: int) -> OutsideWarning:
        """The same of more rows."""
        return OutsideWarning(n_far, n_rows, self.example, self.ending)


class ExtrapolationGuard:
    """The far rows that are found while rows go by.

    Parameters
    ----------
    columns : ColumnRange or None
        Of the training rows; None where it is not known.
    kernel : Kernel
        Of scaled rows.
    scaled : callable
        Scales rows (r, d), dense and on the host.
    """

    def __init__(self, columns: ColumnRange | None, kernel: Kernel, scaled: Callable[[Array], np.ndarray]):
        self._columns, self._kernel, self._scaled = columns, kernel, scaled
        self._rows: list[np.ndarray] = []
        self._shares: list[np.ndarray] = []
        self._n_far = 0
        self._farthest: tuple[float, np.ndarray] = (-1.0, np.empty(0))

    def look(self, X: Array, first: int) -> None:
        """Look at the rows of `X` (r, d), the first of which is row `first`; CSR rows are passed over."""
        if self._columns is None or self._columns.margin is None or sparse.issparse(X):
            return
        host = ops_for(X).to_host(X)
        rows = self._columns.beyond(host)
        if not rows.size:
            return
        # The sums are in float64, which holds the squares of whatever float32 holds.
        there = host[rows].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            apart = self._scaled(there) - self._scaled(self._columns.nearest(there))
        apart = np.clip(np.nan_to_num(apart, nan=_INFINITE), -_INFINITE, _INFINITE)
        distances, shares = np.sqrt(np.square(apart).sum(axis=1)), np.ones(rows.size)
        if self._kernel.is_stationary:
            origin = np.zeros((1, apart.shape[1]))
            shares = np.minimum(self._kernel(apart, origin)[:, 0] / (_NEAR * self._kernel.diag(origin)), 1.0)
        drawn = np.flatnonzero(shares < 1)
        self._rows.append(first + rows[drawn])
        self._shares.append(shares[drawn])
        # A sum over columns, such as an additive kernel, may know nothing of one of them and not fall below a half.
        far = np.flatnonzero((shares < 1) | (distances > self._columns.radius))
        self._n_far += far.size
        if far.size and distances[far].max() > self._farthest[0]:
            at = far[distances[far].argmax()]
            self._farthest = float(distances[at]), there[at]

    def draw_back(self, scores: np.ndarray, centre: np.ndarray) -> None:
        """Move the outputs (n, t) of far rows towards `centre` (t,), in place."""
        for rows, shares in zip(self._rows, self._shares, strict=True):
            scores[rows] = centre + shares[:, None].astype(scores.dtype) * (scores[rows] - centre)

    def tell(self, names: Sequence[object] | np.ndarray, n_rows: int) -> None:
        """Warn of the far rows, of `n_rows`, if there are any."""
        if not self._n_far:
            return
        columns, row = self._columns, self._farthest[1]
        assert columns is not None
        assert columns.low is not None
        assert columns.high is not None
        column = columns.farthest(row)
        example = (
            f"{row[column]:.4g} in column {str(names[column])!r}, "
            f"which was {columns.low[column]:.4g} to {columns.high[column]:.4g} there"
        )
        drawn = any(map(len, self._rows))
        what = "go back towards the mean" if drawn else "are extrapolated and may be of any size"
        told = OutsideWarning(self._n_far, n_rows, example, f"{what}. Train on rows like these to predict them.")
        warnings.warn(told, stacklevel=_caller() - 1)


def _caller() -> int:
    """How many frames lie below that of whoever called this package, with that of this function."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("phimap."):
        level, frame = level + 1, frame.f_back
    return level
