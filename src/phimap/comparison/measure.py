"""One fit, measured: its predictions, seconds and memory."""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from phimap._files import one_line
from phimap.comparison.methods import Method

# Rows and columns of the fit that comes before the first one that counts.
_WARM_UP = (300, 8)
_WARM: set[tuple[Callable[..., Any], str]] = set()


def warm_up(method: Method, task: str) -> None:
    """Load and compile what the first fit needs, so that no time holds it."""
    if (method.make, task) in _WARM:
        return
    X = np.random.default_rng(0).standard_normal(_WARM_UP).astype(np.float32)
    y = X[:, 0].astype(np.float64) if task == "regression" else (X[:, 0] > 0).astype(np.intp)
    method.make(task, 64, 0).fit(X, y).predict(X)
    _WARM.add((method.make, task))


@dataclass(frozen=True)
class MeasuredFit:
    """What a fit gave, and what it took.

    Attributes
    ----------
    model : object
        Fitted.
    predicted : ndarray of shape (n_test,)
    seconds, processor_seconds, predict_seconds : float
        Of the fit, by the clock and added up over cores, and of the prediction of the test rows by the clock.
    memory : float or None
        Bytes by which resident memory rose above what it was before the fit; None where the system does not tell.
    """

    model: Any
    predicted: np.ndarray
    seconds: float
    processor_seconds: float
    predict_seconds: float
    memory: float | None


def measured_fit(model: Any, X: Any, y: np.ndarray, X_test: Any) -> MeasuredFit:
    """Fit an estimator and predict the test rows."""
    memory = PeakMemory()
    start, spent = time.perf_counter(), time.process_time()
    model.fit(X, y)
    fitted, spent = time.perf_counter(), time.process_time() - spent
    peak = memory.rise()
    predicted = np.asarray(model.predict(X_test))
    return MeasuredFit(model, predicted, fitted - start, spent, time.perf_counter() - fitted, peak)


def attempt(
    method: Method, task: str, width: int | None, seed: int, X: Any, y: np.ndarray, X_test: Any
) -> MeasuredFit | str:
    """Fit a method once; the answer is a `MeasuredFit`, or a text that says why there is none."""
    if method.missing():
        return f"the package {method.package} is not installed"
    if method.most_rows is not None and len(X) > method.most_rows:
        return f"more than {method.most_rows:,} training rows"
    try:
        warm_up(method, task)
        return measured_fit(method.make(task, width, seed), X, y, X_test)
    # A comparison goes on whatever one of the compared packages does, and tells it at its end.
    except Exception as error:
        return f"{type(error).__name__}: {one_line(error)}"


class PeakMemory:
    """How far resident memory rises above what it is now; on Linux only.

    The kernel's high-water mark is set back first. What the allocator keeps from earlier work is counted as there
    already, so that a fit after a larger one may show too little.
    """

    def __init__(self) -> None:
        gc.collect()
        self.before: float | None = None
        try:
            # The mark goes back to what is resident now (proc(5)).
            Path("/proc/self/clear_refs").write_text("5")
            self.before = self._resident("VmRSS")
        except OSError:
            pass

    def rise(self) -> float | None:
        """Bytes, or None where the system does not tell."""
        return None if self.before is None else max(0.0, self._resident("VmHWM") - self.before)

    @staticmethod
    def _resident(name: str) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith(name))


def machine() -> str:
    """Name of the processor, and how many cores this process may use."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores"


def software(method: Method) -> str:
    """Versions of this package, of scikit-learn and of what the method needs."""
    packages = ["phimap", "scikit-learn", *([method.package] if method.package else [])]
    return ", ".join(f"{package} {_version(package)}" for package in packages)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(no version)"
