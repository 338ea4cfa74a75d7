"""The entrywise functions that graphs may contain."""

from __future__ import annotations

# Functions that have the name of their operation.
_SAME = """add arccos arcsin arcsinh cos divide equal erf exp floor greater greater_equal isnan less less_equal log
maximum minimum multiply negative power sign sin sqrt subtract tanh"""
#: Operations of the universal functions of NumPy and SciPy that are one operation each, by name of the function.
FUNCTIONS = {
    "absolute": "abs",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "invert": "not",
    "logical_and": "and",
    "logical_not": "not",
    "logical_or": "or",
} | {name: name for name in _SAME.split()}
#: Operations whose results are truth values.
TRUTH = {"equal", "greater", "greater_equal", "isnan", "less", "less_equal", "and", "or", "not"}
