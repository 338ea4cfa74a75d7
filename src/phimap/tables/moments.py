"""Conversion of texts to moments in time, which determine the latest rows. Ambiguous dates raise an error."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from phimap._files import one_line
from phimap._missing import MISSING_MARKS
from phimap.tables.tallies import TIME_FORMS

# ISO 8601, from months to fractions of seconds, and an offset from UTC.
_ISO = re.compile(r"(\d{4}-\d\d(?:-\d\d(?:[T ]\d\d(?::\d\d(?::\d\d(?:\.\d+)?)?)?)?)?)(?:(Z)|([+-])(\d\d):?(\d\d))?")
# Seconds since the epoch of the year 1000. The reader of dates reads a year of two digits as a year of the first
# century.
_YEAR_1000 = -30610224000.0
#: The forms of `TIME_FORMS` as examples, for messages.
FORMS_IN_WORDS = (
    "2020-12-31, 2020/12/31, 31.12.2020, 31/12/2020 or 12/31/2020, alone or with 23:00 or 23:00:00, Dec 31, 2020, or "
    "31 December 2020"
)


def moments_of(texts: np.ndarray, what: str, row_name: Callable[[int], str]) -> np.ndarray:
    """Return texts (n,) as numbers (n,) in the order of time; texts that mean a missing value become NaN.

    Parameters
    ----------
    texts : ndarray of str, shape (n,)
        Numbers, or dates in one form.
    what : str
        The name of the moments in messages.
    row_name : callable
        ``row_name(index)`` is the name of a row in messages.

    Raises
    ------
    ValueError
        If a text is neither a number nor a date, or if all dates can be read with the day first and with the month
        first.
    ImportError
        If pyarrow is needed to read the dates, and is not installed.
    """
    distinct, first, places = np.unique(np.char.strip(texts), return_index=True, return_inverse=True)
    present = ~np.isin(distinct, MISSING_MARKS)
    found = np.full(distinct.size, np.nan)
    try:
        found[present] = distinct[present].astype(np.float64)
    except ValueError:
        # Error messages name the first row with a fault.
        order = np.argsort(first[present])
        seconds = np.empty(order.size)
        seconds[order] = _seconds(distinct[present][order], what, lambda k: row_name(int(first[present][order[k]])))
        found[present] = seconds
    return found[places.ravel()]


def _seconds(texts: np.ndarray, what: str, row_name: Callable[[int], str]) -> np.ndarray:
    """Return distinct texts (n,) as seconds (n,) since the epoch."""
    if (found := _iso_seconds(texts)) is None:
        if find_spec("pyarrow") is None:
            raise ImportError(f"{what} must be read as dates, which needs pyarrow. Install it: pip install pyarrow.")
        found = _seconds_in_one_form(texts, what, row_name)
    local, offsets = found
    without = np.isnan(offsets)
    if without.any() and not without.all():
        row = int(np.argmax(without != without[0]))
        raise ValueError(
            f"{what} must have an offset from UTC in all rows or in none, got {one_line(texts[0])!r} and "
            f"{one_line(texts[row])!r} in {row_name(row)}. Write all alike."
        )
    return local - np.where(without, 0.0, offsets)


def _iso_seconds(texts: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the local seconds (n,) of texts, and their offsets (n,) from UTC; None unless all are ISO 8601."""
    matches = [_ISO.fullmatch(text) for text in texts]
    if None in matches:
        return None
    parts = [match.groups() for match in matches if match is not None]
    try:
        local = np.array([part[0] for part in parts], dtype="datetime64[us]")
    except ValueError:
        return None
    offsets = [
        0.0 if utc else float(f"{sign}1") * (3600 * int(hours) + 60 * int(minutes)) if sign else np.nan
        for _, utc, sign, hours, minutes in parts
    ]
    return local.astype(np.int64) / 1e6, np.array(offsets)


def _seconds_in_one_form(texts: np.ndarray, what: str, row_name: Callable[[int], str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the local seconds (n,) of texts in the only form that reads all texts, and their offsets (n,) from UTC."""
    from phimap.tables.cells import offsets_in, seconds_in, text_column

    column = text_column(texts)
    readings = {form: seconds_in(column, form) for form in TIME_FORMS}
    readings = {form: np.where(found < _YEAR_1000, np.nan, found) for form, found in readings.items()}
    best = max(readings, key=lambda form: np.count_nonzero(~np.isnan(readings[form])))
    local = readings[best]
    if (unread := np.isnan(local)).any():
        row = int(np.argmax(unread))
        raise ValueError(
            f"{what} must hold numbers, or dates in one form ({FORMS_IN_WORDS}), got {one_line(texts[row])!r} in "
            f"{row_name(row)}. Write all dates alike, with the year first."
        )
    other = next(
        (form for form, found in readings.items() if np.isfinite(found).all() and (found != local).any()), None
    )
    if other is not None:
        row = int(np.argmax(readings[other] != local))
        raise ValueError(
            f"{what} must tell the day from the month, got {one_line(texts[row])!r} in {row_name(row)}: all rows "
            f"can be read as {best} and as {other}. Write the year first, such as 2020-12-31."
        )
    return local, offsets_in(column, best)
