"""Tables on disk as streams of row batches, and the one door that opens them."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from phimap._files import DataError, one_line

# Module of this package that reads a suffix; imported when first needed. The longest suffix wins.
_READERS = {
    ".csv": "text",
    ".csv.gz": "text",
    ".parquet": "parquet",
    ".npy": "npy",
    ".npz": "npy",
}
# A default batch is large enough to hide the cost per batch and small beside any memory; it depends on
# the width alone, so the partition of a file into default batches is the same on every machine.
_DEFAULT_BATCH_BYTES = 2**25
_DEFAULT_BATCH_ROWS = 2**16


@dataclass(frozen=True)
class Source:
    """What was asked for: the arguments of `open_table`, checked."""

    path: Path
    member: str | None
    target: Any
    columns: Sequence[str | int] | None
    drop: Sequence[str | int] | None
    dtype: np.dtype | None
    batch_rows: int | None
    size: tuple[int, int] | None = None
    channels: int | None = None

    @property
    def where(self) -> str:
        """The path as the user wrote it, for messages."""
        return f"{self.path}:{self.member}" if self.member else str(self.path)


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
        return self._rebatched(self.batch_rows if rows is None else _positive("rows", rows))

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


def open_table(
    path: str | Path,
    target: str | int | Sequence[str | int] | None = None,
    *,
    columns: Sequence[str | int] | None = None,
    drop: Sequence[str | int] | None = None,
    dtype: Any = None,
    batch_rows: int | None = None,
    size: tuple[int, int] | None = None,
    channels: int | None = None,
) -> Table:
    r"""Open a data file for reading out of core.

    Parameters
    ----------
    path : str or Path
        A ``.csv``, ``.csv.gz``, ``.parquet``, ``.npy`` or ``.npz`` file. An array of an ``.npz`` is named as
        ``file.npz:key``; the key may be left out if it is ``X`` or if only one array has two or more
        dimensions. Text files have a header line, unless every field of the first line is a number. Columns
        without names (no header, or an array) are called ``c0, c1, ...``. Or a folder of images (PNG, JPEG, BMP, GIF,
        PGM, PPM, TIFF, WebP), which are read in the order of their sorted paths.
    target : str, int or sequence, optional
        Target column by name, or by position where no column has that name (``-1`` is the last). A
        sequence gives several targets. For arrays also another key of the same ``.npz``, or the path of a
        further ``.npy`` or ``file.npz:key``, with as many rows. For folders ``"class"``: the name of the subfolder
        that an image lies in, as in ``cats/1.png``. None reads no target.
    columns : sequence of str, optional
        Feature columns in the order wanted; others are ignored. Default is every column but the target
        (and but the row index that pandas stores in Parquet). Pass a model's feature names to predict.
    drop : sequence of str or int, optional
        Columns that are no features, by name or by position in the file; they may hold anything.
    dtype : {float32, float64}, optional
        Type of the features; by default float32, and images in bytes stay bytes (uint8).
    batch_rows : int, optional
        Rows per batch where `Table.batches` is not told; default is about 32 MB worth.
    size : (int, int), optional
        Height and width to which the images of a folder are resized, bilinearly, smoothed where they shrink and
        without regard to their proportions. By default all images must have the size of the first.
    channels : {1, 3}, optional
        Whether the images of a folder become grey or RGB. Default is what the first image is; a grey image among
        coloured ones becomes RGB, a coloured one among grey ones is an error.

    Returns
    -------
    Table
        Iterable any number of times over ``(X, y)``.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    DataError
        If the file cannot be used as it is: unknown suffix, damaged, no rows, missing or duplicate
        columns, feature columns that are not numeric, images of several sizes, a class without images.
    ValueError, TypeError
        If an argument is malformed.

    Notes
    -----
    **Error** Features are rounded to `dtype` once. **Cost** Opening reads the head of the file only.
    **Differs from the source** Pickled object arrays are never loaded. Memory is bounded by the batch,
    except for Fortran-ordered arrays inside an ``.npz``, which are loaded whole within the byte budget.

    Of images in folders the first frame is taken, turned upright as the camera noted, on white where it is
    transparent; of 16 bits the upper eight. Folders within a class belong to it. Hidden files and files with other
    suffixes are passed over; links to folders and images beyond Pillow's limit of pixels are refused. Opening lists
    the folder and decodes the first image.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "rooms.csv"
    >>> _ = file.write_text("area,rooms,price\n50,2,100.5\n70,3,140\n")
    >>> table = open_table(file, target="price")
    >>> table.feature_names
    ('area', 'rooms')
    >>> [(X.tolist(), y.tolist()) for X, y in table]
    [([[50.0, 2.0], [70.0, 3.0]], [100.5, 140.0])]
    """
    text = str(path)
    head, separator, member = text.rpartition(".npz:")
    file = Path(head + ".npz") if separator else Path(text)
    if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"`dtype` must be float32 or float64, got {np.dtype(dtype)}. Use np.float32.")
    if batch_rows is not None:
        _positive("batch_rows", batch_rows)
    if size is not None:
        size = _image_size(size)
    if channels not in (None, 1, 3):
        raise ValueError(f"`channels` must be 1 (grey) or 3 (RGB), got {channels!r}. Leave it out to keep the images'.")
    if not file.is_dir() and (size, channels) != (None, None):
        raise ValueError(f"`size` and `channels` apply to folders of images, got them with {file}. Leave them out.")
    stored = None if dtype is None else np.dtype(dtype)
    source = Source(file, member if separator else None, target, columns, drop, stored, batch_rows, size, channels)
    return _reader(file).open_file(source)


def check_file(file: Path) -> None:
    """Raise unless `file` is an existing file."""
    if not file.exists():
        raise FileNotFoundError(f"{file}: no such file. Check the path.")
    if file.is_dir():
        raise DataError(f"{file}: is a directory. Give the path of a file in it.")


def numeric_or_label(values: np.ndarray, where: str) -> np.ndarray:
    """Target `values` as learners take them: floats in float64, everything else as it is."""
    if values.dtype.kind == "f":
        return values.astype(np.float64)
    if values.dtype.kind == "S":
        try:
            return np.char.decode(values, "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{where}: labels are not UTF-8 text ({one_line(error)}). Store them as str.") from None
    return values


def _reader(file: Path) -> Any:
    name = file.name.lower()
    # Other programs write tables as folders of parts: those are named like files.
    if file.is_dir() and not name.endswith(tuple(_READERS)):
        return importlib.import_module("phimap.io.images")
    check_file(file)
    for suffix, module in sorted(_READERS.items(), key=lambda item: -len(item[0])):
        if name.endswith(suffix):
            return importlib.import_module(f"phimap.io.{module}")
    known = ", ".join(_READERS)
    raise DataError(f"{file}: unknown kind of file {file.suffix!r}. Convert it to one of {known}.")


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer, got {value!r}. Use for example 4096.")
    return int(value)


def _image_size(size: Any) -> tuple[int, int]:
    if np.ndim(size) != 1 or len(size) != 2:
        raise ValueError(f"`size` must be (height, width), got {size!r}. Use for example (32, 32).")
    height, width = (_positive("size", one) for one in size)
    return height, width


def _joined(pieces: list[tuple[np.ndarray, np.ndarray | None]]) -> tuple[np.ndarray, np.ndarray | None]:
    """One batch from consecutive pieces."""
    if len(pieces) == 1:
        return pieces[0]
    targets = [y for _, y in pieces if y is not None]
    return np.concatenate([X for X, _ in pieces]), np.concatenate(targets) if targets else None


def image_shape(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """(h, w, c) of the samples of an array of `shape` (n, h, w[, c]); None for a table (n, d)."""
    return (*shape[1:], 1)[:3] if prod(shape[1:]) and len(shape) > 2 else None
