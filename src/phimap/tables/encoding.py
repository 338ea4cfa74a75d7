"""The interface of the encoding of a column, and the record of an encoded column."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from phimap.records import Record, of_number, one_of

if TYPE_CHECKING:
    from phimap.tables.cells import Cells


#: Largest encoded number: its square fits float32.
LARGEST = 1e18


class Encoding(Record):
    """Encodes the cells of a column as k numbers.

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
        """Numbers (n, k) of the cells of a column, the first of which is in row `first_row` for error messages.

        `folds` (n,) are given for training rows, which must not be encoded by their own targets.
        """

    @abstractmethod
    def names(self) -> list[str]:
        """A suffix for the name of the column for each of the k numbers."""

    def amounts(self) -> np.ndarray:
        """Whether each of the k numbers is a measured amount, which may have a heavy tail."""
        return np.zeros(self.variances.size, dtype=bool)

    def without_folds(self) -> Self:
        """The encoding without the tables that only training rows use."""
        return self

    def parts(self) -> np.ndarray:
        """Group of each of the k numbers; the numbers of a group share a scale and a weight."""
        return np.zeros(self.variances.size, dtype=np.intp)


@dataclass(frozen=True)
class EncodedColumn(Record):
    """A column and its encoding.

    Attributes
    ----------
    name : str
    kind : {"number", "boolean", "category", "many levels", "date", "text", "left out"}
    n_missing : int
        Number of missing cells in the training rows.
    note : str
        Why the column is left out, or a remark on its encoding.
    encoding : Encoding or None
        None if the column is left out.
    """

    name: str
    kind: str = field(metadata=one_of("number", "boolean", "category", "many levels", "date", "text", "left out"))
    n_missing: int = field(metadata=of_number(least=0))
    note: str
    encoding: Encoding | None = None

    def without_folds(self) -> EncodedColumn:
        """The column without the tables that only training rows use."""
        return self if self.encoding is None else replace(self, encoding=self.encoding.without_folds())

    def names(self) -> list[str]:
        """Names of the numbers that encode the column."""
        if self.encoding is None:
            return []
        return [f"{self.name}{name}" for name in self.encoding.names()]
