"""Values of a column at which a report evaluates a model, as shown in figures and as rows of the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from phimap.tables.dates import DateEncoding
from phimap.tables.encoding import EncodedColumn
from phimap.tables.levels import LevelEncoding
from phimap.tables.numbers import NumberEncoding

# Largest number of values on an axis of numbers, of dates, and of categories. Dates need more values than numbers to
# show seasons.
_NUMBERS, _DATES, _CATEGORIES = 20, 60, 12
# Quantiles between which numbers and dates lie. The tails are omitted because they contain few rows.
_TAILS = (0.05, 0.95)


@dataclass(frozen=True)
class Axis:
    """Values of one column.

    Attributes
    ----------
    name : str
        Name of the column.
    values : ndarray of shape (k,)
        Increasing numbers or times (datetime64), or texts of categories.
    columns : ndarray of shape (w,)
        Columns of the model's rows that hold the value.
    rows : ndarray of shape (k, w)
        Entries of these columns for each value.
    others : str
        The categories that `values` omits, in words; empty if all are included.
    """

    name: str
    values: np.ndarray
    columns: np.ndarray
    rows: np.ndarray
    others: str = ""

    @property
    def is_categories(self) -> bool:
        """Whether the values are categories, which have no order."""
        return self.values.dtype.kind not in "fiM"

    def thinned(self, most: int) -> Axis:
        """Return the axis with at most `most` of its values."""
        k = len(self.values)
        kept = np.linspace(0, k - 1, min(k, most)).round().astype(np.intp)
        return replace(self, values=self.values[kept], rows=self.rows[kept])


def axis_of_numbers(X: np.ndarray, column: int, name: str) -> Axis:
    """Return the axis of a column of rows (n, d) of numbers."""
    values = _grid(X[:, column], _NUMBERS)
    return Axis(name, values, np.array([column]), values[:, None])


def axis_of_encoded(
    X: np.ndarray, columns: np.ndarray, encoded: EncodedColumn, places_in: Callable[[tuple[str, ...]], np.ndarray]
) -> Axis | None:
    """Return the axis of a column of a table; None for text and constant columns.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Encoded rows.
    columns : ndarray of shape (w,)
        Indices of the columns of `X` that encode the column of the table.
    encoded : EncodedColumn
        The column of the table and its encoding.
    places_in : callable
        ``places_in(levels)`` gives the indices in `levels` of some cells of the column, as `Cells.places_in` does.
        Categories are ordered by their number of cells.

    Notes
    -----
    A date sets the trend and the day of the year. Every row keeps its own hour and its day of the week, which would
    otherwise change at random from one of the dates to the next.
    """
    name, encoding = encoded.name, encoded.encoding
    if isinstance(encoding, LevelEncoding):
        labels = np.array([*encoding.levels, "missing"][: len(encoding.levels) + (encoded.n_missing > 0)], dtype=object)
        counts = np.bincount(places_in(encoding.levels), minlength=len(labels))[: len(labels)]
        order = np.argsort(-counts, kind="stable")[:_CATEGORIES]
        n_others = len(labels) - len(order)
        others = [f"{n_others:,} less frequent categories"] * (n_others > 0) + ["rare ones"] * encoding.has_rare
        return Axis(name, labels[order], columns, encoding.table[order], " and ".join(others))
    if isinstance(encoding, DateEncoding):
        seconds = _grid(encoding.mean + encoding.deviation / encoding.factors[0] * X[:, columns[0]], _DATES)
        chosen = [place for place, part in enumerate(encoding.names()) if not part.endswith(("the day", "the week"))]
        times = (1e6 * seconds).astype("datetime64[us]")
        return Axis(name, times, columns[chosen], encoding.of_seconds(seconds)[:, chosen])
    if isinstance(encoding, NumberEncoding) and encoding.deviation:
        grid = _grid(X[:, columns[0]], _NUMBERS)
        # If the column has an indicator of missing numbers, the indicator is 0.
        rows = np.zeros((len(grid), len(columns)))
        rows[:, 0] = grid
        values: Any = encoding.mean + encoding.deviation * grid
        return Axis(
            name, np.where(values > 0.5, "true", "false") if encoded.kind == "boolean" else values, columns, rows
        )
    return None


def _grid(values: np.ndarray, most: int) -> np.ndarray:
    """Return the distinct values of a column if there are at most `most`, else `most` equally spaced values."""
    distinct = np.unique(values)
    if distinct.size <= most:
        return distinct
    low, high = np.quantile(values, _TAILS)
    return np.linspace(low, high, most, dtype=values.dtype)
