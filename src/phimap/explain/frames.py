"""Rows of any estimator as rows of numbers: cells are replaced by the index of the row from which they come."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from phimap._validation import check_finite
from phimap.ops import to_host
from phimap.tables.frames import is_frame, n_rows_of, rows_at


class FrameRows:
    """Rows of arrays or frames as numbers (n, d), so that rows can be mixed column by column.

    Numbers of an array stay as they are. A cell of a frame becomes the index of its row among all rows seen.

    Parameters
    ----------
    X : array-like or data frame
        The explained rows.
    """

    def __init__(self, X: Any):
        self._first, self._is_frame = X, is_frame(X)
        self._seen: list[Any] = []

    def first(self) -> Any:
        """Return the first row, as users pass it."""
        return rows_at(self._first if self._is_frame else _array(self._first), np.array([0]))

    def rows_of(self, X: Any) -> np.ndarray:
        """Return rows of numbers (n, d)."""
        if not self._is_frame:
            return _array(X)
        start = sum(map(n_rows_of, self._seen))
        self._seen.append(X)
        n_columns = len(names_of(X))
        return np.repeat(np.arange(start, start + n_rows_of(X), dtype=np.float64)[:, None], n_columns, axis=1)

    def mixed(self, rows: np.ndarray) -> Any:
        """Return rows of numbers as rows that the estimator takes."""
        if not self._is_frame:
            return rows
        import pandas as pd

        whole = pd.concat([_pandas(part) for part in self._seen], ignore_index=True)
        places = rows.astype(np.intp)
        columns = {
            name: whole[name].take(places[:, column]).reset_index(drop=True)
            for column, name in enumerate(whole.columns)
        }
        mixed = pd.DataFrame(columns)
        return mixed if hasattr(self._first, "iloc") else _like(self._first, mixed)


def names_of(X: Any) -> list[str]:
    """Return the names of the columns of rows; "column 0" and so on for arrays."""
    if is_frame(X):
        return [str(name) for name in (X.column_names if hasattr(X, "column_names") else X.columns)]
    return [f"column {j}" for j in range(np.shape(X)[1])]


def cells(X: Any, names: list[str]) -> np.ndarray:
    """Return the cells of rows as an array (n, d), of objects for frames of several kinds.

    Columns that a frame lacks, because its model ignores them, are None.
    """
    if hasattr(X, "num_rows"):
        return _cells_of_arrow(X, names)
    if is_frame(X):
        frame = _pandas(X)
        if len(names) == len(frame.columns):
            return frame.to_numpy()
        found = {str(name): frame[name].to_numpy(dtype=object) for name in frame.columns}
        return np.stack([found.get(name, np.full(len(frame), None)) for name in names], axis=1)
    return to_host(X.toarray() if sparse.issparse(X) else X) if hasattr(X, "shape") else np.asarray(X)


def _cells_of_arrow(X: Any, names: list[str]) -> np.ndarray:
    """Return the cells of an Arrow table without pandas, which the command does not import otherwise."""
    found = {str(name): column for name, column in zip(X.column_names, X.columns, strict=True)}
    numbers = [found[name].to_numpy() for name in names if name in found]
    if len(numbers) == len(names) and all(column.dtype.kind in "biuf" for column in numbers):
        return np.stack(numbers, axis=1)
    result = np.full((X.num_rows, len(names)), None, dtype=object)
    for place, name in enumerate(names):
        if name in found:
            result[:, place] = found[name].to_pylist()
    return result


def _array(X: Any) -> np.ndarray:
    rows = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
    check_finite(rows)
    return rows


def _pandas(X: Any) -> Any:
    return X.to_pandas() if hasattr(X, "to_pandas") else X


def _like(X: Any, frame: Any) -> Any:
    """Convert a pandas frame to the frame type of `X`."""
    if hasattr(X, "num_rows"):
        import pyarrow as pa

        return pa.Table.from_pandas(frame, preserve_index=False)
    import polars as pl

    return pl.from_pandas(frame)
