"""Numbers formatted for people."""

from __future__ import annotations

# Least number that is easier to read in scientific notation.
_MANY = 1e7


def number_text(value: float, digits: int) -> str:
    """`value` as text with `digits` significant digits; below ten million like ``4,010``, not ``4.01e+03``."""
    text = f"{value:.{digits}g}"
    rounded = float(text)
    return f"{rounded:,.10g}" if 1000 <= abs(rounded) < _MANY else text
