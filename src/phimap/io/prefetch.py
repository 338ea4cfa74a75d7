"""Batches of a file decoded on a thread of their own, while those before them are worked on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextvars import copy_context
from threading import Condition, Thread, current_thread
from typing import Any, Generic, TypeVar

from phimap.config import memory_budget

Item = TypeVar("Item")

# One batch that waits hides the reading of the next, a second one hides that batches take unequal times.
_BATCHES = 2
# Share of the byte budget that waiting batches may take.
_SHARE = 16


def read_ahead(items: Iterable[Item], *, most_bytes: int | None = None) -> Iterator[Item]:
    """The same `items` in the same order, the next ones being made on another thread meanwhile.

    Parameters
    ----------
    items : iterable of tuples
        Of arrays, Arrow tables or what else has ``nbytes``. It is gone through on the thread alone.
    most_bytes : int, optional
        Bytes that two waiting items may take; a larger one waits alone. Default is a sixteenth of the byte budget.

    Yields
    ------
    item : tuple

    Notes
    -----
    What `items` raises is raised here in its turn, with its traceback. The thread starts with the first item that is
    asked for. If nobody asks for more, it ends with the item that it is making, and closes `items`.

    **Error.** None: the order and the bits of items are untouched. **Cost.** Two items of memory, beside the one that
    is worked on and the one that is made. **Differs from the source in** nothing: a bounded queue.
    """
    shelf: _Shelf[Item] = _Shelf(memory_budget() // _SHARE if most_bytes is None else most_bytes)
    # Settings such as those of `numpy.errstate` belong to a context, which a thread would begin anew.
    thread = Thread(target=copy_context().run, args=(shelf.fill, items), name="phimap-reader", daemon=True)
    thread.start()
    try:
        yield from shelf
    finally:
        shelf.close()
        # The collector of garbage may end this on the thread itself.
        if thread is not current_thread():
            thread.join()


class _Shelf(Generic[Item]):
    """Items between the thread that makes them and the one that takes them."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._waiting: deque[tuple[Item, int]] = deque()
        self._changed = Condition()
        self._ended = self._closed = False
        self._error: BaseException | None = None

    def fill(self, items: Iterable[Item]) -> None:
        """Put all items on the shelf, as long as there is room and somebody wants them."""
        source = iter(items)
        try:
            size = 0
            while self._has_room_for(size):
                try:
                    item = next(source)
                except StopIteration:
                    break
                size = _size(item)
                with self._changed:
                    self._waiting.append((item, size))
                    self._changed.notify_all()
                # Names would keep an item alive that is done with.
                del item
        except BaseException as error:
            self._error = error
        finally:
            try:
                _close(source)
            except BaseException as error:
                self._error = self._error or error
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def __iter__(self) -> Iterator[Item]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                if not self._waiting:
                    break
                item = self._waiting.popleft()[0]
                self._changed.notify_all()
            yield item
            del item
        error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Want no more items."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _has_room_for(self, size: int) -> bool:
        """Wait until an item of about this size may be made; False if none is wanted any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._fits(size))
            return not self._closed

    def _fits(self, size: int) -> bool:
        held = sum(n_bytes for _, n_bytes in self._waiting)
        return not self._waiting or (len(self._waiting) < _BATCHES and held + size <= self._most_bytes)


def _size(item: Any) -> int:
    """Bytes of the members of an item."""
    return sum(_bytes_of(member) for member in item)


def _bytes_of(member: Any) -> int:
    """Bytes of an array, a CSR matrix or an Arrow table."""
    if hasattr(member, "indptr"):
        return sum(getattr(member, name).nbytes for name in ("data", "indices", "indptr"))
    return getattr(member, "nbytes", 0)


def _close(source: Any) -> None:
    if hasattr(source, "close"):
        source.close()
