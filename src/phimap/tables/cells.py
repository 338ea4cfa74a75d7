"""Columns of frames as Arrow arrays, with cells read as numbers, times or text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from phimap._missing import MISSING_MARKS

# The type is Any because the functions are created at import, which type checkers cannot see.
pc: Any = pyarrow.compute
# Digits without separators, or in groups of three with a separator that is not the decimal mark.
_WHOLE = r"\d+|[1-9]\d{{0,2}}([{thousands} '\x{{a0}}\x{{202f}}]\d{{3}})+"
_NUMBER = rf"^[+-]?(({_WHOLE})({{decimal}}\d*)?|{{decimal}}\d+)([eE][+-]?\d+)?$"
_PATTERNS = {".": _NUMBER.format(thousands=",", decimal=r"\."), ",": _NUMBER.format(thousands=".", decimal=",")}
_SEPARATORS = {".": ",", ",": "."}
# The end of a time: seconds, which the formats include, then a fraction and a time zone, which they do not include.
_TAIL = r"(:\d{2})(\.\d+)?(Z|[+-]\d{2}:?\d{2})?$"
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def columns_of(X: Any) -> Iterator[tuple[str, pa.Array]]:
    """Yield the name and cells of each column of a frame or an array (n, d), which has columns ``x0, x1, ...``."""
    if hasattr(X, "iloc"):
        for place, name in enumerate(X.columns):
            column = X.iloc[:, place]
            if getattr(column.dtype, "kind", "O") == "c":
                raise ValueError(
                    f"`X` must not be complex, got {column.dtype} in column {str(name)!r}. Split its parts."
                )
            yield str(name), _of_objects(column)
    elif hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__"):
        table = X if isinstance(X, pa.Table | pa.RecordBatch) else pa.table(X)
        for name, column in zip(table.schema.names, table.columns, strict=True):
            yield name, column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    else:
        array = np.asarray(X)
        if np.iscomplexobj(array):
            raise ValueError(
                f"`X` must not be complex: Complex data not supported, got {array.dtype}. Split its parts."
            )
        if array.ndim != 2:
            raise ValueError(f"`X` must have two dimensions, got shape {array.shape}. Reshape your data.")
        for place in range(array.shape[1]):
            yield f"x{place}", _of_objects(array[:, place])


def _of_objects(values: Any) -> pa.Array:
    """Convert a column of pandas or NumPy to an Arrow array; cells of mixed types become text."""
    try:
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        # Comparing pandas' missing value with itself gives neither true nor false, so texts are compared.
        present = (cell is not None and str(cell) not in ("<NA>", "NaT", "nan") for cell in values)
        texts = [str(cell) if there else None for cell, there in zip(values, present, strict=True)]
        array = pa.array(texts, pa.string())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def is_complete(column: pa.Array) -> bool:
    """Whether every cell is a number or a Boolean, and none is missing."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return False
    return not column.null_count and not (pa.types.is_floating(kind) and pc.any(pc.is_nan(column)).as_py())


