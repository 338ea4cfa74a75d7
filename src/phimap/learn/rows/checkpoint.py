"""Passes over rows that are written down, so that a fit which was stopped is taken up where it was."""

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
    """What the batches of a stream hold: they are to be the same whenever they are gone through.

    Attributes
    ----------
    digests : list of int
        First 64 bits of the SHA-256 of each batch.
    rows : list of int
        Rows of each.
    complete : bool
        Whether these are all.
    """

    digests: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    complete: bool = False

    @property
    def state(self) -> tuple[np.ndarray, np.ndarray, bool]:
        """The same as arrays."""
        return np.array(self.digests, np.uint64), np.array(self.rows, np.int64), self.complete

    @classmethod
    def of_state(cls, state: tuple[np.ndarray, np.ndarray, bool]) -> DataFingerprint:
        """Return what a `state` was made of."""
        return cls(state[0].tolist(), state[1].tolist(), state[2])

    def check(self, index: int, batch: Batch) -> None:
        """Raise unless a batch is what it was when it was gone through before; remember it if it is new."""
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
        """Raise unless a stream that has ended had as many batches as before."""
        if n_batches != len(self.digests):
            raise DataError(
                f"there are {sum(self.rows[:n_batches]):,} training rows, fewer than the checkpoint was written for. "
                "Give the same data, or another folder for checkpoints."
            )
        self.complete = True


@dataclass(frozen=True)
class StoredPass:
    """What is known of a pass.

    Attributes
    ----------
    state : object
        Of its fold.
    n_batches : int
        Batches that are in it.
    complete : bool
        Whether these are all.
    """

    state: Any
    n_batches: int
    complete: bool


class CheckpointStore(ABC):
    """What keeps the states of folds for the case that a fit is stopped."""

    @abstractmethod
    def session(self) -> AbstractContextManager[None]:
        """Make what is known ready, unless it is, and keep it so."""

    @abstractmethod
    def agree(self, part: str, values: Mapping[str, Any]) -> None:
        """Raise unless these named values are those of the fit that was stopped, if there was one; remember them."""

    @abstractmethod
    def budget(self, memory: int | str | None) -> int:
        """The byte budget of the fit: `memory` if it is given, else what it was when the fit was begun."""

    @property
    @abstractmethod
    def contents(self) -> DataFingerprint:
        """What batches are known to hold; new ones are added to it."""

    @abstractmethod
    def recall(self, index: int) -> StoredPass | None:
        """What is known of the pass of this index; the state is the caller's."""

    @abstractmethod
    def tell(self, message: str) -> None:
        """Say where a fit is taken up."""

    @abstractmethod
    def unbroken(self) -> AbstractContextManager[None]:
        """Let nothing stop the fit while a fold is changed and noted."""

    @abstractmethod
    def note(self, index: int, fold: Any, n_batches: int) -> None:
        """Take note of a fold with so many batches of a pass, which is not over."""

    @abstractmethod
    def finish(self, index: int, fold: Any, n_batches: int) -> None:
        """Take note of the fold of a pass that is over."""


class CheckpointedRows:
    """Batches whose passes are written down.

    Everything between passes follows from their folds and is computed again: a fit that is taken up runs from its
    start, and a pass that is known gives its fold at once.

    Parameters
    ----------
    batches : iterable of (X, y, weights)
        The same each time.
    journal : Journal
    prepared : callable
        Names and values of what was made of the first pass, such as the feature map.
    """

    def __init__(self, batches: Iterable[Batch], journal: CheckpointStore, prepared: Callable[[], Mapping[str, Any]]):
        self._batches, self._journal, self._prepared = batches, journal, prepared
        self._index = self._n_read = 0
        self._goes_on = False

    @property
    def n_rows(self) -> int | None:
        """Number of rows, as far as the batches tell it."""
        return getattr(self._batches, "n_rows", None)

    def __iter__(self) -> Iterator[Batch]:
        n = 0
        for n, batch in enumerate(self._batches, 1):
            self._journal.contents.check(n - 1, batch)
            self._n_read = max(self._n_read, n)
            yield batch
        self._journal.contents.finish(n)

    def fold(self, start: Callable[[int], AnyAccumulator]) -> AnyAccumulator:
        """One pass."""
        return self.fold_of(lambda n: islice(iter(self), n, None), start(0))

    def fold_of(self, rows_from: Callable[[int], Iterator[Any]], fold: AnyAccumulator) -> AnyAccumulator:
        """One pass over what ``rows_from(n)`` gives, the triples of arguments of `fold` from batch n on."""
        journal, index = self._journal, self._index
        self._index += 1
        if index == 1:
            journal.agree("prepared", self._prepared())
        n = 0
        known = journal.recall(index)
        if known is not None:
            self._goes_on = True
            if not self._n_read:
                self._read_first()
            fold.resume(known.state)
            if known.complete:
                return fold
            n = known.n_batches
        if self._goes_on:
            self._goes_on = False
            self._tell(index, n)
        for one in rows_from(n):
            with journal.unbroken():
                fold.update(*one)
                n += 1
                journal.note(index, fold, n)
        with journal.unbroken():
            journal.finish(index, fold, n)
        return fold

    def check_rest(self) -> None:
        """Read what this process has not read, where passes were known: no row may be another than before."""
        if self._n_read < len(self._journal.contents.digests):
            for _ in self:
                pass

    def _read_first(self) -> None:
        """Read one batch, which may fix what others have to be."""
        batches = iter(self)
        next(batches, None)
        batches.close()  # pyright: ignore[reportAttributeAccessIssue]

    def _tell(self, index: int, n: int) -> None:
        rows = self._journal.contents.rows
        of = f" of {sum(rows):,}" if self._journal.contents.complete else ""
        self._journal.tell(f"resumes at row {sum(rows[:n]):,}{of} (pass {index + 1})")


def _digest(X: Any, y: Any, weights: np.ndarray | None) -> int:
    """64 bits of what a batch holds."""
    digest = hashlib.sha256()
    rows = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (ops_for(X).to_host(X),)
    for part in (*rows, np.asarray(y), np.empty(0) if weights is None else weights):
        digest.update(f"{part.dtype.str} {part.shape}".encode())
        if part.dtype.kind == "O":
            digest.update("\n".join(map(repr, part.ravel().tolist())).encode())
        else:
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return int.from_bytes(digest.digest()[:8], "little")
