"""Base class of maps whose `fit` may use targets. Targets are converted to centred and scaled columns."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from phimap._validation import check_finite
from phimap.features.base import FeatureMap
from phimap.ops import Array, to_host
from phimap.random_map import MapRecord


class TargetedFeatures(FeatureMap):
    """Base class of maps whose `fit` uses targets if their parameters require it (`wants_targets`)."""

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> MapRecord:
        return self._draw_from(X, None, streams)

    def _draw_from(self, X: Array, y: Any, streams: dict[str, np.random.Generator]) -> MapRecord:
        targets = target_columns(type(self).__name__, y, X.shape[0]) if self.wants_targets else None
        return self._draw_for(X, targets, streams)

    @abstractmethod
    def _draw_for(self, X: Array, targets: np.ndarray | None, streams: dict[str, np.random.Generator]) -> MapRecord:
        """Check the parameters, and draw the record for rows `X` (n, d) and `targets` (n, t) or None."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def target_columns(name: str, y: Any, n_rows: int) -> np.ndarray:
    """Targets as float64 columns (n, t) of mean 0, scaled so that the mean squared norm of their rows is 1.

    Floats are numbers. Everything else is labels, with an indicator column for each label.

    Parameters
    ----------
    name : str
        Name of the map, for error messages.
    y : array-like of shape (n,) or (n, t)
        Targets.
    n_rows : int
        Number of rows that need a target.

    Raises
    ------
    ValueError
        If `y` is None, its number of rows is not `n_rows`, or a target is not finite.
    """
    if y is None:
        raise ValueError(
            f"{name} requires y to be passed, but the target y is None. Give the targets of the rows, or parameters "
            "that need none."
        )
    y = np.asarray(to_host(y))
    if y.ndim not in (1, 2) or y.shape[0] != n_rows:
        raise ValueError(f"`y` must have a target for each of the {n_rows} rows, got shape {y.shape}.")
    if y.dtype.kind != "f":
        columns = y.reshape(n_rows, -1).T
        y = np.hstack([np.equal.outer(column, np.unique(column)) for column in columns])
    numbers = y.reshape(n_rows, -1).astype(np.float64)
    check_finite(numbers, "y")
    numbers = numbers - numbers.mean(axis=0)
    size = np.sqrt(np.square(numbers).sum(axis=1).mean())
    return numbers / size if size > 0 else numbers
