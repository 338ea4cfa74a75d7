"""Compressed data files: gzip, and zip archives that hold one file."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from lzma import LZMAError
from pathlib import Path
from typing import IO

from phimap._files import DataError, one_line

# Folders of this name are added by the archiver of macOS, and hold no data.
_SIDE_FILES = "__MACOSX/"


def stored_name(path: Path) -> str:
    """Name, in small letters, that tells the format of `path`: that of the file in an archive, or without ``.gz``."""
    name = path.name.lower()
    if name.endswith(".zip"):
        with explained_zip(str(path)), zipfile.ZipFile(path) as archive:
            return _only_member(path, archive).lower()
    return name.removesuffix(".gz")


@contextmanager
def open_member(path: Path) -> Iterator[IO[bytes]]:
    """Stream of bytes of the one file in a zip archive."""
    with zipfile.ZipFile(path) as archive, archive.open(_only_member(path, archive)) as stream:
        yield stream


@contextmanager
def explained_zip(where: str) -> Iterator[None]:
    """Turn what a bad archive raises into one line."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        LZMAError,
        EOFError,
        LookupError,
        RuntimeError,
        UnicodeError,
    ) as error:
        raise DataError(f"{where}: damaged or locked zip archive ({one_line(error)}). Unpack it first.") from None


def _only_member(path: Path, archive: zipfile.ZipFile) -> str:
    names = [one.filename for one in archive.infolist() if not one.is_dir() and _SIDE_FILES not in one.filename]
    if len(names) != 1:
        listed = ", ".join(map(repr, names[:5]))
        raise DataError(f"{path}: holds {len(names)} files ({listed}), not one. Unpack it and name one file.")
    return names[0]
