"""The numeric columns of a file, as batches of arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import numpy as np
import pyarrow as pa

from phimap._files import DataError, one_line
from phimap.io.arrow import in_words, is_numeric, is_text, refuse_target, target_kind, to_arrays, value_type
from phimap.io.column_file import ColumnFile
from phimap.io.columns import refuse_feature
from phimap.io.skipped import Skipped
from phimap.io.source import LABELS, TableSource
from phimap.io.table import Table


class ColumnTable(Table):
    """Rows of a file whose chosen feature columns are all numeric by the schema.

    Columns of untyped files are float64, since later rows may hold fractions, or numbers where the first rows had no
    values.

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
            # The user may declare a text column numeric; its non-numeric cells are then missing.
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

    @property
    def notes(self) -> tuple[str, ...]:
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
        refuse_target(file.where, name, kind)
    if are_labels or is_text(plain):
        return pa.string()
    return plain if pa.types.is_boolean(plain) else pa.float64()


def _refuse(file: ColumnFile, name: str) -> NoReturn:
    """Raise the error for a feature column that is not numeric; for text it quotes the first non-numeric cell."""
    for part in file.parts:
        kind = part.schema.field(name).type if name in part.schema.names else None
        if kind is None or not part.types_by_look or is_number(kind, part):
            continue
        block = next(part.blocks([name], 1, Skipped()))
        for row, value in enumerate(block.column(name).to_pylist(), start=1):
            if str(value).strip() and not _reads_as_number(str(value)):
                refuse_feature(part.where, name, f"{in_words(kind)} ({one_line(value)!r} in data row {row})")
        refuse_feature(part.where, name, in_words(kind))
    refuse_feature(file.where, name, in_words(file.schema.field(name).type))


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
