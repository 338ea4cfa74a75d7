"""Data from standard input or a pipe, copied into a temporary file because rows are read more than once."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from phimap._files import DataError

#: The path that stands for standard input.
MARK = "-"
_NAME = "standard input"
# Suffixes of files, by the first bytes of the content. Any other content is read as CSV.
_SIGNATURES = {
    b"PAR1": ".parquet",
    b"ARROW1": ".feather",
    b"\x93NUMPY": ".npy",
    b"\x1f\x8b": ".csv.gz",
    b"[": ".json",
    b"{": ".json",
}


@contextmanager
def readable(data: str) -> Iterator[str]:
    """Yield the path of a file with the data: `data` itself, or a temporary copy of standard input or a pipe."""
    if data == MARK:
        if sys.stdin.isatty():
            raise DataError("standard input is a terminal. Pipe a file into the command, or name one.")
        with _copied(sys.stdin.buffer, data) as path:
            yield path
    elif Path(data).is_fifo():
        with Path(data).open("rb") as pipe, _copied(pipe, data) as path:
            yield path
    else:
        yield data


@contextmanager
def _copied(stream: IO[bytes], data: str) -> Iterator[str]:
    """Copy `stream` to a file with the suffix of its format, and return the path."""
    name = in_words(data)
    with tempfile.TemporaryDirectory(prefix="phimap-") as folder:
        stored = Path(folder) / Path(name).name
        with stored.open("wb") as file:
            shutil.copyfileobj(stream, file)
        with stored.open("rb") as file:
            head = file.read(16).lstrip()
        suffix = next((suffix for start, suffix in _SIGNATURES.items() if head.startswith(start)), ".csv")
        path = str(stored.rename(stored.with_name(stored.name + suffix)))
        try:
            yield path
        except DataError as error:
            raise DataError(str(error).replace(path, name)) from error


def in_words(data: str) -> str:
    """The name for the path `data` in messages: the path, or words for standard input."""
    return _NAME if data == MARK else data
