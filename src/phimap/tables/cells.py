"""Columns of frames as Arrow arrays, with cells read as numbers, times or text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from phimap._missing import MISSING_MARKS
from phimap._number_text import DECIMAL_KEY
from phimap.tables.amounts import negatives_in, numbers_in, readings_of

# The type is Any because the functions are created at import, so type checkers cannot see them.
pc: Any = pyarrow.compute
# The end of a time: seconds, a fraction and a time zone. The formats include the seconds, but not the fraction and the
# zone.
_TAIL = r"(:\d{2})(\.\d+)?(Z|[+-]\d{2}:?\d{2})?$"
# The time zone at the end of a time.
_ZONE = r":\d{2}(?:\.\d+)?(?P<zone>Z|[+-]\d{2}:?\d{2})$"
# The digits of a year in a format of times, and dates of which the year may have two digits.
_YEARS = {"%Y": r"\d{4}", "%y": r"\d{2}"}
_SHORT_YEAR = r"^\d{1,2}([./-])(\d{1,2}|[A-Za-z]{3})[./-]\d{1,2}( |$)"
_TEXT = pa.large_string()
_MARKS = pa.array(MISSING_MARKS, _TEXT)
_DAY = 86400.0
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def columns_of(X: Any) -> Iterator[tuple[str, pa.Array]]:
    """Yield the name and cells of each column of a frame or an array (n, d), which has columns ``x0, x1, ...``."""
    if hasattr(X, "iloc"):
        for name, column in X.items():
            if getattr(column.dtype, "kind", "O") == "c":
                raise ValueError(
                    f"`X` must not be complex, got {column.dtype} in column {str(name)!r}. Split its parts."
                )
            # Arrow looks for the methods of an array in a column of pandas, which is slow, so the column is converted
            # first.
            yield str(name), _of_objects(column.to_numpy() if isinstance(column.dtype, np.dtype) else column)
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


def decimal_mark(X: Any) -> str:
    """The decimal mark of the file from which an Arrow table was read; a point for other frames."""
    metadata = X.schema.metadata if isinstance(X, pa.Table | pa.RecordBatch) else None
    return (metadata or {}).get(DECIMAL_KEY, b".").decode()


def missing_cells(names: list[str]) -> pa.Table:
    """A row of missing cells in columns of these names."""
    return pa.table([pa.nulls(1) for _ in names], names=names)


def _of_objects(values: Any) -> pa.Array:
    """Convert a column of pandas or NumPy to an Arrow array; cells of mixed types become text."""
    try:
        # Floats are not copied, and their missing cells stay NaN.
        array = pa.array(values, from_pandas=values.dtype not in (np.float32, np.float64))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        # Missing values of pandas cannot be compared with each other, so texts are compared.
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
    decimal : {".", ","}
        The decimal mark of the file.

    Attributes
    ----------
    form : {"number", "boolean", "time", "levels", "text", "nothing"}
        Determined by the Arrow type. ``"levels"`` is a dictionary column, ``"nothing"`` a column without values.
    n_unread : int
        Number of cells with a value that the last call of `numbers` or `seconds` could not read.
    first_unread : str or None
        The first of these cells.
    """

    def __init__(self, name: str, column: pa.Array, decimal: str = "."):
        self.name = name
        self.n_unread = 0
        self._decimal = decimal
        self.first_unread: str | None = None
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

    def seconds(self, form: str, zone: str | None = None) -> np.ndarray:
        """Return the cells as seconds (n,) of local time since the epoch, or NaN for cells that are not times.

        Parameters
        ----------
        form : str
            Format of times that are text.
        zone : str, optional
            Time zone to which times are converted; ``""`` for times without a zone. None keeps the zone of each cell.

        Raises
        ------
        ValueError
            If only one of `zone` and the cells has a time zone.
        """
        if self.is_text:
            local = seconds_in(self._distinct, form)
            if zone is not None:
                offsets = offsets_in(self._distinct, form)
                offsets[np.isnan(local)] = np.nan
                if (~np.isnan(local)).any():
                    self._check_zone(zone, has_zone=not np.isnan(offsets[~np.isnan(local)]).any())
                local = _in_zone(local - offsets, zone) if zone else local
            return self._of_distinct(local)
        if self.form != "time":
            self.n_unread = len(self) - self._column.null_count
            return np.full(len(self), np.nan)
        column, kind = self._column, self._column.type
        if zone is not None and column.null_count < len(column):
            self._check_zone(zone, has_zone=bool(self.zone))
        if pa.types.is_date(kind):
            column, kind = column.cast(pa.timestamp("s")), pa.timestamp("s")
        elif self.zone:
            column = column.cast(pa.timestamp(kind.unit, zone)) if zone else column
            # Local time is used, because daily habits follow local time.
            column = pc.local_timestamp(column)
        return _floats(column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())) / _UNITS[kind.unit]

    @property
    def zone(self) -> str:
        """The time zone of a column of times; empty if it has none."""
        return self._column.type.tz or "" if pa.types.is_timestamp(self._column.type) else ""

    def offsets(self, form: str) -> set[str]:
        """The offsets of texts in this `form`, such as ``"+09:00"``; ``""`` stands for times without an offset."""
        if not self.is_text:
            return set()
        offsets = offsets_in(self._distinct, form)[~np.isnan(seconds_in(self._distinct, form))]
        return {_offset_text(offset) for offset in np.unique(offsets)}

    def _check_zone(self, zone: str, *, has_zone: bool) -> None:
        if has_zone and not zone:
            raise ValueError(
                f"column {self.name!r} must hold times without a time zone, as in the training rows, got times with "
                "one. Convert them to the zone of the training rows, and leave it out: tz_convert, tz_localize(None)."
            )
        if zone and not has_zone:
            raise ValueError(
                f"column {self.name!r} must hold times with a time zone, such as {zone!r} of the training rows, got "
                "times without one. State their zone: tz_localize."
            )

    @cached_property
    def codes(self) -> np.ndarray:
        """The index (n,) in `texts` of every cell; -1 for missing cells."""
        return _codes(self._encoded.indices, -1)

    @cached_property
    def texts(self) -> list[str]:
        """The distinct cells as text."""
        return self._distinct.to_pylist()

    def readings(self, *, any_currency: bool = False) -> list[str]:
        """Return the ways in which the cells may be read as numbers; see `readings_of`."""
        return readings_of(self.texts, self._decimal, any_currency=any_currency) if self.is_text else ["."]

    @property
    def may_have_short_years(self) -> bool:
        """Whether some cells are text like a date with a year of two digits, or all are missing."""
        found = pc.any(pc.match_substring_regex(self._distinct, _SHORT_YEAR)).as_py() if self.is_text else False
        return found is not False

    @property
    def has_negatives(self) -> bool:
        """Whether some cells are text in parentheses, which numbers have if they are negative."""
        return self.is_text and negatives_in(self._distinct)

    def places_in(self, levels: tuple[str, ...]) -> np.ndarray:
        """The index (n,) in `levels` of every cell; ``len(levels)`` if missing, ``len(levels) + 1`` if unknown."""
        known = _places_of(levels)
        return np.array([*(known.get(text, len(levels) + 1) for text in self.texts), len(levels)])[self.codes]

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
            column = column.dictionary_encode()
        plain = _as_text(column.dictionary)
        texts = pc.utf8_trim_whitespace(plain)
        texts = pc.if_else(pc.is_in(texts, value_set=_MARKS), None, texts)
        if texts.equals(plain) and not plain.null_count:
            return pa.DictionaryArray.from_arrays(column.indices, plain)
        again = texts.dictionary_encode()
        # Texts that differ only by spaces become one text.
        places = np.append(_codes(again.indices, -1), -1)
        codes = places[_codes(column.indices, len(texts))]
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int64(), mask=codes < 0), again.dictionary)

    def _of_distinct(self, values: np.ndarray) -> np.ndarray:
        found = np.append(values, np.nan)[self.codes]
        unread = np.isnan(found) & ~self.missing
        self.n_unread = int(unread.sum())
        self.first_unread = self._distinct[int(self.codes[unread.argmax()])].as_py() if self.n_unread else None
        return found


