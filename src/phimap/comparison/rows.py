"""Rows and targets of a comparison, checked once for all methods."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from phimap._validation import check_finite, check_integer
from phimap.io.batching import chosen
from phimap.learn.rows.grouped import warn_of_groups
from phimap.learn.rows.samples import CAPACITY, Reservoir
from phimap.learn.targets.base import refuse_labels
from phimap.tables import TableEncoder
from phimap.tables.frames import is_frame, is_numbers


def as_rows(X: Any) -> tuple[Any, list[str]]:
    """Return the rows of `X` and its column names.

    The rows are a numeric array, or Arrow columns if `X` is a data frame with columns that are not numeric. The array
    is float32 if `X` is, else float64.
    """
    if is_frame(X) and not is_numbers(X):
        columns = _as_columns(X)
        return columns, columns.column_names
    rows = np.asarray(check_array(X, ensure_all_finite=False))
    rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    check_finite(rows)
    names = [str(name) for name in getattr(X, "columns", ())]
    return rows, names or [f"c{j}" for j in range(rows.shape[1])]


def _as_columns(X: Any) -> Any:
    """Return a data frame as Arrow columns; string views, from which rows cannot be selected, become strings."""
    import pyarrow as pa

    columns = pa.table(X)
    types = [getattr(field.type, "value_type", field.type) for field in columns.schema]
    if not any(map(pa.types.is_string_view, types)):
        return columns
    fields = [
        field.with_type(pa.string()) if pa.types.is_string_view(kind) else field
        for field, kind in zip(columns.schema, types, strict=True)
    ]
    return columns.cast(pa.schema(fields))


def as_targets(y: Any, n_rows: int) -> np.ndarray:
    """Return `y` as numbers or labels (n,); raise if one is missing."""
    y = np.asarray(y)
    if y.shape != (n_rows,):
        raise ValueError(f"`y` must have one target for each of the {n_rows} rows, got shape {y.shape}.")
    if y.dtype.kind == "O":
        missing = [row for row, label in enumerate(y) if label is None or label != label]
        if missing:
            raise ValueError(f"`y` must have no missing labels, got one in row {missing[0]}. Drop such rows.")
        y = y.astype(str)
    if y.dtype.kind == "f":
        check_finite(y, "y")
    return y


def as_numbers(y: np.ndarray) -> np.ndarray:
    """Return targets (n,) as float64; raise if one is a label."""
    try:
        return y.astype(np.float64)
    except ValueError as error:
        refuse_labels(y, error)
        raise


def note_groups(X: Any, names: list[str], seed: int) -> None:
    """Warn if the rows of a comparison without groups look grouped.

    The warning names columns of the table by `names`, also if the table has to be encoded.
    """
    some = chosen(X, mask_of(thinned(len(X), CAPACITY, seed), len(X)))
    owners, sample = np.arange(some.shape[1]), Reservoir(seed)
    if not isinstance(some, np.ndarray):
        encoder = TableEncoder(sparse_output=False).fit(some)
        some, owners = encoder.transform(some), encoder.groups_
    sample.update(some, np.zeros(len(some)))
    warn_of_groups(sample, owners, names, "Give `groups`; else rows of one group are both trained on and tested.")


def thinned(n_rows: int, most_rows: int | None, seed: int) -> np.ndarray:
    """Return the sorted indices of `most_rows` random rows, or of all rows if there are not more."""
    if most_rows is None or n_rows <= check_integer("most_rows", most_rows, least=1):
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, most_rows, replace=False))


def mask_of(places: np.ndarray, n_rows: int) -> np.ndarray:
    """Return a boolean mask (n_rows,) that is True at the indices `places`."""
    mask = np.zeros(n_rows, dtype=bool)
    mask[places] = True
    return mask
