"""Tables on disk as streams of row batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from phimap._files import DataError
from phimap.io.source import Source, positive_integer

# A default batch is large enough to hide the cost per batch and small beside any memory; it depends on
# the width alone, so the partition of a file into default batches is the same on every machine.
_DEFAULT_BATCH_BYTES = 2**25
_DEFAULT_BATCH_ROWS = 2**16


class Table(ABC):
    """Rows of a file as batches ``(X, y)``, read in bounded memory as often as wanted.

    Made by `open_table`. Iterating over the table itself gives batches of the default size.

    Attributes
    ----------
    feature_names : tuple of str
        Names of the columns of `X`, in order.
    target_name : str, tuple of str or None
        Name of the target; a tuple for several targets; None when no target is read.
    n_rows : int or None
        Number of rows; None for text files until one pass has been completed.
    row_names : tuple of str or None
        Paths of the images in a folder; None for files, whose rows have no names.
    sample_shape : tuple of int
        ``(n_features,)``, or ``(height, width, channels)`` for images.
    batch_rows : int
        Rows of a batch of the default size.

    Notes
    -----
    **Error** Values are cast to the requested dtype and otherwise exact. **Cost** One pass reads the file
    once; memory is about two batches plus the reader's buffers (a few MB, or 16 of the longest rows).
    **Differs from the source** nothing: no scaling, no imputation, no shuffling.
    """

    def __init__(
        self,
        source: Source,
        feature_names: tuple[str, ...],
        target_name: str | tuple[str, ...] | None,
        *,
        n_rows: int | None,
        sample_shape: tuple[int, ...] | None = None,
        row_names: tuple[str, ...] | None = None,
        dtype: Any = np.float32,
    ) -> None:
        self.feature_names = feature_names
        self.target_name = target_name
        self.n_rows = n_rows
        self.row_names = row_names
        self.sample_shape = sample_shape or (len(feature_names),)
        self._source = source
        self._where = source.where
        self._dtype = source.dtype or np.dtype(dtype)
        row_bytes = self._dtype.itemsize * len(feature_names)
        self.batch_rows = source.batch_rows or max(1, min(_DEFAULT_BATCH_ROWS, _DEFAULT_BATCH_BYTES // row_bytes))

    @property
    def n_features(self) -> int:
        """Number of columns of `X`, or of values in an image."""
        return len(self.feature_names)

    @property
    def is_image(self) -> bool:
        """Whether each sample is an image of shape `sample_shape`."""
        return len(self.sample_shape) > 1

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        return self.batches()

    def batches(self, rows: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Batches of exactly `rows` rows, the last one shorter, always starting at the first row.

        Parameters
        ----------
        rows : int, optional
            Rows per batch; default is the `batch_rows` of `open_table`, else about 32 MB worth of rows.

        Yields
        ------
        X : ndarray of shape (rows, n_features), or (rows, height, width, channels) for images
            C-contiguous, of the table's dtype, free to be written to.
        y : ndarray of shape (rows,) or (rows, n_targets), or None
            float64 for numbers; integers, booleans and strings as they are stored. An integer column of
            a text file gives int64 as long as the batch holds whole numbers, float64 otherwise. Several
            targets give float64.

        Raises
        ------
        ValueError
            If `rows` is not positive.
        DataError
            If a value is missing, infinite, not a number, or too large for the dtype, or the file is damaged.
        """
        return self._rebatched(self.batch_rows if rows is None else positive_integer("rows", rows))

    @abstractmethod
    def _blocks(self, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Blocks in file order, flat X (r, n_features) of any real dtype; any r will do, `rows` is wanted."""

    def _rebatched(self, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        pieces: list[tuple[np.ndarray, np.ndarray | None]] = []
        held = seen = 0
        for raw, y in self._blocks(rows):
            X = self._cast_features(raw, seen)
            self._check_target(y, seen)
            seen += len(X)
            start = 0
            while start < len(X):
                stop = min(start + rows - held, len(X))
                pieces.append((X[start:stop], None if y is None else y[start:stop]))
                held += stop - start
                start = stop
                if held == rows:
                    yield _joined(pieces)
                    pieces, held = [], 0
        if pieces:
            yield _joined(pieces)
        if seen == 0:
            raise DataError(f"{self._where}: there are no rows. Check the file.")
        if self.n_rows not in (None, seen):
            raise DataError(f"{self._where}: had {self.n_rows} rows before, now {seen}. Open it again.")
        self.n_rows = seen

    def _cast_features(self, raw: np.ndarray, first_row: int) -> np.ndarray:
        """Copy of the rows `raw` (r, d) as samples in the table's dtype, every value finite."""
        with np.errstate(over="ignore"):
            X = np.array(raw, dtype=self._dtype, order="C")
        if raw.dtype.kind == "f" and not (finite := np.isfinite(X)).all():
            i, j = np.argwhere(~finite)[0]
            self._refuse_value(raw[i, j], first_row + i, self.feature_names[j])
        return X.reshape(-1, *self.sample_shape)

    def _check_target(self, y: np.ndarray | None, first_row: int) -> None:
        if y is None or y.dtype.kind not in "fU":
            return
        present = np.isfinite(y) if y.dtype.kind == "f" else y != ""
        if not present.all():
            at = tuple(np.argwhere(~present)[0])
            name = self.target_name
            if y.ndim == 2:
                name = name[at[1]] if isinstance(name, tuple) else f"{name}[:, {at[1]}]"
            self._refuse_value(y[at], first_row + at[0], str(name))

    def _refuse_value(self, value: Any, row: int, name: str) -> None:
        if isinstance(value, str) or np.isnan(value):
            fault = "is missing or not a number" if not isinstance(value, str) else "is missing"
            remedy = "Fill it in or drop the row"
        elif np.isinf(value):
            fault, remedy = f"is infinite ({value})", "Correct it or drop the row"
        else:
            fault, remedy = (
                f"is {value}, too large for {self._dtype}",
                "Use dtype=float64 or rescale the column",
            )
        raise DataError(f"{self._where}: data row {row + 1}, column {name!r} {fault}. {remedy}.")


def _joined(pieces: list[tuple[np.ndarray, np.ndarray | None]]) -> tuple[np.ndarray, np.ndarray | None]:
    """One batch from consecutive pieces."""
    if len(pieces) == 1:
        return pieces[0]
    targets = [y for _, y in pieces if y is not None]
    return np.concatenate([X for X, _ in pieces]), np.concatenate(targets) if targets else None
