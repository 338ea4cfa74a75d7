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
from threading import Event, Lock, get_ident
from typing import TYPE_CHECKING, Any

from phimap._files import DataError, one_line

if TYPE_CHECKING:
    import pyarrow as pa

# Names that Arrow uses for the formats of compressed streams, by suffix.
_STREAMS = {".gz": "gzip", ".bz2": "bz2"}
# The archiver of macOS adds folders of this name, which contain no data.
_SIDE_FILES = "__MACOSX/"
# A thread that has not read again after this number of seconds is assumed to wait because it has enough blocks.
_PATIENCE = 0.2
_BAD_ZIP = (zipfile.BadZipFile, zlib.error, struct.error, LZMAError)
# Exceptions that damaged files cause. The list is long because NumPy parses a header as Python, and zipfile raises
# RuntimeError for encryption and unknown compression.
_DAMAGES = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError, SyntaxError),
    *(TypeError, ValueError, tokenize.TokenError, *_BAD_ZIP),
)


def stored_name(path: Path) -> str:
    """The lower-case name of the uncompressed file: the only file in a zip archive, or without ``.gz`` or ``.bz2``."""
    name = path.name.lower()
    if name.endswith(".zip"):
        with explained_zip(str(path)), zipfile.ZipFile(path) as archive:
            return _only_member(path, archive).lower()
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

    When the block ends, the thread stops reading.

    Arrow reads ahead, and continues after an error in a row. If the interpreter ended while the thread was reading, the
    thread could not return to Python and would abort the process.
    """
    import pyarrow as pa

    stream = _Stoppable(source)
    try:
        yield pa.PythonFile(stream, mode="r")
    finally:
        stream.stop()


class _Stoppable(io.RawIOBase):
    """The bytes of `source`, which end when `stop` is called."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._owner = get_ident()
        self._lock, self._is_stopped = Lock(), False
        # The event is cleared as long as another thread will read on.
        self._is_left = Event()
        self._is_left.set()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes; empty at the end and after `stop`."""
        with self._lock:
            self._is_left.set()
            data = b"" if self._is_stopped else self._source.read(size)
            if data and get_ident() != self._owner:
                self._is_left.clear()
            return data

    def stop(self) -> None:
        """End the stream, and wait until the other thread has seen the end or waits because it has enough blocks."""
        with self._lock:
            self._is_stopped = True
        self._is_left.wait(_PATIENCE)


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
