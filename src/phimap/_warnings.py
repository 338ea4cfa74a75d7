"""The line to which a warning points: the line of the user's program that called this package."""

from __future__ import annotations

import sys


def caller_level() -> int:
    """The `stacklevel` for a warning at the first frame outside of this package and of scikit-learn's wrappers."""
    level, frame = 0, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("phimap.", "sklearn.")):
        level, frame = level + 1, frame.f_back
    return level
