"""Output files, which are checked before a fit or prediction and written atomically afterwards."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from phimap._files import is_special, write_whole

# Bytes of a report that hold its title, which names the data.
_REPORT_HEAD = 4096
#: A file to write: its path, and a function that writes it.
Output = tuple[Path, Callable[[Path], None]]


def check_writable(option: str, path: Path | None, inputs: Sequence[str] = ()) -> None:
    """Raise unless a file can be written at `path`. The check comes before the fit, which may take hours."""
    if path is None:
        return
    if is_special(path):
        if not os.access(path, os.W_OK):
            raise PermissionError(f"{option} {path}: cannot be written. Choose another name.")
        return
    path = path.resolve() if path.is_symlink() else path
    if path.is_dir():
        raise IsADirectoryError(f"{option} {path}: is a folder. Give the name of a file.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{option} {path}: there is no folder {path.parent}. Make it first.")
    if any(Path(one).exists() and path.exists() and path.samefile(one) for one in inputs):
        raise ValueError(f"{option} {path}: is the input file, which is never overwritten. Choose another name.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OSError(
            f"{option} {path}: cannot write into the folder {path.parent} ({error.strerror}). Choose another folder."
        ) from error


def check_replaceable(option: str, path: Path | None, is_ours: Callable[[Path], bool], kind: str) -> None:
    """Raise if there is a nonempty file at `path` that is not of the `kind` of the file that would replace it."""
    if path is not None and path.is_file() and path.stat().st_size and not is_ours(path):
        raise FileExistsError(
            f"{option} {path}: holds something that is no {kind}. Choose another name, or replace it with --force."
        )


def check_report(path: Path | None, inputs: Sequence[str], *, force: bool) -> None:
    """Raise unless a report can be written at `path`, where only another report is replaced unless `force` is set."""
    check_writable("--report", path, inputs)
    if not force:
        check_replaceable("--report", path, _is_report, "report of phimap")


def _is_report(path: Path) -> bool:
    """Whether a file begins like the HTML page of a report of phimap."""
    with path.open("rb") as file:
        head = file.read(_REPORT_HEAD)
    return head.startswith(b"<!DOCTYPE html>") and " · phimap</title>".encode() in head


def check_distinct(first: tuple[str, Path | None], second: tuple[str, Path | None]) -> None:
    """Raise if two outputs, given as (option, path), would go to one file."""
    (one, path), (other, its_path) = first, second
    if path is not None and its_path is not None and os.path.abspath(path) == os.path.abspath(its_path):
        raise ValueError(f"{one} and {other} both name {path}. Give two names.")


def write_all(outputs: Iterable[Output]) -> None:
    """Write all files. If one cannot be written, the message lists the files that were written before it."""
    done: list[Path] = []
    for path, write in outputs:
        try:
            write(path)
        except OSError as error:
            before = f" {', '.join(map(str, done))} was written before and is complete." if done else ""
            raise OSError(f"{error}{before}") from error
        done.append(path)


def write_text(path: Path, text: str) -> None:
    """Write a text file."""
    write_whole(path, lambda file: file.write(text.encode()))
