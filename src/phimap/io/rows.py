"""The base classes of readers. They number rows, leave out bad rows, and make batches of an exact length."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from phimap._files import DataError
from phimap.io.batching import Block, chosen, in_batches
from phimap.io.columns import SchemaError
from phimap.io.prefetch import read_ahead
from phimap.io.skipped import Skipped
from phimap.io.source import LABELS, TableSource, positive_integer
from phimap.io.target import TargetCheck, TextTarget, refuse_value

# Bytes and rows of a default batch. The fixed cost of such a batch is negligible, and the batch is small compared with
# the memory of any machine. The numbers do not depend on the machine, so a file gives the same batches on every
# machine.
_DEFAULT_BATCH_BYTES = 2**25
_DEFAULT_BATCH_ROWS = 2**16


class Rows(ABC):
    """Rows of a file as batches ``(X, y)``, read in bounded memory in any number of passes.

    Attributes
    ----------
    where : str
        The name of the file in messages.
    feature_names : tuple of str
        Names of the columns of `X`, in order.
    target_name : str, tuple of str or None
        Name of the target; a tuple for several targets; None if no target is read.
    n_rows : int or None
        Number of rows in the file, including rows left out; None for text files until one pass has been completed.
    batch_rows : int
        Number of rows of a batch of the default size.
    source : TableSource
        The arguments with which the file was opened.
    row_bytes : int
        Approximate bytes of a row in a batch.
    notes : tuple of str
        The detected format of the file, such as its separator, in words.
    skipped : Skipped
        Rows that the latest pass has left out.
    row_names : tuple of str or None
        Paths of the images in a folder; None for files, whose rows have no names.
    sample_shape : tuple of int
        ``(n_features,)``, or ``(height, width, channels)`` for images.
    """

    #: The reason why `_finish_block` leaves rows out, for messages.
    _unusable = "an infinite feature"
    #: Kind of the stored targets: ``"i"`` for whole numbers, ``"b"`` for Booleans. Missing targets turn a block into
    #: floats. Batches without missing targets are converted back to the stored kind.
    _target_kind = ""
    #: Reader of a target of text; None if the target is not text, or if its texts are labels.
    _text_target: TextTarget | None = None

    def __init__(
        self,
        source: TableSource,
        feature_names: tuple[str, ...],
        target_name: str | tuple[str, ...] | None,
        *,
        n_rows: int | None,
        row_bytes: int,
        row_names: tuple[str, ...] | None = None,
        sample_shape: tuple[int, ...] | None = None,
    ) -> None:
        self.feature_names = feature_names
        self.target_name = target_name
        self.n_rows = n_rows
        self.row_bytes = row_bytes
        self.batch_rows: int = source.batch_rows or max(1, min(_DEFAULT_BATCH_ROWS, _DEFAULT_BATCH_BYTES // row_bytes))
        self.skipped = Skipped()
        self.row_names = row_names
        self.sample_shape = sample_shape or (len(feature_names),)
        self.source = source
        self.where: str = source.where

    @property
    def notes(self) -> tuple[str, ...]:
        """The detected format of the file, such as its separator, in words, and how a target of text is read."""
        return (*self._format_notes(), *(() if self._text_target is None else self._text_target.notes))

    def _format_notes(self) -> tuple[str, ...]:
        return ()

    def expect_amounts(self) -> None:
        """Read a target of text as amounts, even if it has few distinct amounts, unless its cells are labels."""
        if self._text_target is not None:
            self._text_target.expected = True

    @property
    def unread_target(self) -> str | None:
        """The first target so far that is text and not a number, if the target is said to be a number."""
        return None if self._text_target is None else self._text_target.first_unread

    @property
    def n_features(self) -> int:
        """Number of columns of `X`, or of values in an image."""
        return len(self.feature_names)

    @property
    def is_image(self) -> bool:
        """Whether each sample is an image of shape `sample_shape`."""
        return len(self.sample_shape) > 1

    def row_name(self, number: int) -> str:
        """The name of row `number`, counted from 1, in messages; it states the file if there are several."""
        return str(number)

    def __iter__(self) -> Iterator[tuple[Any, np.ndarray | None]]:
        return read_ahead(self.batches())

    def batches(self, rows: int | None = None) -> Iterator[tuple[Any, np.ndarray | None]]:
        """Yield batches of exactly `rows` rows, always from the first row; the last batch may be shorter.

        Parameters
        ----------
        rows : int, optional
            Rows per batch; default is the `batch_rows` of `open_table`, else about 32 MB worth of rows.

        Yields
        ------
        X : ndarray of shape (rows, n_features), or (rows, height, width, channels) for images, or Arrow table
            For `open_table` a C-contiguous writable array of the table's dtype, for `open_frame` the columns.
        y : ndarray of shape (rows,) or (rows, n_targets), or None
            float64 for numbers; integers, booleans and strings as stored. A batch of integers with a missing target
            gives float64. If a column of a text file begins with integers and has a decimal fraction later,
            `open_table` gives float64 for the batches with a fraction, and `open_frame` for all batches. Several
            targets give float64.

        Raises
        ------
        ValueError
            If `rows` is not positive.
        DataError
            If a value cannot be used, or the file is damaged.
        """
        return ((X, y) for X, y, _ in self.numbered_batches(rows))

    def numbered_batches(self, rows: int | None = None) -> Iterator[Block]:
        """Yield batches with a third member, the numbers (rows,) of the rows in the file, counted from 1.

        The numbers have gaps where rows are left out.
        """
        return self._rebatched(self.batch_rows if rows is None else positive_integer("rows", rows))

    @abstractmethod
    def _blocks(self, rows: int, skipped: Skipped) -> Iterator[tuple[Any, np.ndarray | None]]:
        """Yield features and targets of about `rows` rows at a time in file order; unreadable rows go to `skipped`."""

    def _finish_block(self, X: Any, numbers: np.ndarray) -> tuple[Any, np.ndarray | None]:
        """Return the final features of rows `numbers`, and the mask (r,) of usable rows, None if all are usable."""
        return X, None

    def _rebatched(self, rows: int) -> Iterator[Block]:
        skipped = self.skipped = Skipped(self.row_name)
        for X, y, numbers in in_batches(self._checked_blocks(rows, skipped), rows):
            yield X, _as_stored(y, self._target_kind), numbers
        skipped.finish(self.where)
        if skipped.seen == skipped.count:
            raise DataError(f"{self.where}: there are no rows{skipped.excuse}. Check the file.")
        if self.n_rows not in (None, skipped.seen):
            raise DataError(f"{self.where}: had {self.n_rows} rows before, now {skipped.seen}. Open it again.")
        self.n_rows = skipped.seen

    def _checked_blocks(self, rows: int, skipped: Skipped) -> Iterator[Block]:
        labels = self.source.types.get(str(self.target_name)) in LABELS
        policy = self.source.bad_rows.target
        targets = TargetCheck(
            self.where, self.target_name, policy, labels=labels, text=self._text_target, row_name=self.row_name
        )
        for X, y in self._blocks(rows, skipped):
            numbers = skipped.place(len(X))
            y, present = targets.read(y, numbers, skipped)
            X, y, numbers = _kept(X, y, numbers, present)
            X, usable = self._finish_block(X, numbers)
            if usable is not None:
                skipped.drop(numbers[~usable], self._unusable)
            yield _kept(X, y, numbers, usable)
        targets.finish()


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
    memory is about two batches plus the reader's buffers (up to 90 MB for text, or 16 of the longest rows).
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
        if source.bad_rows.features == "skip" and self.row_names is None:
            self._unusable = "a missing feature"

    def _finish_block(self, X: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Copy the rows `X` (r, d), as samples of `sample_shape` in the table's dtype."""
        raw = X
        with np.errstate(over="ignore"):
            X = np.array(raw, dtype=self._dtype, order="C")
        usable: Any = None
        if raw.dtype.kind == "f" and not (finite := np.isfinite(X)).all():
            policy = self.source.bad_rows.features
            if policy == "error":
                if self.source.bad_rows.infinite == "skip":
                    usable = ~np.isinf(raw).any(axis=1)
                    finite[~usable] = True
                if not finite.all():
                    i, j = np.argwhere(~finite)[0]
                    self._refuse_feature(raw[i, j], self.row_name(int(numbers[i])), self.feature_names[j])
            elif policy == "skip":
                usable = finite.all(axis=1)
        return X.reshape(-1, *self.sample_shape), usable

    def _refuse_feature(self, value: Any, row: str, name: str) -> NoReturn:
        if not np.isfinite(value):
            refuse_value(self.where, value, row, name, SchemaError if np.isnan(value) else DataError)
        raise DataError(
            f"{self.where}: data row {row}, column {name!r} is {value}, too large for {self._dtype}. "
            "Use dtype=float64 or rescale the column."
        )


def _as_stored(y: np.ndarray | None, kind: str) -> np.ndarray | None:
    """Convert targets (r,) to whole numbers or Booleans if the file stores this `kind` and none is missing."""
    if y is None or y.dtype.kind != "f" or not kind or not np.isfinite(y).all():
        return y
    if kind == "b":
        return y.astype(bool)
    return y.astype(np.int64) if np.array_equal(y, np.rint(y)) else y


def _kept(X: Any, y: np.ndarray | None, numbers: np.ndarray, mask: np.ndarray | None) -> Block:
    """The rows for which `mask` (r,) is true; all rows if `mask` is None."""
    if mask is None:
        return X, y, numbers
    return chosen(X, mask), None if y is None else y[mask], numbers[mask]
