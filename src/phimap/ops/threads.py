"""Tasks on a pool of threads, each with single-threaded BLAS, so that the number of threads changes no bit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import lru_cache
from threading import Lock, local
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from phimap.config import thread_count

Item = TypeVar("Item")
Result = TypeVar("Result")

_inside = local()
# Threads of the pool at the most, however many callers there are; they are started when they are first needed.
_MOST_HELPERS = 256


def run_tasks(task: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None = None) -> list[Result]:
    """Call ``task(item)`` for every item on `n_jobs` threads, this one among them, and return the results in order.

    BLAS is limited to one thread meanwhile, also for one job, so that a result depends on how the work was cut
    into items and not on who did it. The first exception is raised once the running tasks have ended; tasks not
    yet started are dropped. A call from inside a task runs its items in that task's thread.
    """
    items = list(items)
    n_threads = min(thread_count(n_jobs), len(items))
    with single_threaded_blas():
        if n_threads <= 1 or getattr(_inside, "task", False):
            return [task(item) for item in items]
        work = _Work(task, items)
        # Settings that belong to a context hold in every thread.
        helpers = [_pool().submit(copy_context().run, work.run) for _ in range(n_threads - 1)]
        try:
            with _in_task():
                work.run()
        finally:
            work.stop()
            # Others may keep the pool busy: what has not begun has nothing left to do.
            wait([helper for helper in helpers if not helper.cancel()])
        return work.finished()


class _Work:
    """Items that several threads take one after the other."""

    def __init__(self, task: Callable[[Any], Any], items: list[Any]):
        self._task, self._items = task, items
        self._left = iter(range(len(items)))
        self._lock = Lock()
        self._results: list[Any] = [None] * len(items)
        self._errors: dict[int, BaseException] = {}

    def run(self) -> None:
        """Do what is left, as long as nothing has failed."""
        while (index := self._next()) is not None:
            try:
                self._results[index] = self._task(self._items[index])
            except BaseException as error:
                self._errors[index] = error
                self.stop()
                if not isinstance(error, Exception):
                    # An interrupt is the caller's own.
                    raise

    def _next(self) -> int | None:
        with self._lock:
            return next(self._left, None)

    def stop(self) -> None:
        """Drop what nobody has begun."""
        with self._lock:
            self._left = iter(())

    def finished(self) -> list[Any]:
        """The results, once all threads have ended."""
        if self._errors:
            raise self._errors[min(self._errors)]
        return self._results


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    """Threads that wait for tasks: to start them anew for each call would cost as much as a small call."""
    return ThreadPoolExecutor(_MOST_HELPERS, initializer=_begin_thread)


@contextmanager
def _in_task() -> Iterator[None]:
    """Mark this thread as one of tasks for a block."""
    before = getattr(_inside, "task", False)
    _inside.task = True
    try:
        yield
    finally:
        _inside.task = before


@contextmanager
def one_thread() -> Iterator[None]:
    """Do the work of a block in this thread alone: `run_tasks` starts no others, and BLAS has none.

    For work that somebody else has cut into tasks, such as a scheduler with threads or processes of its own.
    """
    with _in_task(), single_threaded_blas():
        yield


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread for a block, in whatever thread the block runs.

    Most libraries have one setting for the process, so blocks that overlap in time share the limit: the first to begin
    sets it and the last to end gives back what was there. OpenBLAS built with OpenMP has a setting for each thread,
    which each thread sets for itself.
    """
    _limits.enter()
    try:
        yield
    finally:
        _limits.leave()


class _Limits:
    """The blocks that want single-threaded BLAS, and what the libraries were set to before.

    `threadpoolctl` finds the libraries. Its own limits do not do: the first thread that sets one of the process stays
    in control of it, and what others set is ignored without a word.
    """

    def __init__(self):
        self._lock = Lock()
        self._users = 0
        # Settings by the index of the library, of the process and of this thread.
        self._before: dict[int, int] = {}

    def enter(self) -> None:
        depth = getattr(_inside, "depth", 0)
        with self._lock:
            for index, library in enumerate(_libraries()):
                # Somebody else may have raised a limit since.
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
        """Begin anew in a forked process, to which other threads did not come along."""
        self._lock = Lock()
        self._users = getattr(_inside, "depth", 0)


_limits = _Limits()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limits.forked)
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _of_this_thread() -> dict[int, int]:
    """What libraries with a setting for each thread were set to in this one."""
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
    """Set the number of threads, whichever thread has set it before."""
    # In threadpoolctl from 3.7 on; what it takes from a thread in control is one number, set anew when that one ends.
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)
    library.set_num_threads(count)
    if release is not None:
        release(force=True)


def _begin_thread() -> None:
    """Mark a thread of the pool as one of tasks, whose own BLAS setting ends with it."""
    _inside.task = True
    for library in _libraries():
        if _is_per_thread(library):
            _set_threads(library, 1)


@lru_cache(maxsize=1)
def _libraries() -> list[Any]:
    # SciPy brings an OpenBLAS of its own, which must be loaded before the controller looks for what to limit.
    import scipy.linalg  # noqa: F401

    return ThreadpoolController().select(user_api="blas").lib_controllers
