"""Predictions in the order of the file: an empty line for every row without one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from phimap.cli.model_rows import ModelRows
from phimap.io import BadRows, DataError, open_frame


def aligned(found: Iterator[tuple[pa.Table, np.ndarray]], opened: ModelRows, ids: Ids | None) -> Iterator[pa.Table]:
    """Tables of predictions with empty rows where numbers are left out, beside the `ids` of all rows.

    Parameters
    ----------
    found : iterator of (pyarrow.Table of r rows, numbers (r,))
        Predictions, and the numbers of their rows in the file, from 1 and ascending.
    opened : ModelRows
        What the predictions are made from, which tells at the end how many rows the file has.
    ids : Ids or None
    """
    done, empty = 0, None
    for predictions, numbers in found:
        if not len(numbers):
            continue
        places = np.full(numbers[-1] - done, -1)
        places[numbers - done - 1] = np.arange(len(numbers))
        yield _beside(ids, predictions.take(pa.array(places, mask=places < 0)))
        done, empty = int(numbers[-1]), predictions.schema
    if empty is None:
        raise DataError(f"no row can be predicted{opened.table.skipped.excuse}. Fill in the values.")
    if (rest := opened.table.skipped.seen - done) > 0:
        yield _beside(ids, pa.table([pa.nulls(rest, kind) for kind in empty.types], schema=empty))


class Ids:
    """Cells of one column of a file, as they are written, in step with the predictions."""

    def __init__(self, path: str, name: str) -> None:
        frame = open_frame(path, columns=[name], types={name: "text"}, bad_rows=BadRows("skip", "keep", "keep"))
        self.name: str = frame.feature_names[0]
        self._batches = frame.numbered_batches()
        self._rest: pa.ChunkedArray | None = None
        self._done = 0

    def next(self, n: int) -> pa.ChunkedArray:
        """Cells of the next `n` rows, empty where a row cannot be read."""
        pieces = [self._rest] if self._rest is not None else []
        while sum(map(len, pieces)) < n:
            batch = next(self._batches, None)
            if batch is None:
                pieces.append(pa.chunked_array([pa.nulls(n - sum(map(len, pieces)), pa.string())]))
                break
            columns, _, numbers = batch
            places = np.full(numbers[-1] - self._done, -1)
            places[numbers - self._done - 1] = np.arange(len(numbers))
            pieces.append(columns.column(0).take(pa.array(places, mask=places < 0)))
            self._done = int(numbers[-1])
        cells = pa.chunked_array([chunk for piece in pieces for chunk in piece.chunks])
        self._rest = cells.slice(n)
        return cells.slice(0, n)


def _beside(ids: Ids | None, predictions: pa.Table) -> pa.Table:
    if ids is None:
        return predictions
    if ids.name in predictions.column_names:
        raise DataError(f"--id {ids.name!r} has the name of a column of predictions. Rename it in the file.")
    return predictions.add_column(0, ids.name, ids.next(len(predictions)))
