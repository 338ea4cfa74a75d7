"""Columns that are not features: ``--groups`` or ``--time``, which determine the held-out rows, and ``--weights``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap._files import one_line
from phimap.io import BadRows, DataError, open_frame
from phimap.io.columns import MissingColumnError, closest_first
from phimap.learn.rows.units import units_of
from phimap.tables.amounts import numbers_in
from phimap.tables.cells import text_column
from phimap.tables.moments import moments_of


@dataclass(frozen=True)
class RowGroups:
    """The group, or the moment in time, of every row of a file.

    Attributes
    ----------
    values : ndarray of shape (n_rows,)
        Cells of the column: numbers if all cells are numbers or moments, else texts; a missing cell is NaN or "".
    where : str
        The file and the column, for messages.
    in_time : bool
        Whether the values are moments.
    held_out : ndarray of bool, shape (n_rows,)
        Whether a row is held out for the score. The rows of a group are held out together; in time, the last rows are
        held out.
    """

    values: np.ndarray
    where: str
    in_time: bool
    held_out: np.ndarray

    @classmethod
    def read(
        cls,
        path: str,
        data: str,
        groups: str | None,
        time: str | None,
        holdout: float = 0.0,
        seed: int = 0,
        target: str | None = None,
    ) -> RowGroups | None:
        """Read the column from the file at `path`, called `data` in messages; None if neither column is given.

        A message about a missing column does not offer the `target`.
        """
        if groups is not None and time is not None:
            raise ValueError("--groups and --time cannot be used together, got both. Leave one out.")
        name = groups if time is None else time
        if name is None:
            return None
        option = "groups" if time is None else "time"
        cells, where = _cells(path, name, data, option, target), f"{data}: column {name!r}"
        values = (
            _numbers_or_texts(cells) if time is None else moments_of(cells, where, lambda row: f"data row {row + 1}")
        )
        n_held_out, held_out = round(holdout * len(values)), np.zeros(len(values), bool)
        if n_held_out:
            units = units_of(values, len(values), seed, last=time is not None)
            assert units is not None
            held_out[units.held_out(n_held_out)[0]] = True
        return cls(values, where, time is not None, held_out)

    def of_rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return the values (r,) of the rows with these numbers in the file, from 1."""
        found = self.values[numbers - 1]
        missing = np.isnan(found) if found.dtype.kind == "f" else found == ""
        if missing.any():
            raise DataError(
                f"{self.where} has no value in data row {int(numbers[missing.argmax()])}. Fill it in, or leave the row "
                "out."
            )
        return found


@dataclass(frozen=True)
class RowWeights:
    """The weight of every row of a file.

    Attributes
    ----------
    values : ndarray of shape (n_rows,)
        NaN where the cell is missing or not a number.
    where : str
        The file and the column, for messages.
    """

    values: np.ndarray
    where: str

    @classmethod
    def read(cls, path: str, data: str, name: str | None, target: str | None = None) -> RowWeights | None:
        """Read the column from the file at `path`, called `data` in messages; None without a name."""
        if name is None:
            return None
        cells = _cells(path, name, data, "weights", target)
        values = numbers_in(text_column(cells), ".")
        unread = np.isnan(values) & (cells != "")
        if unread.any():
            raise DataError(
                f"{data}: column {name!r} must hold a weight of at least 0 in every row, got "
                f"{one_line(cells[row := int(unread.argmax())])!r} in data row {row + 1}. Correct it, or name another "
                "column."
            )
        return cls(values, f"{data}: column {name!r}")

    def of_rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return the weights (r,) of the rows with these numbers in the file, from 1."""
        found = self.values[numbers - 1]
        bad = ~(found >= 0)
        if bad.any():
            row = int(bad.argmax())
            got = "none" if np.isnan(found[row]) else f"{found[row]:g}"
            raise DataError(
                f"{self.where} must hold a weight of at least 0 in every row, got {got} in data row "
                f"{int(numbers[row])}. Correct it, or leave the row out."
            )
        return found


def _cells(path: str, name: str, data: str, option: str, target: str | None) -> np.ndarray:
    """Return the cells of a column as texts, in the order of the rows of the file; missing cells are ""."""
    try:
        frame = open_frame(path, columns=[name], types={name: "text"}, bad_rows=BadRows("skip", "keep", "keep"))
    except MissingColumnError as error:
        others = closest_first(name, [one for one in error.names if one != target])
        raise DataError(f"{data}: no {option} column {name!r}. Choose from {others}.") from None
    if frame.feature_names[0] == target:
        raise DataError(f"{data}: --{option} must name another column than the target, got {name!r}. Leave it out.")
    parts, last = [], 0
    for columns, _, numbers in frame.numbered_batches():
        cells = np.full(int(numbers[-1]) - last, "", dtype=object)
        cells[numbers - last - 1] = ["" if cell is None else str(cell) for cell in columns.column(0).to_pylist()]
        parts.append(cells)
        last = int(numbers[-1])
    return np.concatenate([np.empty(0, object), *parts]).astype(str)


def _numbers_or_texts(cells: np.ndarray) -> np.ndarray:
    try:
        return np.where(cells == "", "nan", cells).astype(np.float64)
    except ValueError:
        return cells
