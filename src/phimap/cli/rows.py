"""The rows of a table as the command line needs them: opened on the chosen columns, and split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from phimap.io import DataError, Table, holdout_mask, open_table
from phimap.io.images import LABEL
from phimap.io.source import check_file


@dataclass(frozen=True)
class SplitRows:
    """Training rows, or held-out rows, of a table as batches (X, y): read anew on each iteration.

    Which rows are held out depends on their index in the file and on the seed alone.
    """

    table: Table
    fraction: float
    seed: int
    batch_rows: int
    held_out: bool

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        start = 0
        kept: tuple[np.ndarray, np.ndarray] | None = None
        for X, y in self.table.batches(self.batch_rows):
            wanted = holdout_mask(start, len(X), self.fraction, self.seed) == self.held_out
            start += len(X)
            X, y = X[wanted], np.asarray(y)[wanted]
            if kept is not None:
                X, y = np.concatenate([kept[0], X]), np.concatenate([kept[1], y])
            if len(X) >= self.batch_rows:
                yield X[: self.batch_rows], y[: self.batch_rows]
                X, y = X[self.batch_rows :], y[self.batch_rows :]
            kept = X, y
        if kept is not None and len(kept[0]):
            yield kept


def open_selected(
    path: str, target: str | None, columns: Sequence[str] | None, drop: Sequence[str] | None, **options: Any
) -> Table:
    """Open a table on the chosen feature columns, with these `options` of `open_table`.

    A folder of images needs no `target`: it has one only.
    """
    if target is None:
        if not Path(path).is_dir():
            if ".npz:" not in path:
                check_file(Path(path))
            raise DataError(f"{path}: which column is to be predicted? Name it with --target.")
        target = LABEL
    return open_table(path, target, columns=columns, drop=drop, **options)


def check_single(path: str, table: Table, y: np.ndarray) -> None:
    """Refuse a target of several columns, as an array may hold."""
    if y.ndim > 1:
        raise DataError(
            f"{path}: target {table.target_name!r} has {y.shape[1]} columns, the command line takes one. "
            "Store one alone, or fit and predict in Python."
        )
