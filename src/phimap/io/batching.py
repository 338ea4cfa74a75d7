"""Batches with an exact number of rows, made from blocks of any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

#: Features (r, d) or Arrow columns of r rows; targets (r,) or (r, t), or None; numbers (r,) of the rows in the file.
Block = tuple[Any, np.ndarray | None, np.ndarray]


def in_batches(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """The rows of `blocks` in batches of exactly `rows`, the last one shorter."""
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
    """Several arrays, or pieces of Arrow columns, joined along the rows."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import pyarrow as pa

    return pa.concat_tables(parts).combine_chunks()


def _joined(pieces: list[Block]) -> Block:
    """One batch from consecutive pieces."""
    targets = [y for _, y, _ in pieces if y is not None]
    return joined([X for X, _, _ in pieces]), joined(targets) if targets else None, joined([n for _, _, n in pieces])
