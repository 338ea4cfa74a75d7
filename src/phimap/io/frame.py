"""Rows of a file as Arrow tables, with columns of any type and missing cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from phimap._files import DataError
from phimap.io.arrow import in_words, is_numeric, is_text, refuse_target, target_column, target_kind, value_type
from phimap.io.column_file import ColumnFile
from phimap.io.npy import ArrayTable
from phimap.io.rows import Rows
from phimap.io.skipped import BadRows, Skipped
from phimap.io.source import KINDS, TableSource
from phimap.io.target import refuse_value

# Average bytes of memory of a cell in typical tables.
_CELL_BYTES = 32


class Frame(Rows):
    """Rows of a file as batches ``(columns, y)``, where ``columns`` is an Arrow table; made by `open_frame`.

    Attributes
    ----------
    schema : pyarrow.Schema
        Names and types of the feature columns, the same in all batches.
    feature_names, target_name, n_rows, batch_rows, notes, skipped
        As in `Table`.
    """

    def __init__(
        self, source: TableSource, schema: pa.Schema, target_name: str | tuple[str, ...] | None, n_rows: int | None
    ) -> None:
        names = tuple(schema.names)
        super().__init__(source, names, target_name, n_rows=n_rows, row_bytes=_CELL_BYTES * (len(names) + 1))
        self.schema = schema

    def _finish_block(self, X: pa.Table, numbers: np.ndarray) -> tuple[pa.Table, np.ndarray | None]:
        """Return the columns unchanged; raise if a number is infinite."""
        for field in X.schema:
            if pa.types.is_floating(field.type):
                cells = X.column(field.name).to_numpy()
                if (infinite := np.isinf(cells)).any():
                    row = int(infinite.argmax())
                    refuse_value(self._where, cells[row], self.row_name(int(numbers[row])), field.name)
        return X, None


class ColumnFrame(Frame):
    """Rows of a file of named columns."""

    def __init__(self, source: TableSource, file: ColumnFile) -> None:
        where = file.where
        selection = file.selected(source)
        kinds = _checked_kinds(where, source.types, file.schema.names)
        features = tuple(name for name in selection.features if name and kinds.get(name) != "drop")
        if not features:
            nameless = " (those without a name are left out)" if "" in selection.features else ""
            raise DataError(
                f"{where}: no feature columns are left beside the target{nameless}. Name some with columns=..."
            )
        if selection.target_name is not None and not isinstance(selection.target_name, str):
            raise DataError(f"{where}: has several targets, and columns that are no numbers. Give one target.")
        self._file = file
        self._target = selection.target_name
        self._chosen = [*features, *selection.targets]
        settled = file.settle(self._chosen, self._target)
        schema = pa.schema([settled.field(name) for name in features])
        for field in schema:
            _check_feature(where, field)
        if self._target is not None:
            self._target_kind = _checked_target(where, settled.field(self._target))
        super().__init__(source, schema, self._target, file.n_rows)

    @property
    def notes(self) -> tuple[str, ...]:
        names = self._file.schema.names
        nameless = [f"column {names.index('') + 1} has no name and is left out"] if "" in names else []
        return (*self._file.notes, *(nameless if self.source.columns is None else []))

    def row_name(self, number: int) -> str:
        return self._file.row_name(number)

    def _blocks(self, rows: int, skipped: Skipped) -> Iterator[tuple[pa.Table, np.ndarray | None]]:
        for block in self._file.blocks(self._chosen, rows, skipped):
            columns = pa.Table.from_batches([block]).select(list(self.feature_names))
            yield columns, None if self._target is None else target_column(block.column(self._target))


class ArrayFrame(Frame):
    """Rows of an array with missing values."""

    def __init__(self, source: TableSource) -> None:
        kept = replace(source, dtype=np.dtype(np.float64), bad_rows=BadRows(target="keep", features="keep"))
        self._table = ArrayTable(kept)
        if self._table.is_image:
            raise DataError(f"{source.where}: has images with missing pixels. Fill them in.")
        schema = pa.schema([(name, pa.float64()) for name in self._table.feature_names])
        super().__init__(source, schema, self._table.target_name, self._table.n_rows)

    def _blocks(self, rows: int, skipped: Skipped) -> Iterator[tuple[pa.Table, np.ndarray | None]]:
        for X, y in self._table.batches(rows):
            yield pa.table([pa.array(column, from_pandas=True) for column in X.T], schema=self.schema), y


def _checked_kinds(where: str, kinds: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Check the kinds that the user gives to columns, and return them."""
    for name, kind in kinds.items():
        if name not in names:
            raise DataError(f"{where}: `types` names a column {name!r}, which there is not. Check its spelling.")
        if kind not in KINDS:
            raise ValueError(f"`types` must say one of {', '.join(KINDS)} of column {name!r}, got {kind!r}.")
    return dict(kinds)


def _check_feature(where: str, field: pa.Field) -> None:
    """Raise if a column holds lists or records."""
    if pa.types.is_nested(field.type):
        raise DataError(
            f"{where}: column {field.name!r} holds {in_words(field.type)}, not single values. Leave it out with "
            "drop=..."
        )


def _checked_target(where: str, field: pa.Field) -> str:
    """Return ``"i"`` for whole numbers, ``"b"`` for Booleans, else empty text; refuse targets of dates or lists."""
    kind = value_type(field.type)
    if pa.types.is_null(kind):
        raise DataError(f"{where}: target column {field.name!r} has no values. Choose another target.")
    if not is_numeric(kind) and not is_text(kind):
        refuse_target(where, field.name, kind)
    return target_kind(kind)
