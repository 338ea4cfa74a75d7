"""Columns of numbers, which are standardised. Missing values are replaced by the median and marked by an indicator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from phimap.records import of_floats, of_number
from phimap.tables.encoding import LARGEST, Encoding
from phimap.tables.tallies import NumberTally, check_range, check_text

if TYPE_CHECKING:
    from phimap.tables.cells import Cells


@dataclass(frozen=True)
class NumberEncoding(Encoding):
    """Encodes a number x as ``(x - mean) / deviation``, and by an indicator of missing x.

    Attributes
    ----------
    decimal : str
        The decimal mark of cells that are text, followed by their currencies and unit, if any; see `numbers_in`.
    from_text : bool
        Whether the training cells were text. If so, cells that are not numbers are missing.
    median, mean, deviation : float
        Statistics of the training cells, after missing values are replaced by the median. A constant column has
        deviation 0 and is encoded only by the indicator.
    has_indicator : bool
        Whether missing cells are marked by a number of their own.
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
        yield self.decimal[:1] in (".", ",") and self.decimal.count("\t") <= 1, "a decimal mark"
        yield max(abs(self.mean), abs(self.median)) <= LARGEST * unit, "a mean and a median that its deviation can tell"
        yield len(self.names()) == self.variances.size, "a variance for each of its numbers"

    @classmethod
    def of_tally(cls, tally: NumberTally, n_missing: int, decimal: str, *, from_text: bool) -> NumberEncoding:
        """Return the encoding for the numbers of the training rows, `n_missing` of which were missing."""
        median, n = float(np.median(tally.sample)), tally.n + n_missing
        share = n_missing / n
        mean = tally.mean + share * (median - tally.mean)
        spread = (1 - share) * tally.deviation**2 + share * (1 - share) * (median - tally.mean) ** 2
        deviation = float(np.sqrt(spread)) if tally.deviation else 0.0
        variances = [1.0] * (deviation > 0) + [share * (1 - share)] * (n_missing > 0)
        return cls(decimal, from_text, median, mean, deviation, n_missing > 0, np.array(variances))

    def apply(self, cells: Cells, first_row: int, folds: np.ndarray | None) -> np.ndarray:
        values = cells.numbers(self.decimal)
        # A larger number would overflow float32 after standardisation.
        check_range(cells.name, values, first_row, LARGEST * (self.deviation or 1.0))
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

    def example(self) -> str:
        # Of several currencies, the first is an example.
        before, after = (affix.split("\n")[0] for affix in (self.decimal[1:] or "\t").split("\t"))
        return f"{before}{' ' * before.isalpha()}1234{self.decimal[:1]}5{' ' * bool(after)}{after}"

    def amounts(self) -> np.ndarray:
        return np.array([True] * (self.deviation > 0) + [False] * self.has_indicator)

    def parts(self) -> np.ndarray:
        return np.arange(self.variances.size)
