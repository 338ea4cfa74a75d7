"""The background: rows drawn from a table, with which explained rows are compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from phimap._random import named_streams
from phimap._warnings import caller_level
from phimap.explain.subject import subject_of
from phimap.tables.frames import n_rows_of, rows_at

#: Least number of rows of a representative background. The standard error of the mean of 30 rows is 18 % of a standard
#: deviation.
LEAST_ROWS = 30
# Least number of rows that are checked at a time for outputs that the model would shrink.
_EXAMINED = 1024


class FewRowsWarning(UserWarning):
    """The background has few rows, so the explanation depends on the choice of these rows."""


def check_own_background(n_rows: int, count: int) -> None:
    """Check explained rows from which a background of `count` rows is drawn: raise for one row, warn for few rows."""
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
    """Check the number of rows whose values `effects` takes as levels of the columns: raise for one, warn for few."""
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
    """Indices of `count` random rows, or of all rows if there are fewer.

    ``is_far(indices)`` marks rows whose outputs the model would shrink. They are drawn only if other rows are too few.
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
    """Draw the background that `shapley_values` would draw from a frame or array `X`."""
    subject = subject_of(model, X)

    def is_far(places: np.ndarray) -> np.ndarray:
        rows = subject.rows_of(rows_at(X, places))
        return subject.is_far(rows, rows[:0])

    rng = named_streams(random_state, "background")["background"]
    return rows_at(X, drawn_places(n_rows_of(X), count, rng, is_far))
