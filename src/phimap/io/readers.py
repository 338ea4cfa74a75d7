"""The one door that opens files of every kind, and the reader of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from phimap._files import DataError
from phimap.io.images import ImageTable
from phimap.io.npy import ArrayTable
from phimap.io.source import Source, check_file, positive_integer
from phimap.io.table import Table


def _open_text(source: Source) -> Table:
    _need_pyarrow(source)
    from phimap.io.text import TextTable

    return TextTable(source)


def _open_parquet(source: Source) -> Table:
    _need_pyarrow(source)
    from phimap.io.parquet import ParquetTable

    return ParquetTable(source)


# Reader of each suffix, of which the longest wins; those by pyarrow load it when first needed.
_READERS: dict[str, Callable[[Source], Table]] = {
    ".csv": _open_text,
    ".csv.gz": _open_text,
    ".parquet": _open_parquet,
    ".npy": ArrayTable,
    ".npz": ArrayTable,
}


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
        positive_integer("batch_rows", batch_rows)
    if size is not None:
        size = _image_size(size)
    if channels not in (None, 1, 3):
        raise ValueError(f"`channels` must be 1 (grey) or 3 (RGB), got {channels!r}. Leave it out to keep the images'.")
    if not file.is_dir() and (size, channels) != (None, None):
        raise ValueError(f"`size` and `channels` apply to folders of images, got them with {file}. Leave them out.")
    stored = None if dtype is None else np.dtype(dtype)
    source = Source(file, member if separator else None, target, columns, drop, stored, batch_rows, size, channels)
    return _reader(file)(source)


def _reader(file: Path) -> Callable[[Source], Table]:
    name = file.name.lower()
    # Other programs write tables as folders of parts: those are named like files.
    if file.is_dir() and not name.endswith(tuple(_READERS)):
        return ImageTable
    check_file(file)
    for suffix, reader in sorted(_READERS.items(), key=lambda item: -len(item[0])):
        if name.endswith(suffix):
            return reader
    known = ", ".join(_READERS)
    raise DataError(f"{file}: unknown kind of file {file.suffix!r}. Convert it to one of {known}.")


def _need_pyarrow(source: Source) -> None:
    """Say in one line what reads such files, where it is not installed."""
    if find_spec("pyarrow") is None:
        raise ImportError(
            f"{source.where}: CSV and Parquet files are read by pyarrow. Install it: pip install 'phimap[cli]'."
        )


def _image_size(size: Any) -> tuple[int, int]:
    if np.ndim(size) != 1 or len(size) != 2:
        raise ValueError(f"`size` must be (height, width), got {size!r}. Use for example (32, 32).")
    height, width = (positive_integer("size", one) for one in size)
    return height, width
