"""Notes about categories for which a model has no encoding of their own."""

from __future__ import annotations

from collections import Counter
from typing import Any

from phimap.tables import TableEncoder
from phimap.tables.frames import cells_of, slices
from phimap.tables.levels import LevelEncoding


class NewCategories:
    """Counts, for each column of a table, the cells whose category has no encoding of its own."""

    def __init__(self, encoder: TableEncoder | None) -> None:
        columns = () if encoder is None else encoder.columns_
        self._encodings = {
            column.name: column.encoding for column in columns if isinstance(column.encoding, LevelEncoding)
        }
        self._counts = Counter[str]()
        self._examples: dict[str, str] = {}

    def count(self, X: Any) -> None:
        """Count the cells of a frame, or of an array, of rows to predict."""
        if not self._encodings:
            return
        for _, rows in slices(X):
            columns = cells_of(rows)
            for name, encoding in self._encodings.items():
                n_cells, example = encoding.unknown(columns[name])
                self._counts[name] += n_cells
                if n_cells:
                    self._examples.setdefault(name, example)

    @property
    def notes(self) -> list[str]:
        """A note for each column in which such cells were counted."""
        found = []
        for name, n_cells in self._counts.items():
            if n_cells:
                cells = "1 cell has a category" if n_cells == 1 else f"{n_cells:,} cells have categories"
                rare = " or too rare" if self._encodings[name].has_rare else ""
                new = f"new{rare} for the model, such as {self._examples[name]!r}"
                found.append(f"column {name!r}: {cells} {new}. Fit again with such rows if they are frequent.")
        return found
