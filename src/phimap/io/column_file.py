"""Files of named columns: the interface that every format implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from phimap._files import NoRowsError
from phimap.io.archive import explained_damage
from phimap.io.columns import Selection, select_columns
from phimap.io.skipped import Skipped
from phimap.io.source import TableSource

# Maximum number of rows, and maximum number of bytes, that are decoded at a time. They are small, because memory holds
# the decoded block in addition to the batch.
_DECODED_ROWS = 2**14
_DECODED_BYTES = 2**24


class ColumnFile(ABC):
    """A file of named columns.

    Attributes
    ----------
    where : str
    schema : pyarrow.Schema
    n_rows : int or None
        Number of rows; None until the file has been read, if the file does not store it.
    hidden : tuple of str
        Columns that are used only if they are named, such as the row index that pandas stores.
    """

    #: Whether types are inferred from the cells because the file stores no types.
    types_by_look: bool = False
    #: The decimal mark of numbers that are text.
    decimal: str = "."

    def __init__(self, where: str, schema: pa.Schema, n_rows: int | None, hidden: Sequence[str] = ()) -> None:
        if n_rows == 0:
            raise NoRowsError(f"{where}: there are no rows. Check the file.")
        self.where = where
        self.schema = schema
        self.n_rows = n_rows
        self.hidden: tuple[str, ...] = tuple(hidden)

    @property
    def notes(self) -> list[str]:
        """The detected format of the file, such as its separator, in words."""
        return []

    @property
    def parts(self) -> Sequence[ColumnFile]:
        """The files that hold the rows, in order."""
        return (self,)

    def row_name(self, number: int) -> str:
        """The name of row `number`, counted from 1, in messages."""
        return str(number)

    def selected(self, source: TableSource) -> Selection:
        """The columns that `source` selects."""
        return select_columns(
            self.where, self.schema.names, source.target, source.columns, source.drop, hidden=self.hidden
        )

    def read_as(self, types: Mapping[str, pa.DataType]) -> None:
        """Set the types in which columns are read. A file that stores types ignores them."""
        return

    @abstractmethod
    def settle(self, columns: Sequence[str], target: str | None) -> pa.Schema:
        """Determine types of `columns` that fit every row, use these types from now on, and return them."""

    @abstractmethod
    def blocks(self, columns: Sequence[str], rows: int, skipped: Skipped) -> Iterator[pa.RecordBatch]:
        """Yield blocks of about `rows` rows of `columns` in file order; unreadable rows are added to `skipped`."""


class TypedFile(ColumnFile):
    """A file that stores the types of its columns.

    Attributes
    ----------
    kind : str
        The name of this kind of file in messages.
    """

    kind: ClassVar[str]

    def __init__(self, where: str, schema: pa.Schema, n_rows: int | None, hidden: Sequence[str] = ()) -> None:
        # Columns in which pandas stored its row index are hidden.
        with explained_damage(where, self.kind):
            described = schema.pandas_metadata or {}
            index = [name for name in described.get("index_columns", ()) if name in schema.names]
        super().__init__(where, schema, n_rows, (*index, *hidden))

    def settle(self, columns: Sequence[str], target: str | None) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in columns])

    def blocks(self, columns: Sequence[str], rows: int, skipped: Skipped) -> Iterator[pa.RecordBatch]:
        # `rows` is ignored, because decoding fewer rows at a time takes up to twice as long for each row.
        with explained_damage(self.where, self.kind, pa.ArrowException):
            yield from self._read(columns, max(1, min(_DECODED_ROWS, _DECODED_BYTES // (8 * len(columns)))))

    @abstractmethod
    def _read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield blocks of at most `rows` rows of `columns`, in file order."""
