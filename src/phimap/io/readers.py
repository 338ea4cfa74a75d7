"""The one door that opens files of every kind, and the reader of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from phimap._files import DataError
from phimap.io.folders import ARRAYS, ARROW, LIBSVM, PARQUET, TEXT, fixed_folder, is_image_folder, parts_of, suffix_of
from phimap.io.images import ImageTable
from phimap.io.npy import ArrayTable
from phimap.io.skipped import BadRows
from phimap.io.source import TableSource, positive_integer
from phimap.io.table import Table

if TYPE_CHECKING:
    from phimap.io.column_file import ColumnFile
    from phimap.io.frame import Frame

_SKIP = BadRows("skip", "skip", "error")


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
    types: Mapping[str, str] | None = None,
    bad_rows: Literal["error", "skip"] | BadRows = "error",
) -> Table:
    r"""Open a data file, or the files of a folder, for reading out of core.

    Parameters
    ----------
    path : str or Path
        A text table (``.csv``, ``.tsv``, ``.tab``, ``.txt``, ``.dat``, ``.data``), records in ``.json``, ``.jsonl``
        or ``.ndjson``, a ``.parquet``, ``.feather``, ``.arrow``, ``.npy`` or ``.npz`` file, or one of libsvm
        (``.libsvm``, ``.svmlight``, ``.svm``), whose columns are called ``label, f1, f2, ...``; text and records also
        in ``.gz`` or alone in ``.zip``. Of text the separator, the decimal mark, quotes, encoding and header are
        recognised. An array of an ``.npz`` is named as ``file.npz:key``; the key may be left out if it is ``X`` or if
        only one array has two or more dimensions. Text files have a header line, unless every field of the first line
        is a number, or some are and a text among them occurs again below it. Columns without names (no header, or an
        array) are called ``c0, c1, ...``. Or a folder, or a pattern such as ``"runs/*.parquet"``, of files with the
        same columns, which are one table in the order of their sorted paths; folders called ``key=value`` are a column
        more. Or a folder of images (PNG, JPEG, BMP, GIF, PGM, PPM, TIFF, WebP), in the same order.
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
    types : mapping of str to str, optional
        ``{target: "category"}`` takes the numbers of a text column for labels.
    bad_rows : {"error", "skip"}
        What becomes of rows without a target, and of rows of text files with too many or too few values. Those that
        are skipped are counted in ``skipped``.

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
        columns, feature columns that are not numeric, images of several sizes, a class without images. A target of
        numbers in which at most one cell of twenty is none is an error that shows such cells.
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

    Of a table in several files the names and types of columns are compared when it is opened, files without rows and
    those whose names begin with a dot or an underscore are passed over, and messages name rows with their file.

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
    source = _source(path, target, columns, drop, types, batch_rows, bad_rows)
    if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"`dtype` must be float32 or float64, got {np.dtype(dtype)}. Use np.float32.")
    if size is not None:
        size = _image_size(size)
    if channels not in (None, 1, 3):
        raise ValueError(f"`channels` must be 1 (grey) or 3 (RGB), got {channels!r}. Leave it out to keep the images'.")
    is_folder = is_image_folder(source.path)
    if not is_folder and (size, channels) != (None, None):
        raise ValueError(
            f"`size` and `channels` apply to folders of images, got them with {source.path}. Leave them out."
        )
    stored = None if dtype is None else np.dtype(dtype)
    source = replace(source, dtype=stored, size=size, channels=channels)
    if is_folder:
        return ImageTable(source)
    files = parts_of(source.path)
    suffix = suffix_of(files[0] if files else source.path)
    if suffix in ARRAYS:
        return ArrayTable(replace(source, path=files[0]) if files else source)
    stored_columns = _columns(source, suffix, files)
    if suffix in TEXT:
        from phimap.io.text import TextTable

        return TextTable(source, stored_columns)
    from phimap.io.column_file import ColumnTable

    return ColumnTable(source, stored_columns)


