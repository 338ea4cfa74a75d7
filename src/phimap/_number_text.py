"""Numbers formatted for people."""

from __future__ import annotations

# From here on scientific notation is easier to read.
_MANY = 1e7


def number_text(value: float, digits: int) -> str:
    """A number with `digits` significant digits; below ten million ``4,010`` rather than ``4.01e+03``."""
    text = f"{value:.{digits}g}"
    rounded = float(text)
    return f"{rounded:,.10g}" if 1000 <= abs(rounded) < _MANY else text
