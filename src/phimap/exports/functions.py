"""The entrywise functions that graphs may contain."""

from __future__ import annotations

#: Universal functions of NumPy and SciPy, by name, that are one operation each.
FUNCTIONS = {
    "absolute": "abs",
    "add": "add",
    "arccos": "arccos",
    "arcsin": "arcsin",
    "arcsinh": "arcsinh",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "cos": "cos",
    "divide": "divide",
    "equal": "equal",
    "erf": "erf",
    "exp": "exp",
    "floor": "floor",
    "greater": "greater",
    "greater_equal": "greater_equal",
    "invert": "not",
    "isnan": "isnan",
    "less": "less",
    "less_equal": "less_equal",
    "log": "log",
    "logical_and": "and",
    "logical_not": "not",
    "logical_or": "or",
    "maximum": "maximum",
    "minimum": "minimum",
    "multiply": "multiply",
    "negative": "negative",
    "power": "power",
    "sign": "sign",
    "sin": "sin",
    "sqrt": "sqrt",
    "subtract": "subtract",
    "tanh": "tanh",
}
#: Operations whose results are truth values.
TRUTH = {"equal", "greater", "greater_equal", "isnan", "less", "less_equal", "and", "or", "not"}