def open_frame(
    path: str | Path,
    target: str | int | None = None,
    *,
    columns: Sequence[str | int] | None = None,
    drop: Sequence[str | int] | None = None,
    types: Mapping[str, str] | None = None,
    bad_rows: Literal["error", "skip"] | BadRows = "error",
    batch_rows: int | None = None,
) -> Frame:
    r"""Open a data file of columns of any kind for reading out of core.

    Parameters
    ----------
    path : str or Path
        A file as `open_table` takes it, but for folders of images.
    target : str or int, optional
        Target column by name, or by position where no column has that name. None reads no target.
    columns, drop : sequence of str or int, optional
        Feature columns in the order wanted, and columns that are none. A column without a name is left out.
    types : mapping of str to str, optional
        What columns are: ``"number"``, ``"category"``, ``"date"``, ``"text"`` or ``"drop"``. Text files are read so
        that categories and texts stay as they are written (``"007"``); else pass it to `TableEncoder`.
    bad_rows : {"error", "skip"}
        What becomes of rows without a target, and of rows of text files with too many or too few values. Those that
        are skipped are counted in ``skipped``.
    batch_rows : int, optional
        Rows per batch where `Frame.batches` is not told.

    Returns
    -------
    Frame
        Iterable any number of times over ``(columns, y)``, where columns are an Arrow table.

    Raises
    ------
    FileNotFoundError, DataError, ValueError, TypeError
        As `open_table`, but for columns that are no numbers and features that are missing, which are legal.

    Notes
    -----
    **Error** Columns keep the types of the file. Columns of text files have one type throughout: whole numbers,
    numbers, truth values, dates, times, or text, of which the first that holds for all rows. ``NA``, ``?``, ``-``,
    ``null`` and the like are missing in all but text. **Cost** Opening a text file reads it once, so that the type of
    a column is the same in all batches. **Differs from the source** nothing is encoded or imputed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "rooms.csv"
    >>> _ = file.write_text("area;floor;price\n50,5;ground;100\n?;first;140\n")
    >>> frame = open_frame(file, target="price")
    >>> frame.notes
    ('separated by semicolons', 'decimal commas')
    >>> [(columns.to_pydict(), y.tolist()) for columns, y in frame]
    [({'area': [50.5, None], 'floor': ['ground', 'first']}, [100, 140])]
    """
    source = _source(path, target, columns, drop, types, batch_rows, bad_rows)
    if is_image_folder(source.path):
        raise DataError(f"{source.where}: is a folder of images, which has no columns. Use open_table.")
    files = parts_of(source.path)
    suffix = suffix_of(files[0] if files else source.path)
    _need_pyarrow(source)
    from phimap.io.frame import ArrayFrame, ColumnFrame

    if suffix in ARRAYS:
        return ArrayFrame(replace(source, path=files[0]) if files else source)
    return ColumnFrame(source, _columns(source, suffix, files))


def _columns(source: TableSource, suffix: str, files: tuple[Path, ...] | None) -> ColumnFile:
    """The columns of a file, or of the files that are its parts."""
    _need_pyarrow(source)
    if files is None:
        return _one_file(source, suffix, part=False)
    from phimap.io.parts import Parts

    def opened(file: Path) -> ColumnFile:
        return _one_file(replace(source, path=file), suffix_of(file), part=True)

    return Parts(source.where, fixed_folder(source.path), files, opened)


def _one_file(source: TableSource, suffix: str, *, part: bool) -> ColumnFile:
    """The columns of one file, which may be a `part` of a table; readers load pyarrow when first needed."""
    if suffix in TEXT:
        from phimap.io.text_columns import TextColumns

        return TextColumns(source)
    if suffix in PARQUET:
        from phimap.io.parquet import ParquetColumns

        return ParquetColumns(source)
    if suffix in ARROW:
        from phimap.io.ipc import ArrowColumns

        return ArrowColumns(source)
    if suffix in LIBSVM:
        from phimap.io.libsvm import LibsvmColumns

        return LibsvmColumns(source)
    from phimap.io.json_file import JsonColumns

    return JsonColumns(source, kept=not part)


def _source(
    path: str | Path,
    target: Any,
    columns: Sequence[str | int] | None,
    drop: Sequence[str | int] | None,
    types: Mapping[str, str] | None,
    batch_rows: int | None,
    bad_rows: Any,
) -> TableSource:
    """What was asked for, as far as both doors take it."""
    text = str(path)
    head, separator, member = text.rpartition(".npz:")
    file = Path(head + ".npz") if separator else Path(text)
    if batch_rows is not None:
        positive_integer("batch_rows", batch_rows)
    if not isinstance(bad_rows, BadRows):
        if bad_rows not in ("error", "skip"):
            raise ValueError(f"`bad_rows` must be 'error' or 'skip', got {bad_rows!r}. Use 'error'.")
        bad_rows = _SKIP if bad_rows == "skip" else BadRows()
    return TableSource(
        file,
        member if separator else None,
        target,
        columns,
        drop,
        batch_rows=batch_rows,
        bad_rows=bad_rows,
        types=dict(types or {}),
    )


def _need_pyarrow(source: TableSource) -> None:
    """Say in one line what reads such files, where it is not installed."""
    if find_spec("pyarrow") is None:
        raise ImportError(
            f"{source.where}: files of tables are read by pyarrow. Install it: pip install 'phimap[cli]'."
        )


def _image_size(size: Any) -> tuple[int, int]:
    if np.ndim(size) != 1 or len(size) != 2:
        raise ValueError(f"`size` must be (height, width), got {size!r}. Use for example (32, 32).")
    height, width = (positive_integer("size", one) for one in size)
    return height, width
