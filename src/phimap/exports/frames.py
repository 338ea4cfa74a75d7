"""The columns of data frames as inputs of a graph, with the encoding of `TableEncoder`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phimap._missing import MISSING_MARKS
from phimap.exports.graph import DOUBLE, FLOAT, INTEGER, ROWS, ExportError, Node
from phimap.exports.traced import Traced
from phimap.exports.tracer import TraceOps, entries, input_node
from phimap.tables import EncodedColumn, TableEncoder
from phimap.tables.dates import DateEncoding
from phimap.tables.frames import cells_of
from phimap.tables.levels import LevelEncoding
from phimap.tables.numbers import NumberEncoding
from phimap.tables.table_pass import found_in

_DAY = 86400.0
# Numbers of days, in this order: of a period of 400 years, after which the Gregorian calendar repeats itself; from 1
# March of year 0 to the epoch; from 1 March to 1 January; from 1 January to 1 March of a common year.
_PERIOD, _EPOCH, _TO_JANUARY, _TO_MARCH = 146097.0, 719468.0, 306.0, 59.0
_YEAR = 365.2425
# Dtype of the input of a column, by its encoding. Seconds since the epoch need float64.
TEXT = np.dtype(object)
_DTYPES: dict[type, np.dtype] = {NumberEncoding: FLOAT, LevelEncoding: TEXT, DateEncoding: DOUBLE}


def used_columns(encoder: TableEncoder) -> list[EncodedColumn]:
    """Return the columns that are encoded."""
    return [column for column in encoder.columns_ if column.encoding is not None]


def column_inputs(encoder: TableEncoder) -> dict[str, Node]:
    """Return an input (n, 1) for each column: numbers, texts, or times in seconds since the epoch.

    Raises
    ------
    ExportError
        If a column has an encoding without an exported form; the message names it.
    """
    inputs = {}
    for column in used_columns(encoder):
        encoding = column.encoding
        hashed = isinstance(encoding, LevelEncoding) and len(encoding.table) > len(encoding.levels) + 2
        if type(encoding) not in _DTYPES or hashed:
            what = "hashed levels" if hashed else column.kind
            raise ExportError(
                f"column {column.name!r} ({what}) has no exported form. "
                "Fit a model without this column, or encode it before."
            )
        inputs[column.name] = input_node(1, _DTYPES[type(encoding)])
    return inputs


def encoded_rows(ops: TraceOps, encoder: TableEncoder) -> Traced:
    """Return the rows (r, d) that `encoder` makes of the columns, which are the inputs of `ops`."""
    parts: list[Traced] = []
    for column in used_columns(encoder):
        encode: Callable[..., list[Traced]] = _ENCODERS[type(column.encoding)]
        parts += encode(ops, column.encoding, ops.traced(ops.inputs[column.name]))
    out, first = ops.empty((ROWS, sum(part.shape[1] for part in parts))), 0
    for part in parts:
        out[:, first : first + part.shape[1]] = part.cast(ops.dtype)
        first += part.shape[1]
    return out


def _numbers(ops: TraceOps, encoding: NumberEncoding, cells: Traced) -> list[Traced]:
    cells = cells.cast(DOUBLE)
    missing = np.isnan(cells)  # pyright: ignore
    parts = []
    if encoding.deviation:
        values = Traced.apply("where", missing, encoding.median, cells)
        parts.append((values - encoding.mean) / encoding.deviation)
    return [*parts, missing] if encoding.has_indicator else parts


def _levels(ops: TraceOps, encoding: LevelEncoding, cells: Traced) -> list[Traced]:
    options = {"levels": encoding.levels, "missing": MISSING_MARKS}
    places = ops.traced(Node("level", (cells.node,), (ROWS, 1), INTEGER, options))
    return [entries(ops.constant(encoding.table), places.reshape(ROWS))]


def _dates(ops: TraceOps, encoding: DateEncoding, cells: Traced) -> list[Traced]:
    missing = np.isnan(cells)  # pyright: ignore
    seconds = Traced.apply("where", missing, encoding.median, cells)
    parts = [(seconds - encoding.mean) / encoding.deviation * encoding.factors[0]]
    days = np.floor(seconds / _DAY)  # pyright: ignore
    for cycle, factor in zip(encoding.cycles, encoding.factors[1:], strict=True):
        angle = 2 * np.pi * _PHASES[cycle](seconds, days)
        parts += [np.sin(angle) * factor, np.cos(angle) * factor]
    return [*parts, missing] if encoding.has_indicator else parts


def _day_of_year(seconds: Traced, days: Traced) -> Traced:
    """Return the days since 1 January, over the length of a year.

    Years are counted from 1 March, so that a leap day is the last day of its year.
    """
    day = (days + _EPOCH) % _PERIOD
    century, four, last = np.floor(day / 36524), np.floor(day / 1460), np.floor(day / 146096)
    year = np.floor((day - four + century - last) / 365)
    day = day - (365 * year + np.floor(year / 4) - np.floor(year / 100))
    is_leap = (year % 4 == 0) & (~(year % 100 == 0) | (year == 0))
    return np.where(day >= _TO_JANUARY, day - _TO_JANUARY, day + _TO_MARCH + is_leap) / _YEAR


_PHASES: dict[str, Callable[[Traced, Traced], Traced]] = {
    "hour of the day": lambda seconds, days: seconds / _DAY - days,
    "day of the week": lambda seconds, days: (days + 3.0) % 7.0 / 7.0,
    "day of the year": _day_of_year,
}
_ENCODERS: dict[type, Callable[..., list[Traced]]] = {
    NumberEncoding: _numbers,
    LevelEncoding: _levels,
    DateEncoding: _dates,
}


def cells_as_inputs(encoder: TableEncoder, X: Any) -> dict[str, np.ndarray]:
    """Return the columns of a frame as the inputs (n, 1) of the graph; missing texts are empty."""
    columns, inputs, seen = cells_of(X), {}, [column.name for column in encoder.columns_]
    for column in used_columns(encoder):
        cells = found_in(columns, column.name, seen)
        if isinstance(column.encoding, LevelEncoding):
            values: Any = np.array([*cells.texts, ""], dtype=object)[cells.codes]
        elif isinstance(column.encoding, DateEncoding):
            values = cells.seconds(column.encoding.form, column.encoding.zone)
        else:
            values = cells.numbers(column.encoding.decimal).astype(FLOAT)  # pyright: ignore
        inputs[column.name] = values[:, None]
    return inputs


def example_frame(encoder: TableEncoder, n_rows: int, rng: np.random.Generator) -> Any:
    """Return an Arrow table of random rows, with all levels, missing cells and unknown levels."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for column in encoder.columns_:
        encoding = column.encoding
        if isinstance(encoding, LevelEncoding):
            cells: Any = rng.choice(np.array([*encoding.levels, None, "an unknown level"], dtype=object), n_rows)
            columns[column.name] = pa.array(list(cells), pa.string())
        elif isinstance(encoding, DateEncoding):
            seconds = encoding.mean + encoding.deviation * rng.standard_normal(n_rows)
            kind = pa.timestamp("s", encoding.zone or None)
            columns[column.name] = pa.array(np.floor(seconds).astype(np.int64), kind, mask=rng.random(n_rows) < 0.05)
        elif isinstance(encoding, NumberEncoding):
            numbers = (encoding.median + encoding.deviation * rng.standard_normal(n_rows)).astype(FLOAT)
            columns[column.name] = pa.array(numbers.astype(np.float64), mask=rng.random(n_rows) < 0.05)
        else:
            columns[column.name] = pa.nulls(n_rows)
    return pa.table(columns)
