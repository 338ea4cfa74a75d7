"""Columns of text tables: one type for each, which holds throughout the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from phimap._files import one_line
from phimap.io.arrow import is_numeric
from phimap.io.column_file import ColumnFile
from phimap.io.csv_file import CellError, CharacterError, CsvFile, refuse_header_only
from phimap.io.skipped import Skipped
from phimap.io.source import LABELS, TableSource

# Every byte is a character of this encoding.
_ANY_BYTE = "latin-1"


class TextColumns(ColumnFile):
    """Columns of a text table; `settle` finds the types in which rows are read, until then the first block tells."""

    def __init__(self, source: TableSource) -> None:
        self._source = source
        self._file = CsvFile(source)
        self._types: dict[str, pa.DataType] = {}
        # The first cell of columns of numbers that is none.
        self._unread: dict[str, str] = {}
        super().__init__(source.where, self._top(), None)

    @property
    def types_by_look(self) -> bool:
        return True

    @property
    def notes(self) -> list[str]:
        unread = [
            f"what is no number in column {name!r}, such as {one_line(value)!r}, counts as missing"
            for name, value in self._unread.items()
        ]
        return self._file.dialect.notes + unread

    def settle(self, columns: Sequence[str], kinds: Mapping[str, str], target: str | None) -> pa.Schema:
        """Types of `columns` that hold for every row, found by reading the file once.

        Columns that are said to be words, by their `kinds`, are read as they are written; of those that are said to be
        numbers all else is missing, unless bad rows are an error. A number that text follows further down makes its
        column text, which `TableEncoder` reads; the `target` stays what it is at the top, so that a mistake is
        reported.
        """
        types = {name: _first_guess(self.schema.field(name).type, kinds.get(name)) for name in columns}
        while True:
            try:
                for _ in self._file.blocks(columns, types, self._log()):
                    pass
                break
            except CellError as error:
                if kinds.get(error.column) == "number":
                    if self._log() is None:
                        raise
                    self._unread[error.column] = error.value
                    types[error.column] = pa.string()
                    continue
                kind, wider = types[error.column], _wider(types[error.column], error.value)
                if error.column == target and not pa.types.is_null(kind) and pa.types.is_string(wider):
                    raise
                types[error.column] = wider
            except CharacterError:
                self._file = CsvFile(self._source, encoding=_ANY_BYTE)
        self._types = types
        return pa.schema([(name, pa.float64() if name in self._unread else kind) for name, kind in types.items()])

    def read_as(self, types: Mapping[str, pa.DataType]) -> None:
        self._types |= types

    def blocks(self, columns: Sequence[str], rows: int, skipped: Skipped) -> Iterator[pa.RecordBatch]:
        # A column of which nothing is known has the type of its first block.
        types = {name: self._types[name] for name in columns if name in self._types}
        noted = skipped if self._source.bad_rows.ragged == "skip" else None
        for block in self._file.blocks(columns, types, noted):
            yield self._with_numbers(block) if self._unread else block

    def _with_numbers(self, block: pa.RecordBatch) -> pa.RecordBatch:
        """The block with numbers in place of the texts that stand for them, missing where there are none."""
        # The room of tables loads scikit-learn, which reading takes no part of.
        from phimap.tables.parsing import numbers_in

        decimal = self._file.dialect.decimal
        cells = {name: block.column(name) for name in block.schema.names}
        for name in self._unread.keys() & cells.keys():
            cells[name] = pa.array(numbers_in(cells[name], decimal), from_pandas=True)
        return pa.RecordBatch.from_pydict(cells)

    def _top(self) -> pa.Schema:
        """Types by the first block."""
        top = next(self._file.blocks((), {}, self._log()), None)
        if top is None or not top.num_rows:
            refuse_header_only(self._source.where)
        if any(pa.types.is_binary(field.type) for field in top.schema):
            self._file = CsvFile(self._source, encoding=_ANY_BYTE)
            return self._top()
        return top.schema

    def _log(self) -> Skipped | None:
        return Skipped() if self._source.bad_rows.ragged == "skip" else None


def _first_guess(inferred: pa.DataType, kind: str | None) -> pa.DataType:
    if kind in LABELS:
        return pa.string()
    return pa.float64() if kind == "number" and not is_numeric(inferred) else inferred


def _wider(kind: pa.DataType, value: str) -> pa.DataType:
    """A type for a column of `kind` in which a cell holds `value`."""
    if pa.types.is_integer(kind) or pa.types.is_null(kind):
        try:
            float(value.replace(",", "."))
        except ValueError:
            return pa.string()
        return pa.float64()
    return pa.string()
