"""Rows far outside of the range of the training rows, where random features know nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import sparse

from phimap.kernels import Kernel
from phimap.learn.data.column_range import ColumnRange
from phimap.ops import Array, ops_for

# A stationary kernel of less than this between a row and the nearest one within the range makes the row a far one.
_NEAR = 0.5
# For other kernels a column does that is so many half-widths of its range outside.
_HALF_WIDTHS = 2.0


class OutsideWarning(UserWarning):
    """Rows lie far outside of the range of the training rows."""


class Outside:
    """What is found outside of the range while rows go by.

    Parameters
    ----------
    columns : ColumnRange or None
        Of the training rows; None where it is not known.
    kernel : Kernel
        Of the model, on scaled rows.
    scaled : callable
        Scales rows of the columns, dense and on the host.
    """

    def __init__(self, columns: ColumnRange | None, kernel: Kernel, scaled: Callable[[Array], np.ndarray]):
        self._columns, self._kernel, self._scaled = columns, kernel, scaled
        self._rows: list[np.ndarray] = []
        self._shares: list[np.ndarray] = []
        self._farthest: tuple[float, int, float] = (0.0, 0, 0.0)

    def look(self, X: Array, first: int) -> None:
        """Look at the rows of `X` (r, d), the first of which is row `first`."""
        if self._columns is None or self._columns.low is None or sparse.issparse(X):
            return
        host = ops_for(X).to_host(X)
        rows = self._columns.outside(host)
        if not rows.size:
            return
        beyond, columns = self._columns.farthest(host[rows])
        if self._kernel.is_stationary:
            apart = self._scaled(host[rows]) - self._scaled(self._columns.nearest(host[rows]))
            origin = np.zeros((1, apart.shape[1]))
            shares = self._kernel(apart.astype(np.float64), origin)[:, 0] / (_NEAR * self._kernel.diag(origin))
            far = shares < 1
        else:
            shares, far = np.ones(rows.size), beyond > _HALF_WIDTHS
        if far.any():
            self._rows.append(first + rows[far])
            self._shares.append(shares[far])
            at = int(np.flatnonzero(far)[beyond[far].argmax()])
            self._farthest = max(
                self._farthest, (float(beyond[at]), int(columns[at]), float(host[rows[at], columns[at]]))
            )

    def draw_back(self, scores: np.ndarray, centre: np.ndarray) -> None:
        """Move the outputs (n, t) of far rows towards `centre` (t,), in place."""
        for rows, shares in zip(self._rows, self._shares, strict=True):
            scores[rows] = centre + shares[:, None] * (scores[rows] - centre)

    def message(self, names: Sequence[object] | np.ndarray, n_rows: int) -> str | None:
        """A line on the far rows, of `n_rows`; None where there are none."""
        n_far = sum(map(len, self._rows))
        if not n_far:
            return None
        assert self._columns is not None
        assert self._columns.low is not None
        assert self._columns.high is not None
        _, column, value = self._farthest
        low, high = self._columns.low[column], self._columns.high[column]
        what = "go back towards the mean" if self._kernel.is_stationary else "are extrapolated and may be of any size"
        return (
            f"{n_far} of {n_rows} rows ({100 * n_far / n_rows:.2g} %) lie far outside of the training rows, for "
            f"example with {value:g} in column {str(names[column])!r}, which was {low:g} to {high:g}: their "
            f"predictions {what}. Check them, or train on rows like these."
        )
