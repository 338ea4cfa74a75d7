"""Columns of times, encoded by a trend and by points on circles for the cycles of day, week and year."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from phimap.records import of_floats, of_number
from phimap.tables.encoding import LARGEST, Encoding, warn_of_ambiguous
from phimap.tables.tallies import NumberTally, likely_form

if TYPE_CHECKING:
    from phimap.tables.cells import Cells

# Names of time zones, and offsets such as +09:00.
_ZONE = re.compile(r"[A-Za-z0-9_+\-/:]{0,64}")
_DAY = 86400.0
_YEAR = 365.2425 * _DAY
# A cycle is encoded only if the data span at least this number of its periods. For shorter spans the trend suffices.
_ROUNDS = 1.5
_CYCLES = {"hour of the day": _DAY, "day of the week": 7 * _DAY, "day of the year": _YEAR}
# Least variance of the points on the circle of a cycle. With a smaller variance, the cycle counts as constant.
_LEAST_VARIANCE = 1e-6
# Forms of ISO 8601, which are tried for new rows.
_ISO_FORMS = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S")
_EXAMPLE = datetime(2020, 12, 31, 23)
# Weekday of the first day of the epoch, which was a Thursday, counted from Monday as 0.
_FIRST_WEEKDAY = 3
# Bounds for model files, in seconds: the least standard deviation, and the largest absolute time. Times are stored to a
# nanosecond. Years of four digits end at 3.2e11 seconds, a tenth of the second bound.
_LEAST_SECONDS, _MOST_SECONDS = 1e-9, 3e12


@dataclass(frozen=True)
class DateEncoding(Encoding):
    """Encodes times as standardised seconds, the sine and cosine of each cycle, and an indicator of missing times.

    Attributes
    ----------
    form : str
        Format of times that are text.
    median, mean, deviation : float
        Statistics of the seconds since the epoch; missing times are replaced by the median.
    cycles : tuple of str
        Cycles that vary in the training rows.
    factors : ndarray of shape (1 + len(cycles),)
        Factors of the trend and of the cycles, which give them equal variances that add up to 1.
    has_indicator : bool
        Whether missing times are marked by a number of their own.
    variances : ndarray of shape (k,)
    zone : str or None
        Time zone to which times are converted before their local time is taken; empty for times without a zone. None
        takes the local time of every cell. It occurs in files of earlier versions, and for texts with several offsets.
    """

    form: str
    median: float
    mean: float
    deviation: float = field(metadata=of_number(least=_LEAST_SECONDS))
    cycles: tuple[str, ...]
    factors: np.ndarray = field(metadata=of_floats("c", least=-LARGEST, most=LARGEST))
    has_indicator: bool
    variances: np.ndarray = field(metadata=of_floats("k"))
    zone: str | None = None

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield max(abs(self.mean), abs(self.median)) <= _MOST_SECONDS, "seconds that a clock can show"
        yield self.zone is None or _ZONE.fullmatch(self.zone) is not None, "the name of a time zone"
        yield set(self.cycles) <= set(_CYCLES), "cycles that are known"
        yield self.factors.size == 1 + len(self.cycles), "a factor for the trend and for each cycle"
        yield len(self.names()) == self.variances.size, "a variance for each of its numbers"

    @classmethod
    def of_tally(cls, tally: NumberTally, n_missing: int, form: str, zone: str | None) -> DateEncoding:
        """Return the encoding for the seconds of the training rows, `n_missing` of which were missing."""
        seconds = tally.sample
        extent = tally.high - tally.low
        # Times without a date are of the first day of 1970.
        all_of_a_day = ["hour of the day"] * (tally.low >= 0 and tally.high < _DAY)
        long_enough = [cycle for cycle, period in _CYCLES.items() if extent >= _ROUNDS * period]
        circles = {cycle: _circle(seconds, cycle) for cycle in all_of_a_day or long_enough}
        spreads = {cycle: circle.var(axis=0) for cycle, circle in circles.items()}
        cycles = tuple(cycle for cycle, spread in spreads.items() if spread.sum() > _LEAST_VARIANCE)
        n_parts, share = 1 + len(cycles), n_missing / (tally.n + n_missing)
        totals = np.array([1.0, *(spreads[cycle].sum() for cycle in cycles)])
        factors = 1 / np.sqrt(n_parts * totals)
        scaled = [spreads[cycle] * factor**2 for cycle, factor in zip(cycles, factors[1:], strict=True)]
        missing = [share * (1 - share)] * (n_missing > 0)
        trend = [1 / n_parts if tally.deviation else 0.0]
        variances = np.concatenate([trend, *scaled, missing])
        median = float(np.median(seconds))
        return cls(form, median, tally.mean, tally.deviation or 1.0, cycles, factors, n_missing > 0, variances, zone)

    def apply(self, cells: Cells, first_row: int, folds: np.ndarray | None) -> np.ndarray:
        seconds = self._seconds_of(cells)
        missing = np.isnan(seconds)
        return self.of_seconds(np.where(missing, self.median, seconds), missing)

    def _seconds_of(self, cells: Cells) -> np.ndarray:
        """Local times (n,) of cells, in seconds since the epoch.

        Texts are read in the form of the training rows. If some cannot be read but all are ISO 8601, they are read as
        ISO 8601.
        """
        form = self.form or likely_form(cells)
        if not self.form:
            _tell_ambiguous(cells, form)
        seconds = cells.seconds(form, self.zone)
        if not (cells.is_text and cells.n_unread):
            return seconds
        unread = cells.n_unread, cells.first_unread
        of_any_zone = np.fmax.reduce([cells.seconds(form) for form in _ISO_FORMS])
        if (np.isnan(of_any_zone) & ~cells.missing).any():
            cells.n_unread, cells.first_unread = unread
            return seconds
        found = np.fmax.reduce([cells.seconds(form, self.zone) for form in _ISO_FORMS])
        cells.n_unread = 0
        return found

    def of_seconds(self, seconds: np.ndarray, missing: np.ndarray | None = None) -> np.ndarray:
        """Encode local times (n,) in seconds since 1970; `missing` (n,) marks times that were missing."""
        columns = [(seconds - self.mean) / self.deviation * self.factors[0]]
        columns += [
            _circle(seconds, cycle) * factor for cycle, factor in zip(self.cycles, self.factors[1:], strict=True)
        ]
        if self.has_indicator:
            columns.append(np.zeros(len(seconds)) if missing is None else missing.astype(np.float64))
        return np.column_stack(columns)

    def names(self) -> list[str]:
        circles = [f": {wave} of {cycle}" for cycle in self.cycles for wave in ("sine", "cosine")]
        return [": trend", *circles, *[": missing"] * self.has_indicator]

    def example(self) -> str:
        is_clock = 0 <= self.median < _DAY
        return _EXAMPLE.strftime(self.form or ("%H:%M" if is_clock else "%Y-%m-%d"))

    def parts(self) -> np.ndarray:
        sizes = [1, *[2] * len(self.cycles), *[1] * self.has_indicator]
        return np.repeat(np.arange(len(sizes)), sizes)


def _circle(seconds: np.ndarray, cycle: str) -> np.ndarray:
    """Sine and cosine (n, 2) of the phases in a cycle at times (n,)."""
    days = np.floor(seconds / _DAY)
    if cycle == "hour of the day":
        phase = seconds / _DAY - days
    elif cycle == "day of the week":
        phase = (days + _FIRST_WEEKDAY) % 7 / 7
    else:
        dates = days.astype("datetime64[D]")
        phase = (dates - dates.astype("datetime64[Y]")).astype(np.float64) * _DAY / _YEAR
    return np.column_stack([np.sin(2 * np.pi * phase), np.cos(2 * np.pi * phase)])


def order_of_parts(form: str) -> str:
    """The order of the parts of dates in words, such as ``month/day/year``."""
    words = {"m": "month", "d": "day", "y": "year"}
    return "/".join(words[part.lower()] for part in re.findall("%([mdyY])", form))


def with_day_first(form: str) -> str:
    """The form with the day before the month; a form without the month first is returned unchanged."""
    return re.sub("^%m(.)%d", r"%d\1%m", form)


def _tell_ambiguous(cells: Cells, form: str) -> None:
    """Warn of new texts that are read with the month first, if all can be read with the day first as well."""
    if (other := with_day_first(form)) == form:
        return
    seconds, of_other = cells.seconds(form), cells.seconds(other)
    if np.isnan(of_other).sum() > np.isnan(seconds).sum():
        return
    differ = np.flatnonzero(seconds != of_other)
    differ = differ[np.isfinite(seconds[differ])]
    if differ.size:
        text = cells.texts[cells.codes[differ[0]]]
        warn_of_ambiguous(cells.name, text, order_of_parts(form), order_of_parts(other))
