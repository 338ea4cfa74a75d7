"""Process-wide settings: the byte budget and the number of threads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral

_UNITS = {"": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40}
# Share of the free memory that chunked work may use if no budget is configured. Memory is measured when work starts.
_DEFAULT_SHARE = 0.5
# Default budget that learners assume if the user states none.
_NOMINAL_BUDGET = 4 * 2**30
# Work that needs at most this number of bytes may start without reading the free memory, because reading it takes as
# long as predicting a row.
_SMALL = 2**24


class _Reading:
    """The default budget, read when it is first needed."""

    @cached_property
    def n_bytes(self) -> int:
        from phimap._free_memory import free_memory

        return int(_DEFAULT_SHARE * free_memory())


@dataclass(frozen=True)
class Settings:
    """The byte budget and the number of threads; None derives a value from the machine.

    Within `fixed_budget`, `reading` holds the default budget, so that it is read at most once.
    """

    memory: int | None = None
    n_jobs: int | None = None
    reading: _Reading | None = None


_settings = Settings()
_of_context: ContextVar[Settings | None] = ContextVar("settings", default=None)


class config(AbstractContextManager):
    """Set the byte budget and the number of threads, permanently or for a ``with`` block.

    Parameters
    ----------
    memory : int or str, optional
        Budget in bytes (``2_000_000_000``) or as text (``"4GB"``, units of 1024) for everything that is processed in
        chunks: feature tiles, kernel blocks, statistics. None leaves the setting unchanged. The initial setting is
        half of the memory that is free when the work begins, within the limits of containers (control groups) and of
        ``ulimit``. Learners choose width, solver and batches for the budget that is set here or by their parameter
        `memory`, else for 4 GB.
    n_jobs : int, optional
        Number of threads that process tiles. None leaves the setting unchanged. The initial setting is every core that
        this process may use. Results are bitwise the same for any number of threads.

    Raises
    ------
    ValueError
        If `memory` is not a positive amount or `n_jobs` is not a positive number.

    Examples
    --------
    >>> import phimap as pm
    >>> with pm.config(memory="1GB", n_jobs=1):
    ...     pm.config.memory_budget()
    1073741824
    """

    def __init__(self, *, memory: int | str | None = None, n_jobs: int | None = None):
        global _settings
        self._previous = _settings
        _settings = replace(
            _settings,
            **({"memory": parse_bytes(memory)} if memory is not None else {}),
            **({"n_jobs": thread_count(n_jobs)} if n_jobs is not None else {}),
        )

    def __exit__(self, *exception: object) -> None:
        global _settings
        _settings = self._previous

    @staticmethod
    def memory_budget() -> int:
        """Bytes that chunked work may use."""
        return memory_budget()


def settings() -> Settings:
    """The settings that apply in this thread."""
    return _of_context.get() or _settings


@contextmanager
def settings_of(caller: Settings) -> Iterator[None]:
    """Apply the settings of another process or thread in this thread, for a ``with`` block."""
    token = _of_context.set(caller)
    try:
        yield
    finally:
        _of_context.reset(token)


def memory_budget(memory: int | str | None = None) -> int:
    """Bytes that chunked work may use: `memory` if given, else the configured budget, else half of free memory."""
    if memory is not None:
        return parse_bytes(memory)
    current = settings()
    if current.memory is not None:
        return current.memory
    return (current.reading or _Reading()).n_bytes


def fits_budget(n_bytes: int) -> bool:
    """Whether work may take `n_bytes`. Without a configured budget, free memory is not read for a small number."""
    return (n_bytes <= _SMALL and not is_budget_stated()) or n_bytes <= memory_budget()


@contextmanager
def fixed_budget() -> Iterator[None]:
    """Read the default byte budget at most once in a ``with`` block and in the threads that work for the block."""
    current = settings()
    with settings_of(current if current.reading else replace(current, reading=_Reading())):
        yield


def stated_budget(memory: int | str | None = None) -> int:
    """The byte budget on which learners base their choices: `memory` if given, else the configured budget, else 4 GB.

    This budget does not depend on free memory: the same data and parameters give the same model on every machine.
    """
    if memory is not None:
        return parse_bytes(memory)
    return settings().memory or _NOMINAL_BUDGET


def is_budget_stated() -> bool:
    """Whether a byte budget is configured."""
    return settings().memory is not None


def thread_count(n_jobs: int | None = None) -> int:
    """Number of threads to use: `n_jobs` if given (-1: all cores, -2: all but one, ...), else the configured number."""
    if n_jobs is None:
        return settings().n_jobs or _available_cores()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise ValueError(f"`n_jobs` must be a non-zero integer or None, got {n_jobs!r}. Use -1 for all cores.")
    count = int(n_jobs)
    return count if count > 0 else max(1, _available_cores() + 1 + count)


def parse_bytes(memory: int | str) -> int:
    """The number of bytes, given as a number or as text such as ``"4GB"`` (units of 1024)."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]?b?)\s*", str(memory).lower())
    unit = match[2] if match and match[2].endswith("b") else f"{match[2]}b" if match and match[2] else ""
    n_bytes = int(float(match[1]) * _UNITS.get(unit, 1)) if match else 0
    if n_bytes <= 0:
        raise ValueError(f"`memory` must be a positive number of bytes or text like '4GB', got {memory!r}.")
    return n_bytes


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def size_text(n_bytes: float) -> str:
    """A number of bytes with a suitable unit, such as ``"1.25 GB"``."""
    for unit in ("GB", "MB", "kB"):
        size = n_bytes / _UNITS[unit.lower()]
        if size >= 0.995:
            return f"{size:.{2 if size < 10 else 1 if size < 100 else 0}f} {unit}"
    return f"{n_bytes:.0f} bytes"


def parse_seconds(name: str, duration: float | str) -> float:
    """The number of seconds, given as a number or text such as ``"5min"``; `name` is used in the error message."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(s|min|h|)\s*", str(duration).lower())
    if match is None:
        raise ValueError(f"{name} must be a time such as 30s, 5min or 1h, got {duration!r}.")
    return float(match[1]) * {"": 1, "s": 1, "min": 60, "h": 3600}[match[2]]
