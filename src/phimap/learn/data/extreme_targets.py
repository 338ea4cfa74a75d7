"""One target so far from all others that errors are those of its row alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phimap.learn.data.scaling import Moments

# Share of the squared deviations that one row must have, and rows of which that is told: of few, one may well have it.
_SHARE, _LEAST_ROWS = 0.9, 20


class ExtremeTargetWarning(UserWarning):
    """One row has most of the variance of the targets."""


class ExtremeTargets:
    """Streamed facts about targets: their squared deviations, and the row that is farthest from the mean."""

    def __init__(self) -> None:
        self._moments: Moments | None = None
        self._n_rows = 0
        # Values and rows of the smallest and of the largest target, each (t,).
        self._values = np.empty((2, 0))
        self._rows = np.empty((2, 0), dtype=np.intp)

    def update(self, y: np.ndarray, numbers: np.ndarray | None = None) -> None:
        """Add numeric targets, (r,) or (r, t), whose rows have these `numbers` (r,); None counts them from 0."""
        y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        if not len(y):
            return
        if self._moments is None:
            self._moments = Moments(y.shape[1])
            self._values = np.array([[np.inf], [-np.inf]]) * np.ones(y.shape[1])
            self._rows = np.zeros((2, y.shape[1]), dtype=np.intp)
        # Targets whose squares overflow are refused elsewhere.
        with np.errstate(over="ignore", invalid="ignore"):
            self._moments.update(y)
        if numbers is None:
            numbers = np.arange(self._n_rows, self._n_rows + len(y))
        places = np.stack([y.argmin(axis=0), y.argmax(axis=0)])
        values = np.take_along_axis(y, places, axis=0)
        farther = np.stack([values[0] < self._values[0], values[1] > self._values[1]])
        self._values = np.where(farther, values, self._values)
        self._rows = np.where(farther, numbers[places], self._rows)
        self._n_rows += len(y)

    def message(self, name: str, row_name: Callable[[int], str] = str) -> str | None:
        """A line on the row that has most of the variance of a target called `name`; None where no row has.

        ``row_name(number)`` is what the line calls it.
        """
        if self._moments is None or self._n_rows < _LEAST_ROWS:
            return None
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            shares = np.square(self._values - self._moments.mean) / self._moments.squared_deviations
        shares = np.where(np.isfinite(shares), shares, 0.0)
        end, target = np.unravel_index(int(shares.argmax()), shares.shape)
        if shares[end, target] < _SHARE:
            return None
        row = row_name(int(self._rows[end, target]))
        return (
            f"{name} is {self._values[end, target]:g} in row {row}, which alone makes "
            f"{100 * shares[end, target]:.3g} % of the variance. Correct it, or drop the row: the fit follows it."
        )
