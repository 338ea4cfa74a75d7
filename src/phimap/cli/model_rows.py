"""The rows of a table as a saved model takes them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from phimap.cli.describe import inputs_text, times
from phimap.cli.rows import in_terms_of
from phimap.io import BadRows, DataError, MixedTable, Rows, open_frame, open_table
from phimap.io.batching import Block, chosen
from phimap.io.folders import is_image_folder
from phimap.io.frame import Frame
from phimap.learn.rows.batches import rows_within
from phimap.tables import EncodedColumn, TableEncoder


class ModelRows:
    """Rows of `data`, at `path`, on the columns that `model` was trained on.

    Columns are found by name, or by place where the file or the model has no names. Images of a folder get the model's
    channels, and its size if the model was trained on resized ones.

    Attributes
    ----------
    table : Rows
        What was opened, with the rows that could not be used.
    """

    def __init__(self, data: str, path: str, target: str | None, model: Any, *, strict: bool) -> None:
        self._data = data
        self._path = path
        self._target = target
        self._model = model
        self._bad_rows = BadRows() if strict else BadRows("skip", "keep", "skip")
        self._encoder: TableEncoder | None = getattr(model, "encoder_", None)
        self._names = self._trained_on()
        if target is not None and self._names is not None and target in self._names:
            known = f", {model.target_name_!r}" if hasattr(model, "target_name_") else ""
            raise DataError(
                f"{data}: `target` {target!r} is a feature of the model. Name the column that it predicts{known}."
            )
        self.table = self._opened()
        self._check_shape()

    def batches(self, rows: int) -> Iterator[Block]:
        """Inputs (r, d) of the model, targets (r,) or None, and numbers (r,) of the rows in the file."""
        rows = rows_within(min(rows, self.table.batch_rows), self.table.row_bytes, None)
        if not isinstance(self.table, Frame):
            done = 0
            try:
                for X, y, numbers in self.table.numbered_batches(rows):
                    yield X, y, numbers
                    done = numbers[-1]
                return
            except MixedTable:
                if self._bad_rows.features == "error":
                    raise
            # Text among the numbers, below the first block: the rows that are done are passed over.
            self.table = self._frame()
            yield from _after(self._of_frame(rows), done)
        else:
            yield from self._of_frame(rows)

    def _of_frame(self, rows: int) -> Iterator[Block]:
        for columns, y, numbers in self.table.numbered_batches(rows):
            if self._encoder is not None:
                with in_terms_of(self._data, partial(self._row_name, numbers)):
                    yield self._encoder.transform(columns), y, numbers
                continue
            X = np.column_stack([column.cast("double").to_numpy() for column in columns.itercolumns()])
            usable = np.isfinite(X).all(axis=1)
            self.table.skipped.drop(numbers[~usable], "a missing feature")
            dtype = getattr(self._model, "input_dtype_", "float32")
            yield X[usable].astype(dtype), None if y is None else y[usable], numbers[usable]

    def _row_name(self, numbers: np.ndarray, row: int) -> str:
        return self.table.row_name(int(numbers[row]))

    def _trained_on(self) -> list[str] | None:
        """Names of the columns in the file that the model needs; None where it knows none."""
        if self._encoder is not None:
            return [column.name for column in self._encoder.columns_ if column.encoding is not None]
        names = getattr(self._model, "feature_names_in_", None)
        return None if names is None else names.tolist()

    def _opened(self) -> Rows:
        if self._encoder is not None:
            return self._frame()
        options: dict[str, Any] = {"dtype": getattr(self._model, "input_dtype_", "float32"), "bad_rows": self._bad_rows}
        path, shape = self._path, getattr(self._model, "sample_shape_", ())
        if is_image_folder(Path(path)):
            resized, channels = getattr(self._model, "resized_", None), shape[2] if len(shape) == 3 else None
            return open_table(path, self._target, size=resized, channels=channels, **options)
        if self._names is None or self._is_array:
            return open_table(path, self._target, **options)
        try:
            return open_table(path, self._target, columns=self._names, **options)
        except MixedTable:
            if self._bad_rows.features == "error":
                raise
            return self._frame()

    @property
    def _is_array(self) -> bool:
        return self._path.lower().endswith((".npy", ".npz")) or ".npz:" in self._path

    def _frame(self) -> Frame:
        """The columns as they are, those of numbers with what is no number missing."""
        columns = self._encoder.columns_ if self._encoder is not None else ()
        kinds = {column.name: _kind(column) for column in columns if column.name in (self._names or ())}
        if self._encoder is None:
            kinds = dict.fromkeys(self._names or (), "number")
        return open_frame(
            self._path,
            self._target,
            columns=None if self._is_array else self._names,
            types={name: kind for name, kind in kinds.items() if kind is not None},
            bad_rows=self._bad_rows,
        )

    def _check_shape(self) -> None:
        """Refuse images of another shape and another number of columns."""
        model, table, shape = self._model, self.table, getattr(self._model, "sample_shape_", ())
        if len(shape) == 3 and table.is_image and table.sample_shape != shape:
            raise DataError(
                f"{self._data}: holds {inputs_text(table)}, the model was trained on images of {times(shape)}. "
                "Resize the images, or train with --size."
            )
        n_columns = model.n_features_in_ if self._encoder is None else len(self._names or ())
        # An encoder finds its columns among others.
        if table.n_features != n_columns and not (self._is_array and self._encoder is not None):
            raise DataError(
                f"{self._data}: has {table.n_features} feature columns, the model was trained on {n_columns}. "
                "Give the same columns, or name the --target."
            )


def _kind(column: EncodedColumn) -> str | None:
    """How the cells of a text file are to be read for a column that was encoded; None where their look tells."""
    if column.kind == "number" and not column.encoding.from_text:  # pyright: ignore
        return "number"
    typed = column.kind in ("number", "boolean", "date")
    return None if typed and not getattr(column.encoding, "from_text", False) else "text"


def _after(batches: Iterator[Block], done: int) -> Iterator[Block]:
    """The rows of `batches` whose numbers are above `done`."""
    for X, y, numbers in batches:
        rest = numbers > done
        if rest.all():
            yield X, y, numbers
        elif rest.any():
            yield chosen(X, rest), None if y is None else y[rest], numbers[rest]
