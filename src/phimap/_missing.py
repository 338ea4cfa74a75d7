"""Texts of table cells that mean a missing value."""

from __future__ import annotations

#: Texts that mean a missing value in every column, including text columns.
MISSING_MARKS = ("", "?", "-", "--", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "null", "NULL")
#: Texts that mean a missing value only in columns of numbers, dates and truth values. In text columns these words may
#: be categories.
MISSING_AMONG_NUMBERS = (
    *MISSING_MARKS,
    *(".", "na", "-NaN", "-nan", "Null", "None", "none", "Missing", "missing", "#DIV/0!", "#VALUE!"),
)
