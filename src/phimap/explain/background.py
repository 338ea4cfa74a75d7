"""The rows that explained rows are compared with: drawn from a table, which needs rows enough to draw from."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from phimap._random import named_streams
from phimap._warnings import caller_level
from phimap.explain.subject import subject_of
from phimap.tables.frames import n_rows_of, rows_at

#: Least number of rows that stand for a table: the standard error of their mean is 18 % of a standard deviation.
LEAST_ROWS = 30
# Least number of rows that are examined at a time.
_EXAMINED = 1024


class FewRowsWarning(UserWarning):
    """An explanation compares rows with few rows, and depends on which rows these are."""


def check_own_background(n_rows: int, count: int) -> None:
    """Raise if a single explained row is its own background of `count` rows, and warn if a few rows are."""
    if n_rows == 1:
        raise ValueError(
            f"`background` must be rows if `X` is one row, got {count}: the row would be compared with itself. Pass "
            "training rows."
        )
    if n_rows < LEAST_ROWS:
        warnings.warn(
            f"the background is the {n_rows} rows of `X` themselves: the values say how these rows differ from each "
            "other. Pass training rows as `background`.",
            FewRowsWarning,
            stacklevel=caller_level(),
        )


def check_levels(n_rows: int) -> None:
    """Raise if columns have a single level, that of one row, and warn if they have the levels of a few rows."""
    if n_rows == 1:
        raise ValueError("`X` must have at least 2 rows, which give columns their levels, got 1. Pass training rows.")
    if n_rows < LEAST_ROWS:
        warnings.warn(
            f"the columns have the levels of {n_rows} rows, and shares depend on which rows these are. Pass training "
            "rows as `X`.",
            FewRowsWarning,
            stacklevel=caller_level(),
        )


def drawn_places(
    n_rows: int, count: int, rng: np.random.Generator, is_far: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Indices of `count` random rows, all of them if there are fewer.

    Rows whose outputs the model would shrink, by ``is_far(indices)``, are drawn only if there are not enough others.
    """
    order, near, far = rng.permutation(n_rows), [], []
    step = max(count, _EXAMINED)
    for start in range(0, n_rows, step):
        places = order[start : start + step]
        shrunk = is_far(places)
        near.append(places[~shrunk])
        far.append(places[shrunk])
        if sum(map(len, near)) >= count:
            break
    return np.concatenate([*near, *far])[:count]


def background_of(model: Any, X: Any, count: int, *, random_state: Any = 0) -> Any:
    """Draw the rows of a frame or array `X` that `shapley_values` would draw from it."""
    subject = subject_of(model, X)

    def is_far(places: np.ndarray) -> np.ndarray:
        rows = subject.rows_of(rows_at(X, places))
        return subject.is_far(rows, rows[:0])

    rng = named_streams(random_state, "background")["background"]
    return rows_at(X, drawn_places(n_rows_of(X), count, rng, is_far))
