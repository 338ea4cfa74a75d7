"""Tables on disk, read as streams of batches of rows."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from phimap._files import DataError
from phimap.io.columns import SchemaError
from phimap.io.rows import Rows
from phimap.io.source import TableSource
from phimap.io.target import refuse_value


class Table(Rows):
    """Rows of a file of numbers, or images of a folder, as batches ``(X, y)``.

    Made by `open_table`. Iterating over the table itself gives batches of the default size.

    Attributes
    ----------
    feature_names : tuple of str
        Names of the columns of `X`, in order.
    target_name : str, tuple of str or None
        Name of the target; a tuple for several targets; None if no target is read.
    n_rows : int or None
        Number of rows, including rows left out; None for text files until one pass has been completed.
    row_names : tuple of str or None
        Paths of the images in a folder; None for files, whose rows have no names.
    sample_shape : tuple of int
        ``(n_features,)``, or ``(height, width, channels)`` for images.
    batch_rows : int
        Number of rows of a batch of the default size.
    notes : tuple of str
        The detected format of the file, such as its separator, in words.
    skipped : Skipped
        Rows that the latest pass has left out.

    Notes
    -----
    **Error** Values are cast to the requested dtype and are otherwise exact. **Cost** One pass reads the file once;
    memory is about two batches plus the reader's buffers (a few MB, or 16 of the longest rows).
    **Differs from the source** in nothing: no scaling, no imputation, no shuffling.
    """

    def __init__(
        self,
        source: TableSource,
        feature_names: tuple[str, ...],
        target_name: str | tuple[str, ...] | None,
        *,
        dtype: Any = np.float32,
        **described: Any,
    ) -> None:
        self._dtype = source.dtype or np.dtype(dtype)
        row_bytes = self._dtype.itemsize * len(feature_names)
        super().__init__(source, feature_names, target_name, row_bytes=row_bytes, **described)

    def _finish_block(self, X: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Copy the rows `X` (r, d), as samples of `sample_shape` in the table's dtype."""
        raw = X
        with np.errstate(over="ignore"):
            X = np.array(raw, dtype=self._dtype, order="C")
        usable: Any = None
        if raw.dtype.kind == "f" and not (finite := np.isfinite(X)).all():
            policy = self.source.bad_rows.features
            if policy == "error":
                i, j = np.argwhere(~finite)[0]
                self._refuse_feature(raw[i, j], self.row_name(int(numbers[i])), self.feature_names[j])
            usable = finite.all(axis=1) if policy == "skip" else None
        return X.reshape(-1, *self.sample_shape), usable

    def _refuse_feature(self, value: Any, row: str, name: str) -> NoReturn:
        if not np.isfinite(value):
            refuse_value(self._where, value, row, name, SchemaError if np.isnan(value) else DataError)
        raise DataError(
            f"{self._where}: data row {row}, column {name!r} is {value}, too large for {self._dtype}. "
            "Use dtype=float64 or rescale the column."
        )
