"""Checks of the target column, for missing targets and for numbers that were read as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from phimap._files import DataError, one_line
from phimap._missing import MISSING_MARKS
from phimap.io.skipped import Skipped

# A text column counts as a numeric column with mistakes if at least this share of its cells are numbers.
_MOSTLY_NUMBERS = 0.95
# Largest number of mistakes that a message shows.
_SHOWN = 3
# Number of distinct numbers that are looked at to decide whether they are dates.
_LOOKED_AT = 20
_DIGITS = r"(?:\d+(?:[.,' \u00a0\u202f]\d+)*[.,]?|[.,]\d+)(?:[eE][-+]?\d+)?"
#: Numbers as people write them: with decimal points or commas, with separators between thousands, and in parentheses.
NUMBER = re.compile(rf"\s*(?:[-+]?{_DIGITS}|\(\s*{_DIGITS}\s*\))\s*")


class TextTarget:
    """A target of text, whose cells are amounts, such as ``$136,900``, or labels.

    The first block with a text decides for all blocks and passes.

    Parameters
    ----------
    name : str
    wanted : bool
        Whether the user says that the target is a number. Cells that are not numbers are then missing.
    decimal : str
        The decimal mark of the file.

    Attributes
    ----------
    wanted : bool
    expected : bool
        Whether a model predicts numbers. Few distinct amounts, and numbers without units, are then not labels.
    notes : tuple of str
        How amounts were read, and an example of a cell that could not be read.
    first_unread : str or None
        The first cell that is not a number, if the target is a number.
    """

    def __init__(self, name: str, *, wanted: bool, decimal: str) -> None:
        self.wanted, self.expected = wanted, wanted
        self.notes: tuple[str, ...] = ()
        self.first_unread: str | None = None
        self._name, self._decimal = name, decimal
        # How amounts are read, as an argument of `numbers_in`; "" for labels, None until a block decides.
        self._reading: str | None = None

    def amounts(self, texts: np.ndarray) -> np.ndarray | None:
        """Convert texts (r,) to numbers (r,); NaN marks a text that is not a number. None for labels."""
        if self._reading is None and (texts != "").any():
            self._reading = self._chosen(texts[texts != ""])
        if not self._reading:
            return None
        found = _numbers(texts, self._reading)
        unread = np.isnan(found) & (texts != "")
        if self.wanted and unread.any() and self.first_unread is None:
            self.first_unread = str(texts[int(unread.argmax())])
            other = one_line(self.first_unread)
            self.notes += (f"what is no number in the target {self._name!r}, such as {other!r}, counts as missing",)
        return found

    def _chosen(self, texts: np.ndarray) -> str:
        # This is imported here because `phimap.tables` loads scikit-learn, which most readers do not need.
        from phimap.tables.amounts import how_read, negatives_in, readings_of
        from phimap.tables.cells import text_column
        from phimap.tables.targets import MOST_CODES

        distinct = list(dict.fromkeys(texts.tolist()))
        readings = readings_of(distinct, self._decimal, any_currency=self.expected)
        # A few distinct amounts may be labels, such as 12 months and 24 months. The decimal mark of numbers without
        # units is uncertain, unless some of them have thousands and decimals.
        is_clear = len(readings[0]) > 1 or any("." in text and "," in text for text in distinct)
        if not self.expected and (len(distinct) <= MOST_CODES or not is_clear):
            return ""
        found = {reading: _numbers(texts, reading) for reading in readings}
        reading = max(readings, key=lambda one: np.isfinite(found[one]).sum())
        is_read = np.isfinite(found[reading])
        if not self.wanted and is_read.mean() < _MOSTLY_NUMBERS:
            return ""
        if is_read.any():
            how = how_read(reading, negatives=negatives_in(text_column(np.array(distinct, dtype=object))))
            first = int(is_read.argmax())
            example = f"{one_line(texts[first])!r} as {found[reading][first]:.15g}"
            self.notes = (f"target {self._name!r} read from text{how} ({example})",)
        return reading


class TargetCheck:
    """Checks the targets of one pass, block by block.

    Parameters
    ----------
    where : str
        Name of the file, for messages.
    name : str, tuple of str or None
        Name of the target.
    policy : {"error", "skip", "keep"}
        The policy for rows without a target.
    labels : bool
        Whether the user declares that the target holds labels. If so, a target of text is taken as labels without a
        check whether most of its texts are numbers.
    text : TextTarget or None
        How a target of text is read; None if texts are labels.
    row_name : callable
        ``row_name(number)`` is the name of a row in messages.
    """

    def __init__(
        self,
        where: str,
        name: Any,
        policy: str,
        *,
        labels: bool = False,
        text: TextTarget | None = None,
        row_name: Callable[[int], str] = str,
    ) -> None:
        self._where = where
        self._row_name = row_name
        self._name = name
        self._policy = policy
        self._labels = labels
        self._text = text
        self._n_numbers = self._n_others = 0
        self._are_amounts = False
        self._shown: list[str] = []
        self._numbers: list[str] = []

    def read(
        self, y: np.ndarray | None, numbers: np.ndarray, skipped: Skipped
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return the targets `y` of rows `numbers`, and the mask (r,) of the rows that are kept, None if all are kept.

        Texts of amounts become numbers. If missing targets are allowed, marks such as ``NA`` become empty text.
        """
        if y is None or y.dtype.kind not in "fU":
            return y, None
        if y.dtype.kind == "U" and not self._labels:
            y = self._read_text(y, numbers)
        present = is_present(y)
        if present.all():
            return y, None
        if self._policy == "error" or (y.dtype.kind == "f" and np.isinf(y).any()):
            self._refuse(y, numbers)
        if self._policy == "keep":
            return y, None
        mask = present if present.ndim == 1 else present.all(axis=1)
        skipped.drop(numbers[~mask], f"a missing target {self._name!r}")
        return y, mask

    def _read_text(self, y: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return targets (r,) of text as amounts or as labels, and count how many of them are numbers."""
        texts = y if self._policy == "error" else np.where(np.isin(y, MISSING_MARKS), "", y)
        amounts = None if self._text is None else self._text.amounts(texts)
        self._are_amounts = amounts is not None
        if self._text is None or not (self._are_amounts and self._text.wanted):
            self._count(texts, numbers)
        return texts if amounts is None else amounts

    def _count(self, texts: np.ndarray, numbers: np.ndarray) -> None:
        values, first, counts = np.unique(texts, return_index=True, return_counts=True)
        amounts = None if self._text is None else self._text.amounts(values)
        if amounts is None:
            are_numbers = [bool(NUMBER.fullmatch(value)) for value in values.tolist()]
        else:
            are_numbers = np.isfinite(amounts).tolist()
        for place in np.argsort(first):
            if are_numbers[place]:
                self._n_numbers += int(counts[place])
                if len(self._numbers) < _LOOKED_AT:
                    self._numbers.append(str(values[place]).strip())
            elif values[place]:
                self._n_others += int(counts[place])
                if len(self._shown) < _SHOWN:
                    row = self._row_name(int(numbers[first[place]]))
                    self._shown.append(f"{one_line(values[place])!r} in data row {row}")

    def finish(self) -> None:
        """Raise if amounts have other texts among them, or if most labels are numbers, which would become classes."""
        total = self._n_numbers + self._n_others
        is_fault = self._n_others > 0 if self._are_amounts else self._n_numbers >= _MOSTLY_NUMBERS * total > 0
        if not is_fault:
            return
        if self._n_others:
            more = "" if self._n_others <= len(self._shown) else f" and {self._n_others - len(self._shown):,} more"
            fault = (
                f"holds numbers but for {', '.join(self._shown)}{more}. Correct these cells or empty them, leave out"
            )
            fault += " their rows with"
        elif self._are_dates():
            raise DataError(
                f"{self._where}: target column {self._name!r} holds dates, such as {one_line(self._numbers[0])!r}. "
                "Turn them into numbers, such as days since a day, or choose another target."
            )
        else:
            fault = "holds numbers that are written as text. Read them as numbers with"
        raise DataError(
            f"{self._where}: target column {self._name!r} {fault} types=... ({self._name}=number), or take all as "
            f"labels ({self._name}=category)."
        )

    def _are_dates(self) -> bool:
        """Whether the first texts that look like numbers are dates, such as 28.12.2022."""
        from phimap.tables.cells import seconds_in, text_column
        from phimap.tables.tallies import ALL_FORMS

        column = text_column(np.array(self._numbers, dtype=object))
        return any(np.isfinite(seconds_in(column, form)).all() for form in ALL_FORMS)

    def _refuse(self, y: np.ndarray, numbers: np.ndarray) -> NoReturn:
        """Raise the error for the first target that is missing or infinite."""
        at = tuple(np.argwhere(~is_present(y))[0])
        name = self._name
        if y.ndim == 2:
            name = name[at[1]] if isinstance(name, tuple) else f"{name}[:, {at[1]}]"
        refuse_value(self._where, y[at], self._row_name(int(numbers[at[0]])), str(name))


def is_present(y: np.ndarray) -> Any:
    """The mask of the targets `y`, of any shape, that are neither NaN, nor infinite, nor empty text."""
    if y.dtype.kind == "f":
        return np.isfinite(y)
    return y != "" if y.dtype.kind == "U" else np.ones(y.shape, dtype=bool)


def refuse_value(where: str, value: Any, row: str, name: str, kind: type[DataError] = DataError) -> NoReturn:
    """Raise the error for a `value` that is missing or infinite, in data row `row`."""
    if isinstance(value, str) or np.isnan(value):
        fault = "is missing or not a number" if not isinstance(value, str) else "is missing"
        remedy = "Fill it in or drop the row"
    else:
        fault, remedy = f"is infinite ({value})", "Correct it or drop the row"
    raise kind(f"{where}: data row {row}, column {name!r} {fault}. {remedy}.")


def _numbers(texts: np.ndarray, reading: str) -> np.ndarray:
    """Convert texts (r,) to numbers (r,); see `numbers_in`."""
    from phimap.tables.amounts import numbers_in
    from phimap.tables.cells import text_column

    return numbers_in(text_column(texts), reading)
