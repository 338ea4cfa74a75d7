"""Advice on how to turn texts, such as ``389.851,26 €``, into numbers with pandas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np

# Recipes by decimal mark. They delete all characters except digits, minus signs and the decimal mark.
_RECIPES = {
    ".": "pd.to_numeric(y.str.replace('[^0-9.-]', '', regex=True))",
    ",": "pd.to_numeric(y.str.replace('[^0-9,-]', '', regex=True).str.replace(',', '.'))",
}
# Number of distinct texts to which a recipe is applied before it is recommended.
_TRIED = 1000


def recipe_for(texts: Sequence[str], shown: str) -> str:
    """Return a pandas expression that converts `texts` to the numbers that the command ``phimap`` reads in them.

    The expression converts a series ``y``. It is empty if no recipe gives the same numbers, if `shown`, the text of the
    error message, is not read as a number, or if pyarrow is not installed, with which the command reads numbers.
    """
    if find_spec("pyarrow") is None:
        return ""
    from phimap.tables.amounts import numbers_in, readings_of
    from phimap.tables.cells import text_column

    some = list(dict.fromkeys([shown, *texts[:_TRIED]]))
    readings = [
        (reading, numbers_in(text_column(np.array(some, dtype=object)), reading)) for reading in readings_of(some)
    ]
    reading, numbers = max(readings, key=lambda one: np.isfinite(one[1]).sum())
    mark = reading[0]
    is_read = np.isfinite(numbers)
    if not is_read[0]:
        return ""
    same = all(
        _applied(text, mark) == number for text, number, there in zip(some, numbers, is_read, strict=True) if there
    )
    return _RECIPES[mark] if same else ""


def _applied(text: str, mark: str) -> float | None:
    """Return the number that the recipe for a decimal mark makes of a text; None if the result is not a number."""
    try:
        return float(re.sub(f"[^0-9{mark}-]", "", text).replace(",", "."))
    except ValueError:
        return None
