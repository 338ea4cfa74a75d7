"""The error for a cell that cannot be encoded."""

from __future__ import annotations


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
