"""Cells that stand for a missing value."""

from __future__ import annotations

#: In every column, of text as well.
MISSING_MARKS = ("", "?", "-", "--", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "null", "NULL")
#: In columns of numbers, dates and truth values, where words are no levels.
MISSING_AMONG_NUMBERS = (
    *MISSING_MARKS,
    *(".", "na", "-NaN", "-nan", "Null", "None", "none", "Missing", "missing", "#DIV/0!", "#VALUE!"),
)
