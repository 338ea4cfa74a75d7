"""Tasks on a pool of threads, each with single-threaded BLAS, so that the number of threads changes no bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock, local
from typing import TypeVar

from threadpoolctl import ThreadpoolController

from phimap.config import thread_count

Item = TypeVar("Item")
Result = TypeVar("Result")

_inside = local()
_limit_lock = Lock()
_limit_users = 0
_limiter = None


def run_tasks(task: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None = None) -> list[Result]:
    """Call ``task(item)`` for every item on `n_jobs` threads and return the results in order.

    BLAS is limited to one thread meanwhile, also for one job, so that a result depends on how the work was cut
    into items and not on who did it. The first exception is raised once the running tasks have ended; tasks not
    yet started are dropped. A call from inside a task runs its items in that task's thread.
    """
    items = list(items)
    n_threads = min(thread_count(n_jobs), len(items))
    with single_threaded_blas():
        if n_threads <= 1 or getattr(_inside, "task", False):
            return [task(item) for item in items]
        with ThreadPoolExecutor(n_threads, initializer=_mark_inside) as pool:
            futures = [pool.submit(task, item) for item in items]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
        for future in futures:
            if not future.cancelled() and future.exception() is not None:
                raise future.exception()  # pyright: ignore[reportGeneralTypeIssues]
        return [future.result() for future in futures]


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread for a block.

    The limit belongs to the process, so blocks that overlap in time share it: the first sets it and the last
    gives back what was there.
    """
    global _limit_users, _limiter
    with _limit_lock:
        if _limit_users == 0:
            _limiter = _controller().limit(limits=1, user_api="blas")
        _limit_users += 1
    try:
        yield
    finally:
        with _limit_lock:
            _limit_users -= 1
            if _limit_users == 0 and _limiter is not None:
                _limiter.restore_original_limits()
                _limiter = None


def _mark_inside() -> None:
    _inside.task = True


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    # SciPy brings an OpenBLAS of its own, which must be loaded before the controller looks for what to limit.
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()
