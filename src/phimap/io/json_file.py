"""JSON records: an array of objects, or one object on each line. A whole file is loaded, within the byte budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from phimap._files import DataError, one_line
from phimap.config import memory_budget
from phimap.io.archive import uncompressed
from phimap.io.whole_file import WholeFile, column_of

# Whole numbers with up to this number of digits fit float64. Python raises an error for more than a few thousand
# digits, and its conversion takes more than linear time.
_MOST_DIGITS = 308
# Ratio of the bytes of the Python objects in memory to the bytes of the text.
_EXPANSION = 12


class JsonColumns(WholeFile):
    """Columns of JSON records. A key that a record lacks is a missing cell; lists and objects become text."""

    kind = "JSON"

    @staticmethod
    def read_whole(where: str, path: Path) -> pa.Table:
        records = _records(where, _read_text(where, path))
        names = list(dict.fromkeys(name for record in records for name in record))
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
        found = json.loads(text, parse_int=_whole) if text.lstrip().startswith("[") else _lines(text)
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
                found.append(json.loads(line, parse_int=_whole))
            except json.JSONDecodeError as error:
                error.lineno = number
                raise
    return found


def _whole(digits: str) -> int | float:
    """A whole number; infinity if float64 cannot hold it. The reader raises an error for infinity."""
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _column(values: list[Any]) -> pa.Array:
    """Return the values as a column, in which lists and objects are text."""
    return column_of([json.dumps(value) if isinstance(value, dict | list) else value for value in values])