def text_column(texts: np.ndarray) -> pa.Array:
    """Return texts (n,) as an Arrow array."""
    return pa.array(texts.tolist(), _TEXT)


def seconds_in(texts: pa.Array, form: str) -> np.ndarray:
    """Convert texts (n,) to float64 seconds since the epoch; texts that are not times in this `form` become NaN.

    A year has exactly four digits, or two in a `form` with ``%y``. Without a year, times are of the first day of 1970,
    and minutes have two digits.
    """
    if form.endswith("%S"):
        texts = pc.replace_substring_regex(texts, _TAIL, r"\1")
    has_year, needed = _needed_in(form)
    texts = pc.if_else(pc.match_substring_regex(texts, needed), texts, None)
    times = pc.strptime(texts, format=form, unit="s", error_is_null=True)
    seconds = times.cast(pa.int64()).cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    return seconds if has_year else seconds % _DAY


@cache
def _needed_in(form: str) -> tuple[bool, str]:
    """Whether a format has a year, and the pattern of the year, or else of the clock, in texts of the format.

    ``strptime`` takes fewer digits as well.
    """
    found = re.search("%[Yy]", form)
    if found is None:
        return False, r"^\d{1,2}:\d{2}(:\d{2})?( ?[APap][Mm])?$"
    following = form[found.end() : found.end() + 1]
    return True, (r"\D" if found.start() else "^") + _YEARS[found[0]] + (re.escape(following) or "$")


