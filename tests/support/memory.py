"""Memory that a piece of work takes."""

import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple


class Traced(NamedTuple):
    """Most bytes that Python and NumPy held during a piece of work, beyond what they held before, and its result."""

    peak: int
    result: Any


def traced(work: Callable[[], Any]) -> Traced:
    """Call `work` while the memory of all threads is traced.

    Threads that another test left behind, such as those of a Dask cluster, count too.
    """
    tracemalloc.start()
    try:
        result = work()
        return Traced(tracemalloc.get_traced_memory()[1], result)
    finally:
        tracemalloc.stop()
