"""Converts text from files so that a terminal does not execute control sequences in the text."""

from __future__ import annotations

# Control characters, including escape, which begins terminal commands, and marks that change the direction of text.
_CODES = (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_ESCAPES = {code: f"\\u{code:04x}" for code in _CODES}


def printable(text: str) -> str:
    r"""`text` with each control character replaced by its JSON escape, such as ``\u001b``."""
    return text.translate(_ESCAPES)
