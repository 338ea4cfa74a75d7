"""Stages of long work: their time and memory, and a progress bar where one is wanted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec

from phimap.records import Record

# In a pipe or a file, where a bar would be rows of control characters.
_SECONDS_BETWEEN_LINES = 10.0


@dataclass(frozen=True)
class Stage(Record):
    """One finished stage.

    Attributes
    ----------
    name : str
    seconds : float
    peak_bytes : int
        Highest memory of the process so far, at the stage's end.
    """

    name: str
    seconds: float
    peak_bytes: int


@dataclass
class Stages:
    """Records stages, and shows a bar for each if `verbose`."""

    verbose: bool = False
    finished: list[Stage] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Time a block; the value of the block is a function that advances the bar by a number of rows."""
        start = time.perf_counter()
        with _shown(name, total) if self.verbose else _silence() as advance:
            yield Advance(advance)
        self.finished.append(Stage(name, time.perf_counter() - start, peak_memory()))


class Advance:
    """Advances a bar by a number of rows; sent to another process, where there is no bar, it does nothing."""

    def __init__(self, advance: Callable[[int], None]):
        self._advance = advance

    def __call__(self, rows: int) -> None:
        self._advance(rows)

    def __reduce__(self) -> tuple[type[Advance], tuple[Callable[[int], None]]]:
        return Advance, (_nothing,)


def _nothing(rows: int) -> None:
    pass


@contextmanager
def _silence() -> Iterator[Callable[[int], None]]:
    yield _nothing


def _shown(name: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
    """A bar; lines where nobody would see it move, or where the library that draws bars is not installed."""
    return _bar(name, total) if sys.stderr.isatty() and find_spec("rich") else _lines(name, total)


@contextmanager
def _lines(name: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A line at the end, and at times one on the way."""
    start = told = time.perf_counter()
    done = 0

    def advance(rows: int) -> None:
        nonlocal done, told
        done += rows
        if total and time.perf_counter() - told >= _SECONDS_BETWEEN_LINES:
            told = time.perf_counter()
            sys.stderr.write(f"{name}: {done:,} of {total:,} after {told - start:.0f} s\n")
            sys.stderr.flush()

    yield advance
    sys.stderr.write(f"{name}: {time.perf_counter() - start:.1f} s\n")
    sys.stderr.flush()


@contextmanager
def _bar(name: str, total: int | None) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = [SpinnerColumn(), TextColumn("{task.description:<28}"), BarColumn(bar_width=24)]
    if total is not None:
        columns.append(MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(file=sys.stderr)) as progress:
        task = progress.add_task(name, total=total)
        yield lambda rows: progress.advance(task, rows)
        progress.update(task, completed=total or 1, total=total or 1)


def peak_memory() -> int:
    """Highest resident memory of this process so far, in bytes; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
