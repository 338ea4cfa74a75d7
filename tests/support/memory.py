"""Memory that a piece of work takes."""

import tracemalloc
from collections.abc import Callable
from typing import Any


def traced_peak(work: Callable[[], Any]) -> int:
    """Most bytes that Python and NumPy held during a call of `work`, beyond what they held before.

    Other threads of the process count too, such as those that a Dask cluster of another test left behind.
    """
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
