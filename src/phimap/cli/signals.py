"""Handling of SIGTERM and Ctrl-C in commands."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

#: Exit code of a fit that was stopped and has written a checkpoint: "try again later" in sysexits.h.
STOPPED = 75


class Terminated(BaseException):
    """The process has received SIGTERM."""


class Stopped(BaseException):
    """A fit was stopped, and has written a checkpoint."""


@contextmanager
def terminable() -> Iterator[None]:
    """If SIGTERM arrives within the block, remove half-written files before the process ends."""

    def raise_terminated() -> None:
        raise Terminated

    try:
        with _handled(signal.SIGTERM, raise_terminated):
            yield
    except Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def stopping(stop: Callable[[BaseException], None], where: object) -> Iterator[None]:
    """On SIGTERM and Ctrl-C, call `stop` with an exception. `stop` writes the checkpoint, then raises the exception."""
    goes_on = f"The same command goes on from {where}."
    with ExitStack() as stack:
        stack.enter_context(_handled(signal.SIGTERM, lambda: stop(Stopped(f"stopped. {goes_on}"))))
        stack.enter_context(_handled(signal.SIGINT, lambda: stop(KeyboardInterrupt(f"interrupted. {goes_on}"))))
        yield


@contextmanager
def _handled(number: signal.Signals, handle: Callable[[], None]) -> Iterator[None]:
    """Call `handle` when a signal arrives. Outside the main thread, where Python delivers no signals, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def heard(number: int, frame: Any) -> None:
        handle()

    before = signal.signal(number, heard)
    try:
        yield
    finally:
        signal.signal(number, before)
