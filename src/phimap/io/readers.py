"""Opens files of all formats: as numbers, as columns, or in the form that the schema suggests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from phimap._files import DataError, file_and_member
from phimap.io.columns import SchemaError
from phimap.io.formats import ARRAYS, checked_format, fixed_folder, is_image_folder, parts_of
from phimap.io.images import ImageTable
from phimap.io.npy import ArrayTable
from phimap.io.rows import Rows, Table
from phimap.io.skipped import BadRows
from phimap.io.source import TableSource, positive_integer

if TYPE_CHECKING:
    from phimap.io.column_file import ColumnFile
    from phimap.io.frame import Frame

Result = TypeVar("Result")

_SKIP = BadRows("skip", "skip", "error", "skip")


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
        A text table (``.csv``, ``.tsv``, ``.tab``, ``.txt``, ``.dat``, ``.data``), records in ``.json``, ``.jsonl`` or
        ``.ndjson``, an ``.xlsx`` file of one sheet, a ``.parquet``, ``.feather``, ``.arrow``, ``.npy`` or ``.npz``
        file, or a libsvm file (``.libsvm``, ``.svmlight``, ``.svm``), whose columns are called ``label, f1, f2, ...``.
        Text and records may also be compressed, as ``.gz``, ``.bz2`` or the only file of a ``.zip``. For text,
        separator, decimal mark, quotes, encoding and header are detected. An array of an ``.npz`` is named as
        ``file.npz:key``; the key may be left out if it is ``X`` or if only one array has two or more dimensions. The
        first line of a text file is its header, unless all its fields are numbers, or some are numbers and a text
        occurs again below in its column. Columns without names (no header, or an array) are called ``c0, c1, ...``. The
        path may also be a folder, or a pattern such as ``"runs/*.parquet"``, of files with the same columns. They form
        one table in the order of their sorted paths; folders called ``key=value`` add a column. Or the path is a folder
        of images (PNG, JPEG, BMP, GIF, PGM, PPM, TIFF, WebP), which are read in the order of their sorted paths.
    target : str, int or sequence, optional
        Target column by name, or by position if no column has this name (``-1`` is the last). A sequence gives several
        targets. For arrays it may also be another key of the same ``.npz``, or the path of another ``.npy`` or
        ``file.npz:key`` with as many rows. For folders of images ``"class"``: the name of the subfolder that contains
        the image, as in ``cats/1.png``. None reads no target.
    columns : sequence of str, optional
        Feature columns in the order wanted; others are ignored. Default is every column except the target (and except
        the row index that pandas stores in Parquet). Pass a model's feature names to predict.
    drop : sequence of str or int, optional
        Columns that are not features, by name or by position in the file; they may hold anything.
    dtype : {float32, float64}, optional
        Type of the features; by default float32, while images in bytes stay bytes (uint8).
    batch_rows : int, optional
        Default rows per batch of `Table.batches`; by default about 32 MB worth of rows.
    size : (int, int), optional
        Height and width to which the images of a folder are resized, bilinearly, with smoothing if they shrink, and
        without preserving proportions. By default all images must have the size of the first.
    channels : {1, 3}, optional
        Whether the images of a folder become grey or RGB. Default is the type of the first image; a grey image among
        coloured images becomes RGB, a coloured image among grey images is an error.
    types : mapping of str to str, optional
        ``{target: "category"}`` treats the numbers of a text column as labels. ``{column: "number"}`` treats
        non-numeric cells of a text file as missing, if bad rows are skipped.
    bad_rows : {"error", "skip"}
        Whether rows without a target or with an infinite feature, and rows of text files with too many or too few
        values, are an error. Skipped rows are counted in ``skipped``.

    Returns
    -------
    Table
        Iterable any number of times over ``(X, y)``.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    DataError
        If the file cannot be used as it is: unknown suffix, damaged, no rows, missing or duplicate columns, feature
        columns that are not numeric, images of several sizes, a class without images. For a target column in which up
        to one cell in twenty is not a number, the error shows such cells.
    ValueError, TypeError
        If an argument is malformed.

    Notes
    -----
    **Error** Features are rounded to `dtype` once. **Cost** Opening reads only the head of the file.
    **Differs from the source** Pickled object arrays are never loaded. Memory is bounded by the batch,
    except for Fortran-ordered arrays inside an ``.npz``, which are loaded whole within the byte budget.

    Of an image, the first frame is used. It is rotated upright by the orientation that the camera stored, and
    transparent parts become white. Of 16-bit values, the upper eight bits are used. Folders within a class belong to
    the class. Hidden files and files with other suffixes are ignored; links to folders and images above Pillow's pixel
    limit raise an error. Opening lists the folder and decodes the first image.

    For a table in several files, opening compares names and types of columns. Files without rows and files whose names
    begin with a dot or an underscore are skipped, and messages name rows with their file.

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
    options = {"dtype": dtype, "size": size, "channels": channels, "batch_rows": batch_rows, "bad_rows": bad_rows}
    source = _source(path, target, columns=columns, drop=drop, types=types, **options)
    opened = _opened(source)
    if isinstance(opened, Table):
        return opened
    from phimap.io.frame import ColumnTable

    return ColumnTable(source, opened)


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
        As for `open_table`, without folders of images.
    target : str or int, optional
        Target column by name, or by position if no column has this name. None reads no target.
    columns, drop : sequence of str or int, optional
        Feature columns in the order wanted, and columns to leave out. Columns without a name are left out.
    types : mapping of str to str, optional
        Kinds of columns: ``"number"``, ``"category"``, ``"date"``, ``"text"`` or ``"drop"``. Categories and texts of
        text files are read as written (``"007"``). Also pass `types` to `TableEncoder`.
    bad_rows : {"error", "skip"}
        Whether rows without a target or with an infinite feature, and rows of text files with too many or too few
        values, are an error. Skipped rows are counted in ``skipped``.
    batch_rows : int, optional
        Default rows per batch of `Frame.batches`.

    Returns
    -------
    Frame
        Iterable any number of times over ``(columns, y)``, where columns are an Arrow table.

    Raises
    ------
    FileNotFoundError, DataError, ValueError, TypeError
        As `open_table`. Columns of any kind and missing features are allowed.

    Notes
    -----
    **Error** Columns keep the types of the file. Columns of text files have one type throughout: the first of whole
    numbers, numbers, truth values, dates, times, and text that fits all rows. Digits that begin with a zero, such as
    ``01234``, in the first megabyte make a column text, unless `types` calls it a number. ``NA``, ``?``, ``-``,
    ``null`` and similar marks are missing cells in all columns but text. **Cost** Opening a text file reads it once, so
    that the type of a column is the same in all batches. **Differs from the source** Nothing is encoded or imputed.

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
    options = {"types": types, "batch_rows": batch_rows, "bad_rows": bad_rows, "keeps_codes": True}
    source = _source(path, target, columns=columns, drop=drop, **options)
    _need_pyarrow(source)
    opened = _opened(source)
    if isinstance(opened, Table):
        return _as_columns(opened)
    from phimap.io.frame import ColumnFrame

    return ColumnFrame(source, opened)


def open_rows(
    path: str | Path,
    target: str | int | Sequence[str | int] | None = None,
    **options: Any,
) -> Rows:
    """Open a data file as numbers if its schema has only numeric features, else as columns.

    Parameters
    ----------
    path, target, **options
        As for `open_table`; `types` as for `open_frame`. If `types` is given, the file is opened as columns. With
        ``keeps_text=True``, text in features that `types` calls numbers stays text.

    Returns
    -------
    Table or Frame

    Raises
    ------
    FileNotFoundError, DataError, ValueError, TypeError
        As `open_table` and `open_frame`.

    Notes
    -----
    The schema of a text file comes from its first block. Use `read_through` if a later row of a numeric table may hold
    text or a missing value.
    """
    source = _source(path, target, keeps_codes=True, **options)
    opened = _opened(source)
    if isinstance(opened, Table):
        return _as_columns(opened) if source.types else opened
    from phimap.io.frame import ColumnFrame, ColumnTable, holds_numbers

    return ColumnTable(source, opened) if holds_numbers(source, opened) else ColumnFrame(source, opened)


def read_through(rows: Rows, read: Callable[[Rows], Result]) -> tuple[Rows, Result]:
    """Make one pass over all rows. If a numeric table has text or missing values in later rows, read it as columns.

    Parameters
    ----------
    rows : Table or Frame
        Rows as opened by `open_rows`.
    read : callable
        ``read(rows)`` makes the pass. If a row does not fit the schema of a numeric table, `read` is called again with
        the same file opened as columns.

    Returns
    -------
    rows : Table or Frame
        The rows with which the pass was completed.
    result : object
        What ``read(rows)`` returned.

    Raises
    ------
    DataError
        If a value cannot be used in columns either.
    """
    try:
        return rows, read(rows)
    except SchemaError:
        if not isinstance(rows, Table):
            raise
    columns = _as_columns(rows)
    return columns, read(columns)


def _as_columns(table: Table) -> Frame:
    """Open the file of a numeric table as columns of any type, in which cells may be missing."""
    from phimap.io.frame import ArrayFrame, ColumnFrame, ColumnTable

    if isinstance(table, ColumnTable):
        return ColumnFrame(table.source, table.file)
    if isinstance(table, ArrayTable):
        return ArrayFrame(table.source)
    raise DataError(f"{table.where}: is a folder of images, which has no columns. Use open_table.")


def _opened(source: TableSource) -> Table | ColumnFile:
    """Open images or an array as a table; else open the columns of one file, or of the parts of a table."""
    is_folder = is_image_folder(source.path)
    if not is_folder and (source.size, source.channels) != (None, None):
        raise ValueError(
            f"`size` and `channels` apply to folders of images, got them with {source.path}. Leave them out."
        )
    if is_folder:
        return ImageTable(source)
    files = parts_of(source.path)
    found = checked_format(files[0] if files else source.path)
    if found is ARRAYS:
        return ArrayTable(replace(source, path=files[0]) if files else source)
    _need_pyarrow(source)
    if files is None:
        return found.open(source)
    from phimap.io.parts import Parts

    def part(file: Path) -> ColumnFile:
        return checked_format(file).open(replace(source, path=file, is_part=True))

    return Parts(source.where, fixed_folder(source.path), files, part)


def _source(
    path: str | Path,
    target: Any,
    *,
    dtype: Any = None,
    size: Any = None,
    channels: int | None = None,
    batch_rows: int | None = None,
    bad_rows: Any = "error",
    types: Mapping[str, str] | None = None,
    **unchecked: Any,
) -> TableSource:
    """Return the arguments of `open_table` or `open_frame` after checking them."""
    if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"`dtype` must be float32 or float64, got {np.dtype(dtype)}. Use np.float32.")
    if channels not in (None, 1, 3):
        raise ValueError(f"`channels` must be 1 (grey) or 3 (RGB), got {channels!r}. Leave it out to keep the images'.")
    if batch_rows is not None:
        positive_integer("batch_rows", batch_rows)
    if not isinstance(bad_rows, BadRows):
        if bad_rows not in ("error", "skip"):
            raise ValueError(f"`bad_rows` must be 'error' or 'skip', got {bad_rows!r}. Use 'error'.")
        bad_rows = _SKIP if bad_rows == "skip" else BadRows()
    return TableSource(
        *file_and_member(str(path)),
        target,
        dtype=None if dtype is None else np.dtype(dtype),
        size=None if size is None else _image_size(size),
        channels=channels,
        batch_rows=batch_rows,
        bad_rows=bad_rows,
        types=dict(types or {}),
        **unchecked,
    )


def _need_pyarrow(source: TableSource) -> None:
    """Raise a one-line error if pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        raise ImportError(f"{source.where}: files of tables are read by pyarrow. Install it: pip install pyarrow.")


def _image_size(size: Any) -> tuple[int, int]:
    if np.ndim(size) != 1 or len(size) != 2:
        raise ValueError(f"`size` must be (height, width), got {size!r}. Use for example (32, 32).")
    height, width = (positive_integer("size", one) for one in size)
    return height, width
