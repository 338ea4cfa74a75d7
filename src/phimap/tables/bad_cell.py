"""The error for a cell that cannot be encoded."""

from __future__ import annotations


class BadCell(ValueError):
    """A cell that cannot be encoded.

    Parameters
    ----------
    fault : str
        The fault as a verb and its object, such as ``"has 'x'"``.
    column : str
    row : int
        Number of its row in the input of the encoder, from 0.
    why : str
        Further explanation at the end of the sentence.
    """

    _remedy = "Correct the cell, or empty it if its value is not known."

    def __init__(self, fault: str, column: str, row: int, why: str = "") -> None:
        super().__init__(f"Input X {fault} in column {column!r} at row {row}{why}. {self._remedy}")
        self.fault = fault
        self.column = column
        self.row = row
        self.why = why

    def in_data_row(self, name: str) -> str:
        """The message for a cell of a file, with the `name` that the file's row has."""
        return f"data row {name}, column {self.column!r} {self.fault}{self.why}. {self._remedy}"
