"""Writing files atomically, and the errors for data files that cannot be used."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from phimap._printable import printable

# Maximum length of a text in an error message. Parsers quote the text that causes an error, which may be a whole row.
_LONGEST_QUOTE = 200
#: Characters that begin a wildcard in a file name.
WILD = "*?["


class DataError(ValueError):
    """A data file cannot be used without changes; the one-line message names the fault, its place and a remedy."""


class OverBudgetError(DataError, MemoryError):
    """The contents of a file need more memory than the byte budget."""


class NoRowsError(DataError):
    """A data file has no rows."""


def file_and_member(text: str) -> tuple[Path, str | None]:
    """Divide ``file.npz:key`` into the file and the key; any other text is a path."""
    head, separator, member = text.rpartition(".npz:")
    return (Path(head + ".npz"), member) if separator else (Path(text), None)


def is_pattern(path: Path) -> bool:
    """Whether a path has wildcards, ``*``, ``?``, ``[...]`` or ``**``, and is not the name of a file."""
    return any(mark in str(path) for mark in WILD) and not path.exists()


def check_data_exists(path: str | os.PathLike[str]) -> None:
    """Raise if there is no data file or folder `path`."""
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file. Check the path.")


def check_model_exists(path: str | os.PathLike[str]) -> None:
    """Raise if there is no model file `path`."""
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file `{path}`. Give a model file, as written by phimap fit --model.")


def one_line(text: object) -> str:
    """`text` on one line without control characters, cut to a readable length."""
    flat = printable(" ".join(str(text).split()))
    return flat if len(flat) <= _LONGEST_QUOTE else flat[: _LONGEST_QUOTE - 3] + "..."


def write_whole(path: str | os.PathLike[str], write: Callable[[Any], object]) -> None:
    """Call ``write(binary file)`` so that `path` afterwards holds either the complete result or its old content.

    The content is written to a temporary file in the same folder, forced to disk and renamed to `path`; if `path` is
    a symbolic link, its target is replaced. The temporary file is removed on any failure, including an interrupt.
    Pipes and devices are written to directly.
    """
    path = Path(path)
    if is_special(path):
        try:
            with path.open("wb") as file:
                write(file)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(f"could not write `{path}`: {one_line(error)}. Choose another file.") from error
        return
    path = path.resolve() if path.is_symlink() else path
    if path.is_dir():
        raise IsADirectoryError(f"`{path}` is a folder. Give the name of a file.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder `{path.parent}` does not exist. Make it first, or choose another.")
    try:
        handle, name = tempfile.mkstemp(prefix=".phimap.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise type(error)(f"cannot write into the folder `{path.parent}`: {one_line(error)}.") from error
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        _adopt_mode(name, path)
        os.replace(name, path)
    except OSError as error:
        raise OSError(
            f"could not write `{path}`: {one_line(error)}. Nothing was changed there; free some space or choose "
            "another folder."
        ) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def is_special(path: Path) -> bool:
    """Whether `path` is a pipe or a device, such as /dev/null, which must not be replaced by a file."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _adopt_mode(temporary: str, path: Path) -> None:
    """Give the temporary file, which mkstemp makes private, the mode of `path` or of a newly created file."""
    if path.exists():
        os.chmod(temporary, path.stat().st_mode)
        return
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(temporary, 0o666 & ~mask)
