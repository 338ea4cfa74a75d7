"""Stages of long computations: their time and memory, and an optional progress bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Generic, TypeVar

from phimap._number_text import number_text
from phimap._printable import printable
from phimap.records import Record

Batch = TypeVar("Batch", bound=tuple[Any, ...])

# Seconds between two progress lines if the output is not a terminal. A bar would print control characters there.
_SECONDS_BETWEEN_LINES = 10.0


@dataclass(frozen=True)
class Stage(Record):
    """One finished stage.

    Attributes
    ----------
    name : str
    seconds : float
        Wall-clock time.
    peak_bytes : int
        Peak memory of the process from its start to the end of the stage.
    """

    name: str
    seconds: float
    peak_bytes: int


@dataclass
class Stages:
    """A recorder of stages, which shows a progress bar for each stage if `verbose`."""

    verbose: bool | int = False
    finished: list[Stage] = field(default_factory=list)

    def tell(self, text: str, verbose: int = 2) -> None:
        """Write a line between stages if the recorder is at least as `verbose` as given here."""
        if self.verbose >= verbose:
            _write_line(text)

    @contextmanager
    def stage(self, name: str, total: int | None = None, unit: str | None = None) -> Iterator[Callable[[int], None]]:
        """Time a ``with`` block, which receives a function that advances the bar by a number of steps.

        Parameters
        ----------
        name : str
        total : int, optional
            Number of steps; None if not known.
        unit : str, optional
            Name of a step in the text of the rate, such as ``"rows"``; None shows no rate.
        """
        start = time.perf_counter()
        with _shown(name, total, unit) if self.verbose else nullcontext(_nothing) as advance:
            yield Advance(advance)
        self.finished.append(Stage(name, time.perf_counter() - start, peak_memory()))


class Watched(Generic[Batch]):
    """An iterable over batches that reports the rows of each batch once it has been processed.

    Parameters
    ----------
    batches : iterable of tuples
        The first item of each tuple holds rows. Must be re-iterable if this object is iterated more than once.
    advance : callable
        ``advance(rows)`` is called for each batch when the next batch is requested.
    """

    def __init__(self, batches: Iterable[Batch], advance: Callable[[int], None]):
        self._batches, self._advance = batches, advance

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._batches:
            yield batch
            self._advance(batch[0].shape[0])


def rate_text(done: int, seconds: float, unit: str | None) -> str:
    """Steps per second, such as ``"56,000 rows/s"``; empty without a unit, steps or time."""
    if unit is None or not done or seconds <= 0:
        return ""
    rate = done / seconds
    return f"{number_text(rate, 3)} {unit}/s"


def left_text(done: int, total: int | None, seconds: float) -> str:
    """Remaining time at the mean rate so far, such as ``"2 min 40 s left"``; empty if unknown or nothing remains."""
    if not total or not done or done >= total:
        return ""
    left = round(seconds * (total - done) / done)
    hours, minutes = left // 3600, left % 3600 // 60
    if hours:
        return f"{hours} h {minutes} min left"
    return f"{minutes} min {left % 60} s left" if minutes else f"{left} s left"


class Advance:
    """A function that advances a bar by a number of rows; pickled for another process, it does nothing."""

    def __init__(self, advance: Callable[[int], None]):
        self._advance = advance

    def __call__(self, rows: int) -> None:
        self._advance(rows)

    def __reduce__(self) -> tuple[type[Advance], tuple[Callable[[int], None]]]:
        return Advance, (_nothing,)


def _nothing(rows: int) -> None:
    pass


def _shown(name: str, total: int | None, unit: str | None) -> AbstractContextManager[Callable[[int], None]]:
    """A progress bar; plain lines if standard error is not a terminal or ``rich`` is not installed."""
    return _bar(name, total, unit) if sys.stderr.isatty() and find_spec("rich") else _lines(name, total, unit)


@contextmanager
def _lines(name: str, total: int | None, unit: str | None) -> Iterator[Callable[[int], None]]:
    """Write a progress line every ten seconds, at the end, and after the first step if ten seconds or more remain."""
    start = told = time.perf_counter()
    done = 0

    def advance(rows: int) -> None:
        nonlocal done, told
        seconds, is_first, done = time.perf_counter() - start, not done, done + rows
        is_long = is_first and total and rows and seconds * (total - rows) / rows >= _SECONDS_BETWEEN_LINES
        if is_long or start + seconds - told >= _SECONDS_BETWEEN_LINES:
            told = start + seconds
            known = f"{done:,} of {total:,}" if total else f"{done:,} {unit or 'done'}"
            more = [text for text in (rate_text(done, seconds, unit), left_text(done, total, seconds)) if text]
            _write_line(", ".join([f"{name}: {known} after {seconds:.0f} s", *more]))

    yield advance
    seconds = time.perf_counter() - start
    rate = rate_text(done, seconds, unit)
    _write_line(f"{name}: {seconds:.1f} s" + (f" ({rate})" if rate else ""))


def _write_line(text: str) -> None:
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


@contextmanager
def _bar(name: str, total: int | None, unit: str | None) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Pace(ProgressColumn):
        """Percentage, rate and time left, as far as they are known."""

        def render(self, task: Task) -> Text:
            done, seconds = int(task.completed), task.elapsed or 0.0
            share = f"{100 * done / total:.0f} %" if total else ""
            texts = (share, rate_text(done, seconds, unit), left_text(done, total, seconds))
            return Text(", ".join(text for text in texts if text))

    columns = [SpinnerColumn(), TextColumn("{task.description:<24}"), BarColumn(bar_width=14), Pace()]
    with Progress(*columns, TimeElapsedColumn(), console=Console(file=sys.stderr)) as progress:
        task = progress.add_task(name, total=total)
        yield lambda rows: progress.advance(task, rows)
        done = int(progress.tasks[0].completed)
        # Without a total the bar moves back and forth. It is filled to show that the stage is over.
        progress.update(task, completed=total or done or 1, total=total or done or 1)


def peak_memory() -> int:
    """Peak resident memory of this process so far, in bytes; 0 if the system does not report it."""
    # On Linux, `ru_maxrss` is at least the resident memory of the process that has started this one.
    with suppress(OSError), open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
