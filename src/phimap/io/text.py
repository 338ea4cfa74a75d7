"""CSV and gzipped CSV, parsed by pyarrow in a stream of blocks."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from phimap._files import DataError, one_line
from phimap.io.arrow import is_numeric, to_arrays
from phimap.io.columns import Selection, numbered_names, refuse_feature, select_columns
from phimap.io.source import Source
from phimap.io.table import Table

# Arrow parses whole rows within a block: a block of 16 rows of the longest kind seen at the top leaves room
# for longer ones, and 1 MB is Arrow's own default.
_BLOCK_BYTES = 2**20
_BLOCK_ROWS = 16
_HEAD_BYTES = 2**16

_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_UNREADABLE = re.compile(r"column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\w+): invalid value '(.*)'", re.S)


class TextTable(Table):
    """Rows of a CSV file; column types are settled by the first block, numbers always being float64."""

    def __init__(self, source: Source) -> None:
        self._path = source.path
        self._packed = source.path.name.lower().endswith(".gz")
        where = source.where
        first_line, block_bytes = _read_head(where, source)
        headerless = _all_numbers(first_line)
        self._read = arrow_csv.ReadOptions(
            block_size=block_bytes,
            # One parsing thread keeps rows countable for messages, and is as fast: parsing is serial anyway.
            use_threads=False,
            column_names=list(numbered_names(len(first_line))) if headerless else None,
        )
        self._header_rows = 0 if headerless else 1
        self._names: list[str] = []
        # Before columns are chosen nothing is converted to more than its inferred type.
        with self._explained(where), self._reader(None, {}) as reader:
            schema = reader.schema
            self._names = schema.names
            selection = select_columns(where, schema.names, source.target, source.columns, source.drop)
            top = next(iter(reader), None)
            if top is None or not top.num_rows:
                _refuse_header_only(where)
        for name in selection.features:
            _check_feature(where, name, top)
        self._selection = selection
        self._types = {name: _feature_type(schema.field(name).type) for name in selection.features}
        several = isinstance(selection.target_name, tuple)
        for name in selection.targets:
            self._types[name] = _target_type(schema.field(name).type)
            if several and pa.types.is_string(self._types[name]):
                raise DataError(f"{where}: target column {name!r} holds text; several targets must be numbers.")
        self._whole_target = not several and any(
            pa.types.is_integer(schema.field(name).type) for name in selection.targets
        )
        super().__init__(source, selection.features, selection.target_name, n_rows=None)

    def _blocks(self, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        with self._explained(self._where), self._reader(self._selection, self._types) as reader:
            for block in reader:
                yield to_arrays(block, self._selection)

    def _rebatched(self, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        for X, y in super()._rebatched(rows):
            if y is not None and self._whole_target and np.array_equal(y, np.rint(y)):
                yield X, y.astype(np.int64)
            else:
                yield X, y

    @contextmanager
    def _reader(self, selection: Selection | None, types: dict[str, Any]) -> Iterator[Any]:
        """Pyarrow's stream of record batches over the chosen columns."""
        chosen = [*selection.features, *selection.targets] if selection else []
        options = arrow_csv.ConvertOptions(include_columns=chosen, column_types=types)
        with (
            pa.input_stream(str(self._path), compression="gzip" if self._packed else None) as stream,
            arrow_csv.open_csv(
                stream,
                read_options=self._read,
                parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
                convert_options=options,
            ) as reader,
        ):
            yield reader

    @contextmanager
    def _explained(self, where: str) -> Iterator[None]:
        """Turn pyarrow's complaints into one line that says where and what to do."""
        try:
            yield
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            self._explain(where, error)

    def _explain(self, where: str, error: Exception) -> NoReturn:
        text = str(error)
        if match := _RAGGED.search(text):
            row = int(match[1]) - self._header_rows
            raise DataError(
                f"{where}: data row {row} has {match[3]} values, {match[2]} expected. Correct the row."
            ) from None
        if match := _UNREADABLE.search(text):
            position = int(match[1])
            name = self._names[position] if position < len(self._names) else f"number {position + 1}"
            row = int(match[2]) - self._header_rows if match[2] else "unknown"
            kind = "a number" if match[3] == "double" else f"of type {match[3]} like the rows above"
            raise DataError(
                f"{where}: data row {row}, column {name!r} holds {one_line(match[4])!r}, not {kind}. "
                "Correct it, drop the row, or leave the column out with drop=..."
            ) from None
        if "Empty CSV" in text:
            _refuse_header_only(where)
        if "straddling" in text:
            raise DataError(
                f"{where}: a row is longer than {self._read.block_size} bytes (an open quote?). "
                "Correct it, or store wide rows as .npy or .parquet."
            ) from None
        if isinstance(error, UnicodeDecodeError) or "UTF8" in text:
            _refuse_encoding(where)
        if self._packed and isinstance(error, OSError):
            _refuse_gzip(where, error)
        raise DataError(f"{where}: cannot be read as CSV ({one_line(text)}). Check the file.") from None


