"""The size of a table, from the file's metadata or estimated from the start of a text file."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from phimap._files import file_and_member
from phimap.io import DataError, Rows, open_rows, read_through
from phimap.io.archive import explained_damage, stored_name, uncompressed
from phimap.io.formats import PACKED, checked_format, is_image_folder, parts_of
from phimap.io.frame import Frame
from phimap.tables.targets import are_classes

# Number of bytes of a text file that are read, about ten thousand rows. This takes a few hundredths of a second.
_HEAD_BYTES = 2**22
# The formats that the cost model assumes for files that store their number of rows, whatever their size.
_STORED = {".parquet": "parquet", ".feather": "parquet", ".arrow": "parquet", ".npy": "npy", ".npz": "npy"}
# Largest size of Excel files, which are read whole. A megabyte takes a few seconds.
_SHEET_BYTES = 2**20


@dataclass(frozen=True)
class TableSize:
    """The size of a table.

    Attributes
    ----------
    n_rows, n_columns : int
        Numbers of rows, and of columns other than the target, in the file.
    n_outputs : int
        Number of outputs of the linear model: one for each numeric target, one for two classes, and one for each class
        if there are more.
    file_format : {"csv", "parquet", "npy"}
    estimated : bool
        Whether `n_rows` is extrapolated from a sample.
    mixed : bool
        Whether there are columns of text or categories, which are encoded as several columns.
    notes : tuple of str
        Notes on these numbers, in words.
    """

    n_rows: int
    n_columns: int
    n_outputs: int
    file_format: str
    estimated: bool = False
    mixed: bool = False
    notes: tuple[str, ...] = ()


def table_size(path: str, target: str | None, task: str) -> TableSize:
    """Return the size of a table. If no `target` is given, one of the columns is assumed to be the target."""
    file, _ = file_and_member(path)
    if is_image_folder(file):
        raise _unknown(path, "is a folder of images, whose size depends on how they are read")
    parts = parts_of(file)
    files = (file,) if parts is None else parts
    kind, stored = checked_format(files[0]), _STORED.get(files[0].suffix.lower())
    sizes = {one: one.stat().st_size for one in files}
    n_bytes, packed = sum(sizes.values()), any(one.suffix.lower() in PACKED for one in files)
    if stored or (n_bytes <= (_SHEET_BYTES if ".xlsx" in kind.suffixes else _HEAD_BYTES) and not packed):
        return _described(path, target, task, stored or "csv")
    if not kind.is_text or (parts and ".json" in kind.suffixes):
        raise _unknown(path, "how many rows it holds is not known before it is read")
    # The lines of the largest file stand for the lines of all files.
    sample = max(files, key=lambda one: sizes[one])
    with tempfile.TemporaryDirectory(prefix="phimap-") as folder:
        head, share = _head(sample, Path(folder))
        try:
            found = _described(str(head), None if parts else target, task, "csv")
        except DataError as error:
            if share < 1 and head.suffix == ".json":
                raise _unknown(path, "how many records it holds is not known before it is read") from None
            raise DataError(str(error).replace(str(head), path)) from None
    share *= sizes[sample] / max(n_bytes, 1)
    n_rows = round(found.n_rows / share)
    # Folders may add columns, and types may differ between parts.
    found = _described(path, target, task, "csv", n_rows) if parts else replace(found, n_rows=n_rows)
    return replace(found, estimated=share < 1)


def _unknown(path: str, why: str) -> DataError:
    return DataError(f"{path}: {why}. Give --rows and --columns in its place.")


def _head(file: Path, folder: Path) -> tuple[Path, float]:
    """Copy the first lines of a text file; return the path of the copy, and its share of the bytes of the file.

    A compressed file is read to its end, because it does not state its size, or states it modulo 4 GB.
    """
    packed = file.suffix.lower() in PACKED
    with explained_damage(str(file), "text"), uncompressed(file) as stream:
        text = stream.read(_HEAD_BYTES)
        size = len(text)
        while packed and (more := len(stream.read(_HEAD_BYTES))):
            size += more
    size = size if packed else file.stat().st_size
    if len(text) < size:
        whole = text.rfind(b"\n") + 1
        text = text[:whole] if whole else text
    copy = folder / Path(stored_name(file)).name
    copy.write_bytes(text)
    return copy, len(text) / max(size, 1)


def _described(path: str, target: str | None, task: str, file_format: str, n_rows: int | None = None) -> TableSize:
    """The size of a table. If `n_rows` is not given, rows are counted, unless the file stores their number."""
    table = open_rows(path, target, bad_rows="skip")
    # `read_through` accepts columns that are not numeric, so they are counted as well.
    table, (y, n_rows) = read_through(table, lambda rows: (_first_targets(rows), n_rows or _counted(rows)))
    columns = int(np.prod(table.sample_shape)) - (target is None)
    return TableSize(n_rows, max(columns, 1), _n_outputs(y, task), file_format, mixed=isinstance(table, Frame))


def _first_targets(table: Rows) -> np.ndarray | None:
    """Return the targets of the first batch."""
    _, y = next(iter(table.batches()))
    return None if table.target_name is None else np.asarray(y)


def _counted(table: Rows) -> int:
    """Return the number of rows, which is counted if the file does not store it."""
    return sum(len(X) for X, _ in table.batches()) if table.n_rows is None else table.n_rows


def _n_outputs(y: np.ndarray | None, task: str) -> int:
    """Number of outputs of the linear model for these targets."""
    if y is None:
        return 1
    if task == "regression" or not (task == "classification" or are_classes(y)):
        return 1 if y.ndim == 1 else y.shape[1]
    n_classes = len(np.unique(y.astype(str) if y.dtype.kind == "O" else y))
    return 1 if n_classes <= 2 else n_classes
