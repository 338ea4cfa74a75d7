"""What readers raise when a file cannot be used as it is."""

from __future__ import annotations

from typing import NoReturn

# Parsers quote the offending text, which may be a whole row: a message stays readable in a terminal.
_LONGEST_QUOTE = 200


class DataError(ValueError):
    """A data file cannot be used as it is; the one-line message says what is wrong, where, and what to do."""


def one_line(text: object) -> str:
    """`text` on one line, cut to a readable length."""
    flat = " ".join(str(text).split())
    return flat if len(flat) <= _LONGEST_QUOTE else flat[: _LONGEST_QUOTE - 3] + "..."


def refuse_feature(where: str, name: str, kind: str) -> NoReturn:
    """Raise the error for a feature column whose type is not numeric."""
    raise DataError(
        f"{where}: column {name!r} holds {kind}, not numbers. Leave it out with drop=..., or encode it as numbers."
    )
