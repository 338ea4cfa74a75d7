"""Held-out rows that are exact copies of training rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

# Copies are looked for among at most this number of rows, whose hashes take 8 MB, and only if the rows have at most
# this number of columns.
_MOST_ROWS, _MOST_COLUMNS = 1_000_000, 200
# Copies are reported only if they are at least this many of the held-out rows, and at least this share of them.
_LEAST_ROWS, _LEAST_SHARE = 5, 0.05
# Rows of columns with few distinct values are alike by chance. Copies are reported only if the number of distinct
# values of some column is at least this share of the number of distinct rows.
_LEAST_TELLING = 0.5
# An odd factor with mixed bits, 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming, 6.4).
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class CopiedRows:
    """Hashes of the rows of a table, block by block."""

    def __init__(self) -> None:
        self._hashes: list[tuple[np.ndarray, np.ndarray]] = []
        self._n_rows, self._tells = 0, True

    def update(self, X: Any, y: np.ndarray, held_out: np.ndarray) -> None:
        """Add rows `X` (r, d) with targets `y` (r,), of which some are held out."""
        if not len(y) or self._n_rows >= _MOST_ROWS or not self._tells:
            return
        columns = None if sparse.issparse(X) or X.shape[1] > _MOST_COLUMNS or len(X.shape) > 2 else [*_codes(X, y)]
        rows = np.zeros(len(y), np.uint64)
        for column in columns or ():
            rows = (rows ^ column) * _FACTOR
            rows ^= rows >> np.uint64(32)
        if not self._n_rows:
            most = max((np.unique(column).size for column in columns or ()), default=0)
            self._tells: bool = most >= _LEAST_TELLING * np.unique(rows).size
        self._n_rows += len(y)
        self._hashes.append((rows[held_out], rows[~held_out]))

    def message(self) -> str | None:
        """A message on the held-out rows that are copies of training rows; None if they are few."""
        if not self._tells or not self._hashes:
            return None
        held_out, trained = (np.concatenate(parts) for parts in zip(*self._hashes, strict=True))
        n_copies = int(np.isin(held_out, trained).sum())
        if n_copies < max(_LEAST_ROWS, _LEAST_SHARE * held_out.size):
            return None
        return (
            f"{n_copies:,} of {held_out.size:,} held-out rows are exact copies of training rows, so the error on "
            "new rows is larger. Drop duplicates, or hold them out together with --groups."
        )


def _codes(X: Any, y: np.ndarray) -> Iterator[np.ndarray]:
    """Yield numbers (r,) for the cells of each column, and then for the targets; equal cells have equal numbers."""
    for column in [*(X.T if isinstance(X, np.ndarray) else X.columns), y]:
        cells = pa.array(column) if isinstance(column, np.ndarray) else column
        cells = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
        if pa.types.is_floating(cells.type) or pa.types.is_integer(cells.type):
            numbers = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            yield np.ascontiguousarray(numbers).view(np.uint64)
            continue
        found = cells if pa.types.is_dictionary(cells.type) else cells.dictionary_encode()
        known = np.array([*map(hash, found.dictionary.to_pylist()), 0], np.int64).view(np.uint64)
        yield known[found.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)]
