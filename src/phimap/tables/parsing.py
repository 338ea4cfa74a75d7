"""Parsing of text as numbers and as times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

# The type is Any because the functions are created at import, which type checkers cannot see.
pc: Any = pyarrow.compute
# Digits without separators, or in groups of three with a separator that is not the decimal mark.
_WHOLE = r"\d+|[1-9]\d{{0,2}}([{thousands} '\x{{a0}}\x{{202f}}]\d{{3}})+"
_NUMBER = rf"^[+-]?(({_WHOLE})({{decimal}}\d*)?|{{decimal}}\d+)([eE][+-]?\d+)?$"
_PATTERNS = {".": _NUMBER.format(thousands=",", decimal=r"\."), ",": _NUMBER.format(thousands=".", decimal=",")}
_SEPARATORS = {".": ",", ",": "."}
# The end of a time: seconds, which the formats include, then a fraction and a time zone, which they do not include.
_TAIL = r"(:\d{2})(\.\d+)?(Z|[+-]\d{2}:?\d{2})?$"


def numbers_in(texts: pa.Array, decimal: str) -> np.ndarray:
    """Convert texts (n,) to float64; texts that are not numbers become NaN.

    Parameters
    ----------
    texts : pyarrow.Array of strings
    decimal : {".", ","}
        The decimal mark; the other mark, spaces and apostrophes may separate thousands.
    """
    matches = pc.match_substring_regex(texts, _PATTERNS[decimal])
    kept = pc.if_else(matches, texts, None)
    kept = pc.replace_substring_regex(kept, rf"[{_SEPARATORS[decimal]} '\x{{a0}}\x{{202f}}+]", "")
    if decimal == ",":
        kept = pc.replace_substring(kept, ",", ".")
    return kept.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)


def seconds_in(texts: pa.Array, form: str) -> np.ndarray:
    """Convert texts (n,) to float64 seconds since the epoch; texts that are not times in this `form` become NaN."""
    if form.endswith("%S"):
        texts = pc.replace_substring_regex(texts, _TAIL, r"\1")
    times = pc.strptime(texts, format=form, unit="s", error_is_null=True)
    return times.cast(pa.int64()).cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
