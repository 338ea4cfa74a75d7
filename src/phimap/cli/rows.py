"""The rows of a table as the command line needs them: opened on the chosen columns, split, and encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from phimap.cli.errors import complain
from phimap.cli.options import FitOptions
from phimap.io import DataError, MixedTable, Rows, holdout_mask, open_frame, open_table
from phimap.io.batching import Block, chosen, in_batches
from phimap.io.folders import is_image_folder, parts_of
from phimap.io.images import LABEL
from phimap.io.prefetch import read_ahead
from phimap.io.source import check_file
from phimap.tables import TableEncoder
from phimap.tables.bad_cell import BadCell


@dataclass(frozen=True)
class SplitRows:
    """Training rows, or held-out rows, of a table as batches (X, y): read anew on each iteration.

    Which rows are held out depends on their index among the rows that are not left out, and on the seed, alone. Rows
    of a frame are encoded, those to train on by the targets of others, where an `encoder` is given. `n_rows` are
    to come in one iteration, None if that is not known. Where all of these rows were `kept`, the table is not read.
    """

    table: Rows
    fraction: float
    seed: int
    batch_rows: int
    held_out: bool
    encoder: TableEncoder | None = None
    n_rows: int | None = None
    kept: Sequence[Block] | None = None

    def __iter__(self) -> Iterator[tuple[Any, np.ndarray]]:
        return read_ahead(self.between(0, None))

    def between(self, start: int, stop: int | None) -> Iterator[tuple[Any, np.ndarray]]:
        """The batches from number `start` on to before `stop`, which is read up to there; None goes on to the end."""
        for index, (X, y, numbers) in enumerate(islice(in_batches(self._blocks(), self.batch_rows), stop)):
            if index >= start:
                yield self._encoded(X, index * self.batch_rows, numbers), y  # pyright: ignore[reportReturnType]

    def _encoded(self, X: Any, first: int, numbers: np.ndarray) -> Any:
        """Numbers of the rows `numbers` (r,) of the file, before which come `first` others of the split."""
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
        start = 0
        for X, y, numbers in self.table.numbered_batches(self.batch_rows):
            wanted = holdout_mask(start, len(X), self.fraction, self.seed) == self.held_out
            start += len(X)
            yield chosen(X, wanted), np.asarray(y)[wanted], numbers[wanted]


def open_selected(path: str, options: FitOptions, *, mixed: bool = False) -> Rows:
    """Open a table on the chosen feature columns: as numbers if it holds nothing else, or as `mixed` columns.

    A folder of images needs no target: it has one only.
    """
    target = options.target
    if target is None:
        if not is_image_folder(Path(path)):
            if not (".npz:" in path or parts_of(Path(path))):
                check_file(Path(path))
            raise DataError(f"{path}: which column is to be predicted? Name it with --target.")
        target = LABEL
    chosen_columns = {"columns": options.columns, "drop": options.drop, "types": options.types}
    bad_rows = "error" if options.strict else "skip"
    if not mixed and not options.types:
        try:
            return open_table(
                path,
                target,
                **chosen_columns,
                bad_rows=bad_rows,
                dtype=options.dtype,
                size=options.size,
                channels=options.channels,
            )
        except MixedTable:
            pass
    return open_frame(path, target, **chosen_columns, bad_rows=bad_rows)


@contextmanager
def in_terms_of(path: str, data_row: Callable[[int], str]) -> Iterator[None]:
    """Errors of the encoder name the file, and rows that it was given by what they are called there, `data_row`."""
    try:
        yield
    except DataError:
        raise
    except BadCell as error:
        raise DataError(f"{path}: {error.in_data_row(data_row(error.row))}") from None
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None


def tell_of(data: str, table: Rows) -> None:
    """Say in a few lines what was recognised of a file, and which rows were left out."""
    if table.notes:
        complain(f"{data}: {', '.join(table.notes)}.", "note")
    for note in table.skipped.notes:
        complain(f"{data}: {note}.", "note")


def check_single(path: str, table: Rows, y: np.ndarray) -> None:
    """Refuse a target of several columns, as an array may hold."""
    if y.ndim > 1:
        raise DataError(
            f"{path}: target {table.target_name!r} has {y.shape[1]} columns, the command line takes one. "
            "Store one alone, or fit and predict in Python."
        )
