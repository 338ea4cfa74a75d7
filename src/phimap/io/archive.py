"""Compressed data files: gzip, bzip2, and zip archives that hold one file."""

from __future__ import annotations

import io
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from lzma import LZMAError
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phimap._files import DataError, one_line

if TYPE_CHECKING:
    import pyarrow as pa

# Names that Arrow uses for the formats of compressed streams, by suffix.
_STREAMS = {".gz": "gzip", ".bz2": "bz2"}
# The archiver of macOS adds folders of this name, which contain no data.
_SIDE_FILES = "__MACOSX/"
_ENDLESS = 2**62
_COPIED_BYTES = 2**16
_BAD_ZIP = (zipfile.BadZipFile, zlib.error, struct.error, LZMAError)
# Exceptions that damaged files cause. The list is long because NumPy parses a header as Python, and zipfile raises
# RuntimeError for encryption and unknown compression.
_DAMAGES = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError, SyntaxError),
    *(TypeError, ValueError, tokenize.TokenError, *_BAD_ZIP),
)


def stored_name(path: Path) -> str:
    """The lower-case name of the uncompressed file: the only file in a zip archive, or without ``.gz`` or ``.bz2``.

    A file in an archive whose name has no suffix counts as CSV.
    """
    name = path.name.lower()
    if name.endswith(".zip"):
        with explained_zip(str(path)), zipfile.ZipFile(path) as archive:
            name = _only_member(path, archive).lower()
            # `DataFrame.to_csv("table.zip")` of pandas writes a member without a suffix.
            return name if Path(name).suffix else f"{name}.csv"
    return name.removesuffix(".gz").removesuffix(".bz2")


@contextmanager
def uncompressed(path: Path) -> Iterator[pa.NativeFile]:
    """Open a plain or compressed file as a stream of uncompressed bytes."""
    # Imported here because arrays are also read without pyarrow.
    import pyarrow as pa

    name = path.name.lower()
    if name.endswith(".zip"):
        with (
            explained_zip(str(path)),
            zipfile.ZipFile(path) as archive,
            archive.open(_only_member(path, archive)) as member,
            for_arrow(member) as stream,
        ):
            yield stream
    else:
        kind = next((kind for suffix, kind in _STREAMS.items() if name.endswith(suffix)), None)
        with pa.input_stream(str(path), compression=kind) as stream:
            yield stream


@contextmanager
def for_arrow(source: Any) -> Iterator[pa.NativeFile]:
    """Give Arrow a Python stream that Arrow may read on a thread of its own.

    When the ``with`` block ends, the thread is outside Python. It does not enter Python again, unless the system has
    stopped it within the few instructions between the test of the segment and the read.

    Arrow reads ahead, and continues after an error in a row. A thread that enters Python while the interpreter ends
    aborts the process, and one that waits for Python while the parser is released waits forever. Arrow therefore reads
    from a segment of the stream. Once the segment is closed, its reads fail without calling Python. The segment returns
    Python objects, which its reader releases at any time; the buffered stream copies them into memory of Arrow.
    """
    import pyarrow as pa

    with pa.PythonFile(_FromStart(source), mode="r") as whole:
        try:
            with (
                whole.get_stream(0, _ENDLESS) as segment,
                pa.BufferedInputStream(segment, _COPIED_BYTES) as stream,
            ):
                yield stream
        finally:
            # Arrow lets one thread at a time read from `whole`, so this waits for a read that has begun.
            whole.read_at(0, 0)


class _FromStart(io.RawIOBase):
    """The bytes of `source` from start to end. Only a seek to the place where the last read ended has a meaning.

    Closing it leaves `source` open.
    """

    def __init__(self, source: Any) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Return `offset`. A segment of Arrow seeks before each read, to the place where the last read ended."""
        return offset

    def read(self, size: int = -1) -> bytes:
        return self._source.read(size) if size else b""


@contextmanager
def explained_zip(where: str) -> Iterator[None]:
    """Turn exceptions that a damaged archive causes in the block into a one-line error."""
    try:
        yield
    except (*_BAD_ZIP, EOFError, LookupError, RuntimeError, UnicodeError) as error:
        raise DataError(f"{where}: damaged or locked zip archive ({one_line(error)}). Unpack it first.") from None


@contextmanager
def explained_damage(where: str, kind: str, *more: type[Exception]) -> Iterator[None]:
    """Turn exceptions that a damaged file of this `kind` causes, or that `more` lists, into a one-line error."""
    try:
        yield
    except DataError:
        raise
    except (*_DAMAGES, *more) as error:
        raise DataError(f"{where}: damaged or no {kind} file ({one_line(error)}). Write it again.") from None


def _only_member(path: Path, archive: zipfile.ZipFile) -> str:
    names = [one.filename for one in archive.infolist() if not one.is_dir() and _SIDE_FILES not in one.filename]
    if len(names) != 1:
        listed = ", ".join(map(repr, names[:5]))
        raise DataError(f"{path}: holds {len(names)} files ({listed}), not one. Unpack it and name one file.")
    return names[0]
