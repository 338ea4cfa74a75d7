"""A worker process with a limit of memory and of time, in which mutants are met: what it dies of is an outcome."""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

#: Bytes that a worker may take beyond what it has at its start, and the byte budget of the library in it.
EXTRA, BUDGET = 2**30, 2**28
#: Seconds of the processor for one mutant, and how many times as long one that does not compute is waited for.
SECONDS = 20.0
_PATIENCE = 5


class Worker:
    """Runs ``work(task)`` in a child, which is started again where it has died.

    Parameters
    ----------
    work : callable
        Of a task that can be sent, with a result that can be sent.
    """

    def __init__(self, work: Callable[[Any], Any]):
        self._work = work
        self._context = multiprocessing.get_context("fork")
        self._start()

    def _start(self) -> None:
        self._pipe, inner = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(self._work, inner), daemon=True)
        self._process.start()
        inner.close()

    def __call__(self, task: Any) -> Any:
        """The result; ``("hang", "")`` or ``("crash", exit status)`` where there is none."""
        self._pipe.send(task)
        try:
            if self._ready():
                return self._pipe.recv()
            outcome = ("hang", f"more than {SECONDS:.0f} s")
        except EOFError:
            self._process.join()
            outcome = ("crash", f"exit status {self._process.exitcode}")
        self.stop()
        self._start()
        return outcome

    def _ready(self) -> bool:
        """Whether there is a result, once there is one or the time is spent: that of a busy machine is not counted."""
        before, end = self._processor_seconds(), time.monotonic() + _PATIENCE * SECONDS
        while time.monotonic() < end and self._processor_seconds() - before < SECONDS:
            if self._pipe.poll(min(1.0, SECONDS)):
                return True
        return self._pipe.poll(0)

    def _processor_seconds(self) -> float:
        try:
            with open(f"/proc/{self._process.pid}/stat") as file:
                user, system = file.read().rpartition(")")[2].split()[11:13]
        except OSError:
            return 0.0
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End the child."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(work: Callable[[Any], Any], pipe: Connection) -> None:
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + EXTRA, size + EXTRA))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        pipe.send(work(task))
