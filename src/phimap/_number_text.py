"""Numbers formatted for people, and texts that are numbers."""

from __future__ import annotations

from typing import Any

# Numbers from this size on are written in scientific notation.
_MANY = 1e7
# Whole labels below this are written as whole numbers.
_WHOLE = 1e15
#: Key of the decimal mark of a file in the metadata of its Arrow tables. Both marks can read a text such as 9.110.
DECIMAL_KEY = b"decimal"


def number_text(value: float, digits: int) -> str:
    """`value` as text with `digits` significant digits; from 10 to ten million like ``4,010``, not ``4.01e+03``."""
    text = f"{value:.{digits}g}"
    rounded = float(text)
    return f"{rounded:,.10g}" if 10 <= abs(rounded) < _MANY else text


def label_text(label: Any) -> str:
    """A label as predictions show it: truth values as ``true`` and ``false``, whole numbers without a fraction."""
    label = label.item() if hasattr(label, "item") else label
    if isinstance(label, bool):
        return str(label).lower()
    return str(int(label)) if isinstance(label, float) and label.is_integer() and abs(label) < _WHOLE else str(label)


def reads_as_number(text: str) -> bool:
    """Whether table parsers read a text as a number. Python itself also accepts underscores and non-ASCII digits."""
    if not text.isascii() or "_" in text:
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True
