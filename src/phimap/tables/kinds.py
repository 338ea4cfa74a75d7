"""The choice of the kind of a column by the statistics of one pass, and the encoding of the column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from phimap._number_text import number_text
from phimap.tables.dates import DateEncoding, order_of_parts, with_day_first
from phimap.tables.encoding import (
    EncodedColumn,
    Encoding,
    warn_of_ambiguous,
    warn_of_currencies,
    warn_of_mixed,
    warn_of_units,
    warn_of_unread,
)
from phimap.tables.levels import frequent_and_hashed, one_hot, target_means
from phimap.tables.numbers import NumberEncoding
from phimap.tables.row_numbers import numbers_rows
from phimap.tables.tallies import ColumnTally, LevelTally, NumberTally
from phimap.tables.targets import ColumnTargets
from phimap.tables.text import TextEncoding

#: Kinds that a user may give to a column.
KINDS = ("number", "category", "date", "text", "drop")
# A text column holds numbers, or times, if at least this share of its cells can be parsed as such.
_LEAST_SHARE = 0.95
# A column of text with more than `_FEW_NUMBERS` distinct cells was probably meant to hold numbers if at least the share
# `_MOSTLY_NUMBERS` of its cells are numbers.
_FEW_NUMBERS, _MOSTLY_NUMBERS = 20, 0.5
# A column with many levels is text if its cells have at least 5 words on average, or at least 2 words while at least
# 30 % of the cells are distinct.
_WORDS, _FEW_WORDS, _DISTINCT = 5.0, 2.0, 0.3
# Seconds since the epoch of the year 1, the first that Python writes as a date.
_YEAR_1 = -62135596800.0
_DAY = 86400.0
# Of the first and the last part of dates such as 24-05-23, one is the day if it takes at least this many times as many
# values as the other.
_DAYS_APART = 2


@dataclass(frozen=True)
class Rules:
    """Settings of the encodings that all columns share.

    Attributes
    ----------
    n_text_components : int
        Number of dense columns for a column of text.
    sparse_text : bool
        Whether texts become CSR rows.
    targets : ColumnTargets
        Statistics of the targets.
    """

    n_text_components: int
    sparse_text: bool
    targets: ColumnTargets


def kind_of(tally: ColumnTally, max_levels: int) -> str:
    """The kind of a column, as in `EncodedColumn`, or ``"left out: "`` and the reason."""
    if tally.wanted == "drop":
        return "left out: as asked"
    levels = tally.levels
    n = tally.n_rows - levels.n_missing if levels is not None else max(t.n for t in _readings(tally))
    if tally.form is None or not n:
        return _refused(tally) if tally.form else "left out: no values"
    if tally.wanted is not None:
        return _wanted(tally, tally.wanted, max_levels)
    if levels is None:
        return "date" if tally.seconds else _kind_of_numbers(tally)
    if tally.numbers and _best(tally.numbers)[1].n >= _LEAST_SHARE * n and not tally.has_codes:
        return _kind_of_numbers(tally)
    if tally.seconds and _best(tally.seconds)[1].n >= _LEAST_SHARE * n:
        return "date"
    return _kind_of_texts(levels, tally.form == "levels", max_levels)


def _readings(tally: ColumnTally) -> list[NumberTally]:
    return [*tally.numbers.values(), *tally.seconds.values()]


def _best(readings: dict[str, NumberTally]) -> tuple[str, NumberTally]:
    """Return the name and the tally of the reading that parses the most cells.

    If several readings parse equally many cells, the result is the first of them.
    """
    name = max(readings, key=lambda one: readings[one].n)
    return name, readings[name]


def _refused(tally: ColumnTally) -> str:
    if tally.wanted in ("number", "date"):
        raise ValueError(
            f"`types` says that column {tally.name!r} is a {tally.wanted}, got no cell that is one. Leave the column "
            "out of `types`, or name another kind."
        )
    return "left out: no values"


def _wanted(tally: ColumnTally, wanted: str, max_levels: int) -> str:
    if wanted in ("number", "date") or tally.levels is None:
        return wanted
    if wanted == "text":
        return "text"
    return "category" if len(tally.levels.places) <= max_levels else "many levels"


def _kind_of_numbers(tally: ColumnTally) -> str:
    found = _best(tally.numbers)[1]
    if found.n == tally.n_rows and not found.deviation:
        return f"left out: constant ({number_text(found.mean, 6)})"
    if found.n == tally.n_rows and tally.form != "boolean" and numbers_rows(found):
        return "left out: numbers the rows"
    return "boolean" if tally.form == "boolean" else "number"


def _kind_of_texts(levels: LevelTally, is_dictionary: bool, max_levels: int) -> str:
    n_levels = len(levels.places)
    if n_levels == 1 and not levels.n_missing and levels.is_complete:
        return f"left out: constant ({next(iter(levels.places))})"
    sample = levels.sample
    distinct = n_levels / levels.n if levels.is_complete else len(set(sample)) / len(sample)
    words = float(np.mean([len(text.split()) for text in sample]))
    if is_dictionary:
        return "category" if n_levels <= max_levels else "many levels"
    if n_levels > max_levels and (words >= _WORDS or (words >= _FEW_WORDS and distinct >= _DISTINCT)):
        return "text"
    if distinct == 1 and levels.n > 1:
        return "left out: one value per row"
    return "category" if n_levels <= max_levels else "many levels"


def encoded_column(tally: ColumnTally, kind: str, rules: Rules) -> EncodedColumn:
    """A column of this `kind` with its encoding."""
    kind, _, why = kind.partition(": ")
    _tell_currencies(tally, kind)
    _tell_mixed(tally, kind)
    if kind == "left out":
        return EncodedColumn(tally.name, kind, _n_missing(tally), why)
    encoding, note, n_missing = _MAKERS[kind](tally, rules)
    if encoding is None or not encoding.variances.sum() > 0:
        return EncodedColumn(tally.name, "left out", n_missing, "nothing varies")
    return EncodedColumn(tally.name, kind, n_missing, note, encoding)


def _tell_currencies(tally: ColumnTally, kind: str) -> None:
    """Warn of amounts in several currencies that were not read as numbers, unless the user gives their kind."""
    if tally.wanted is not None or tally.form != "text" or kind in ("number", "date"):
        return
    from phimap.tables.amounts import mixed_currencies

    if found := mixed_currencies(list(_texts(tally).places)):
        warn_of_currencies(tally.name, found)


def _tell_mixed(tally: ColumnTally, kind: str) -> None:
    """Warn if most cells of a column that is not read as numbers are numbers, unless the user gives its kind.

    Numbers may have several units.
    """
    if tally.wanted is not None or tally.form != "text" or not tally.numbers or tally.has_codes:
        return
    from phimap.tables.amounts import mixed_units

    reading, found = _best(tally.numbers)
    levels = _texts(tally)
    # Up to `_FEW_NUMBERS` distinct cells may be codes, some of them numbers.
    if kind in ("number", "boolean", "date") or len(levels.places) <= _FEW_NUMBERS:
        return
    if units := mixed_units(list(levels.places)):
        warn_of_units(tally.name, units)
    elif kind != "left out" and (share := found.n / levels.n) >= _MOSTLY_NUMBERS:
        warn_of_mixed(tally.name, share, levels.n - found.n, _first_unread(levels, "numbers", reading))


def _n_missing(tally: ColumnTally) -> int:
    if tally.levels is not None:
        return tally.levels.n_missing
    return tally.n_rows - max((reading.n for reading in _readings(tally)), default=tally.n_rows)


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


_Made = tuple[Encoding | None, str, int]


def _number(tally: ColumnTally, rules: Rules) -> _Made:
    from phimap.tables.amounts import how_read

    decimal, found = _best(tally.numbers)
    from_text = tally.form in ("text", "levels")
    how = "read from text" + (" with decimal commas" if decimal[:1] == "," else "") if from_text else ""
    how += how_read(decimal, negatives=tally.has_negatives) if from_text else ""
    n_missing = tally.n_rows - found.n
    encoding = NumberEncoding.of_tally(found, n_missing, decimal, from_text=from_text)
    return encoding, _reading_note(tally, found, how, "numbers", encoding.example(), decimal), n_missing


def _date(tally: ColumnTally, rules: Rules) -> _Made:
    form, found = _date_reading(tally)
    n_missing = tally.n_rows - found.n
    encoding = DateEncoding.of_tally(found, n_missing, form, tally.zone(form))
    how = f"read from text as {form}" if form else ""
    return encoding, _reading_note(tally, found, how, "dates", encoding.example(), form), n_missing


def _date_reading(tally: ColumnTally) -> tuple[str, NumberTally]:
    """Return the format of dates and their tally, and warn if nothing tells the parts of the dates apart.

    Dates such as 23/05/24 may have the year first or last. The part that takes more values is the day.
    """
    form, found = _best(tally.seconds)
    ends = [
        {one: some for one, some in tally.seconds.items() if one[2:3] == form[2:3] and (one[:2] == "%y") == is_first}
        for is_first in (False, True)
    ]
    other = None
    if "%y" in form and all(ends):
        readings = sorted(map(_best, ends), key=lambda one: _n_days(one[1]))
        (less, some), (more, many) = readings
        if min(some.n, many.n) >= _LEAST_SHARE * found.n:
            if _n_days(many) >= _DAYS_APART * _n_days(some):
                form, found = more, many
            elif some.n == many.n:
                other = less if form == more else more
    _tell_ambiguous(tally, form, found, other)
    return form, found


def _n_days(tally: NumberTally) -> int:
    """The number of distinct days of the month among the sampled times."""
    days = np.floor(tally.sample / _DAY).astype("datetime64[D]")
    return np.unique(days - days.astype("datetime64[M]")).size


def _tell_ambiguous(tally: ColumnTally, form: str, found: NumberTally, other: str | None = None) -> None:
    """Warn of dates that were read in a `form`, if the same cells can be read in the `other`.

    By default, the other form of dates with the month first has the day first.
    """
    if other is None:
        other = with_day_first(form)
        if other == form or other not in tally.seconds or tally.seconds[other].n < found.n:
            return
    seconds = found.sample[found.sample >= _YEAR_1].tolist()
    times = (datetime(1970, 1, 1) + timedelta(seconds=one) for one in seconds)
    texts = (time.strftime(form) for time in times)
    example = next((text for text in texts if _differ(text, form, other)), None)
    if example is not None:
        warn_of_ambiguous(tally.name, example, order_of_parts(form), order_of_parts(other))


def _differ(text: str, form: str, other: str) -> bool:
    """Whether a date is another one in the `other` form."""
    try:
        return datetime.strptime(text, form) != datetime.strptime(text, other)
    except ValueError:
        return False


def _reading_note(tally: ColumnTally, found: NumberTally, how: str, what: str, like: str, reading: str) -> str:
    """Return a note that states how a column was parsed, and warn of cells that could not be parsed.

    `how` is the note if all cells were parsed, `what` is "numbers" or "dates", and `like` is an example of a cell that
    can be parsed. `reading` is the format of dates, or the decimal mark of numbers with their currency or unit.
    """
    n_unread = 0 if tally.levels is None else tally.levels.n - found.n
    unread = ""
    if n_unread:
        unread = f"{_counted(n_unread, 'cell')} not read as {what}, taken for missing"
        warn_of_unread(tally.name, n_unread, what, _first_unread(_texts(tally), what, reading), like)
    return ", ".join(filter(None, (how, unread)))


def _first_unread(levels: LevelTally, what: str, reading: str) -> str | None:
    """Return the first cell that cannot be read as numbers or dates; None if it is not among the kept levels."""
    from phimap.tables.amounts import numbers_in
    from phimap.tables.cells import seconds_in, text_column

    texts = list(levels.places)
    column = text_column(np.array(texts, dtype=object))
    unread = np.isnan((seconds_in if what == "dates" else numbers_in)(column, reading))
    return texts[int(unread.argmax())] if unread.any() else None


def _category(tally: ColumnTally, rules: Rules) -> _Made:
    levels = _texts(tally)
    return one_hot(levels), _counted(len(levels.places), "level"), levels.n_missing


def _many_levels(tally: ColumnTally, rules: Rules) -> _Made:
    levels = _texts(tally)
    count = f"{len(levels.places)} levels" if levels.is_complete else "more levels than are counted"
    if rules.targets.is_usable:
        return target_means(levels, rules.targets), f"{count}, by the mean of the target", levels.n_missing
    return frequent_and_hashed(levels), f"{count}, the most frequent by name and the others hashed", levels.n_missing


def _text(tally: ColumnTally, rules: Rules) -> _Made:
    levels = _texts(tally)
    ngrams = "hashed n-grams of characters"
    if rules.sparse_text:
        return TextEncoding.sparse_of_tally(levels), ngrams, levels.n_missing
    return TextEncoding.of_tally(levels, rules.n_text_components), f"leading directions of {ngrams}", levels.n_missing


def _texts(tally: ColumnTally) -> LevelTally:
    assert tally.levels is not None
    return tally.levels


_MAKERS: dict[str, Callable[[ColumnTally, Rules], _Made]] = {
    "number": _number,
    "boolean": _number,
    "date": _date,
    "category": _category,
    "many levels": _many_levels,
    "text": _text,
}
