"""The rows of a table for the commands: opening the chosen columns, splitting the rows, and encoding them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from phimap.cli.errors import complain
from phimap.cli.groups import RowGroups, RowWeights
from phimap.config import stated_budget
from phimap.io import DataError, ProportionalHoldout, Rows, open_rows
from phimap.io.batching import Block, chosen, in_batches
from phimap.io.formats import is_image_folder, parts_of
from phimap.io.images import LABEL
from phimap.io.prefetch import read_ahead
from phimap.io.source import check_file
from phimap.learn.rows.batches import rows_within
from phimap.tables import TableEncoder
from phimap.tables.encoding import BadCell


@dataclass(frozen=True)
class SplitRows:
    """Training rows or held-out rows of a table as batches (X, y), which are read again at each iteration.

    Whether a row is held out depends only on its group. Without groups, it depends on the seed, on its index among the
    usable rows and, if `by_class`, on the targets up to this row; see `phimap.io.ProportionalHoldout`. An `encoder`
    encodes the rows of a frame. It encodes each training row with targets of other rows. `n_rows` is the number of rows
    in one iteration, or None if unknown. If `kept` holds all these rows, the table is not read. With `weights`,
    batches are (X, y, weights).
    """

    table: Rows
    fraction: float
    seed: int
    by_class: bool
    batch_rows: int
    held_out: bool
    encoder: TableEncoder | None = None
    n_rows: int | None = None
    kept: Sequence[Block] | None = None
    groups: RowGroups | None = None
    weights: RowWeights | None = None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return read_ahead(self.between(0, None))

    def between(self, start: int, stop: int | None) -> Iterator[tuple[Any, ...]]:
        """Yield batches `start` to ``stop - 1``, or all from `start` on if `stop` is None.

        Earlier batches are read, too.
        """
        for index, (X, y, numbers) in enumerate(islice(in_batches(self._blocks(), self.batch_rows), stop)):
            if index >= start:
                rows = self._encoded(X, index * self.batch_rows, numbers)
                yield (rows, y) if self.weights is None else (rows, y, self.weights.of_rows(numbers))

    def _encoded(self, X: Any, first: int, numbers: np.ndarray) -> Any:
        """Encode rows `X`, whose numbers in the file are `numbers` (r,).

        The split has `first` rows before these rows.
        """
        if self.encoder is None:
            return X
        if not self.held_out:
            return self.encoder.transform_training(X, first)
        with in_terms_of(self.table.where, lambda row: self.table.row_name(int(numbers[row]))):
            return self.encoder.transform(X)

    def _blocks(self) -> Iterator[Block]:
        if self.kept is not None:
            yield from self.kept
            return
        split = ProportionalHoldout(self.fraction, self.seed, classes=self.by_class)
        for X, y, numbers in self.table.numbered_batches(self.batch_rows):
            wanted = held_out_rows(split, np.asarray(y), numbers, self.groups) == self.held_out
            yield chosen(X, wanted), np.asarray(y)[wanted], numbers[wanted]


def held_out_rows(
    split: ProportionalHoldout, y: np.ndarray, numbers: np.ndarray, groups: RowGroups | None
) -> np.ndarray:
    """Return the mask (r,) of held-out rows among the next usable rows, with these targets and numbers in the file."""
    return split.mask(y) if groups is None else groups.held_out[numbers - 1]


def open_selected(path: str, target: str | None, *, strict: bool, **chosen_columns: Any) -> Rows:
    """Open the chosen columns of a table. An image folder has only one target, which need not be named."""
    if target is None:
        if not is_image_folder(Path(path)):
            if not (".npz:" in path or parts_of(Path(path))):
                check_file(Path(path))
            raise DataError(f"{path}: which column is to be predicted? Name it with --target.")
        target = LABEL
    return open_rows(path, target, bad_rows="error" if strict else "skip", **chosen_columns)


def rows_read(table: Rows, most_rows: int, memory: str | None) -> int:
    """Number of rows of a batch: at most `most_rows`, and fewer if the table is wide."""
    return rows_within(min(most_rows, table.batch_rows), table.row_bytes, stated_budget(memory))


@contextmanager
def in_terms_of(path: str, data_row: Callable[[int], str]) -> Iterator[None]:
    """Add the names of the file and of the row to errors of an encoder; ``data_row(index)`` is the name of a row."""
    try:
        yield
    except DataError:
        raise
    except BadCell as error:
        raise DataError(f"{path}: {error.in_data_row(data_row(error.row))}") from None
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None


def note_reading(data: str, table: Rows) -> None:
    """Write notes on the detected format of a file, and on rows that were left out."""
    if table.notes:
        complain(f"{data}: {', '.join(table.notes)}.", "note")
    for note in table.skipped.notes:
        complain(f"{data}: {note}.", "note")


def check_single(path: str, table: Rows, y: np.ndarray) -> None:
    """Raise if the target has several columns, which can happen for arrays."""
    if y.ndim > 1:
        raise DataError(
            f"{path}: target {table.target_name!r} has {y.shape[1]} columns, the command line takes one. "
            "Store one alone, or fit and predict in Python."
        )
