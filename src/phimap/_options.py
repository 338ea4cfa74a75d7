"""Command-line options: annotations of dataclass fields that define the option's name and parser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True)
class Option:
    """Command-line facts about a field, besides its type annotation and default.

    Attributes
    ----------
    help : str
        Help text.
    names : tuple of str
        Names of the option; empty to use the name of the field.
    positional : bool
        Whether the value is a positional argument.
    read : callable or None
        Parser that turns the option's name and the typed text into the value. A default that is text is parsed too.
    words : tuple of str
        Values that shell completion offers.
    """

    help: str
    names: tuple[str, ...] = ()
    positional: bool = False
    read: Callable[[str, str], Any] | None = None
    words: tuple[str, ...] = ()


#: Option shared by several commands.
Quiet = Annotated[bool, Option("No progress and no summary, only the result lines.", ("--quiet", "-q"))]


def flag(name: str) -> str:
    """The command-line option that sets the field `name`, such as ``"--n-jobs"``."""
    return f"--{name.replace('_', '-')}"


def words(option: str, text: str) -> list[str]:
    """The names in a comma-separated list."""
    return [word.strip() for word in text.split(",") if word.strip()]


def numbers(option: str, text: str) -> list[int]:
    """The distinct positive integers in a comma-separated list."""
    return _integers(option, text, 1, "positive integers")


def seeds(option: str, text: str) -> list[int]:
    """The distinct nonnegative integers in a comma-separated list."""
    return _integers(option, text, 0, "integers of at least 0")


def _integers(option: str, text: str, least: int, rule: str) -> list[int]:
    found = words(option, text)
    if not all(number.isdigit() and int(number) >= least for number in found):
        raise ValueError(f"{option} must be {rule} separated by commas, got {text!r}.")
    return list(dict.fromkeys(int(number) for number in found))
