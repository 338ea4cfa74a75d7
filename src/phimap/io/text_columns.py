"""Columns of text tables, each with one type throughout the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from phimap._files import one_line
from phimap.io.arrow import is_numeric
from phimap.io.column_file import ColumnFile
from phimap.io.columns import SchemaError
from phimap.io.csv_file import CellError, CharacterError, CsvFile, refuse_header_only
from phimap.io.skipped import Skipped
from phimap.io.source import LABELS, TableSource

# An encoding in which every byte is a character.
_ANY_BYTE = "latin-1"


class TextColumns(ColumnFile):
    """Columns of a text table.

    Types are inferred from the first block, until `settle` determines types that hold for all rows. In columns that the
    user declares numeric, non-numeric cells are missing, unless bad rows are an error.
    """

    def __init__(self, source: TableSource) -> None:
        self._source = source
        self._skips = source.bad_rows.ragged == "skip"
        self._file = CsvFile(source)
        self._types: dict[str, pa.DataType] = {}
        # The first cell that is not a number, for each column that the user declares numeric and that has such a cell.
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

    def settle(self, columns: Sequence[str], target: str | None) -> pa.Schema:
        """Read the file to determine types of `columns` that fit every row, and return these types.

        Columns that the user declares as categories or texts are read as written. A numeric column with text further
        down becomes text, which `TableEncoder` parses. The `target` keeps the type inferred from the first block, so
        that a wrong cell is reported.
        """
        self._types = {name: self._first_guess(name) for name in columns}
        while True:
            try:
                for _ in self._file.blocks(columns, self._types, Skipped() if self._skips else None):
                    pass
                break
            except CellError as error:
                if not self._count_as_missing(error):
                    self._types[error.column] = self._wider(error, target)
            except CharacterError:
                self._file = CsvFile(self._source, encoding=_ANY_BYTE)
        return pa.schema([(name, pa.float64() if name in self._unread else kind) for name, kind in self._types.items()])

    def read_as(self, types: Mapping[str, pa.DataType]) -> None:
        self._types |= types

    def blocks(self, columns: Sequence[str], rows: int, skipped: Skipped) -> Iterator[pa.RecordBatch]:
        log, n_given = skipped if self._skips else None, 0
        while True:
            # A column without a settled type has the type of its first block.
            types = {name: self._types[name] for name in columns if name in self._types}
            n_read = 0
            try:
                for block in self._file.blocks(columns, types, log):
                    n_read += block.num_rows
                    if (n_new := n_read - n_given) > 0:
                        n_given = n_read
                        yield self._with_numbers(block.slice(max(0, block.num_rows - n_new)))
                return
            except SchemaError as error:
                # The parser starts again with other types. Rows that were already yielded are not yielded again.
                if isinstance(error, CellError):
                    if not self._count_as_missing(error):
                        raise
                elif not self._skips or "number" not in self._source.types.values():
                    raise
                else:
                    self._file = CsvFile(self._source, encoding=_ANY_BYTE)

    def _count_as_missing(self, error: CellError) -> bool:
        """Whether a non-numeric cell counts as missing because the user declares its column numeric.

        The column is parsed as text from then on. If bad rows are not skipped, the error is raised.
        """
        if self._source.types.get(error.column) != "number":
            return False
        if not self._skips:
            raise error
        self._unread[error.column] = error.value
        self._types[error.column] = pa.string()
        return True

    def _with_numbers(self, block: pa.RecordBatch) -> pa.RecordBatch:
        """Convert the columns that were parsed as text to numbers; a cell that is not a number is missing."""
        if not self._unread:
            return block
        # Imported here because `phimap.tables` loads scikit-learn, which most readers do not need.
        from phimap.tables.parsing import numbers_in

        decimal = self._file.dialect.decimal
        cells = {name: block.column(name) for name in block.schema.names}
        for name in self._unread.keys() & cells.keys():
            cells[name] = pa.array(numbers_in(cells[name], decimal), from_pandas=True)
        return pa.RecordBatch.from_pydict(cells)

    def _top(self) -> pa.Schema:
        """Return the types inferred from the first block."""
        top = next(self._file.blocks((), {}, Skipped() if self._skips else None), None)
        if top is None or not top.num_rows:
            refuse_header_only(self._source.where)
        if any(pa.types.is_binary(field.type) for field in top.schema):
            self._file = CsvFile(self._source, encoding=_ANY_BYTE)
            return self._top()
        return top.schema

    def _first_guess(self, name: str) -> pa.DataType:
        """The type in which a column is read at first."""
        kind, inferred = self._source.types.get(name), self.schema.field(name).type
        if kind in LABELS:
            return pa.string()
        return pa.float64() if kind == "number" and not is_numeric(inferred) else inferred

    def _wider(self, error: CellError, target: str | None) -> pa.DataType:
        """Return a wider type for a column that has a cell of another type; text in a numeric `target` is an error."""
        kind = self._types[error.column]
        if pa.types.is_integer(kind) or pa.types.is_null(kind):
            try:
                float(error.value.replace(",", "."))
                return pa.float64()
            except ValueError:
                pass
        if error.column == target and not pa.types.is_null(kind):
            raise error
        return pa.string()
