"""NPY files, mapped into memory, and members of NPZ archives, streamed in blocks of rows."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from phimap._files import DataError, file_and_member, one_line
from phimap.config import memory_budget
from phimap.io.archive import explained_damage
from phimap.io.columns import check_row, closest_first, numbered_names, select_columns
from phimap.io.rows import Table
from phimap.io.skipped import Skipped
from phimap.io.source import TableSource, check_file

_HEADERS: dict[tuple[int, int], Callable[[Any], tuple[tuple[int, ...], bool, np.dtype]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_KINDS = {"O": "pickled objects, which are never loaded", "V": "records", "c": "complex numbers", "M": "dates"}
_KIND = "NumPy"
# Largest number of bytes that are decoded at a time. It is small, because memory holds the decoded block in addition to
# the batch.
_BLOCK_BYTES = 2**24


@dataclass(frozen=True)
class StoredArray:
    """An array on disk: its file and its header.

    `member` is the name of the array inside an archive, or None for an NPY file. `shape` is (n, ...).
    """

    path: Path
    member: str | None
    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool

    @property
    def where(self) -> str:
        """Path and key, for messages."""
        return f"{self.path}:{self.member}" if self.member else str(self.path)

    def blocks(self, rows: int) -> Iterator[np.ndarray]:
        """Yield consecutive blocks (rows, ...) of the array; the last block may be shorter."""
        starts = range(0, self.shape[0], rows)
        if self.member is None:
            for start in starts:
                # Each block has its own memory map, so that the mapped pages are released together with the block.
                with explained_damage(self.where, _KIND):
                    mapped = np.load(self.path, mmap_mode="r", allow_pickle=False)
                yield np.asarray(mapped[start : start + rows])
        elif self.fortran:
            whole = self._whole()
            yield from (whole[start : start + rows] for start in starts)
        else:
            with explained_damage(self.where, _KIND), _opened(self.path, self.member) as stream:
                _read_header(self.where, stream)
                for start in starts:
                    shape = (min(rows, self.shape[0] - start), *self.shape[1:])
                    content = np.empty(prod(shape) * self.dtype.itemsize, dtype=np.uint8)
                    if stream.readinto(content.data) != content.size:
                        raise DataError(f"{self.where}: ends before row {start + shape[0]}. Write it again.")
                    yield content.view(self.dtype).reshape(shape)

    def _whole(self) -> np.ndarray:
        """Load a member of an archive in Fortran order as a whole, because its rows are not contiguous."""
        n_bytes, budget = prod(self.shape) * self.dtype.itemsize, memory_budget()
        if n_bytes > budget:
            raise DataError(
                f"{self.where}: is in Fortran order and takes {n_bytes} bytes at once, {budget} are allowed. "
                "Save np.ascontiguousarray of it, or raise phimap.config(memory=...)."
            )
        with explained_damage(self.where, _KIND), _opened(self.path, self.member) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)


class ArrayTable(Table):
    """Rows of an array (n, d), or images of an array (n, h, w[, c])."""

    def __init__(self, source: TableSource) -> None:
        archive = source.path.name.lower().endswith(".npz")
        keys = _keys(source.path) if archive else ()
        data = _describe(source.path, _default_key(source.path, source.member, keys) if archive else None)
        where = data.where
        if len(data.shape) not in (2, 3, 4):
            raise DataError(f"{where}: has shape {data.shape}; (n, d) or images (n, h, w[, c]) are needed. Reshape it.")
        _check_kind(data, "biuf", "numbers")
        if 0 in data.shape:
            raise DataError(f"{where}: is empty, shape {data.shape}. Check the file.")

        target = source.target
        self._labels = _stored_target(target, source.path, keys)
        names = numbered_names(prod(data.shape[1:]))
        image = _image_shape(data.shape)
        if self._labels is not None:
            _check_labels(self._labels, data)
            target = None
        elif image and target is not None:
            raise DataError(f"{where}: images have no target column {target!r}. Choose {_offered(keys)}.")
        elif isinstance(target, str) and target not in names and not target.lstrip("-").isdigit():
            known = f" Arrays of the file: {closest_first(target, keys)}." if keys else ""
            raise DataError(
                f"{where}: no target {target!r}.{known} Use an array's name, a column number or a .npy path."
            )
        selection = select_columns(where, names, target, source.columns, source.drop)
        self._data = data
        self._selection = selection
        place = {name: j for j, name in enumerate(names)}
        self._features = None if selection.features == names else [place[name] for name in selection.features]
        self._targets = [place[name] for name in selection.targets]
        super().__init__(
            source,
            selection.features,
            str(source.target) if self._labels is not None else selection.target_name,
            n_rows=data.shape[0],
            sample_shape=image if self._features is None else None,
            dtype=np.uint8 if image and self._features is None and data.dtype == np.uint8 else np.float32,
        )

    def _blocks(self, rows: int, skipped: Skipped) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        row_bytes = prod(self._data.shape[1:]) * self._data.dtype.itemsize
        n_block = max(1, min(rows, _BLOCK_BYTES // row_bytes))
        labels = self._labels.blocks(n_block) if self._labels is not None else None
        for block in self._data.blocks(n_block):
            X = block.reshape(len(block), -1)
            if labels is not None:
                y = self._label_block(next(labels))
            elif isinstance(self._selection.target_name, str):
                # The target is copied, so that it does not keep the whole block in memory.
                y = _numeric_or_label(X[:, self._targets[0]].copy(), self.where)
            else:
                y = X[:, self._targets].astype(np.float64) if self._targets else None
            yield (X if self._features is None else X[:, self._features]), y

    def _label_block(self, block: np.ndarray) -> np.ndarray:
        """Convert rows of a stored target to shape (r,), or to shape (r, t) in float64."""
        if block.ndim == 2 and block.shape[1] > 1:
            return block.astype(np.float64)
        return _numeric_or_label(block.reshape(len(block)).copy(), self.where)


def _stored_target(target: Any, path: Path, keys: tuple[str, ...]) -> StoredArray | None:
    """The array that `target` names, in the same archive or in another file; None if `target` is a column."""
    if not isinstance(target, str):
        return None
    if target in keys:
        return _describe(path, target)
    archive, member = file_and_member(target)
    if member is not None:
        check_file(archive)
        return _describe(archive, _default_key(archive, member, _keys(archive)))
    if target.lower().endswith(".npy"):
        check_file(Path(target))
        return _describe(Path(target), None)
    return None


def _check_labels(labels: StoredArray, data: StoredArray) -> None:
    """Raise if a stored target does not fit the rows of `data`."""
    shape = labels.shape
    if len(shape) not in (1, 2) or shape[0] != data.shape[0] or 0 in shape:
        raise DataError(
            f"{labels.where}: a target of shape {shape} does not fit {data.shape[0]} rows of {data.where}. "
            f"It must be ({data.shape[0]},) or ({data.shape[0]}, n_targets)."
        )
    _check_kind(labels, *(("biuf", "numbers") if prod(shape[1:]) > 1 else ("biufUS", "numbers or labels")))


def _check_kind(array: StoredArray, kinds: str, wanted: str) -> None:
    kind = array.dtype.kind
    if kind not in kinds or array.dtype.hasobject:
        held = _KINDS.get(kind, str(array.dtype))
        raise DataError(f"{array.where}: holds {held}; {wanted} are needed. Save it with another dtype.")


def _keys(path: Path) -> tuple[str, ...]:
    """Names of the arrays in an archive."""
    with explained_damage(str(path), _KIND), zipfile.ZipFile(path) as archive:
        keys = tuple(name[:-4] for name in archive.namelist() if name.endswith(".npy"))
    if not keys:
        raise DataError(f"{path}: holds no arrays. Write it with np.savez.")
    return keys


def _default_key(path: Path, member: str | None, keys: tuple[str, ...]) -> str:
    """The key `member` if it is given, else ``X``, else the key of the only array with two or more dimensions."""
    if member is not None:
        if member not in keys:
            raise DataError(f"{path}: no array {member!r}. Choose from {closest_first(member, keys)}.")
        return member
    if "X" in keys:
        return "X"
    wide = [key for key in keys if len(_describe(path, key).shape) > 1]
    if len(wide) != 1:
        raise DataError(
            f"{path}: say which array to read, as {path.name}:KEY. Choose from {closest_first('X', wide or keys)}."
        )
    return wide[0]


def _offered(keys: tuple[str, ...]) -> str:
    return f"an array of the file ({closest_first('y', keys)}) or a .npy path" if keys else "the path of a .npy file"


def _describe(path: Path, member: str | None) -> StoredArray:
    """Read the header of an NPY file or of a member of an archive."""
    where = f"{path}:{member}" if member else str(path)
    with explained_damage(where, _KIND), _opened(path, member) as stream:
        shape, fortran, dtype = _read_header(where, stream)
        _check_size(where, shape, dtype, _stored_bytes(path, member) - stream.tell())
    # For a vector, C order and Fortran order are the same.
    return StoredArray(path, member, shape, dtype, fortran and len(shape) > 1)


def _stored_bytes(path: Path, member: str | None) -> int:
    """Bytes of an NPY file, or of a member as stated in the directory of its archive."""
    if member is None:
        return path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        return archive.getinfo(f"{member}.npy").file_size


def _check_size(where: str, shape: tuple[int, ...], dtype: np.dtype, stored: int) -> None:
    """Raise if an array is larger than its file, or its rows exceed the byte budget, before the array is allocated."""
    if any(length < 0 for length in shape) or prod(shape) * dtype.itemsize > stored:
        raise DataError(
            f"{where}: damaged or no NumPy file (of {stored} bytes, too few for {dtype} of shape {shape}). "
            "Write it again."
        )
    if 0 not in shape:
        check_row(where, prod(shape[1:]), dtype.itemsize, "store fewer columns")


def _read_header(where: str, stream: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise DataError(f"{where}: NPY format {version} is not supported (field names?). Save a plain array.")
    return _HEADERS[version](stream)


@contextmanager
def _opened(path: Path, member: str | None) -> Iterator[Any]:
    """Open an NPY file, or a member of an archive, which is decompressed while it is read."""
    if member is None:
        with path.open("rb") as stream:
            yield stream
    else:
        with zipfile.ZipFile(path) as archive, archive.open(f"{member}.npy") as stream:
            yield stream


def _numeric_or_label(values: np.ndarray, where: str) -> np.ndarray:
    """Convert target `values` for learners: floats become float64, bytes become text, others are unchanged."""
    if values.dtype.kind == "f":
        return values.astype(np.float64)
    if values.dtype.kind == "S":
        try:
            return np.char.decode(values, "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{where}: labels are not UTF-8 text ({one_line(error)}). Store them as str.") from None
    return values


def _image_shape(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """(h, w, c) of the samples of an array of `shape` (n, h, w[, c]); None for a table (n, d)."""
    return (*shape[1:], 1)[:3] if prod(shape[1:]) and len(shape) > 2 else None
