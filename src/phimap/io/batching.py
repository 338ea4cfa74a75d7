"""Batches with an exact number of rows, which are made from blocks of any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

#: The features of r rows, as an array or as Arrow columns; their targets (r,) or (r, t), or None; and their row numbers
#: (r,) in the file.
Block = tuple[Any, np.ndarray | None, np.ndarray]


def in_batches(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """Yield the rows of `blocks` in batches of exactly `rows` rows; the last batch may be shorter."""
    pieces: list[Block] = []
    held = 0
    for X, y, numbers in blocks:
        start = 0
        while start < len(X):
            stop = min(start + rows - held, len(X))
            pieces.append((part(X, start, stop), None if y is None else y[start:stop], numbers[start:stop]))
            held += stop - start
            start = stop
            if held == rows:
                yield _joined(pieces)
                pieces, held = [], 0
    if pieces:
        yield _joined(pieces)


def part(X: Any, start: int, stop: int) -> Any:
    """Rows from `start` to `stop` of an array or of Arrow columns, without a copy."""
    return X[start:stop] if isinstance(X, np.ndarray) else X.slice(start, stop - start)


def chosen(X: Any, mask: np.ndarray) -> Any:
    """The rows of an array or of Arrow columns for which `mask` (r,) is true."""
    if isinstance(X, np.ndarray):
        return X[mask]
    import pyarrow as pa

    return X.filter(pa.array(mask))


def joined(parts: list[Any]) -> Any:
    """Join several arrays, or pieces of Arrow columns, along the rows."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import pyarrow as pa

    return pa.concat_tables(parts).combine_chunks()


def _joined(pieces: list[Block]) -> Block:
    """Join consecutive pieces to one batch."""
    targets = [y for _, y, _ in pieces if y is not None]
    return joined([X for X, _, _ in pieces]), joined(targets) if targets else None, joined([n for _, _, n in pieces])
