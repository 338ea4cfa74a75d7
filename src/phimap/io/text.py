"""Text tables of numbers as batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from phimap._files import DataError, one_line
from phimap.io.arrow import in_words, is_numeric, refuse_target, to_arrays
from phimap.io.columns import MixedTable, refuse_feature, select_columns
from phimap.io.csv_file import CellError, CharacterError, CsvFile, refuse_header_only
from phimap.io.skipped import Skipped
from phimap.io.source import LABELS, Source
from phimap.io.table import Table


class TextTable(Table):
    """Rows of a CSV file; column types are settled by the first block, numbers always being float64."""

    def __init__(self, source: Source) -> None:
        where = source.where
        self._file = CsvFile(source)
        names = self._file.dialect.names
        selection = select_columns(where, names, source.target, source.columns, source.drop)
        # Before columns are chosen nothing is converted to more than its inferred type.
        skipped = Skipped() if source.bad_rows.ragged == "skip" else None
        top = next(self._file.blocks((), {}, skipped), None)
        if top is None or not top.num_rows:
            refuse_header_only(where)
        for name in selection.features:
            _check_feature(where, name, top)
        self._selection = selection
        self._types = {name: _feature_type(top.column(name).type) for name in selection.features}
        several = isinstance(selection.target_name, tuple)
        for name in selection.targets:
            kind = top.column(name).type
            self._types[name] = pa.string() if source.types.get(name) in LABELS else _target_type(where, name, kind)
            if several and pa.types.is_string(self._types[name]):
                raise DataError(f"{where}: target column {name!r} holds text; several targets must be numbers.")
        self._whole_target = not several and any(
            pa.types.is_integer(top.column(name).type) for name in selection.targets
        )
        super().__init__(source, selection.features, selection.target_name, n_rows=None)
        self.notes = tuple(self._file.dialect.notes)

    def _blocks(self, rows: int, skipped: Skipped) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        chosen = [*self._selection.features, *self._selection.targets]
        noted = skipped if self._source.bad_rows.ragged == "skip" else None
        try:
            for block in self._file.blocks(chosen, self._types, noted):
                yield to_arrays(block, self._selection)
        except (CellError, CharacterError) as error:
            # What the first block does not tell is for a reader that looks at all of them.
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


def _check_feature(where: str, name: str, top: pa.RecordBatch) -> None:
    """Refuse a column whose first block is not numeric, quoting the first value that is not."""
    column = top.column(name)
    if is_numeric(column.type) or pa.types.is_null(column.type):
        return
    kind = in_words(column.type)
    for row, value in enumerate(column.to_pylist(), start=1):
        if str(value).strip() and not _is_number(str(value)):
            refuse_feature(where, name, f"{kind} ({one_line(value)!r} in data row {row})")
    refuse_feature(where, name, kind)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
