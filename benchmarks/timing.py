"""Times of tasks that take turns."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

# Threads of OpenBLAS wait for the next product, each on a core of its own; a tenth of a second was measured.
_PAUSE = 0.15
# Seconds of a turn at the least: after a pause the caches are another's, and a short task would be timed without them.
_TURN = 0.05


class Seconds(NamedTuple):
    """By the clock, and of all threads."""

    clock: float
    cpu: float


def timed(task: Callable[[], Any]) -> tuple[Any, Seconds]:
    """What a task gives and takes, begun when the threads of the one before are idle."""
    time.sleep(_PAUSE)
    return _measured(task)


def _measured(task: Callable[[], Any]) -> tuple[Any, Seconds]:
    clock, cpu = time.perf_counter(), time.process_time()
    result = task()
    return result, Seconds(time.perf_counter() - clock, time.process_time() - cpu)


def least_seconds(tasks: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, Seconds]:
    """The least of each task, after one round that is not counted.

    Every round has an order of its own: a machine takes free memory back at intervals, and would meet the same task.
    """
    found: dict[str, list[Seconds]] = {name: [] for name in tasks}
    orders = random.Random(0)
    for number in range(rounds + 1):
        for name, task in orders.sample(list(tasks.items()), len(tasks)):
            turn: list[Seconds] = []
            time.sleep(_PAUSE)
            while sum(one.clock for one in turn) < _TURN:
                # What the task gave is freed here: the next one would pay for memory of its own.
                turn.append(_measured(task)[1])
            if number:
                found[name] += turn
    return {name: Seconds(*map(min, zip(*rows, strict=True))) for name, rows in found.items()}


def clock_times(tasks: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The same by the clock alone."""
    return {name: least.clock for name, least in least_seconds(tasks, rounds).items()}
