"""Columns of numbers: standardised, missing ones at the median, with an indicator of those."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from phimap.records import of_floats, of_number
from phimap.tables.bad_cell import BadCell
from phimap.tables.encoding import LARGEST, Encoding
from phimap.tables.tallies import NumberTally, check_range

if TYPE_CHECKING:
    from phimap.tables.cells import Cells

# Numbers of so many standard deviations have squares that float32 holds.
_LARGEST = 1e18


@dataclass(frozen=True)
class NumberEncoding(Encoding):
    """``(x - mean) / deviation``, and 1 where x is missing.

    Attributes
    ----------
    decimal : str
        The decimal mark where cells are text.
    from_text : bool
        Whether the training cells were text, so that what is no number is missing.
    median, mean, deviation : float
        Mean and deviation of the training cells, missing ones at the median; a deviation of 0 stands for a constant
        column, of which the indicator alone is left.
    has_indicator : bool
    variances : ndarray of shape (k,)
    """

    decimal: str
    from_text: bool
    median: float
    mean: float
    deviation: float = field(metadata=of_number(least=0))
    has_indicator: bool
    variances: np.ndarray = field(metadata=of_floats("?k"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        unit = self.deviation or 1.0
        yield max(abs(self.mean), abs(self.median)) <= LARGEST * unit, "a mean and a median that its deviation can tell"
        yield len(self.names()) == self.variances.size, "a variance for each of its numbers"

    @classmethod
    def of_tally(cls, tally: NumberTally, n_missing: int, decimal: str, *, from_text: bool) -> NumberEncoding:
        """For the numbers of the training rows, and the number of those that were missing."""
        median, n = float(np.median(tally.sample)), tally.n + n_missing
        share = n_missing / n
        mean = tally.mean + share * (median - tally.mean)
        spread = (1 - share) * tally.deviation**2 + share * (1 - share) * (median - tally.mean) ** 2
        deviation = float(np.sqrt(spread)) if tally.deviation else 0.0
        variances = [1.0] * (deviation > 0) + [share * (1 - share)] * (n_missing > 0)
        return cls(decimal, from_text, median, mean, deviation, n_missing > 0, np.array(variances))

    def apply(self, cells: Cells, first_row: int, folds: np.ndarray | None) -> np.ndarray:
        values = cells.numbers(self.decimal)
        # A number that float32 does not hold once it is standardised would be infinite for the kernel.
        check_range(cells.name, values, first_row, _LARGEST * (self.deviation or 1.0))
        missing = np.isnan(values)
        if cells.is_text and not self.from_text:
            check_text(cells, missing, first_row)
        columns = []
        if self.deviation:
            columns.append((np.where(missing, self.median, values) - self.mean) / self.deviation)
        if self.has_indicator:
            columns.append(missing.astype(np.float64))
        return np.column_stack(columns)

    def names(self) -> list[str]:
        return [""] * (self.deviation > 0) + [": missing"] * self.has_indicator

    def amounts(self) -> np.ndarray:
        return np.array([True] * (self.deviation > 0) + [False] * self.has_indicator)

    def parts(self) -> np.ndarray:
        return np.arange(self.variances.size)


def check_text(cells: Cells, unread: np.ndarray, first_row: int) -> None:
    """Raise where a cell of a column of numbers is text that is no number."""
    bad = np.flatnonzero(unread & ~cells.missing)
    if bad.size:
        text = cells.texts[cells.codes[bad[0]]]
        raise BadCell(f"has {text!r}", cells.name, first_row + int(bad[0]), ", where the training rows had numbers")
