"""JSON records: an array of objects, or one object on each line. A whole file is loaded, within the byte budget."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from phimap._files import DataError, NoRowsError, one_line
from phimap.config import memory_budget
from phimap.io.archive import uncompressed
from phimap.io.column_file import TypedFile
from phimap.io.source import TableSource

# Ratio of the bytes of the Python objects in memory to the bytes of the text.
_EXPANSION = 12


class JsonColumns(TypedFile):
    """Columns of JSON records. A key that a record lacks is a missing cell; lists and objects become text.

    The columns stay in memory, unless the file is one of several parts of a table. Each pass then reads the file again.
    """

    kind = "JSON"

    def __init__(self, source: TableSource) -> None:
        self._path, columns = source.path, _read_columns(source.where, source.path)
        super().__init__(source.where, columns.schema, len(columns))
        self._columns = None if source.is_part else columns

    @property
    def types_by_look(self) -> bool:
        return True

    def _read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        table = _read_columns(self.where, self._path) if self._columns is None else self._columns
        yield from table.select(list(columns)).to_batches(max_chunksize=rows)


def _read_columns(where: str, path: Path) -> pa.Table:
    """The columns of a file; raises if there are none."""
    records = _records(where, _read_text(where, path))
    names = list(dict.fromkeys(name for record in records for name in record))
    if not names:
        raise NoRowsError(f"{where}: there are no rows. Check the file.")
    return pa.table({name: _column([record.get(name) for record in records]) for name in names})


def _read_text(where: str, path: Path) -> str:
    limit = memory_budget() // _EXPANSION
    try:
        with uncompressed(path) as stream:
            content = stream.read(limit + 1)
    except OSError as error:
        raise DataError(f"{where}: damaged or truncated file ({one_line(error)}). Fetch it again.") from None
    if len(content) > limit:
        raise DataError(
            f"{where}: is longer than {limit} bytes, which take {memory_budget()} as records. Save it as Parquet or "
            "CSV, or raise phimap.config(memory=...)."
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{where}: is not UTF-8 text, as JSON must be. Save it as UTF-8.") from None


def _records(where: str, text: str) -> list[dict[str, Any]]:
    """The records of a text, which are the objects of an array or one object on each line."""
    try:
        found = json.loads(text) if text.lstrip().startswith("[") else _lines(text)
    except RecursionError:
        raise DataError(f"{where}: lists or objects are nested too deep. Save a list of flat records.") from None
    except json.JSONDecodeError as error:
        raise DataError(
            f"{where}: is not JSON at line {error.lineno} ({one_line(error.msg)}). Correct the line."
        ) from None
    other = next((n for n, record in enumerate(found, start=1) if not isinstance(record, dict)), None)
    if other is not None:
        raise DataError(f"{where}: record {other} is no object with named values. Save a list of records.")
    if len(found) == 1 and found[0] and all(isinstance(value, dict | list) for value in found[0].values()):
        raise DataError(
            f"{where}: holds one object of whole columns. Save a list of records, as pandas does by "
            "to_json(orient='records')."
        )
    return found


def _lines(text: str) -> list[Any]:
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError as error:
                error.lineno = number
                raise
    return found


def _column(values: list[Any]) -> pa.Array:
    """A column of Booleans or of numbers if all `values` are of this type, else a column of text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool}:
        return pa.array(values, type=pa.bool_() if kinds else pa.null())
    if kinds <= {int} and all(abs(value) < 2**63 for value in values if value is not None):
        return pa.array(values, type=pa.int64())
    if kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], type=pa.float64())
    return pa.array([_text(value) for value in values], type=pa.string())


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
