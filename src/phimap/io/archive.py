"""Compressed data files: gzip, and zip archives that hold one file."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from lzma import LZMAError
from pathlib import Path
from typing import TYPE_CHECKING

from phimap._files import DataError, one_line

if TYPE_CHECKING:
    import pyarrow as pa

# The archiver of macOS adds folders of this name, which hold no data.
_SIDE_FILES = "__MACOSX/"
_BAD_ZIP = (zipfile.BadZipFile, zlib.error, struct.error, LZMAError)
# Exceptions that damaged files cause. They are so many because NumPy parses a header as Python, and zipfile raises
# RuntimeError for encryption and unknown compression.
_DAMAGES = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError, SyntaxError),
    *(TypeError, ValueError, tokenize.TokenError, *_BAD_ZIP),
)


def stored_name(path: Path) -> str:
    """The lower-case name of the uncompressed file: the only file in a zip archive, or the name without ``.gz``."""
    name = path.name.lower()
    if name.endswith(".zip"):
        with explained_zip(str(path)), zipfile.ZipFile(path) as archive:
            return _only_member(path, archive).lower()
    return name.removesuffix(".gz")


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
        ):
            yield pa.PythonFile(member, mode="r")
    else:
        with pa.input_stream(str(path), compression="gzip" if name.endswith(".gz") else None) as stream:
            yield stream


@contextmanager
def explained_zip(where: str) -> Iterator[None]:
    """Turn exceptions that a damaged archive causes in the block into a one-line error."""
    try:
        yield
    except (*_BAD_ZIP, EOFError, LookupError, RuntimeError, UnicodeError) as error:
        raise DataError(f"{where}: damaged or locked zip archive ({one_line(error)}). Unpack it first.") from None


@contextmanager
def explained_damage(where: str, kind: str, *more: type[Exception]) -> Iterator[None]:
    """Turn exceptions that a damaged file of this `kind` causes, and those in `more`, into a one-line error."""
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
