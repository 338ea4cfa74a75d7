"""Measurement of one fit: predictions, seconds and memory."""

from __future__ import annotations

import gc
import os
import platform
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from phimap._files import one_line
from phimap.comparison.methods import Method
from phimap.config import config
from phimap.learn import KernelClassifier, KernelRegressor

# Number of rows and columns of the small fit that precedes the first measured fit.
_WARM_UP = (300, 8)
_WARM: set[tuple[Callable[..., Any], str]] = set()


def warm_up(method: Method, task: str) -> None:
    """Run a small fit once, so that loading and compiling code is not included in measured times."""
    if (method.make, task) in _WARM:
        return
    X = np.random.default_rng(0).standard_normal(_WARM_UP).astype(np.float32)
    y = X[:, 0].astype(np.float64) if task == "regression" else (X[:, 0] > 0).astype(np.intp)
    method.make(task, 64, 0).fit(X, y).predict(X)
    _WARM.add((method.make, task))


@dataclass(frozen=True)
class MeasuredFit:
    """A fitted model, its predictions, and the time and memory of the fit.

    Attributes
    ----------
    model : object
        The fitted estimator.
    predicted : ndarray of shape (n_test,)
        Predictions for the test rows.
    seconds, processor_seconds, predict_seconds : float
        Wall-clock time of the fit, processor time of the fit summed over cores, and wall-clock time of the prediction.
    memory : float or None
        Largest increase of resident memory during the fit, in bytes; None if the system does not report it.
    """

    model: Any
    predicted: np.ndarray
    seconds: float
    processor_seconds: float
    predict_seconds: float
    memory: float | None


def measured_fit(model: Any, X: Any, y: np.ndarray, X_test: Any, **given: Any) -> MeasuredFit:
    """Fit an estimator and predict the test rows, with time and memory measured; `given` are arguments of the fit."""
    memory = PeakMemory()
    start, spent = time.perf_counter(), time.process_time()
    model.fit(X, y, **given)
    fitted, spent = time.perf_counter(), time.process_time() - spent
    peak = memory.rise()
    predicted = np.asarray(model.predict(X_test))
    return MeasuredFit(model, predicted, fitted - start, spent, time.perf_counter() - fitted, peak)


def one_thread_seconds(model: Any, X: Any, y: np.ndarray) -> float:
    """Fit an estimator with one thread, and return the processor seconds.

    The threads of the estimator's `n_jobs`, of BLAS, of OpenMP and of phimap are limited. With several threads, the
    processor time would also count threads that spin while they wait for work.
    """
    jobs = [name for name in getattr(model, "get_params", dict)() if name.rpartition("__")[2] == "n_jobs"]
    if jobs:
        model.set_params(**dict.fromkeys(jobs, 1))
    with config(n_jobs=1), threadpool_limits(1), warnings.catch_warnings():
        # Scikit-learn's logistic regression warns that its parameter `n_jobs` no longer has an effect.
        warnings.filterwarnings("ignore", "'n_jobs' has no effect", FutureWarning)
        start = time.process_time()
        model.fit(X, y)
        return time.process_time() - start


def refusal(method: Method, n_rows: int) -> str | None:
    """Return the reason why a method cannot be fitted to `n_rows` training rows; None if it can be fitted."""
    if method.missing():
        return f"the package {method.package} is not installed"
    if method.most_rows is not None and n_rows > method.most_rows:
        return f"more than {method.most_rows:,} training rows"
    return None


def attempt(
    method: Method,
    task: str,
    width: int | None,
    seed: int,
    X: Any,
    y: np.ndarray,
    X_test: Any,
    *,
    groups: np.ndarray | None = None,
    validation: str = "random",
) -> MeasuredFit | str:
    """Fit a method once. Return the `MeasuredFit`, or the reason as a text if the method cannot be fitted.

    `groups` and `validation` are passed to phimap's learners; other methods do not use them.
    """
    if (why := refusal(method, len(X))) is not None:
        return why
    try:
        warm_up(method, task)
        model, given = method.make(task, width, seed), {}
        if isinstance(model, KernelRegressor | KernelClassifier):
            model, given = model.set_params(validation=validation), {"groups": groups}
        return measured_fit(model, X, y, X_test, **given)
    # An error in one method does not stop the comparison; it is reported at the end.
    except Exception as error:
        return f"{type(error).__name__}: {one_line(error)}"


class PeakMemory:
    """Increase of resident memory above its value at construction; on Linux only.

    The peak value of the operating system is reset first. Memory that the allocator keeps from earlier work is part of
    the initial value. After a larger fit, the increase may therefore be underestimated.
    """

    def __init__(self) -> None:
        gc.collect()
        self.before: float | None = None
        try:
            # Writing 5 to this file resets the peak to the current resident memory, see the manual page proc(5).
            Path("/proc/self/clear_refs").write_text("5")
            self.before = self._resident("VmRSS")
        except OSError:
            pass

    def rise(self) -> float | None:
        """Return the increase so far in bytes, or None if the system does not report it."""
        return None if self.before is None else max(0.0, self._resident("VmHWM") - self.before)

    @staticmethod
    def _resident(name: str) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith(name))


def machine() -> str:
    """Return the name of the processor and the number of cores that this process may use."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} core{'s' * (cores != 1)}"


def software(method: Method) -> str:
    """Return the versions of phimap, of scikit-learn and of the package that the method needs."""
    packages = ["phimap", "scikit-learn", *([method.package] if method.package else [])]
    return ", ".join(f"{package} {_version(package)}" for package in packages)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(no version)"
