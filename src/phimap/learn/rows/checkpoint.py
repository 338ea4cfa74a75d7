"""Passes over rows whose results are stored, so that a stopped fit can continue."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from scipy import sparse

from phimap._files import DataError
from phimap.learn.rows.accumulator import AnyAccumulator
from phimap.learn.rows.batches import Batch
from phimap.ops import ops_for


@dataclass
class DataFingerprint:
    """Hashes of the batches of a stream, which show whether every pass reads the same batches.

    Attributes
    ----------
    digests : list of int
        First 64 bits of the SHA-256 of each batch.
    rows : list of int
        Rows of each batch.
    complete : bool
        Whether the batches of a whole pass are included.
    """

    digests: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    complete: bool = False

    @property
    def state(self) -> tuple[np.ndarray, np.ndarray, bool]:
        """The fingerprint as arrays."""
        return np.array(self.digests, np.uint64), np.array(self.rows, np.int64), self.complete

    @classmethod
    def of_state(cls, state: tuple[np.ndarray, np.ndarray, bool]) -> DataFingerprint:
        """Return the fingerprint with this `state`."""
        return cls(state[0].tolist(), state[1].tolist(), state[2])

    def check(self, index: int, batch: Batch) -> None:
        """Raise unless a batch is the same as in earlier passes; during the first pass, store its hash."""
        found = _digest(*batch)
        if index == len(self.digests) and not self.complete:
            self.digests.append(found)
            self.rows.append(batch[0].shape[0])
        elif index >= len(self.digests) or self.digests[index] != found:
            first = sum(self.rows[:index])
            raise DataError(
                f"training rows {first:,} to {first + batch[0].shape[0]:,} are not those that the checkpoint was "
                "written for. Give the same data, or another folder for checkpoints."
            )

    def finish(self, n_batches: int) -> None:
        """Raise unless a completed pass had as many batches as earlier passes."""
        if n_batches != len(self.digests):
            raise DataError(
                f"there are {sum(self.rows[:n_batches]):,} training rows, fewer than the checkpoint was written for. "
                "Give the same data, or another folder for checkpoints."
            )
        self.complete = True


@dataclass(frozen=True)
class StoredPass:
    """A pass as stored in a checkpoint.

    Attributes
    ----------
    state : object
        State of the accumulator of the pass.
    n_batches : int
        Number of batches in the state.
    complete : bool
        Whether the pass is complete.
    """

    state: Any
    n_batches: int
    complete: bool


class CheckpointStore(ABC):
    """Stores the states of accumulators, so that a stopped fit can continue."""

    @abstractmethod
    def session(self) -> AbstractContextManager[None]:
        """Open the store while a ``with`` block runs, unless the store is open already."""

    @abstractmethod
    def agree(self, part: str, values: Mapping[str, Any]) -> None:
        """Compare named values with the values of the stopped fit, and raise if they differ.

        Store the values if there was no stopped fit.
        """

    @abstractmethod
    def budget(self, memory: int | str | None) -> int:
        """Return the byte budget of the fit: `memory` if given, else the budget with which the fit was started."""

    @property
    @abstractmethod
    def fingerprint(self) -> DataFingerprint:
        """The fingerprint of the batches; new batches are added to it."""

    @abstractmethod
    def recall(self, index: int) -> StoredPass | None:
        """Return the stored pass with this index, or None; the caller may change the state of the pass."""

    @abstractmethod
    def report(self, message: str) -> None:
        """Report a message about the pass and batch at which a fit continues."""

    @abstractmethod
    def uninterrupted(self) -> AbstractContextManager[None]:
        """Delay interrupts while an accumulator is changed and recorded."""

    @abstractmethod
    def record(self, index: int, accumulator: Any, n_batches: int) -> None:
        """Record the accumulator of an unfinished pass after `n_batches` batches."""

    @abstractmethod
    def finish(self, index: int, accumulator: Any, n_batches: int) -> None:
        """Record the accumulator of a completed pass."""


class CheckpointedRows:
    """Batches whose passes are stored in a checkpoint.

    Only the accumulators of passes are stored. A fit that continues runs again from its start. A completed pass then
    returns its stored accumulator at once; everything else is computed again.

    Parameters
    ----------
    batches : iterable of (X, y, weights)
        The same batches at each iteration.
    store : CheckpointStore
    """

    def __init__(self, batches: Iterable[Batch], store: CheckpointStore):
        self._batches, self._store = batches, store
        self._index = self._n_read = 0
        self._continues = False

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if the batches do not state it."""
        return getattr(self._batches, "n_rows", None)

    def __iter__(self) -> Iterator[Batch]:
        n = 0
        for n, batch in enumerate(self._batches, 1):
            self._store.fingerprint.check(n - 1, batch)
            self._n_read = max(self._n_read, n)
            yield batch
        self._store.fingerprint.finish(n)

    def accumulate(self, start: Callable[[int], AnyAccumulator]) -> AnyAccumulator:
        """Make one pass, and return the accumulator after all rows."""
        return self.accumulate_from(lambda n: islice(iter(self), n, None), start(0))

    def accumulate_from(self, rows_from: Callable[[int], Iterator[Any]], accumulator: AnyAccumulator) -> AnyAccumulator:
        """Make one pass over ``rows_from(n)``, which gives the arguments of `accumulator.update` from batch n on."""
        store, index = self._store, self._index
        self._index += 1
        n = 0
        stored = store.recall(index)
        if stored is not None:
            self._continues = True
            if not self._n_read:
                # The first batch is checked before long work starts.
                batches: Any = iter(self)
                next(batches, None)
                batches.close()
            accumulator.resume(stored.state)
            if stored.complete:
                return accumulator
            n = stored.n_batches
        if self._continues:
            self._continues = False
            rows = store.fingerprint.rows
            of = f" of {sum(rows):,}" if store.fingerprint.complete else ""
            store.report(f"resumes at row {sum(rows[:n]):,}{of} (pass {index + 1})")
        for one in rows_from(n):
            with store.uninterrupted():
                accumulator.update(*one)
                n += 1
                store.record(index, accumulator, n)
        with store.uninterrupted():
            store.finish(index, accumulator, n)
        return accumulator

    def check_rest(self) -> None:
        """Read and check the batches that this process has not read yet, because stored passes skipped them."""
        if self._n_read < len(self._store.fingerprint.digests):
            for _ in self:
                pass
        if self._continues:
            self._store.report("resumes after the last row: every pass was complete")


def _digest(X: Any, y: Any, weights: np.ndarray | None) -> int:
    """Return the first 64 bits of the SHA-256 of a batch."""
    digest = hashlib.sha256()
    rows = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (ops_for(X).to_host(X),)
    for part in (*rows, np.asarray(y), np.empty(0) if weights is None else weights):
        digest.update(f"{part.dtype.str} {part.shape}".encode())
        if part.dtype.kind == "O":
            digest.update("\n".join(map(repr, part.ravel().tolist())).encode())
        else:
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return int.from_bytes(digest.digest()[:8], "little")
