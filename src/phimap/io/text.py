"""Text tables of numbers as batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa

from phimap._files import DataError, one_line
from phimap.io.arrow import in_words, is_numeric, refuse_target, to_arrays
from phimap.io.column_file import ColumnFile
from phimap.io.columns import MixedTable, refuse_feature, select_columns
from phimap.io.csv_file import CellError, CharacterError
from phimap.io.skipped import Skipped
from phimap.io.source import LABELS, TableSource
from phimap.io.table import Table


class TextTable(Table):
    """Rows of a text table; column types are settled by the first block of each file, numbers always being float64."""

    def __init__(self, source: TableSource, file: ColumnFile) -> None:
        where, schema = file.where, file.schema
        selection = select_columns(where, schema.names, source.target, source.columns, source.drop)
        for part in file.parts:
            _check_features(part, set(selection.features))
        kinds = dict(zip(schema.names, schema.types, strict=True))
        types = {}
        for name in selection.features:
            # Several files together may hold more than each.
            if not _is_number_like(kinds[name]):
                refuse_feature(where, name, in_words(kinds[name]))
            types[name] = _feature_type(kinds[name])
        several = isinstance(selection.target_name, tuple)
        for name in selection.targets:
            kind = kinds[name]
            types[name] = pa.string() if source.types.get(name) in LABELS else _target_type(where, name, kind)
            if several and pa.types.is_string(types[name]):
                raise DataError(f"{where}: target column {name!r} holds text; several targets must be numbers.")
        self._whole_target = not several and any(pa.types.is_integer(kinds[name]) for name in selection.targets)
        file.read_as(types)
        self._file, self._selection = file, selection
        super().__init__(source, selection.features, selection.target_name, n_rows=None)
        self.notes = tuple(file.notes)

    def row_name(self, number: int) -> str:
        return self._file.row_name(number)

    def _blocks(self, rows: int, skipped: Skipped) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        chosen = [*self._selection.features, *self._selection.targets]
        try:
            for block in self._file.blocks(chosen, rows, skipped):
                yield to_arrays(block, self._selection)
        except (CellError, CharacterError) as error:
            # A reader that looks at all blocks settles what the first one does not tell.
            raise MixedTable(str(error)) from None

    def _rebatched(self, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray | None, np.ndarray]]:
        for X, y, numbers in super()._rebatched(rows):
            if y is not None and self._whole_target and np.array_equal(y, np.rint(y)):
                yield X, y.astype(np.int64), numbers
            else:
                yield X, y, numbers


def _feature_type(inferred: pa.DataType) -> pa.DataType:
    # Later blocks may hold fractions, or values where the first had none.
    return inferred if pa.types.is_boolean(inferred) else pa.float64()


def _target_type(where: str, name: str, inferred: pa.DataType) -> pa.DataType:
    if pa.types.is_boolean(inferred):
        return inferred
    if pa.types.is_temporal(inferred):
        refuse_target(where, name, inferred)
    return pa.float64() if is_numeric(inferred) or pa.types.is_null(inferred) else pa.string()


def _check_features(file: ColumnFile, names: Collection[str]) -> None:
    """Refuse the first of some columns whose first block is not numeric, quoting the first value that is not."""
    others = (field for field in file.schema if field.name in names and not _is_number_like(field.type))
    if (field := next(others, None)) is None:
        return
    name, kind = field.name, field.type
    block = next(file.blocks([name], 1, Skipped()))
    for row, value in enumerate(block.column(name).to_pylist(), start=1):
        if str(value).strip() and not _is_number(str(value)):
            refuse_feature(file.where, name, f"{in_words(kind)} ({one_line(value)!r} in data row {row})")
    refuse_feature(file.where, name, in_words(kind))


def _is_number_like(kind: pa.DataType) -> bool:
    return is_numeric(kind) or pa.types.is_null(kind)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
