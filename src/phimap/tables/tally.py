"""Statistics of one column from one pass. They suffice for every kind that may be chosen for the column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from phimap.tables.numbers import check_text
from phimap.tables.tallies import LevelTally, NumberTally

if TYPE_CHECKING:
    from phimap.tables.cells import Cells

#: Decimal marks that are tried. The one that parses the most cells is chosen; if both do, the first.
DECIMALS = (".", ",")
#: Formats of times that are tried. The one that parses the most cells is chosen.
TIME_FORMS = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y/%m/%d",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%d.%m.%Y",
    "%m/%d/%Y %H:%M",
    "%d.%m.%Y %H:%M",
    "%b %d %Y",
    "%d %b %Y",
)
# Number of cells after which a decimal mark or a format is dropped, unless it parses half of the cells so far.
_ENOUGH_CELLS = 1000
_LEAST_SHARE = 0.5


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
        Statistics of cells parsed as numbers, by decimal mark.
    seconds : dict of str to NumberTally
        Statistics of cells parsed as times, by format.
    levels : LevelTally or None
        Statistics of cells as text; None if the column can only hold numbers or times.
    has_codes : bool
        Whether some cells consist of several digits, the first of them a zero.
    """

    def __init__(self, name: str, wanted: str | None):
        self.name = name
        self.wanted = wanted
        self.form: str | None = None
        self.n_rows: int = 0
        self.numbers: dict[str, NumberTally] = {}
        self.seconds: dict[str, NumberTally] = {}
        self.levels: LevelTally | None = None if wanted == "drop" else LevelTally()
        self.has_codes = False

    def update(
        self, cells: Cells, keys: np.ndarray, folds: np.ndarray, first_row: int, targets: np.ndarray | None
    ) -> None:
        """Add the cells (r,) of a batch, with the keys (r,), folds (r,) and targets (r, t) of its rows."""
        if self.form is None and cells.form != "nothing" and self.wanted != "drop":
            self._start(cells.form)
        self.n_rows += len(cells)
        for decimal, tally in self.numbers.items():
            values = cells.numbers(decimal)
            if self.levels is None and self.form == "number" and cells.is_text:
                check_text(cells, np.isnan(values), first_row)
            tally.update(values, keys, first_row)
        for form, tally in self.seconds.items():
            tally.update(cells.seconds(form), keys, first_row)
        if self.levels is not None:
            self.levels.update(cells.codes, cells.texts, keys, folds, targets)
            self.has_codes: bool = self.has_codes or any(text[0] == "0" and text[1:].isdigit() for text in cells.texts)
            if self.levels.n >= _ENOUGH_CELLS:
                self.numbers, self.seconds = self._likely(self.numbers), self._likely(self.seconds)

    def _start(self, form: str) -> None:
        """Choose the decimal marks and time formats to try for cells of this form."""
        self.form = form
        text = form in ("text", "levels")
        if self.wanted == "number" or (self.wanted is None and form in ("number", "boolean", "text")):
            self.numbers = {decimal: NumberTally(self.name) for decimal in (DECIMALS if text else DECIMALS[:1])}
        if self.wanted == "date" or (self.wanted is None and form in ("time", "text")):
            self.seconds = {one: NumberTally(self.name) for one in (TIME_FORMS if text else ("",))}
        if self.wanted in ("number", "date") or (self.wanted is None and not text):
            self.levels = None

    def _likely(self, readings: dict[str, NumberTally]) -> dict[str, NumberTally]:
        least = _LEAST_SHARE * self.levels.n if self.levels is not None else 0
        return {name: tally for name, tally in readings.items() if tally.n >= least}
