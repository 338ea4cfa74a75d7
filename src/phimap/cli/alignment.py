"""Predictions in the order of the file, with an empty line for each row without a prediction."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from phimap.cli.model_rows import ModelRows
from phimap.io import BadRows, DataError, open_frame


def aligned(found: Iterator[tuple[pa.Table, np.ndarray]], opened: ModelRows, ids: Ids | None) -> Iterator[pa.Table]:
    """Yield tables of predictions, with an empty row for each row of the file that has no prediction.

    If `ids` are given, they form the first column.

    Parameters
    ----------
    found : iterator of (pyarrow.Table of r rows, numbers (r,))
        Predictions, and the numbers of their rows in the file, from 1 and ascending.
    opened : ModelRows
        The rows to predict. Once all have been read, `opened` has the number of rows in the file.
    ids : Ids or None
    """
    done, empty = 0, None
    for predictions, numbers in found:
        if len(numbers):
            yield _beside(ids, predictions.take(_places(numbers, done)))
            done, empty = int(numbers[-1]), predictions.schema
    if empty is None:
        raise DataError(f"no row can be predicted{opened.table.skipped.excuse}. Fill in the values.")
    if (rest := opened.table.skipped.seen - done) > 0:
        yield _beside(ids, pa.table([pa.nulls(rest, kind) for kind in empty.types], schema=empty))


class Ids:
    """The cells of one column of a file as text, which are read together with the predictions."""

    def __init__(self, path: str, name: str) -> None:
        frame = open_frame(path, columns=[name], types={name: "text"}, bad_rows=BadRows("skip", "keep", "keep"))
        self.name: str = frame.feature_names[0]
        self._batches = frame.numbered_batches()
        self._rest = pa.array([], pa.string())
        self._done = 0

    def next(self, n: int) -> pa.Array:
        """Return the cells of the next `n` rows; rows that cannot be read have empty cells."""
        while len(self._rest) < n:
            block = next(self._batches, None)
            if block is None:
                cells = pa.nulls(n - len(self._rest), self._rest.type)
            else:
                columns, _, numbers = block
                cells = columns.column(0).take(_places(numbers, self._done)).cast(self._rest.type)
                self._done = int(numbers[-1])
            self._rest = pa.chunked_array([self._rest, *getattr(cells, "chunks", [cells])]).combine_chunks()
        cells, self._rest = self._rest.slice(0, n), self._rest.slice(n)
        return cells


def _places(numbers: np.ndarray, done: int) -> pa.Array:
    """For each row of a file from number `done` + 1 to ``numbers[-1]``, its index in `numbers` (r,), or a null."""
    places = np.full(numbers[-1] - done, -1)
    places[numbers - done - 1] = np.arange(len(numbers))
    return pa.array(places, mask=places < 0)


def _beside(ids: Ids | None, predictions: pa.Table) -> pa.Table:
    if ids is None:
        return predictions
    if ids.name in predictions.column_names:
        raise DataError(f"--id {ids.name!r} has the name of a column of predictions. Rename it in the file.")
    return predictions.add_column(0, ids.name, ids.next(len(predictions)))