def _read_head(where: str, source: Source) -> tuple[list[str], int]:
    """Fields of the first line, and a block size that holds the rows seen."""
    packed = source.path.name.lower().endswith(".gz")
    try:
        with gzip.open(source.path) if packed else source.path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
            # Very wide rows: the head must hold the first two lines.
            while head.count(b"\n") < 2 and (more := stream.read(max(len(head), 1))):
                head += more
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        _refuse_gzip(where, error)
    if not head.strip():
        raise DataError(f"{where}: the file is empty. Check the path.")
    try:
        # The cut may fall inside a character, which is no fault of the file's.
        text = head.decode("utf-8-sig", errors="strict" if len(head) < _HEAD_BYTES else "ignore")
        first = next(row for row in csv.reader(io.StringIO(text, newline="")) if row)
    except (UnicodeDecodeError, csv.Error, StopIteration):
        _refuse_encoding(where)
    for mark, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")):
        if len(first) == 1 and mark in first[0]:
            raise DataError(f"{where}: columns seem to be separated by {word}. Save the file with commas.")
    return first, max(_BLOCK_BYTES, _BLOCK_ROWS * max(map(len, head.splitlines())))


def _all_numbers(fields: list[str]) -> bool:
    """Whether the first line holds data: every field that is not blank is a number."""
    filled = [field for field in fields if field.strip()]
    try:
        return bool([float(field) for field in filled])
    except ValueError:
        return False


def _feature_type(inferred: pa.DataType) -> pa.DataType:
    # Later blocks may hold fractions, or values where the first had none.
    return inferred if pa.types.is_boolean(inferred) else pa.float64()


def _target_type(inferred: pa.DataType) -> pa.DataType:
    if pa.types.is_boolean(inferred):
        return inferred
    return pa.float64() if is_numeric(inferred) or pa.types.is_null(inferred) else pa.string()


def _check_feature(where: str, name: str, top: pa.RecordBatch) -> None:
    """Refuse a column whose first block is not numeric, quoting the first value that is not."""
    column = top.column(name)
    if is_numeric(column.type) or pa.types.is_null(column.type):
        return
    kind = "text" if pa.types.is_string(column.type) else str(column.type)
    for row, value in enumerate(column.to_pylist(), start=1):
        if not _all_numbers([str(value)]) and str(value).strip():
            refuse_feature(where, name, f"{kind} ({one_line(value)!r} in data row {row})")
    refuse_feature(where, name, kind)


def _refuse_header_only(where: str) -> NoReturn:
    raise DataError(f"{where}: has a header but no rows. Check the file.") from None


def _refuse_encoding(where: str) -> NoReturn:
    raise DataError(f"{where}: is not UTF-8 text. Save it as a UTF-8 CSV file.") from None


def _refuse_gzip(where: str, error: Exception) -> NoReturn:
    raise DataError(
        f"{where}: damaged or truncated gzip file ({one_line(error)}). Fetch or compress it again."
    ) from None