class Cells:
    """The cells of one column.

    Parameters
    ----------
    name : str
    column : pyarrow.Array of n cells

    Attributes
    ----------
    form : {"number", "boolean", "time", "levels", "text", "nothing"}
        Determined by the Arrow type. ``"levels"`` is a dictionary column, ``"nothing"`` a column without values.
    """

    def __init__(self, name: str, column: pa.Array):
        self.name = name
        self.form: str = _form(column.type)
        self._column = _plain(column, self.form)

    def __len__(self) -> int:
        return len(self._column)

    @property
    def is_text(self) -> bool:
        """Whether the cells are text, which may be parsed as numbers or times."""
        return self.form in ("text", "levels")

    def numbers(self, decimal: str = ".") -> np.ndarray:
        """Return the cells as float64 (n,); cells that are missing or not numbers become NaN."""
        if self.is_text:
            return self._of_distinct(numbers_in(self._distinct, decimal))
        if self.form == "time":
            return self.seconds("")
        if self.form == "nothing":
            return np.full(len(self), np.nan)
        return _floats(self._column)

    def seconds(self, form: str) -> np.ndarray:
        """Return the cells as seconds (n,) since the epoch, or NaN for cells that are not times; `form` parses text."""
        if self.is_text:
            return self._of_distinct(seconds_in(self._distinct, form))
        if self.form != "time":
            return np.full(len(self), np.nan)
        column, kind = self._column, self._column.type
        if pa.types.is_date(kind):
            column, kind = column.cast(pa.timestamp("s")), pa.timestamp("s")
        elif pa.types.is_timestamp(kind) and kind.tz is not None:
            # Local time is used, because daily habits follow it.
            column = pc.local_timestamp(column)
        return _floats(column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())) / _UNITS[kind.unit]

    @cached_property
    def codes(self) -> np.ndarray:
        """The index (n,) in `texts` of every cell; -1 for missing cells."""
        codes = self._encoded.indices
        return codes.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)

    @cached_property
    def texts(self) -> list[str]:
        """The distinct cells as text."""
        return self._distinct.to_pylist()

    def places_in(self, levels: tuple[str, ...]) -> np.ndarray:
        """The index (n,) in `levels` of every cell; ``len(levels)`` if missing, ``len(levels) + 1`` if unknown."""
        found = pc.index_in(self._distinct, value_set=pa.array(levels, self._distinct.type))
        known = found.cast(pa.int64()).fill_null(len(levels) + 1).to_numpy(zero_copy_only=False)
        return np.append(known, len(levels))[self.codes]

    @property
    def missing(self) -> np.ndarray:
        """Whether each cell (n,) is missing."""
        if self.is_text:
            return self.codes < 0
        return np.isnan(self.numbers())

    @property
    def _distinct(self) -> pa.Array:
        return self._encoded.dictionary

    @cached_property
    def _encoded(self) -> pa.DictionaryArray:
        """The cells as a dictionary of distinct texts without surrounding spaces; marks such as ``NA`` are missing."""
        column = self._column
        if not pa.types.is_dictionary(column.type):
            column = _as_text(column).dictionary_encode()
        plain = _as_text(column.dictionary)
        texts = pc.utf8_trim_whitespace(plain)
        texts = pc.if_else(pc.is_in(texts, value_set=pa.array(MISSING_MARKS, texts.type)), None, texts)
        if texts.equals(plain) and not plain.null_count:
            return pa.DictionaryArray.from_arrays(column.indices, plain)
        again = texts.dictionary_encode()
        # Texts that differ only by spaces are merged.
        places = np.append(again.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False), -1)
        codes = places[column.indices.cast(pa.int64()).fill_null(len(texts)).to_numpy(zero_copy_only=False)]
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int64(), mask=codes < 0), again.dictionary)

    def _of_distinct(self, values: np.ndarray) -> np.ndarray:
        return np.append(values, np.nan)[self.codes]


def numbers_in(texts: pa.Array, decimal: str) -> np.ndarray:
    """Convert texts (n,) to float64; texts that are not numbers become NaN.

    Parameters
    ----------
    texts : pyarrow.Array of strings
    decimal : {".", ","}
        The decimal mark; the other mark, spaces and apostrophes may separate thousands.
    """
    matches = pc.match_substring_regex(texts, _PATTERNS[decimal])
    kept = pc.if_else(matches, texts, None)
    kept = pc.replace_substring_regex(kept, rf"[{_SEPARATORS[decimal]} '\x{{a0}}\x{{202f}}+]", "")
    if decimal == ",":
        kept = pc.replace_substring(kept, ",", ".")
    return kept.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)


def seconds_in(texts: pa.Array, form: str) -> np.ndarray:
    """Convert texts (n,) to float64 seconds since the epoch; texts that are not times in this `form` become NaN."""
    if form.endswith("%S"):
        texts = pc.replace_substring_regex(texts, _TAIL, r"\1")
    times = pc.strptime(texts, format=form, unit="s", error_is_null=True)
    return times.cast(pa.int64()).cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)


def _form(kind: pa.DataType) -> str:
    is_type = pa.types
    if is_type.is_null(kind):
        return "nothing"
    if is_type.is_boolean(kind):
        return "boolean"
    if is_type.is_dictionary(kind):
        return "levels"
    if is_type.is_temporal(kind) and not is_type.is_interval(kind) and not is_type.is_duration(kind):
        return "time"
    numeric = (is_type.is_integer, is_type.is_floating, is_type.is_decimal, is_type.is_duration)
    return "number" if any(test(kind) for test in numeric) else "text"


def _plain(column: pa.Array, form: str) -> pa.Array:
    """Convert the cells to one of the types that the methods of `Cells` handle."""
    if form == "number":
        if pa.types.is_duration(column.type):
            return pc.divide(column.cast(pa.int64()).cast(pa.float64(), safe=False), float(_UNITS[column.type.unit]))
        return column if pa.types.is_integer(column.type) else column.cast(pa.float64())
    return _as_text(column) if form == "text" else column


def _as_text(column: pa.Array) -> pa.Array:
    """Convert cells to text. Arrow writes whole numbers of any type without a decimal point."""
    try:
        return column.cast(pa.large_string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        cells = [None if cell is None else str(cell) for cell in column.to_pylist()]
        return pa.array(cells, pa.large_string())


def _floats(column: pa.Array) -> np.ndarray:
    return column.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
