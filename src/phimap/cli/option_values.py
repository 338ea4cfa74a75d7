"""Parsers of the values of options. They raise errors, which name the option, before the slow imports of a command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from phimap._files import DataError, check_data_exists, check_model_exists, file_and_member, is_pattern
from phimap._options import words
from phimap.cli.standard_input import MARK

# Bytes of a text table that are read to find its header.
_HEAD_BYTES = 2**16


def number_or(words: str, kind: Callable[[str], Any], rule: str, remedy: str = "") -> Callable[[str, str], Any]:
    """Return a reader of options that are one of the `words`, separated by spaces, or a number that `kind` converts.

    For any other text the reader raises an error that states the `rule` and the `remedy`.
    """

    def read(option: str, text: str) -> Any:
        if text in words.split():
            return text
        try:
            return kind(text)
        except ValueError:
            raise ValueError(f"{option} must be {rule}, got {text!r}.{remedy}") from None

    return read


def positive_integer(text: str) -> int:
    """Read a positive integer, which must consist of digits only."""
    if not (text.isdigit() and int(text) > 0):
        raise ValueError
    return int(text)


def height_and_width(option: str, text: str) -> tuple[int, int]:
    """Read a height and a width, written with an x between them."""
    try:
        height, width = map(positive_integer, text.lower().split("x"))
    except ValueError:
        raise ValueError(f"{option} must be height x width, such as 32x32, got {text!r}.") from None
    return height, width


def levels(option: str, text: str) -> float | tuple[float, ...]:
    """Read one level of a quantile, or several separated by commas."""
    try:
        first, *others = map(float, words(option, text))
    except ValueError:
        raise ValueError(f"{option} must be numbers such as 0.05,0.5,0.95, got {text!r}.") from None
    return (first, *others) if others else first


def kinds(option: str, text: str) -> dict[str, str]:
    """Read the kinds of columns, written as name=kind in a list separated by commas."""
    found = {}
    for word in words(option, text):
        name, separator, kind = word.rpartition("=")
        if not separator:
            raise ValueError(f"{option} must be a list such as zip=category,born=date, got {word!r}.")
        found[name] = kind
    return found


def background_path(option: str, text: str) -> str:
    """Read the path of a table. Raise for a number, which is probably meant for ``--background-rows``."""
    if text.isdigit() and not Path(text).exists():
        raise ValueError(f"{option} must be a table, got {text}. The number of rows is --background-rows {text}.")
    return data_path(option, text)


def data_path(option: str, text: str) -> str:
    """Read the path of data.

    Raise if the file is missing. This check precedes the imports of the command, which take two seconds.
    """
    path, _ = file_and_member(text)
    if text != MARK and not is_pattern(path):
        check_data_exists(path)
    return text


def model_path(option: str, text: str) -> Path:
    """Read the path of a model file, which must exist."""
    check_model_exists(text)
    return Path(text)


def check_target(data: str, target: str) -> None:
    """Raise if the header of a plain text table has no column `target`. This check precedes the slow imports.

    All other faults of the file are reported later, by the reader of the table.
    """
    path = Path(data)
    if path.suffix.lower() not in (".csv", ".tsv", ".txt") or not path.is_file():
        return
    # Only text tables need these imports, which import NumPy.
    from phimap.io.columns import MissingColumnError, resolve_column
    from phimap.io.dialect import recognise

    try:
        with path.open("rb") as file:
            head, whole = file.read(_HEAD_BYTES), not file.read(1)
        # If the first bytes of the file do not contain two whole lines, the header may be incomplete.
        if whole or head.count(b"\n") > 1:
            names = recognise(data, head, whole=whole).names
            resolve_column(data, names, set(names), target, "target column")
    except MissingColumnError:
        raise
    except (DataError, OSError):
        return
