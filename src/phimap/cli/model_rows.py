"""The rows of a table, prepared for a saved model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from phimap.cli.describe import inputs_text, some, task_of
from phimap.cli.errors import complain
from phimap.cli.new_cells import NewCells
from phimap.cli.rows import in_terms_of, rows_read
from phimap.io import BadRows, DataError, Rows, open_frame, open_table
from phimap.io.batching import Block
from phimap.io.columns import MissingColumnError, closest_first
from phimap.io.formats import is_image_folder
from phimap.io.images import times
from phimap.tables import EncodedColumn, TableEncoder


class ModelRows:
    """Rows of `data`, at `path`, with the columns that `model` was trained on.

    Columns are found by name, or by position if the file or the model has no names. Images of a folder are converted to
    the model's channels, and resized if the model was trained on resized images. If the model takes numbers, missing
    and non-numeric cells are replaced by the medians of the training rows unless `strict` is true. Rows with infinite
    cells are left out.

    Attributes
    ----------
    table : Rows
        The opened table, which counts the rows that could not be used.
    model : estimator
        The saved model for which the rows are prepared.
    n_filled, n_infinite : int
        For a model of numbers: number of rows so far with a replaced missing cell, and number of rows so far that were
        left out because of an infinite cell.
    new_cells : NewCells
        Counts of the missing cells and of the new categories so far, for a model of data frames.
    """

    n_filled: int
    n_infinite: int

    def __init__(self, data: str, path: str, target: str | None, model: Any, *, strict: bool) -> None:
        self._data, self.model = data, model
        self.n_filled = self.n_infinite = 0
        self._encoder: TableEncoder | None = model.encoder_
        self.new_cells = NewCells(self._encoder)
        # If the file or the model has no column names, columns are identified by position.
        is_array = path.lower().endswith((".npy", ".npz")) or ".npz:" in path
        names = self._names()
        if target is not None and names is not None and target in names:
            known = f", {model.target_name_!r}" if hasattr(model, "target_name_") else ""
            raise DataError(
                f"{data}: `target` {target!r} is a feature of the model. Name the column that it predicts{known}."
            )
        # Missing cells are filled with medians that the model holds. Models of earlier versions hold none.
        self._fills = not strict and getattr(getattr(model, "_fitted", None), "inputs", None) is not None
        self._fills = self._fills and model._fitted.inputs.fill is not None
        skipping = BadRows("skip", "keep", "keep" if self._fills else "skip", "skip")
        options: dict[str, Any] = {"bad_rows": BadRows() if strict else skipping}
        if names is not None and not is_array:
            options["columns"] = names
        # Targets that are not numbers count as missing, as in a fit whose `types` say that the target is a number.
        amounts = target if task_of(model) == "regression" and not is_array and not _is_position(target) else None
        of_target = {} if amounts is None or strict else {amounts: "number"}
        if self._encoder is not None:
            kinds = {column.name: _kind(column) for column in self._encoder.columns_ if column.name in (names or ())}
            types = {name: kind for name, kind in kinds.items() if kind is not None} | of_target
            with _missing_columns_named(data, options.get("columns", ())):
                self.table: Rows = open_frame(path, target, types=types, **options)
        else:
            shape = getattr(model, "sample_shape_", ())
            if is_image_folder(Path(path)):
                options.pop("columns", None)
                options["size"] = getattr(model, "resized_", None)
                options["channels"] = shape[2] if len(shape) == 3 else None
            types = dict.fromkeys(options.get("columns", ()), "number") | of_target
            dtype = getattr(model, "input_dtype_", "float32")
            with _missing_columns_named(data, options.get("columns", ())):
                self.table = open_table(path, target, types=types, dtype=dtype, **options)
        if task_of(model) == "regression":
            self.table.expect_amounts()
        self._check_shape(None if is_array and self._encoder is not None else names)

    def batches(self, rows: int) -> Iterator[Block]:
        """Inputs (r, d) of the model, targets (r,) or None, and numbers (r,) of the rows in the file."""
        for X, y, numbers in self.raw_batches(rows):
            if self._encoder is None:
                found = self._filling(X, y, numbers) if self._fills else (X, y, numbers)
                if len(found[0]):
                    yield found
            else:
                self.new_cells.count(X)
                with in_terms_of(self._data, partial(self._row_name, numbers)):
                    yield self._encoder.transform(X), y, numbers

    def note_infinite(self) -> None:
        """Write a note on the rows that were left out for an infinite cell."""
        if self.n_infinite:
            rows = "1 row" if self.n_infinite == 1 else f"{self.n_infinite:,} rows"
            complain(f"{self._data}: {rows} left out for an infinite feature.", "note")

    def raw_batches(self, rows: int) -> Iterator[Block]:
        """Yield batches as `batches` does, with frames in place of encoded rows if the model encodes frames."""
        yield from self.table.numbered_batches(rows_read(self.table, rows, None))

    def _filling(self, X: np.ndarray, y: Any, numbers: np.ndarray) -> Block:
        """Count the rows in which the model replaces missing cells, and leave out rows with infinite cells."""
        with np.errstate(over="ignore", invalid="ignore"):
            is_finite = np.isfinite(X.sum(dtype=np.float64))
        if not is_finite:
            kept = ~np.isinf(X).any(axis=1)
            X, y, numbers = X[kept], None if y is None else y[kept], numbers[kept]
            self.n_filled += int(np.isnan(X).any(axis=1).sum())
            self.n_infinite += int((~kept).sum())
        return X, y, numbers

    def _row_name(self, numbers: Any, row: int) -> str:
        return self.table.row_name(int(numbers[row]))

    def _names(self) -> list[str] | None:
        """Names of the columns that the model needs; None if the model stores no names."""
        if self._encoder is not None:
            return [column.name for column in self._encoder.columns_ if column.encoding is not None]
        names = getattr(self.model, "feature_names_in_", None)
        return None if names is None else names.tolist()

    def _check_shape(self, names: list[str] | None) -> None:
        """Raise if the images have another shape than the model's, or if the number of columns differs."""
        model, table, shape = self.model, self.table, getattr(self.model, "sample_shape_", ())
        if len(shape) == 3 and table.is_image and table.sample_shape != shape:
            raise DataError(
                f"{self._data}: holds {inputs_text(table)}, the model was trained on images of {times(shape)}. "
                "Resize the images, or train with --size."
            )
        if self._encoder is not None:
            # An encoder may use only some of the columns of an array.
            n_columns = table.n_features if names is None else len(names)
        else:
            n_columns = model.n_features_in_
        if table.n_features != n_columns:
            raise DataError(
                f"{self._data}: has {table.n_features} feature columns, the model was trained on {n_columns}. "
                "Give the same columns, or name the --target."
            )


@contextmanager
def _missing_columns_named(data: str, needed: Sequence[str]) -> Iterator[None]:
    """Raise an error with the names of the columns that the model needs and `data` lacks, if any."""
    try:
        yield
    except MissingColumnError as error:
        if error.wanted not in needed:
            raise
        missing = [name for name in needed if name not in error.names]
        raise DataError(
            f"{data}: lacks {some([repr(name) for name in missing])}, which the model was trained with. Add "
            f"{'it' if len(missing) == 1 else 'them'}, with empty cells where the value is not known. The file has "
            f"{closest_first(missing[0], error.names)}."
        ) from error


def _is_position(target: str | None) -> bool:
    """Whether a target is given by its position, or not at all."""
    return target is None or target.lstrip("-").isdigit()


def _kind(column: EncodedColumn) -> str | None:
    """The kind of an encoded column for the reader of a text file; None if the type is inferred from the cells."""
    if column.kind in ("number", "boolean") and not column.encoding.from_text:  # pyright: ignore
        return "number"
    typed = column.kind in ("number", "boolean", "date")
    return None if typed and not getattr(column.encoding, "from_text", False) else "text"