def offsets_in(texts: pa.Array, form: str) -> np.ndarray:
    """Seconds (n,) by which the local times of texts (n,) are ahead of UTC; NaN for texts without an offset."""
    if not form.endswith("%S"):
        return np.full(len(texts), np.nan)
    found = pc.struct_field(pc.extract_regex(texts, _ZONE), "zone")
    distinct = found.dictionary_encode()
    known = [np.nan if text is None else _offset(text) for text in [*distinct.dictionary.to_pylist(), None]]
    return np.array(known)[distinct.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)]


def _offset(text: str) -> float:
    """The seconds of an offset such as ``Z``, ``+0900`` or ``-05:30``."""
    if text == "Z":
        return 0.0
    digits = text[1:].replace(":", "")
    return float(f"{text[0]}1") * (3600 * int(digits[:2]) + 60 * int(digits[2:]))


def _offset_text(offset: float) -> str:
    """Return an offset in seconds as the name of a time zone; empty for NaN."""
    if np.isnan(offset):
        return ""
    hours, seconds = divmod(int(abs(offset)), 3600)
    return f"{'-' if offset < 0 else '+'}{hours:02}:{seconds // 60:02}"


def _in_zone(seconds: np.ndarray, zone: str) -> np.ndarray:
    """Convert seconds (n,) of UTC to seconds of local time in a time zone; NaN stays."""
    missing = np.isnan(seconds)
    times = pa.array(np.where(missing, 0, seconds).astype(np.int64), pa.timestamp("s", zone))
    local = pc.local_timestamp(times).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return np.where(missing, np.nan, local)


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
    if column.type == _TEXT:
        return column
    try:
        return column.cast(pa.large_string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        cells = [None if cell is None else str(cell) for cell in column.to_pylist()]
        return pa.array(cells, pa.large_string())


def _codes(indices: pa.Array, missing: int) -> np.ndarray:
    """The indices of a dictionary column as int64 (n,), with a number for missing cells."""
    return (indices.fill_null(missing) if indices.null_count else indices).to_numpy().astype(np.int64)


@lru_cache(maxsize=256)
def _places_of(levels: tuple[str, ...]) -> dict[str, int]:
    """The index of each level. It is cached, because every prediction uses the same levels."""
    return {level: place for place, level in enumerate(levels)}


def _floats(column: pa.Array) -> np.ndarray:
    column = column if column.type == pa.float64() else column.cast(pa.float64(), safe=False)
    return (column.fill_null(np.nan) if column.null_count else column).to_numpy(zero_copy_only=False)
