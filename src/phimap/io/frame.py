"""Rows of files of named columns: as arrays of numbers, or as Arrow tables with columns of any type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np
import pyarrow as pa

from phimap._files import DataError, one_line
from phimap._number_text import DECIMAL_KEY, reads_as_number
from phimap.io.arrow import in_words, is_numeric, is_text, target_column, target_kind, to_arrays, value_type
from phimap.io.column_file import ColumnFile
from phimap.io.npy import ArrayTable
from phimap.io.rows import Rows, Table
from phimap.io.skipped import BadRows, Skipped
from phimap.io.source import KINDS, LABELS, TableSource
from phimap.io.target import TextTarget, refuse_value

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
        """Return the columns unchanged, and the mask of rows without infinite numbers; None if no number is infinite.

        If the policy for infinite numbers is ``"error"``, raise at an infinite number instead.
        """
        usable = None
        for field in X.schema:
            if pa.types.is_floating(field.type):
                cells = X.column(field.name).to_numpy()
                if not (infinite := np.isinf(cells)).any():
                    continue
                if self.source.bad_rows.infinite == "error":
                    row = int(infinite.argmax())
                    refuse_value(self.where, cells[row], self.row_name(int(numbers[row])), field.name)
                usable = ~infinite if usable is None else usable & ~infinite
        return X, usable


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
        schema = pa.schema([settled.field(name) for name in features], {DECIMAL_KEY: file.decimal})
        for field in schema:
            _check_feature(where, field)
        if self._target is not None:
            self._target_kind = _checked_target(where, settled.field(self._target))
            self._text_target = _text_target(source, file, self._target, settled.field(self._target).type)
        super().__init__(source, schema, self._target, file.n_rows)

    def _format_notes(self) -> tuple[str, ...]:
        names = self._file.schema.names
        nameless = [f"column {names.index('') + 1} has no name and is left out"] if "" in names else []
        return (*self._file.notes, *(nameless if self.source.columns is None else []))

    def row_name(self, number: int) -> str:
        return self._file.row_name(number)

    def _blocks(self, rows: int, skipped: Skipped) -> Iterator[tuple[pa.Table, np.ndarray | None]]:
        for block in self._file.blocks(self._chosen, rows, skipped):
            columns = pa.Table.from_batches([block]).select(list(self.feature_names))
            columns = columns.replace_schema_metadata(self.schema.metadata)
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


class ColumnTable(Table):
    """Rows of a file whose chosen feature columns are all numeric by the schema.

    Columns of files without types are read as float64, because later rows may hold fractions, or numbers where the
    first rows had no values.

    Attributes
    ----------
    file : ColumnFile
    """

    def __init__(self, source: TableSource, file: ColumnFile) -> None:
        selection = file.selected(source)
        if "" in selection.features:
            position = file.schema.names.index("")
            raise DataError(
                f"{file.where}: column {position + 1} has no name (a saved row index?). Name it, or leave out position "
                f"{position} with drop=..."
            )
        types = {name: file.schema.field(name).type for name in (*selection.features, *selection.targets)}
        for name in selection.features:
            # The user may declare a text column numeric. Its non-numeric cells are then missing.
            are_read = source.types.get(name) == "number" and is_text(value_type(types[name]))
            if not is_number(types[name], file) and not are_read:
                _refuse(file, name)
            types[name] = types[name] if pa.types.is_boolean(types[name]) else pa.float64()
        several = isinstance(selection.target_name, tuple)
        stored = [types[name] for name in selection.targets]
        for name in selection.targets:
            types[name] = _target_type(file, name, source.types.get(name) in LABELS, several=several)
        if file.types_by_look:
            file.read_as(types)
        self.file, self._selection = file, selection
        super().__init__(source, selection.features, selection.target_name, n_rows=file.n_rows)
        if len(stored) == 1 and not several:
            self._target_kind = target_kind(stored[0])
            self._text_target = _text_target(source, file, selection.targets[0], stored[0])

    def _format_notes(self) -> tuple[str, ...]:
        return tuple(self.file.notes)

    def row_name(self, number: int) -> str:
        return self.file.row_name(number)

    def _blocks(self, rows: int, skipped: Skipped) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        for block in self.file.blocks([*self._selection.features, *self._selection.targets], rows, skipped):
            yield to_arrays(block, self._selection)


def holds_numbers(source: TableSource, file: ColumnFile) -> bool:
    """Whether the chosen feature columns are numeric by the schema, and the user specifies no types."""
    names = file.selected(source).features
    return not source.types and all(name and is_number(file.schema.field(name).type, file) for name in names)


def is_number(kind: pa.DataType, file: ColumnFile) -> bool:
    """Whether a column of `file` is numeric, or may be numeric because its first rows are empty."""
    return is_numeric(value_type(kind)) or (pa.types.is_null(kind) and file.types_by_look)


def _target_type(file: ColumnFile, name: str, are_labels: bool, *, several: bool) -> pa.DataType:
    """The type in which a target is read; raises if the target holds neither numbers nor labels."""
    kind = file.schema.field(name).type
    plain = value_type(kind)
    if not is_number(kind, file) and several:
        raise DataError(
            f"{file.where}: target column {name!r} holds {in_words(kind)}, not numbers, as several targets must. "
            "Convert it."
        )
    if not is_number(kind, file) and not is_text(plain):
        _refuse_target(file.where, name, kind)
    if are_labels or is_text(plain):
        return pa.string()
    return plain if pa.types.is_boolean(plain) else pa.float64()


def _text_target(source: TableSource, file: ColumnFile, name: str, kind: pa.DataType) -> TextTarget | None:
    """Return how a target of this type is read if it is text; None for other types and for texts that are labels."""
    wanted = source.types.get(name)
    if wanted in LABELS or not is_text(value_type(kind) if wanted == "number" else kind):
        return None
    return TextTarget(name, wanted=wanted == "number", decimal=file.decimal)


def _refuse(file: ColumnFile, name: str) -> NoReturn:
    """Raise the error for a feature column that is not numeric; for text it quotes the first non-numeric cell."""
    for part in file.parts:
        kind = part.schema.field(name).type if name in part.schema.names else None
        if kind is None or not part.types_by_look or is_number(kind, part):
            continue
        block = next(part.blocks([name], 1, Skipped()))
        for row, value in enumerate(block.column(name).to_pylist(), start=1):
            if str(value).strip() and not reads_as_number(str(value)):
                _refuse_feature(part.where, name, f"{in_words(kind)} ({one_line(value)!r} in data row {row})")
        _refuse_feature(part.where, name, in_words(kind))
    _refuse_feature(file.where, name, in_words(file.schema.field(name).type))


def _refuse_target(where: str, name: str, kind: pa.DataType) -> NoReturn:
    """Raise the error for a target that holds neither numbers nor labels."""
    raise DataError(
        f"{where}: target column {name!r} holds {in_words(kind)}, not numbers or labels. Convert it, or choose another."
    )


def _refuse_feature(where: str, name: str, kind: str) -> NoReturn:
    """Raise the error for a feature column whose type is not numeric."""
    raise DataError(
        f"{where}: column {name!r} holds {kind}, not numbers. Leave it out with drop=..., or encode it as numbers."
    )


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
    """Return ``"i"`` for whole numbers, ``"b"`` for Booleans, else empty text; raise for targets of dates or lists."""
    kind = value_type(field.type)
    if pa.types.is_null(kind):
        raise DataError(f"{where}: target column {field.name!r} has no values. Choose another target.")
    if not is_numeric(kind) and not is_text(kind):
        _refuse_target(where, field.name, kind)
    return target_kind(kind)
