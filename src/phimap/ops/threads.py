"""Tasks on a pool of threads. BLAS is single-threaded, so that results do not depend on the number of threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import cache, lru_cache
from threading import Lock, local
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from phimap.config import thread_count

Item = TypeVar("Item")
Result = TypeVar("Result")

# State of each thread: whether it runs a task, how many `single_threaded_blas` blocks it is in, and the thread counts
# to restore after them.
_inside = local()
# Maximum number of threads of the pool, which all callers share. A thread is started when it is first needed.
_MOST_HELPERS = 256


def run_tasks(task: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None = None) -> list[Result]:
    """Call ``task(item)`` for every item on `n_jobs` threads, the calling one included; return the results in order.

    Meanwhile, BLAS is limited to one thread, even for one job, so that a result depends on the items but not on the
    number of threads. After an exception, no further task is started. Once the running tasks have ended, the exception
    of the earliest failed item is raised. If a task calls this function, the items run in the thread of that task.
    """
    items = list(items)
    n_threads = min(thread_count(n_jobs), len(items))
    with single_threaded_blas():
        if n_threads <= 1 or getattr(_inside, "task", False):
            return [task(item) for item in items]
        work = _Work(task, items)
        # Each thread gets a copy of the context, and so the caller's context variables.
        helpers = [_pool().submit(copy_context().run, work.run) for _ in range(n_threads - 1)]
        try:
            with _in_task():
                work.run()
        finally:
            work.stop()
            # Other callers may occupy the pool, so helpers that have not started are cancelled instead of awaited.
            wait([helper for helper in helpers if not helper.cancel()])
        return work.finished()


class _Work:
    """A list of items from which several threads each take the next one."""

    def __init__(self, task: Callable[[Any], Any], items: list[Any]):
        self._task, self._items = task, items
        self._left = iter(range(len(items)))
        self._lock = Lock()
        self._results: list[Any] = [None] * len(items)
        self._errors: dict[int, BaseException] = {}

    def run(self) -> None:
        """Process the remaining items until none is left or one fails."""
        while (index := self._next()) is not None:
            try:
                self._results[index] = self._task(self._items[index])
            except BaseException as error:
                self._errors[index] = error
                self.stop()
                if not isinstance(error, Exception):
                    # KeyboardInterrupt and SystemExit are passed on at once.
                    raise

    def _next(self) -> int | None:
        with self._lock:
            return next(self._left, None)

    def stop(self) -> None:
        """Drop the items that no thread has started."""
        with self._lock:
            self._left = iter(())

    def finished(self) -> list[Any]:
        """Return the results, or raise the first item's exception; called once all threads have ended."""
        if self._errors:
            raise self._errors[min(self._errors)]
        return self._results


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    """Return the pool of threads, kept between calls: starting threads takes as long as a small call."""
    return ThreadPoolExecutor(_MOST_HELPERS, initializer=_begin_thread)


@contextmanager
def _in_task() -> Iterator[None]:
    """Mark this thread as running a task for the duration of a `with` block."""
    before = getattr(_inside, "task", False)
    _inside.task = True
    try:
        yield
    finally:
        _inside.task = before


@contextmanager
def one_thread() -> Iterator[None]:
    """Run a `with` block on this thread only: `run_tasks` uses no other threads and BLAS is single-threaded.

    For use inside the tasks of an external scheduler that has its own threads or processes.
    """
    with _in_task(), single_threaded_blas():
        yield


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread for the duration of a `with` block, in any thread.

    Most BLAS libraries have one setting for the process. Blocks that overlap in time share the limit: the first block
    to begin sets it and the last one to end restores the previous setting. OpenBLAS built with OpenMP has one setting
    for each thread, which each thread sets and restores for itself.
    """
    _limits.enter()
    try:
        yield
    finally:
        _limits.leave()


def single_threaded_openmp() -> AbstractContextManager[Any]:
    """Limit OpenMP, which scikit-learn uses, to one thread for the duration of a `with` block.

    With more than one thread, GNU's OpenMP waits for ever in a forked process if the parent has used several threads.
    scikit-learn must be imported before the first call, because the OpenMP libraries are looked for only once.
    """
    return _openmp().limit(limits=1)


@cache
def _openmp() -> ThreadpoolController:
    """The OpenMP libraries of the process. They are looked for once, since that takes milliseconds."""
    return ThreadpoolController().select(user_api="openmp")


class _Limits:
    """Number of active blocks with single-threaded BLAS, and the libraries' previous settings.

    `threadpoolctl` only finds the libraries. Its own limits are not used: the first thread that sets a limit for the
    process keeps control, and limits set by other threads are ignored silently.
    """

    def __init__(self):
        self._lock = Lock()
        self._users = 0
        # Previous thread counts of libraries with one setting for the process, by the library's index.
        self._before: dict[int, int] = {}

    def enter(self) -> None:
        depth = getattr(_inside, "depth", 0)
        with self._lock:
            for index, library in enumerate(_libraries()):
                # The limit is checked on every entry, because other code may have raised it in the meantime.
                if (count := library.get_num_threads()) not in (None, 1):
                    before = _of_this_thread() if _is_per_thread(library) else self._before
                    before.setdefault(index, count)
                    _set_threads(library, 1)
            self._users += 1
        _inside.depth = depth + 1

    def leave(self) -> None:
        _inside.depth -= 1
        with self._lock:
            self._users -= 1
            if not _inside.depth:
                _restore(_of_this_thread())
            if not self._users:
                _restore(self._before)

    def forked(self) -> None:
        """Reset the lock and the count in a forked process, which has only the forking thread."""
        self._lock = Lock()
        self._users = getattr(_inside, "depth", 0)


_limits = _Limits()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limits.forked)
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _of_this_thread() -> dict[int, int]:
    """Return this thread's previous thread counts of libraries with one setting for each thread."""
    if not hasattr(_inside, "before"):
        _inside.before = {}
    return _inside.before


def _restore(before: dict[int, int]) -> None:
    while before:
        index, count = before.popitem()
        _set_threads(_libraries()[index], count)


def _is_per_thread(library: Any) -> bool:
    return library.internal_api == "openblas" and library.threading_layer == "openmp"


def _set_threads(library: Any, count: int) -> None:
    """Set the number of threads, even if another thread has set it before."""
    # In threadpoolctl 3.7, a controlling thread was introduced whose setting overrides others, so control is released
    # first.
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)
    library.set_num_threads(count)
    if release is not None:
        release(force=True)


def _begin_thread() -> None:
    """Mark a new thread of the pool as running tasks and limit its own BLAS setting to one thread."""
    _inside.task = True
    for library in _libraries():
        if _is_per_thread(library):
            _set_threads(library, 1)


@lru_cache(maxsize=1)
def _libraries() -> list[Any]:
    # SciPy has its own OpenBLAS, which must be loaded before the controller looks for libraries.
    import scipy.linalg  # noqa: F401

    return ThreadpoolController().select(user_api="blas").lib_controllers
