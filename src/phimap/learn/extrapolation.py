"""Detection of rows far outside of the training rows, where random features oscillate."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy import sparse

from phimap._warnings import caller_level
from phimap.learn.scaled_map import ScaledMap
from phimap.ops import Array, ops_for

#: A row counts as far if its kernel value with the nearest point within the training ranges is below this share of the
#: kernel's largest value.
NEAR = 0.5
# Differences between scaled rows are clipped to this bound, which stands for infinity. Its square is finite in float64.
_INFINITE = 1e100


class OutsideWarning(UserWarning):
    """Rows to be predicted lie far outside of the training rows.

    Attributes
    ----------
    n_far : int
        Number of far rows.
    example : str
        A value of a far row, and the range of its column, in words.
    ending : str
        Text about the effect on the predictions of far rows, and the remedy.
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
        """Return the same warning with the counts of a larger set of rows."""
        return OutsideWarning(n_far, n_rows, self.example, self.ending)


class ExtrapolationGuard:
    """Finds far rows among the rows to be predicted, and shrinks their predictions.

    Parameters
    ----------
    mapped : ScaledMap
        Its `range` holds the range of the training rows. Without a range, no row counts as far.
    """

    def __init__(self, mapped: ScaledMap):
        self._mapped, self._columns, self._kernel = mapped, mapped.range, mapped.kernel
        self._rows: list[np.ndarray] = []
        self._shares: list[np.ndarray] = []
        self._n_far = 0
        self._farthest: tuple[float, np.ndarray] = (-1.0, np.empty(0))

    def inspect(self, X: Array, first: int) -> None:
        """Record the far rows among the rows of `X` (r, d), numbered from `first` on; CSR rows are not checked."""
        if self._columns is None or self._columns.margin is None or sparse.issparse(X):
            return
        host = ops_for(X).to_host(X)
        rows = self._columns.out_of_range(host)
        if not rows.size:
            return
        # Sums are formed in float64, where the square of any float32 number is finite.
        far_rows = host[rows].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            steps = self._mapped.on_host(far_rows) - self._mapped.on_host(self._columns.nearest(far_rows))
        steps = np.clip(np.nan_to_num(steps, nan=_INFINITE), -_INFINITE, _INFINITE)
        distances, shares = np.sqrt(np.square(steps).sum(axis=1)), np.ones(rows.size)
        if self._kernel.is_stationary:
            origin = np.zeros((1, steps.shape[1]))
            shares = np.minimum(self._kernel(steps, origin)[:, 0] / (NEAR * self._kernel.diag(origin)), 1.0)
        shrunk = np.flatnonzero(shares < 1)
        self._rows.append(first + rows[shrunk])
        self._shares.append(shares[shrunk])
        # If only one column is far, an additive kernel stays above half of its largest value. A row is therefore also
        # far if its distance exceeds the radius of the training rows.
        far = np.flatnonzero((shares < 1) | (distances > self._columns.radius))
        self._n_far += far.size
        if far.size and distances[far].max() > self._farthest[0]:
            at = far[distances[far].argmax()]
            self._farthest = float(distances[at]), far_rows[at]

    def shrink(self, scores: np.ndarray, centre: np.ndarray) -> None:
        """Move the outputs (n, t) of far rows towards `centre` (t,), in place."""
        for rows, shares in zip(self._rows, self._shares, strict=True):
            scores[rows] = centre + shares[:, None].astype(scores.dtype) * (scores[rows] - centre)

    def warn(self, name_of: Callable[[int], object], n_rows: int, in_units: Callable[[int, float], float]) -> None:
        """Warn of the far rows among `n_rows` rows, if there are any.

        ``name_of(column)`` is the name of a column, and ``in_units(column, value)`` converts a number of the column to
        the units of the table.
        """
        if not self._n_far:
            return
        columns, row = self._columns, self._farthest[1]
        assert columns is not None
        assert columns.low is not None
        assert columns.high is not None
        column = columns.farthest(row)
        value, low, high = (in_units(column, float(one[column])) for one in (row, columns.low, columns.high))
        example = f"{value:.4g} in column {str(name_of(column))!r}, which was {low:.4g} to {high:.4g} there"
        shrunk = any(map(len, self._rows))
        what = "go back towards the mean" if shrunk else "are extrapolated and may be of any size"
        warning = OutsideWarning(self._n_far, n_rows, example, f"{what}. Train on rows like these to predict them.")
        warnings.warn(warning, stacklevel=caller_level())
