"""What a command does when it is told to end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

#: Exit code of a fit that was told to end and has written a checkpoint: "try again later", as in sysexits.h.
STOPPED = 75


class Terminated(BaseException):
    """The process was told to end by SIGTERM."""


class Stopped(BaseException):
    """A fit was told to end, and has written down how far it was."""


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end the process as ever, but only after half-written files are removed."""

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
    """Let SIGTERM and Ctrl-C call `stop` with what it is to raise."""
    goes_on = f"The same command goes on from {where}."
    with ExitStack() as stack:
        stack.enter_context(_handled(signal.SIGTERM, lambda: stop(Stopped(f"stopped. {goes_on}"))))
        stack.enter_context(_handled(signal.SIGINT, lambda: stop(KeyboardInterrupt(f"interrupted. {goes_on}"))))
        yield


@contextmanager
def _handled(number: signal.Signals, handle: Callable[[], None]) -> Iterator[None]:
    """Call `handle` when a signal arrives; only the main thread hears of signals."""
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
