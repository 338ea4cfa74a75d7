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
#: Numbers as people write them: with decimal points or commas, and with separators between thousands.
NUMBER = re.compile(r"\s*[-+]?(?:\d+(?:[.,' \u00a0\u202f]\d+)*[.,]?|[.,]\d+)(?:[eE][-+]?\d+)?\s*")


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
        Whether the user declares that the target holds labels; then numbers may be text.
    row_name : callable
        ``row_name(number)`` is the name of a row in messages.
    """

    def __init__(
        self, where: str, name: Any, policy: str, *, labels: bool = False, row_name: Callable[[int], str] = str
    ) -> None:
        self._where = where
        self._row_name = row_name
        self._name = name
        self._policy = policy
        self._labels = labels
        self._n_numbers = self._n_others = 0
        self._shown: list[str] = []

    def read(self, y: np.ndarray | None) -> np.ndarray | None:
        """Return the targets `y`; if missing targets are allowed, marks such as ``NA`` are replaced by empty text."""
        if y is None or y.dtype.kind != "U" or self._policy == "error" or self._labels:
            return y
        return np.where(np.isin(y, MISSING_MARKS), "", y)

    def kept(self, y: np.ndarray | None, numbers: np.ndarray, skipped: Skipped) -> np.ndarray | None:
        """Return the mask (r,) of the rows that are kept, which depends on their targets `y`; None if all are kept."""
        if y is None or y.dtype.kind not in "fU":
            return None
        present = is_present(y)
        if y.dtype.kind == "U" and not self._labels:
            self._count(y, numbers)
        if present.all():
            return None
        if self._policy == "error" or (y.dtype.kind == "f" and np.isinf(y).any()):
            self._refuse(y, numbers)
        if self._policy == "keep":
            return None
        mask = present if present.ndim == 1 else present.all(axis=1)
        skipped.drop(numbers[~mask], f"a missing target {self._name!r}")
        return mask

    def _count(self, y: np.ndarray, numbers: np.ndarray) -> None:
        values, first, counts = np.unique(y, return_index=True, return_counts=True)
        for value, place, count in sorted(zip(values.tolist(), first, counts, strict=True), key=lambda one: one[1]):
            if NUMBER.fullmatch(value):
                self._n_numbers += int(count)
            elif value:
                self._n_others += int(count)
                if len(self._shown) < _SHOWN:
                    self._shown.append(f"{one_line(value)!r} in data row {self._row_name(int(numbers[place]))}")

    def finish(self) -> None:
        """Raise if a column of text consists mostly of numbers, because each number would become a class."""
        total = self._n_numbers + self._n_others
        if not total or self._n_numbers < _MOSTLY_NUMBERS * total:
            return
        if self._n_others:
            more = "" if self._n_others <= len(self._shown) else f" and {self._n_others - len(self._shown):,} more"
            fault = f"holds numbers but for {', '.join(self._shown)}{more}. Correct these cells or empty them"
        else:
            fault = "holds numbers that are written as text. Write them without marks between thousands"
        raise DataError(
            f"{self._where}: target column {self._name!r} {fault}, or take it as labels with types=... "
            f"({self._name}=category)."
        )

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
