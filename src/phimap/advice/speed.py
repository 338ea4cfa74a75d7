"""Measured speed of matrix products and feature maps on this machine."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from phimap.random_map import RandomMap

# Order of the measured products. They take tens of milliseconds. BLAS reaches full speed at far smaller orders.
_ORDER = 1536
_REPEATS = 3


def product_speed(dtype: str, threads: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Speed of the fastest of three products of two square matrices, in 10^9 operations per second."""
    A = np.random.default_rng(0).random((_ORDER, _ORDER)).astype(dtype)
    out = np.empty_like(A)
    with threadpool_limits(limits=threads, user_api="blas"):
        return 2 * _ORDER**3 / best_seconds(lambda: np.matmul(A, A, out=out), clock) / 1e9


def transform_seconds(feature_map: RandomMap, X: Any) -> float:
    """Seconds that a fitted map takes to transform `X`. The first call may include compilation."""
    start = time.perf_counter()
    feature_map.transform(X)
    return time.perf_counter() - start


def best_seconds(work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Shortest of three timings of `work` with `clock`, after an untimed call that may include compilation."""
    work()
    return min(timeit.repeat(work, timer=clock, repeat=_REPEATS, number=1))
