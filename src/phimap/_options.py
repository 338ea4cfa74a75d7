"""Options of commands: fields of frozen dataclasses that say how they are named and read on a command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True)
class Option:
    """What a command line knows of a field; the annotation and the default of the field say the rest.

    Attributes
    ----------
    help : str
    names : tuple of str
        Names of the option, where that of the field will not do.
    positional : bool
        Whether the value is given by its place and not by a name.
    read : callable or None
        Makes the value of the option's name and of the text typed; a default that is text is read, too.
    words : tuple of str
        What a shell offers to complete the value.
    """

    help: str
    names: tuple[str, ...] = ()
    positional: bool = False
    read: Callable[[str, str], Any] | None = None
    words: tuple[str, ...] = ()


#: What several commands take.
Quiet = Annotated[bool, Option("No progress and no summary, only the result lines.", ("--quiet", "-q"))]


def words(option: str, text: str) -> list[str]:
    """Names in a list separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def numbers(option: str, text: str) -> list[int]:
    """Positive integers in a list separated by commas."""
    return _integers(option, text, 1, "positive integers")


def seeds(option: str, text: str) -> list[int]:
    """Integers from 0 in a list separated by commas."""
    return _integers(option, text, 0, "integers of at least 0")


def _integers(option: str, text: str, least: int, rule: str) -> list[int]:
    found = words(option, text)
    if not all(number.isdigit() and int(number) >= least for number in found):
        raise ValueError(f"{option} must be {rule} separated by commas, got {text!r}.")
    return [int(number) for number in found]
