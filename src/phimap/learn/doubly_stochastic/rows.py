"""Mini-batches of rows: in random order where rows are in memory, else as the stream has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd

import numpy as np
from scipy import sparse

from phimap.learn.rows.batches import Batch
from phimap.learn.rows.weights import joined_weights
from phimap.ops import Array, ops_for

# Rows of a batch: enough that products are at full speed and a step costs little beside its features; and steps of an
# epoch, which fewer rows get by smaller batches.
_MOST_ROWS, _LEAST_ROWS, _STEPS = 4096, 512, 8


def rows_of_batch(n_rows: int) -> int:
    """Rows of a mini-batch for a training set of `n_rows`."""
    return int(np.clip(n_rows // _STEPS, _LEAST_ROWS, _MOST_ROWS))


def in_random_order(
    X: Array, y: np.ndarray, weights: np.ndarray | None, rows: int, rng: np.random.Generator
) -> Iterator[Batch]:
    """All rows once, in batches of about `rows`, which are copied.

    Their numbers are an arithmetic progression modulo n with a random start and a random step: it takes no memory, and
    rows that are neighbours, in sorted tables mostly alike, are far from each other.
    """
    n = X.shape[0]
    step = int(rng.integers(1, n)) if n > 1 else 1
    while gcd(step, n) > 1:
        step = int(rng.integers(1, n))
    start = int(rng.integers(n))
    bounds = np.linspace(0, n, -(-n // rows) + 1).astype(np.int64)
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        chosen = (start + step * np.arange(first, last)) % n
        yield X[chosen], y[chosen], None if weights is None else weights[chosen]


def in_order_of_stream(batches: Iterable[Batch], rows: int) -> Iterator[Batch]:
    """Batches of at most `rows` rows, and of half as many at least but for the last one."""
    pieces: list[Batch] = []
    held = 0
    for X, y, weights in batches:
        for first in range(0, X.shape[0], rows):
            part = slice(first, first + rows)
            piece = (X[part], y[part], None if weights is None else weights[part])
            size = piece[0].shape[0]
            if held and held + size > rows:
                yield _joined(pieces)
                pieces, held = [], 0
            pieces.append(piece)
            held += size
    if pieces:
        yield _joined(pieces)


def _joined(pieces: list[Batch]) -> Batch:
    """One batch from consecutive ones, on the host where they are several."""
    if len(pieces) == 1:
        return pieces[0]
    parts = [X for X, _, _ in pieces]
    X = (
        sparse.vstack(parts).tocsr()
        if sparse.issparse(parts[0])
        else np.concatenate([ops_for(p).to_host(p) for p in parts])
    )
    targets = np.concatenate([y for _, y, _ in pieces])
    return X, targets, joined_weights([w for _, _, w in pieces], [part.shape[0] for part in parts])
