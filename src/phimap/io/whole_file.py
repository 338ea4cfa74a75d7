"""Files that are loaded whole, within the byte budget. Their cells have types, but their columns have none."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from phimap._files import NoRowsError
from phimap.io.column_file import TypedFile
from phimap.io.source import TableSource


class WholeFile(TypedFile):
    """Columns of a file that is loaded whole.

    The columns stay in memory, unless the file is one of several parts of a table. In this case each pass reads the
    file again.
    """

    types_by_look = True

    def __init__(self, source: TableSource) -> None:
        self._path, columns = source.path, self.read_whole(source.where, source.path)
        if not columns.schema.names:
            raise NoRowsError(f"{source.where}: there are no rows. Check the file.")
        super().__init__(source.where, columns.schema, len(columns))
        self._columns = None if source.is_part else columns

    @staticmethod
    @abstractmethod
    def read_whole(where: str, path: Path) -> pa.Table:
        """Return all columns of a file."""

    def _read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        table = self.read_whole(self.where, self._path) if self._columns is None else self._columns
        yield from table.select(list(columns)).to_batches(max_chunksize=rows)


def column_of(values: list[Any]) -> pa.Array:
    """Return a column of Booleans or of numbers if all `values` are of this type, else a column of text.

    None is missing.
    """
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
