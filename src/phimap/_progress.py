"""Stages of long work: their time and memory, and a progress bar where one is wanted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Generic, TypeVar

from phimap._number_text import number_text
from phimap.records import Record

Batch = TypeVar("Batch", bound=tuple[Any, ...])

# Seconds between lines in a pipe or a file, where a bar would be rows of control characters.
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

    def tell(self, text: str) -> None:
        """Write a line between stages if `verbose`."""
        if self.verbose:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    @contextmanager
    def stage(self, name: str, total: int | None = None, unit: str | None = None) -> Iterator[Callable[[int], None]]:
        """Time a block; the value of the block is a function that advances the bar by a number of steps.

        Parameters
        ----------
        name : str
        total : int, optional
            Steps to come; None if that is not known.
        unit : str, optional
            What steps are, such as ``"rows"``: their rate is shown. None where it would tell nothing.
        """
        start = time.perf_counter()
        with _shown(name, total, unit) if self.verbose else _silence() as advance:
            yield Advance(advance)
        self.finished.append(Stage(name, time.perf_counter() - start, peak_memory()))


class Watched(Generic[Batch]):
    """Batches that tell how many rows were worked through, each time they are gone through.

    Parameters
    ----------
    batches : iterable of tuples
        Their first member has rows. Iterable as often as this is to be.
    advance : callable
        ``advance(rows)`` is called when the next batch is asked for.
    """

    def __init__(self, batches: Iterable[Batch], advance: Callable[[int], None]):
        self._batches, self._advance = batches, advance

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._batches:
            yield batch
            self._advance(batch[0].shape[0])


def rate_text(done: int, seconds: float, unit: str | None) -> str:
    """How many steps a second were done, such as ``"56,000 rows/s"``; empty where nobody could tell."""
    if unit is None or not done or seconds <= 0:
        return ""
    rate = done / seconds
    return f"{number_text(rate, 3)} {unit}/s"


def left_text(done: int, total: int | None, seconds: float) -> str:
    """Time that is left if steps go on as before, such as ``"2 min 40 s left"``; empty where nobody could tell."""
    if not total or not done or done >= total:
        return ""
    left = round(seconds * (total - done) / done)
    hours, minutes = left // 3600, left % 3600 // 60
    if hours:
        return f"{hours} h {minutes} min left"
    return f"{minutes} min {left % 60} s left" if minutes else f"{left} s left"


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


def _shown(name: str, total: int | None, unit: str | None) -> AbstractContextManager[Callable[[int], None]]:
    """A bar; lines where nobody would see it move, or where the library that draws bars is not installed."""
    return _bar(name, total, unit) if sys.stderr.isatty() and find_spec("rich") else _lines(name, total, unit)


@contextmanager
def _lines(name: str, total: int | None, unit: str | None) -> Iterator[Callable[[int], None]]:
    """A line at the end, and at times one on the way."""
    start = told = time.perf_counter()
    done = 0

    def advance(rows: int) -> None:
        nonlocal done, told
        done += rows
        if time.perf_counter() - told >= _SECONDS_BETWEEN_LINES:
            told = time.perf_counter()
            seconds = told - start
            known = f"{done:,} of {total:,}" if total else f"{done:,} {unit or 'done'}"
            more = [text for text in (rate_text(done, seconds, unit), left_text(done, total, seconds)) if text]
            _write_line(", ".join([f"{name}: {known} after {seconds:.0f} s", *more]))

    yield advance
    seconds = time.perf_counter() - start
    rate = rate_text(done, seconds, unit)
    _write_line(f"{name}: {seconds:.1f} s" + (f" ({rate})" if rate else ""))


def _write_line(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@contextmanager
def _bar(name: str, total: int | None, unit: str | None) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Pace(ProgressColumn):
        """Share, rate and time left, as far as they are known."""

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
        # Without a total the bar moves to and fro; a full one says that the stage is over.
        progress.update(task, completed=total or done or 1, total=total or done or 1)


def peak_memory() -> int:
    """Highest resident memory of this process so far, in bytes; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
