"""Statistics of a column from one pass, of bounded size. They suffice for every kind that the column may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from phimap._random import row_uniforms
from phimap.tables.encoding import BadCell
from phimap.tables.targets import FOLDS, TargetSums

if TYPE_CHECKING:
    from phimap.tables.cells import Cells

#: Largest number of distinct levels whose counts are kept; if there are more, the rarest are dropped.
MOST_LEVELS = 20_000
# Largest total number of characters of all levels.
_MOST_CHARACTERS = 2**24
# Number of sampled cells from which the median is computed. The rank of the median is then accurate to half a percent.
_NUMBERS = 2**14
# Number of texts in the sample of a column of text.
_TEXTS = 5000
#: Number of characters to which texts are truncated.
TEXT_LENGTH = 2000
# Largest number that is accepted; the sum of squares of larger numbers may overflow float64.
_LARGEST = 1e150
# Seeds of the random keys that sample rows, and of the keys that divide rows into folds.
_SAMPLE_SEED, _FOLD_SEED = 1, 2
_CLOCKS = ("", " %H:%M", " %H:%M:%S")
_HALF_DAY_CLOCKS = (" %I:%M %p", " %I:%M:%S %p")
#: Formats of times with years of four digits.
TIME_FORMS = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y/%m/%d",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%d.%m.%Y",
    "%Y/%m/%d %H:%M",
    "%m/%d/%Y %H:%M",
    "%d/%m/%Y %H:%M",
    "%d.%m.%Y %H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M:%S",
    "%d.%m.%Y %H:%M:%S",
    *(
        date + clock
        for clock in _CLOCKS
        for date in ("%b %d %Y", "%b %d, %Y", "%B %d, %Y", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%m-%d-%Y", "%d-%m-%Y")
    ),
    *(date + clock for clock in _HALF_DAY_CLOCKS for date in ("%m/%d/%Y", "%d/%m/%Y", "%Y-%m-%d")),
)
#: Formats of times with years of two digits, of which 69 to 99 are of the 20th century.
SHORT_FORMS = tuple(
    date + clock
    for clock in (*_CLOCKS, *_HALF_DAY_CLOCKS)
    for date in ("%m/%d/%y", "%d/%m/%y", "%y/%m/%d", "%m-%d-%y", "%d-%m-%y", "%y-%m-%d", "%d.%m.%y", "%d-%b-%y")
)
#: Formats of times of the day, which count from the beginning of 1970.
CLOCK_FORMS = tuple(clock.strip() for clock in (*_CLOCKS[1:], *_HALF_DAY_CLOCKS))
#: Formats of times that are tried. The one that parses the most cells is chosen, and the first of equals.
ALL_FORMS = (*TIME_FORMS, *CLOCK_FORMS, *SHORT_FORMS)
# After `_ENOUGH_CELLS` cells, a decimal mark or a format is dropped unless it has parsed the share `_LEAST_SHARE` of
# them.
_ENOUGH_CELLS = 1000
_LEAST_SHARE = 0.5


def sample_keys(first_row: int, n_rows: int) -> np.ndarray:
    """Random keys (n_rows,) for the rows of a batch. They depend only on the row numbers."""
    return row_uniforms(first_row, n_rows, _SAMPLE_SEED)


def training_folds(first_row: int, n_rows: int) -> np.ndarray:
    """Random folds (n_rows,) of the training rows of a batch. They depend only on the row numbers."""
    return (row_uniforms(first_row, n_rows, _FOLD_SEED) * FOLDS).astype(np.intp)


def likely_form(cells: Cells) -> str:
    """The format of times that parses the most cells; empty unless the cells are text."""
    if not cells.is_text:
        return ""
    return max(ALL_FORMS, key=lambda form: np.count_nonzero(~np.isnan(cells.seconds(form))))


def forms_tried(cells: Cells) -> tuple[str, ...]:
    """The formats of times to try on a column whose first cells are `cells`.

    Years of two digits are tried only if some of these cells may have one.
    """
    return ALL_FORMS if cells.may_have_short_years else (*TIME_FORMS, *CLOCK_FORMS)


class CellSample:
    """A random sample of the cells of a stream: the cells of the rows with the smallest keys.

    Attributes
    ----------
    values : ndarray
        The sampled cells, in random order.
    """

    def __init__(self, most: int):
        self._most = most
        self._keys = np.empty(0)
        self.values = np.empty(0)

    def update(self, values: np.ndarray, keys: np.ndarray) -> None:
        """Add the cells `values` (r,) of rows whose keys are `keys` (r,)."""
        if self._keys.size == self._most:
            few = np.flatnonzero(keys < self._keys[-1])
            keys, values = keys[few], values[few]
        if self._keys.size:
            keys, values = np.concatenate([self._keys, keys]), np.concatenate([self.values, values])
        order = np.argsort(keys, kind="stable")[: self._most]
        self._keys, self.values = keys[order], values[order]


class NumberTally:
    """Mean, spread, range and a sample of numbers.

    Attributes
    ----------
    n : int
        Number of cells that are numbers.
    mean, low, high : float
    is_whole, is_rising : bool
        Whether all numbers are integers, and whether each is larger than the number before it.
    sample : ndarray
        Up to 16,384 random numbers of the column.
    """

    def __init__(self, name: str):
        self._name = name
        self.n, self.mean, self._squares = 0, 0.0, 0.0
        self.low, self.high = np.inf, -np.inf
        self.is_whole = self.is_rising = True
        self._last = -np.inf
        self._sample = CellSample(_NUMBERS)

    def update(self, values: np.ndarray, keys: np.ndarray, first_row: int) -> None:
        """Add the numbers (r,) of a batch, with NaN for missing numbers, and the keys (r,) of the rows."""
        check_range(self._name, values, first_row)
        rows = np.flatnonzero(~np.isnan(values))
        found = values[rows]
        if not found.size:
            return
        mean = float(found.mean())
        step, total = mean - self.mean, self.n + found.size
        self._squares += float(np.square(found - mean).sum()) + step**2 * (self.n * found.size / total)
        self.mean += step * (found.size / total)
        self.n: int = total
        self.low, self.high = min(self.low, float(found.min())), max(self.high, float(found.max()))
        self.is_whole: bool = self.is_whole and bool((found == np.floor(found)).all())
        self.is_rising: bool = self.is_rising and bool(self._last < found[0] and (np.diff(found) > 0).all())
        self._last: float = float(found[-1])
        self._sample.update(found, keys[rows])

    @property
    def deviation(self) -> float:
        """Standard deviation; 0 if it is below the rounding error of the mean."""
        spread = float(np.sqrt(self._squares / max(self.n, 1)))
        return spread if spread > 8 * np.finfo(np.float64).eps * abs(self.mean) else 0.0

    @property
    def sample(self) -> np.ndarray:
        return self._sample.values


def check_range(name: str, values: np.ndarray, first_row: int, largest: float = _LARGEST) -> None:
    """Raise unless all numbers (r,) of a column are NaN or at most `largest` in absolute value."""
    bad = np.flatnonzero(np.abs(values) > largest)
    if bad.size:
        value, row = values[bad[0]], first_row + int(bad[0])
        if np.isinf(value):
            raise BadCell("contains infinity (inf)", name, row)
        raise BadCell(f"contains {value:g}", name, row, f", beyond {largest:.3g}")


def check_text(cells: Cells, unread: np.ndarray, first_row: int) -> None:
    """Raise if a cell of a numeric column is text that is not a number."""
    bad = np.flatnonzero(unread & ~cells.missing)
    if bad.size:
        text = cells.texts[cells.codes[bad[0]]]
        raise BadCell(f"has {text!r}", cells.name, first_row + int(bad[0]), ", where the training rows had numbers")


class LevelTally:
    """Counts and sums of targets for each distinct text and fold, and a sample of the cells.

    Attributes
    ----------
    n : int
        Number of cells that are not missing.
    is_complete : bool
        Whether no level has been dropped.
    places : dict of str to int
        Row of each level in `sums`; row 0 is for missing cells.
    sums : TargetSums
    """

    def __init__(self):
        self.n: int = 0
        self.is_complete = True
        self.places: dict[str, int] = {}
        self.sums = TargetSums()
        self._sample = CellSample(_TEXTS)

    def update(
        self, codes: np.ndarray, texts: list[str], keys: np.ndarray, folds: np.ndarray, targets: np.ndarray | None
    ) -> None:
        """Add r cells, given as indices in `texts` or -1 if missing, with keys (r,), folds (r,) and targets (r, t)."""
        rows = np.flatnonzero(codes >= 0)
        places = np.zeros(len(texts) + 1, dtype=np.intp)
        # `texts` may contain texts that do not occur in the batch.
        for used in np.unique(codes[rows]).tolist():
            places[used] = self.places.setdefault(texts[used], len(self.places) + 1)
        self.sums.update(places[codes], len(self.places) + 1, folds, targets)
        self.n += rows.size
        short = np.array([text[:TEXT_LENGTH] for text in texts], dtype=object)
        self._sample.update(short[codes[rows]], keys[rows])
        if len(self.places) > 2 * MOST_LEVELS or sum(map(len, self.places)) > 2 * _MOST_CHARACTERS:
            self._forget()

    def _forget(self) -> None:
        """Drop the levels that are not among the most frequent."""
        names = np.array(list(self.places), dtype=object)
        order = np.argsort(-self.counts, kind="stable")[:MOST_LEVELS]
        fit = np.cumsum([len(name) for name in names[order]]) <= _MOST_CHARACTERS
        kept = np.sort(order[fit])
        self.places = {name: place + 1 for place, name in enumerate(names[kept])}
        self.sums.keep(np.append(0, kept + 1))
        self.is_complete: bool = False

    @property
    def counts(self) -> np.ndarray:
        """Number of cells of each level, in the order of `places`."""
        return self.sums.counts[1:].sum(axis=1)

    @property
    def n_missing(self) -> int:
        """Number of missing cells."""
        return int(self.sums.counts[0].sum())

    @property
    def sample(self) -> list[str]:
        """Up to 5,000 random cells, truncated to 2,000 characters."""
        return [str(text) for text in self._sample.values]

    def ranked(self) -> list[str]:
        """The levels by descending frequency; levels of equal frequency are in alphabetical order."""
        counts = dict(zip(self.places, self.counts.tolist(), strict=True))
        return sorted(counts, key=lambda name: (-counts[name], name))[:MOST_LEVELS]


class ColumnTally:
    """Statistics of a column.

    Parameters
    ----------
    name : str
    wanted : str or None
        The kind that the user gives.

    Attributes
    ----------
    form : str or None
        The form of the cells: ``"number"``, ``"boolean"``, ``"time"``, ``"levels"`` or ``"text"``; None until a cell
        has a value.
    n_rows : int
    numbers : dict of str to NumberTally
        Statistics of cells parsed as numbers, by decimal mark and the currency or unit that follows it.
    seconds : dict of str to NumberTally
        Statistics of cells parsed as times, by format.
    levels : LevelTally or None
        Statistics of cells as text; None if the column can only hold numbers or times.
    has_codes : bool
        Whether some cells consist of several digits, the first of them a zero.
    has_negatives : bool
        Whether some cells are text in parentheses, as negative numbers may be.
    """

    def __init__(self, name: str, wanted: str | None):
        self.name = name
        self.wanted = wanted
        self.form: str | None = None
        self.n_rows: int = 0
        self.numbers: dict[str, NumberTally] = {}
        self.seconds: dict[str, NumberTally] = {}
        self.levels: LevelTally | None = None if wanted == "drop" else LevelTally()
        self.has_codes = self.has_negatives = False
        # Time zone of the first cells that are times and not text, and the offsets of texts for each format.
        self._zone: str | None = None
        self._offsets: dict[str, set[str]] = {}

    def zone(self, form: str) -> str | None:
        """The time zone of times in this `form`; empty for times without a zone, None if times have several offsets."""
        offsets = self._offsets.get(form, set())
        return self._zone if self.form == "time" else next(iter(offsets)) if len(offsets) == 1 else None

    def update(
        self, cells: Cells, keys: np.ndarray, folds: np.ndarray, first_row: int, targets: np.ndarray | None
    ) -> None:
        """Add the cells (r,) of a batch, with the keys (r,), folds (r,) and targets (r, t) of its rows."""
        if self.form is None and cells.form != "nothing" and self.wanted != "drop":
            self._start(cells)
        if self._zone is None and self.form == "time" and cells.form == "time":
            self._zone = cells.zone
        self.n_rows += len(cells)
        if self.numbers:
            self.has_negatives: bool = self.has_negatives or cells.has_negatives
        for decimal, tally in self.numbers.items():
            values = cells.numbers(decimal)
            if self.levels is None and self.form == "number" and cells.is_text:
                check_text(cells, np.isnan(values), first_row)
            tally.update(values, keys, first_row)
        for form, tally in self.seconds.items():
            tally.update(cells.seconds(form, self._zone), keys, first_row)
            self._offsets.setdefault(form, set()).update(cells.offsets(form))
        if self.levels is not None:
            self.levels.update(cells.codes, cells.texts, keys, folds, targets)
            self.has_codes: bool = self.has_codes or any(text[0] == "0" and text[1:].isdigit() for text in cells.texts)
            if self.levels.n >= _ENOUGH_CELLS:
                self.numbers, self.seconds = self._likely(self.numbers), self._likely(self.seconds)

    def _start(self, cells: Cells) -> None:
        """Choose the decimal marks, units and time formats to try, from the first batch that has values."""
        form = self.form = cells.form
        text = form in ("text", "levels")
        if self.wanted == "number" or (self.wanted is None and form in ("number", "boolean", "text")):
            readings = cells.readings(any_currency=self.wanted == "number")
            self.numbers = {reading: NumberTally(self.name) for reading in readings}
        if self.wanted == "date" or (self.wanted is None and form in ("time", "text")):
            self.seconds = {one: NumberTally(self.name) for one in (forms_tried(cells) if text else ("",))}
        if self.wanted in ("number", "date") or (self.wanted is None and not text):
            self.levels = None

    def _likely(self, readings: dict[str, NumberTally]) -> dict[str, NumberTally]:
        least = _LEAST_SHARE * self.levels.n if self.levels is not None else 0
        return {name: tally for name, tally in readings.items() if tally.n >= least}
