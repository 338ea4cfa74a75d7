"""Decodes batches of a file on a separate thread while the caller works on earlier batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from threading import Thread, current_thread
from typing import Any, TypeVar

from phimap.config import memory_budget

Item = TypeVar("Item")

# Number of batches that are read ahead. The first lets reading and work overlap. The second helps if batches take
# different times.
_BATCHES = 2
# All waiting batches together may take at most the byte budget divided by this number.
_SHARE = 16
_END: Any = object()


def read_ahead(items: Iterable[Item], *, most_bytes: int | None = None) -> Iterator[Item]:
    """Yield the same `items` in the same order, while another thread makes the next items.

    Parameters
    ----------
    items : iterable of tuples
        Tuples of arrays, Arrow tables or other objects with ``nbytes``. Only the other thread iterates over `items`.
    most_bytes : int, optional
        Largest number of bytes of two waiting items; if they are larger, only one item waits. The next items are
        assumed to be as large as the current one. Default is a sixteenth of the byte budget.

    Yields
    ------
    item : tuple

    Notes
    -----
    An exception from `items` is raised here at its position, with its traceback. The thread starts when the first item
    is requested. If the caller stops early, the thread finishes its current item and closes `items`.

    **Error.** None: order and bits of items do not change. **Cost.** Memory for two items in addition to the caller's
    current item. **Differs from the source in** nothing: a bounded queue of futures.
    """
    most_bytes = memory_budget() // _SHARE if most_bytes is None else most_bytes
    source, waiting = iter(items), deque[Future]()
    # Settings such as `numpy.errstate` belong to a context. Without a copy, the thread would have a new context.
    context, own = copy_context(), list[Thread]()
    pool = ThreadPoolExecutor(1, "phimap-reader", initializer=lambda: own.append(current_thread()))

    def run(function: Any, *arguments: Any) -> Future:
        return pool.submit(context.run, function, *arguments)

    try:
        waiting.append(run(next, source, _END))
        while (item := waiting.popleft().result()) is not _END:
            wanted = _BATCHES if _BATCHES * _size(item) <= most_bytes else 1
            waiting.extend(run(next, source, _END) for _ in range(wanted - len(waiting)))
            yield item
            # Without this deletion, the item would stay in memory while the caller waits for the next item.
            del item
    finally:
        # The garbage collector may close this generator on the reading thread itself, and a thread cannot wait for
        # itself.
        is_own = current_thread() in own
        for future in waiting:
            future.cancel()
        closed = run(getattr(source, "close", int))
        pool.shutdown(wait=not is_own)
        if not is_own:
            closed.result()


def _size(item: Any) -> int:
    """Bytes of the members of an item."""
    return sum(_bytes_of(member) for member in item)


def _bytes_of(member: Any) -> int:
    """Bytes of an array, a CSR matrix or an Arrow table."""
    if hasattr(member, "indptr"):
        return sum(getattr(member, name).nbytes for name in ("data", "indices", "indptr"))
    return getattr(member, "nbytes", 0)
