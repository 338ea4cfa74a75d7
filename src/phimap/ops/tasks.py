"""Tasks on a pool of threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import lru_cache
from threading import Condition, local
from typing import Any, TypeVar

from phimap.config import thread_count
from phimap.ops.threads import limit_this_thread, single_threaded_blas

Item = TypeVar("Item")
Result = TypeVar("Result")

# The team for which a thread works.
_of_thread = local()
# Maximum number of threads of the pool, which all teams share. A thread is started when it is first needed.
_MOST_HELPERS = 256


def run_tasks(task: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None = None) -> list[Result]:
    """Call ``task(item)`` for every item on `n_jobs` threads, the calling one included; return the results in order.

    Meanwhile, BLAS is limited to one thread, even for one job, so that a result depends on the items but not on the
    number of threads. After an exception, no further task is started. Once the running tasks have ended, the exception
    of the earliest failed item is raised. A task may call this function, too: its items then share the threads of the
    outermost call, as soon as these have nothing else to do.
    """
    items = list(items)
    n_threads = min(thread_count(n_jobs), len(items))
    with single_threaded_blas():
        team = _team_of_thread()
        if n_threads <= 1 or (team is not None and team.is_single):
            return [task(item) for item in items]
        work = _Work(task, items, n_threads)
        if team is not None:
            return team.run(work)
        # The team may have more threads than there are items, for calls within the tasks.
        with _in_team(_Team(thread_count(n_jobs))) as team:
            return team.run(work)


class _Work:
    """The items of one call of `run_tasks`, for the calling thread and helpers. The team's lock protects the counts."""

    def __init__(self, task: Callable[[Any], Any], items: list[Any], n_threads: int):
        self._task, self._items, self._most_helpers = task, items, n_threads - 1
        self._n_started, self.n_helpers = 0, 0
        self._results: list[Any] = [None] * len(items)
        self._errors: dict[int, BaseException] = {}
        # Helpers get copies of the caller's context, and so its context variables.
        self._context = copy_context()

    @property
    def n_left(self) -> int:
        """Number of items that threads may still start; 0 after an error."""
        return 0 if self._errors else len(self._items) - self._n_started

    @property
    def wants_helper(self) -> bool:
        return self.n_left > 0 and self.n_helpers < self._most_helpers

    def start(self) -> int:
        """Return the next item's index."""
        self._n_started += 1
        return self._n_started - 1

    def stop(self) -> None:
        """Drop the items that no thread has started."""
        self._n_started = len(self._items)

    def do(self, index: int) -> None:
        """Process an item, and record its result or exception."""
        try:
            self._results[index] = self._task(self._items[index])
        except BaseException as error:
            self._errors[index] = error

    def help(self, index: int) -> None:
        """Process an item in another thread than the caller's."""
        self._context.copy().run(self.do, index)

    def results(self) -> list[Any]:
        """Return the results, or raise an exception; called once all items have ended.

        Interrupts are raised first, else the exception of the earliest item.
        """
        if self._errors:
            interrupts = [error for error in self._errors.values() if not isinstance(error, Exception)]
            raise interrupts[0] if interrupts else self._errors[min(self._errors)]
        return self._results


class _Team:
    """The threads of an outermost call of `run_tasks`. They also help with calls within its tasks.

    Parameters
    ----------
    n_threads : int
    """

    def __init__(self, n_threads: int):
        self.is_single = n_threads == 1
        self._n_idle = n_threads - 1
        # Unfinished calls, the outermost first.
        self._open: list[_Work] = []
        # Its lock protects everything here. It is notified when a helper has ended an item.
        self._ended = Condition()

    def run(self, work: _Work) -> list[Any]:
        """Process all items in this thread and in threads of the team that are idle, or become idle."""
        with self._ended:
            n_helpers = max(0, min(self._n_idle, work.n_left - 1))
            self._n_idle -= n_helpers
            self._open.append(work)
        for _ in range(n_helpers):
            _pool().submit(self._help)
        try:
            while (index := self._next_of(work)) is not None:
                work.do(index)
        finally:
            with self._ended:
                work.stop()
                self._open.remove(work)
                if work.n_helpers:
                    # While this thread waits, another one may take its place.
                    if any(one.wants_helper for one in self._open):
                        _pool().submit(self._help)
                    else:
                        self._n_idle += 1
                    self._ended.wait_for(lambda: not work.n_helpers)
                    self._n_idle -= 1
        return work.results()

    def _next_of(self, work: _Work) -> int | None:
        with self._ended:
            return work.start() if work.n_left > 0 else None

    def _help(self) -> None:
        """Process items of open calls until none is left."""
        with _in_team(self):
            while (found := self._next()) is not None:
                work, index = found
                work.help(index)
                with self._ended:
                    work.n_helpers -= 1
                    self._ended.notify_all()

    def _next(self) -> tuple[_Work, int] | None:
        """Return an item of an open call. If there is none, this thread becomes idle.

        Items of outer calls come first, because they are larger.
        """
        with self._ended:
            for work in self._open:
                if work.wants_helper:
                    work.n_helpers += 1
                    return work, work.start()
            self._n_idle += 1
            return None


@contextmanager
def one_thread() -> Iterator[None]:
    """Run a `with` block on this thread only: `run_tasks` uses no other threads and BLAS is single-threaded.

    For use inside the tasks of an external scheduler that has its own threads or processes.
    """
    with _in_team(_Team(1)), single_threaded_blas():
        yield


@contextmanager
def _in_team(team: _Team) -> Iterator[_Team]:
    """Let this thread work for a team for the duration of a `with` block."""
    before = _team_of_thread()
    _of_thread.team = team
    try:
        yield team
    finally:
        _of_thread.team = before


def _team_of_thread() -> _Team | None:
    return getattr(_of_thread, "team", None)


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    """Return the pool of threads, kept between calls: starting threads takes as long as a small call."""
    return ThreadPoolExecutor(_MOST_HELPERS, initializer=limit_this_thread)


def _forked() -> None:
    """Forget the pool and the team's lock in a forked process, which has only the forking thread."""
    _pool.cache_clear()
    if _team_of_thread() is not None:
        _of_thread.team = _Team(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
