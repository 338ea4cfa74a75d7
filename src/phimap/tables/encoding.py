"""The base class of encodings, the record of an encoded column, and the error for a cell that cannot be encoded."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from phimap._files import one_line
from phimap._warnings import caller_level
from phimap.records import Record, of_number, one_of

if TYPE_CHECKING:
    from phimap.tables.cells import Cells


#: Largest encoded number. Its square must fit float32.
LARGEST = 1e18
# Largest number of currencies that a message lists.
_SHOWN = 5


class BadCell(ValueError):
    """A cell that cannot be encoded.

    Parameters
    ----------
    fault : str
        Description of the fault, such as ``"has 'x'"``.
    column : str
    row : int
        Index of the row of the cell among the rows given to the encoder.
    why : str
        The end of the message, such as a bound.
    """

    _remedy = "Correct the cell, or empty it if its value is not known."

    def __init__(self, fault: str, column: str, row: int, why: str = "") -> None:
        super().__init__(f"Input X {fault} in column {column!r} at row {row}{why}. {self._remedy}")
        self.fault = fault
        self.column = column
        self.row = row
        self.why = why

    def in_data_row(self, name: str) -> str:
        """The message for a cell of a file, whose row is called `name` in the file."""
        return f"data row {name}, column {self.column!r} {self.fault}{self.why}. {self._remedy}"


class UnreadCellsWarning(UserWarning):
    """Cells of a column of dates or numbers cannot be read, and count as missing."""


class AmbiguousDatesWarning(UserWarning):
    """Dates of a column can be read with the day first, and with the month or the year first."""


class MixedCurrenciesWarning(UserWarning):
    """Amounts of a column are not read as numbers, because they are in several currencies."""


class MixedCellsWarning(UserWarning):
    """A column is not read as numbers, although most of its cells are numbers, because of the other cells."""


def warn_of_mixed(name: str, share: float, n_others: int, cell: str | None) -> None:
    """Warn that the column `name` is not read as numbers because of `n_others` cells, such as `cell`."""
    example = "" if cell is None else f", such as {one_line(cell)!r}"
    warnings.warn(
        f"column {name!r} is read as categories or text: {100 * share:.0f} % of its cells are numbers, and "
        f"{n_others:,} are not{example}. To take these for missing, use types=... ({name}=number).",
        MixedCellsWarning,
        stacklevel=caller_level(),
    )


def warn_of_currencies(name: str, currencies: list[str]) -> None:
    """Warn that the amounts of the column `name` are not read as numbers, because they have several `currencies`."""
    warnings.warn(
        f"column {name!r}: amounts in several currencies ({', '.join(map(repr, currencies[:_SHOWN]))}) are not read as "
        f"numbers. Convert them to one currency, or read them as they are with types=... ({name}=number).",
        MixedCurrenciesWarning,
        stacklevel=caller_level(),
    )


def warn_of_units(name: str, units: list[str]) -> None:
    """Warn that the numbers of the column `name` are not read, because they have several `units`, "" for none."""
    several = ", ".join(repr(unit) if unit else "none" for unit in units)
    warnings.warn(
        f"column {name!r} is not read as numbers, because these have several units ({several}). Convert them to one.",
        MixedCellsWarning,
        stacklevel=caller_level(),
    )


def warn_of_ambiguous(name: str, example: str, order: str, other: str) -> None:
    """Warn that the dates of the column `name`, such as `example`, are read in an `order` of their parts by guess."""
    part = "year" if "year" in (order[:4], other[:4]) else "month"
    warnings.warn(
        f"column {name!r}: dates such as {example} are read as {order}, as nothing tells the day from the {part}. If "
        f"they are {other}, write them as YYYY-MM-DD.",
        AmbiguousDatesWarning,
        stacklevel=caller_level(),
    )


def warn_of_unread(name: str, n_cells: int, what: str, cell: str | None, like: str) -> None:
    """Warn that cells of the column `name`, such as `cell`, cannot be read as `what`, written as in `like`."""
    example = "" if cell is None else f", such as {one_line(cell)!r}"
    warnings.warn(
        f"column {name!r}: cells that cannot be read as {what} count as missing ({n_cells:,} of these rows{example}). "
        f"Write all cells of the column as in {like}.",
        UnreadCellsWarning,
        stacklevel=caller_level(),
    )


class Encoding(Record):
    """The conversion of the cells of a column to k numbers.

    Attributes
    ----------
    variances : ndarray of shape (k,)
        Variances of the numbers on the training rows.
    is_sparse : bool
        Whether the numbers are CSR rows.
    """

    variances: np.ndarray
    is_sparse: ClassVar[bool] = False

    @abstractmethod
    def apply(self, cells: Cells, first_row: int, folds: np.ndarray | None) -> Any:
        """Encode the cells of a column as numbers (n, k).

        The first cell is in row `first_row`; messages state row numbers.

        `folds` (n,) are the folds of training rows. The encoding of a training row must not depend on its own target.
        """

    @abstractmethod
    def names(self) -> list[str]:
        """Suffixes of the names of the k output columns."""

    def example(self) -> str:
        """A cell in the form that this encoding reads; empty if it reads any text."""
        return ""

    def amounts(self) -> np.ndarray:
        """Whether each of the k numbers is an amount, which may have a heavy tail."""
        return np.zeros(self.variances.size, dtype=bool)

    def without_folds(self) -> Self:
        """A copy of the encoding without the tables that are needed only to encode training rows."""
        return self

    def parts(self) -> np.ndarray:
        """For each of the k output columns, the number of its part. Columns of one part share a scale and a weight."""
        return np.zeros(self.variances.size, dtype=np.intp)


@dataclass(frozen=True)
class EncodedColumn(Record):
    """A column of the table and its encoding.

    Attributes
    ----------
    name : str
    kind : {"number", "boolean", "category", "many levels", "date", "text", "left out"}
    n_missing : int
        Number of missing cells in the training rows.
    note : str
        Why the column was left out, or a remark on its encoding.
    encoding : Encoding or None
        None if the column was left out.
    """

    name: str
    kind: str = field(metadata=one_of("number", "boolean", "category", "many levels", "date", "text", "left out"))
    n_missing: int = field(metadata=of_number(least=0))
    note: str
    encoding: Encoding | None = None

    def without_folds(self) -> EncodedColumn:
        """A copy of the column without the tables that are needed only to encode training rows."""
        return self if self.encoding is None else replace(self, encoding=self.encoding.without_folds())

    def names(self) -> list[str]:
        """Names of the output columns that encode this column."""
        if self.encoding is None:
            return []
        return [f"{self.name}{name}" for name in self.encoding.names()]


class ColumnSummary(NamedTuple):
    """A readable summary of how a column is encoded."""

    name: str
    kind: str
    n_columns: int
    n_missing: int
    note: str
