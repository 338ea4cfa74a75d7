"""Batches of training rows: re-iterable streams of (X, y, weights)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap.config import memory_budget, size_text
from phimap.ops import Array

# Rows whose features are formed and added to the Gram matrix at a time: enough that adding a block of the sum in
# float64 costs little beside the product that forms it.
_MOST_ROWS = 4096
_LEAST_ROWS = 256
# Bytes of features that a batch may take.
_BATCH_BYTES = 256 * 2**20

# Batches of inputs that the byte budget must hold: about ten exist at a time, and the features need their part.
_BATCHES_IN_BUDGET = 32

#: Rows, their targets, and their weights, which are positive, or None where all are one.
Batch = tuple[Array, Any, np.ndarray | None]


@dataclass(frozen=True)
class ArrayBatches:
    """Rows in memory as batches; slices are views."""

    X: Array
    y: Any
    weights: np.ndarray | None
    rows: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.X.shape[0]

    def __iter__(self) -> Iterator[Batch]:
        for start in range(0, self.X.shape[0], self.rows):
            part = slice(start, start + self.rows)
            yield self.X[part], self.y[part], None if self.weights is None else self.weights[part]


def feature_rows(n_components: int, itemsize: int) -> int:
    """Rows whose features are held at a time, fixed by the width alone."""
    return int(np.clip(_BATCH_BYTES // (n_components * itemsize), _LEAST_ROWS, _MOST_ROWS))


def batch_rows(n_components: int, itemsize: int, memory: int | str | None, kept: int) -> int:
    """Rows of a batch: fixed by the width alone, unless the byte budget forces fewer.

    Parameters
    ----------
    n_components, itemsize : int
    memory : int, str or None
        Byte budget; None is the configured one.
    kept : int
        Bytes that the solver keeps beside a batch.

    Raises
    ------
    MemoryError
        If these do not fit the budget with the smallest batch.
    """
    rows = feature_rows(n_components, itemsize)
    budget = memory_budget(memory)
    while rows > _LEAST_ROWS and kept + rows * n_components * itemsize > budget:
        rows //= 2
    needed = kept + rows * n_components * itemsize
    if needed > budget:
        raise MemoryError(memory_message(n_components, needed, memory))
    return rows


def rows_within(rows: int, row_bytes: int, memory: int | str | None) -> int:
    """At most `rows` to read at a time, fewer where inputs of `row_bytes` a row would strain the byte budget.

    A batch is there several times: as it is worked on, as it is decoded, while it waits, and in float64.
    """
    return int(np.clip(memory_budget(memory) // (_BATCHES_IN_BUDGET * row_bytes), 1, rows))


def smallest_batch(n_components: int, itemsize: int) -> int:
    """Bytes of the features of the smallest batch."""
    return _LEAST_ROWS * n_components * itemsize


def memory_message(n_components: int, needed: int, memory: int | str | None) -> str:
    """What a fit that needs more bytes than the budget has to say."""
    return (
        f"a fit of `n_components`={n_components} needs {size_text(needed)}, over the budget of "
        f"{size_text(memory_budget(memory))}. Use fewer components, solver='auto', or raise `memory`."
    )


def require_reiterable(batches: Iterable[Any]) -> None:
    """Raise if `batches` can be gone through once only."""
    if iter(batches) is batches:
        raise TypeError(
            "`batches` must be iterable more than once, got a one-shot iterator: training takes two passes. "
            "Pass a list, an opened table's batches as an object with __iter__, or use partial_fit."
        )


class CheckedBatches:
    """A user's batches, each checked like the arguments of `fit` whenever they are gone through.

    Parameters
    ----------
    check : callable
        ``check(X, y, sample_weight, reset=...)`` gives the checked batch; the very first sets the width of all others.
    batches : iterable of (X, y) or (X, y, sample_weight)
        Those of no weight at all are left out.
    """

    def __init__(self, check: Callable[..., Batch], batches: Iterable[tuple[Any, ...]]):
        self._check = check
        self._batches = batches
        self._seen = False

    @property
    def n_rows(self) -> int | None:
        """Number of rows, as far as the batches tell it."""
        return getattr(self._batches, "n_rows", None)

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._batches:
            if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
                raise TypeError(
                    f"`batches` must hold pairs (X, y), or (X, y, sample_weight), got {type(batch).__name__} as one of "
                    "them. Put a single pair into a list, [(X, y)], or call fit(X, y)."
                )
            X, y, weights = self._check(*batch, reset=not self._seen)
            self._seen = True
            if X.shape[0]:
                yield X, y, weights
