"""Notes about missing cells and new categories in the rows that a model of data frames predicts."""

from __future__ import annotations

from collections import Counter
from typing import Any

from phimap.tables import TableEncoder
from phimap.tables.frames import cells_of, slices
from phimap.tables.levels import LevelEncoding


class NewCells:
    """Counts the missing cells and the new categories of each column of a table."""

    def __init__(self, encoder: TableEncoder | None) -> None:
        columns = () if encoder is None else encoder.columns_
        self._n_training = 0 if encoder is None else encoder.n_rows_
        self._columns = {column.name: column for column in columns if column.encoding is not None}
        self._n_rows = 0
        self._missing, self._unknown = Counter[str](), Counter[str]()
        self._examples: dict[str, str] = {}

    def count(self, X: Any) -> None:
        """Count the cells of a frame, or of an array, of rows to predict."""
        for _, rows in slices(X) if self._columns else ():
            self._n_rows += len(rows)
            columns = cells_of(rows)
            for name, column in self._columns.items():
                cells = columns[name]
                self._missing[name] += int(cells.missing.sum())
                if isinstance(column.encoding, LevelEncoding):
                    n_cells, example = column.encoding.unknown(cells)
                    self._unknown[name] += n_cells
                    if n_cells:
                        self._examples.setdefault(name, example)

    @property
    def notes(self) -> list[str]:
        """A note for each column in which all cells are missing, some are but no training cell was, or some are new."""
        missing = [note for name in self._columns if (note := self._missing_note(name))]
        return missing + [self._unknown_note(name) for name in self._columns if self._unknown[name]]

    def _missing_note(self, name: str) -> str:
        n_cells, n_known = self._missing[name], self._columns[name].n_missing
        if not n_cells or (n_known and not n_cells == self._n_rows > 1):
            return ""
        cells = "1 cell is" if n_cells == 1 else f"{'all ' * (n_cells == self._n_rows)}{n_cells:,} cells are"
        return f"column {name!r}: {cells} missing, {n_known:,} of {self._n_training:,} in training."

    def _unknown_note(self, name: str) -> str:
        n_cells, encoding = self._unknown[name], self._columns[name].encoding
        cells = "1 cell has a category" if n_cells == 1 else f"{n_cells:,} cells have categories"
        rare = " or too rare" if isinstance(encoding, LevelEncoding) and encoding.has_rare else ""
        new = f"new{rare} for the model, such as {self._examples[name]!r}"
        return f"column {name!r}: {cells} {new}. Fit again with such rows if they are frequent."
