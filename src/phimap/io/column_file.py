"""Files that store columns with their types, and their numbers as a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

import numpy as np
import pyarrow as pa

from phimap._files import DataError, NoRowsError, one_line
from phimap.io.arrow import check_types, to_arrays
from phimap.io.columns import select_columns
from phimap.io.skipped import Skipped
from phimap.io.source import TableSource
from phimap.io.table import Table

# Columns are decoded a few rows at a time: the block beside the batch stays small.
_DECODED_ROWS = 2**14
_DECODED_BYTES = 2**24
# A damaged file raises Arrow's own errors, and those of the description that pandas leaves in it.
_DAMAGES = (
    pa.ArrowException,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)


class ColumnFile(ABC):
    """A file of named columns.

    Attributes
    ----------
    where : str
    schema : pyarrow.Schema
    n_rows : int or None
        None where only reading tells.
    hidden : tuple of str
        Columns that are used only if they are named, as the row index that pandas stores.
    """

    def __init__(self, where: str, schema: pa.Schema, n_rows: int | None, hidden: Sequence[str] = ()) -> None:
        if n_rows == 0:
            raise NoRowsError(f"{where}: there are no rows. Check the file.")
        self.where = where
        self.schema = schema
        self.n_rows = n_rows
        self.hidden: tuple[str, ...] = tuple(hidden)

    @property
    def notes(self) -> list[str]:
        """What was recognised, in words."""
        return []

    @property
    def parts(self) -> Sequence[ColumnFile]:
        """The files that hold the rows, in their order."""
        return (self,)

    @property
    def types_by_look(self) -> bool:
        """Whether the types of columns are those that their cells look like."""
        return False

    def row_name(self, number: int) -> str:
        """What messages call the row of a number, counted from 1."""
        return str(number)

    @abstractmethod
    def read_as(self, types: Mapping[str, pa.DataType]) -> None:
        """Give columns these types from now on, which hold their cells; a file that stores types has its own."""

    @abstractmethod
    def settle(self, columns: Sequence[str], kinds: Mapping[str, str], target: str | None) -> pa.Schema:
        """Types of `columns` that hold for every row; they may depend on the `kinds` that the user says they are."""

    @abstractmethod
    def blocks(self, columns: Sequence[str], rows: int, skipped: Skipped) -> Iterator[pa.RecordBatch]:
        """Rows of the chosen `columns` in file order, `rows` are wanted; those that cannot be read go to `skipped`."""


class TypedFile(ColumnFile):
    """A file that stores the types of its columns.

    Attributes
    ----------
    kind : str
        What messages call such a file.
    """

    kind: ClassVar[str]

    def read_as(self, types: Mapping[str, pa.DataType]) -> None:
        pass

    def settle(self, columns: Sequence[str], kinds: Mapping[str, str], target: str | None) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in columns])

    def blocks(self, columns: Sequence[str], rows: int, skipped: Skipped) -> Iterator[pa.RecordBatch]:
        # Whatever is wanted: decoding fewer at a time costs up to twice as much a row.
        return self._read(columns, max(1, min(_DECODED_ROWS, _DECODED_BYTES // (8 * len(columns)))))

    @staticmethod
    def _row_index(schema: pa.Schema) -> list[str]:
        """The columns in which pandas stored its row index."""
        described = schema.pandas_metadata or {}
        return [name for name in described.get("index_columns", ()) if name in schema.names]

    @classmethod
    @contextmanager
    def _damage_told(cls, where: str) -> Iterator[None]:
        """Tell in a line of what a damaged file raises."""
        try:
            yield
        except DataError:
            raise
        except _DAMAGES as error:
            raise DataError(f"{where}: damaged or no {cls.kind} file ({one_line(error)}). Write it again.") from None

    @abstractmethod
    def _read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Rows of `columns` in file order, at most `rows` at a time."""


class ColumnTable(Table):
    """Numbers in a file of typed columns."""

    def __init__(self, source: TableSource, file: ColumnFile) -> None:
        selection = select_columns(
            file.where, file.schema.names, source.target, source.columns, source.drop, hidden=file.hidden
        )
        check_types(file.where, file.schema, selection)
        self._selection = selection
        self._file = file
        super().__init__(source, selection.features, selection.target_name, n_rows=file.n_rows)
        self.notes = tuple(file.notes)

    def row_name(self, number: int) -> str:
        return self._file.row_name(number)

    def _blocks(self, rows: int, skipped: Skipped) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        chosen = [*self._selection.features, *self._selection.targets]
        for block in self._file.blocks(chosen, rows, skipped):
            yield to_arrays(block, self._selection)
