"""Limits of the threads of BLAS and OpenMP, so that results do not depend on the number of threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, lru_cache
from threading import Lock, local
from typing import Any

from threadpoolctl import ThreadpoolController

# How many `single_threaded_blas` blocks a thread is in, and the thread counts to restore after them.
_inside = local()


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


def limit_this_thread() -> None:
    """Limit BLAS libraries that have a setting for each thread to one thread, in a new thread."""
    for library in _libraries():
        if _is_per_thread(library):
            _set_threads(library, 1)


@lru_cache(maxsize=1)
def _libraries() -> list[Any]:
    # SciPy has its own OpenBLAS, which must be loaded before the controller looks for libraries.
    import scipy.linalg  # noqa: F401

    return ThreadpoolController().select(user_api="blas").lib_controllers
