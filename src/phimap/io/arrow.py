"""Arrow record batches as NumPy arrays, and descriptions of Arrow types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from phimap.io.columns import Selection


def is_numeric(kind: pa.DataType) -> bool:
    """Whether the cells of a column are numbers or Booleans."""
    types = pa.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)


def in_words(kind: pa.DataType) -> str:
    """Describe the content of a column of type `kind` in words, for messages to users."""
    types = pa.types
    named = (
        (is_text, "text"),
        (types.is_dictionary, "categories"),
        (types.is_date, "dates"),
        (types.is_timestamp, "dates and times"),
        (types.is_time, "times of day"),
        (types.is_duration, "durations"),
        (types.is_null, "no values"),
        (types.is_nested, "lists or records"),
    )
    return next((words for holds, words in named if holds(kind)), str(kind))


def to_arrays(block: pa.RecordBatch, selection: Selection) -> tuple[np.ndarray, np.ndarray | None]:
    """Return X (r, d) and y (r,) or (r, t) of `block`; missing numbers become NaN, missing labels empty text."""
    features = [_tensor_column(block.column(name)) for name in selection.features]
    table = pa.RecordBatch.from_arrays(features, names=list(selection.features))
    X = table.to_tensor(null_to_nan=True, row_major=True).to_numpy()
    if selection.target_name is None:
        return X, None
    targets = [target_column(block.column(name)) for name in selection.targets]
    if isinstance(selection.target_name, str):
        return X, targets[0]
    return X, np.column_stack([y.astype(np.float64) for y in targets])


def value_type(kind: pa.DataType) -> pa.DataType:
    """Type of the cells of a column; for a dictionary, the type of its values."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def target_kind(kind: pa.DataType) -> str:
    """``"i"`` for whole numbers, ``"b"`` for Booleans, else empty."""
    return "i" if pa.types.is_integer(kind) else "b" if pa.types.is_boolean(kind) else ""


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of type `kind` holds text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _tensor_column(column: Any) -> Any:
    """Convert `column` to a type that can be part of an Arrow tensor."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_boolean(column.type) or pa.types.is_decimal(column.type) or pa.types.is_null(column.type):
        return column.cast(pa.float64())
    if pa.types.is_float16(column.type):
        return pa.array(column.to_numpy(zero_copy_only=False).astype(np.float32))
    if is_text(column.type):
        # This is imported here because `phimap.tables` loads scikit-learn, which most readers do not need.
        from phimap.tables.amounts import numbers_in

        return pa.array(numbers_in(column, "."), from_pandas=True)
    return column


def target_column(column: Any) -> np.ndarray:
    """Target values (r,): floats as float64; integers and Booleans as stored; strings without surrounding blanks."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_text(column.type):
        trimmed = pc.utf8_trim_whitespace(column.fill_null(""))  # pyright: ignore[reportAttributeAccessIssue]
        return np.array(trimmed.to_pylist(), dtype=np.str_)
    column = _tensor_column(column) if column.null_count or pa.types.is_decimal(column.type) else column
    values = column.to_numpy(zero_copy_only=False)
    return values.astype(np.float64) if values.dtype.kind == "f" else values
