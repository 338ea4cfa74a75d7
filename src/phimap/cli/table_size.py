"""The size of a table, from the file's metadata or estimated from the start of a text file."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from phimap.io import DataError, Rows, open_rows, read_through
from phimap.io.archive import explained_damage, stored_name, uncompressed
from phimap.io.formats import PACKED, checked_format
from phimap.io.frame import Frame
from phimap.tables.targets import are_classes

# Number of bytes of a text file that are read, about ten thousand rows. This takes a few hundredths of a second.
_HEAD_BYTES = 2**22
# The formats that the cost model assumes for files other than text.
_FORMATS = {".parquet": "parquet", ".feather": "parquet", ".arrow": "parquet", ".npy": "npy", ".npz": "npy"}


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
    file = Path(path.rpartition(".npz:")[0] + ".npz" if ".npz:" in path else path)
    if file.is_dir():
        raise DataError(f"{path}: is a folder. Name one of its files, or give --rows and --columns.")
    found_format = checked_format(file)
    if file.suffix.lower() in _FORMATS:
        return _described(path, target, task, _FORMATS[file.suffix.lower()])
    if not found_format.is_text:
        raise DataError(
            f"{path}: how many rows such a file holds is not known before it is read. Give --rows and --columns."
        )
    with tempfile.TemporaryDirectory(prefix="phimap-") as folder:
        head, share = _head(file, Path(folder))
        try:
            found = _described(str(head), target, task, "csv")
        except DataError as error:
            raise DataError(str(error).replace(str(head), path)) from None
    return replace(found, n_rows=round(found.n_rows / share), estimated=share < 1)


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


def _described(path: str, target: str | None, task: str, file_format: str) -> TableSize:
    """The size of a table that stores its number of rows, or that is small enough to be read as a whole."""
    table = open_rows(path, target, bad_rows="skip")
    # `read_through` accepts columns that are not numeric, so they are counted as well.
    table, (y, n_rows) = read_through(table, _targets_and_rows)
    columns = int(np.prod(table.sample_shape)) - (target is None)
    return TableSize(n_rows, max(columns, 1), _n_outputs(y, task), file_format, mixed=isinstance(table, Frame))


def _targets_and_rows(table: Rows) -> tuple[np.ndarray | None, int]:
    """Return the targets of the first batch, and the number of rows, which is counted if the file does not store it."""
    _, y = next(iter(table.batches()))
    counted = sum(len(X) for X, _ in table.batches()) if table.n_rows is None else 0
    return None if table.target_name is None else np.asarray(y), table.n_rows or counted


def _n_outputs(y: np.ndarray | None, task: str) -> int:
    """Number of outputs of the linear model for these targets."""
    if y is None:
        return 1
    if task == "regression" or not (task == "classification" or are_classes(y)):
        return 1 if y.ndim == 1 else y.shape[1]
    n_classes = len(np.unique(y.astype(str) if y.dtype.kind == "O" else y))
    return 1 if n_classes <= 2 else n_classes
