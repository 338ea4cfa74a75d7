"""Work that must stay within the byte budget, and its peak of memory in a process of its own.

    python -m tests.support.budget_cases CASE BUDGET [SIZE=NUMBER ...]

prints what the work takes beyond what the process held before it, in bytes, and the line of its MemoryError if any.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import cache
from multiprocessing import forkserver
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse

import phimap as pm
from phimap.config import parse_bytes

#: Makes the data and gives the work on them.
Case = Callable[..., Callable[[], Any]]

#: Sizes of a fit before the one that is measured.
SMALL = {"n": 300, "d": 40, "m": 32}
SETTINGS: dict[str, Any] = {"metric": None, "corrections": None, "random_state": 0, "n_jobs": 1}


def dense(n: int, d: int, dtype: Any = np.float64) -> np.ndarray:
    """Numbers that are fast to draw, row by row."""
    X = np.empty((n, d), dtype)
    rng = np.random.default_rng(0)
    for row in X:
        row[:] = rng.random(d, np.float32)
    return X


def regressor(n: int, d: int, m: int, t: int = 1, kernel: str = "gaussian", **more: Any) -> Any:
    X = dense(n, d)
    Y = X[:, :1] + np.random.default_rng(1).random((n, t))
    model = pm.KernelRegressor(kernel, m, **{**SETTINGS, "length_scale": np.sqrt(d), **more})
    return lambda: model.fit(X, Y[:, 0] if t == 1 else Y).predict(X)


def single(n: int, d: int, m: int) -> Any:
    """A fit of float32 rows, whose length scale is chosen."""
    X = dense(n, d, np.float32)
    model = pm.KernelRegressor("gaussian", m, **SETTINGS)
    return lambda: model.fit(X, X[:, 0]).predict(X)


def unbounded(n: int, d: int, m: int) -> Any:
    """A fit to which another budget is told."""
    return regressor(n, d, m, memory="4GB")


def automatic(n: int, d: int, m: int) -> Any:
    return regressor(n, d, m, kernel="auto", length_scale="auto")


def classifier(n: int, d: int, m: int, classes: int, loss: str = "squared") -> Any:
    X = dense(n, d, np.float32)
    y = np.arange(n) % classes
    model = pm.KernelClassifier("gaussian", m, loss=loss, length_scale=np.sqrt(d), **SETTINGS)
    return lambda: model.fit(X, y).predict(X)


def logistic(n: int, d: int, m: int, classes: int) -> Any:
    return classifier(n, d, m, classes, "logistic")


def of_loss(n: int, d: int, m: int, loss: str) -> Any:
    X = dense(n, d)
    model = pm.KernelRegressor("gaussian", m, loss=loss, length_scale=np.sqrt(d), **SETTINGS)
    return lambda: model.fit(X, X[:, 0] + X[:, 1]).predict(X)


def quantiles(n: int, d: int, m: int) -> Any:
    return of_loss(n, d, m, "quantile")


def counts(n: int, d: int, m: int) -> Any:
    return of_loss(n, d, m, "poisson")


def huber(n: int, d: int, m: int) -> Any:
    return of_loss(n, d, m, "huber")


def steps(X: np.ndarray) -> np.ndarray:
    """A target with waves and jumps, for which corrections and trees are tried."""
    return np.sin(6 * X[:, 0]) + (X[:, 1] > 0.5) * X[:, 2]


def default(n: int, d: int) -> Any:
    """Everything that a default fit does, with intervals and deviations."""
    X, model = dense(n, d), pm.KernelRegressor(random_state=0, n_jobs=1)

    def work() -> None:
        model.fit(X, steps(X)).predict(X, return_std=True)
        model.predict_interval(X)

    return work


def default_classifier(n: int, d: int, classes: int) -> Any:
    X, model = dense(n, d), pm.KernelClassifier(random_state=0, n_jobs=1)
    y = np.digitize(steps(X), np.linspace(-0.5, 1, classes - 1))
    return lambda: model.fit(X, y).predict_set(X)


def frame(n: int) -> Any:
    """A default fit of a table with text, categories and missing cells."""
    import pandas as pd

    X, rng = dense(n, 6), np.random.default_rng(0)
    table = pd.DataFrame(X, columns=list("abcdef"))
    table["town"] = rng.integers(0, 500, n).astype(str)
    table["kind"] = pd.Categorical(rng.choice(["x", "y", "z"], n))
    table.loc[::7, "a"] = np.nan
    model = pm.KernelRegressor(random_state=0, n_jobs=1)
    return lambda: model.fit(table, steps(X)).predict(table)


def stochastic(n: int, d: int, m: int) -> Any:
    X = dense(n, d)
    model = pm.DoublyStochasticRegressor(n_components=m, n_epochs=1, random_state=0, n_jobs=1)
    return lambda: model.fit(X, steps(X)).predict(X)


def feature_map(n: int, d: int, m: int, dtype: Any = np.float64) -> Any:
    X = dense(n, d, dtype)
    return lambda: pm.FourierFeatures(n_components=m, random_state=0, n_jobs=1).fit(X).transform(X)


def gaussian_map(n: int, d: int, m: int) -> Any:
    X = dense(n, d)
    made = pm.FourierFeatures(n_components=m, projection="gaussian", random_state=0, n_jobs=1)
    return lambda: made.fit(X).transform(X)


def csr(n: int, d: int, each: int) -> Any:
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, d, (n, each)), axis=1)
    X = sparse.csr_matrix((rng.random(n * each), indices.ravel(), np.arange(0, n * each + 1, each)), shape=(n, d))
    X.sum_duplicates()
    return X


def polynomial(n: int, d: int, m: int) -> Any:
    X = csr(n, d, 30)
    made = pm.DotProductFeatures(pm.kernels.Polynomial(3, gamma=0.1, coef0=1.0), m, random_state=0, n_jobs=1)
    return lambda: made.fit(X).transform(X)


def sparse_regressor(n: int, d: int, m: int) -> Any:
    X = csr(n, d, 30)
    kernel = pm.kernels.Polynomial(3, gamma=0.1, coef0=1.0)
    model = pm.KernelRegressor(kernel, m, **SETTINGS)
    return lambda: model.fit(X, np.asarray(X.sum(axis=1)).ravel()).predict(X)


def packed(n: int, d: int, m: int) -> Any:
    X = dense(n, d, np.float32)
    made = pm.TernaryFeatures(n_components=m, packed=True, random_state=0, n_jobs=1)
    return lambda: made.fit(X).transform(X)


def packed_regressor(n: int, d: int, m: int) -> Any:
    X = dense(n, d, np.float32)
    made = pm.TernaryFeatures(n_components=m, packed=True, random_state=0, n_jobs=1)
    model = pm.KernelRegressor(made, m, **SETTINGS)
    return lambda: model.fit(X, X[:, 0]).predict(X)


def command(make: Callable[..., str], budget: int, features: int, *sizes: int) -> Any:
    from phimap.cli.fit import run
    from phimap.cli.options import FitOptions

    folder = tempfile.mkdtemp()
    path = make(Path(folder), *sizes)
    target = "class" if Path(path).is_dir() else "-1" if path.endswith("npz") else "y"
    options = FitOptions(
        path,
        target=target,
        kernel="gaussian",
        features=features,
        memory=str(budget),
        n_jobs=1,
        quiet=True,
        metric="none",
    )
    return lambda: run(options)


def npz_file(folder: Path, n: int, d: int) -> str:
    np.savez(folder / "x.npz", dense(n, d, np.float32))
    return str(folder / "x.npz")


def parquet_file(folder: Path, n: int, d: int) -> str:
    import pyarrow as pa
    from pyarrow import parquet

    X = dense(n, d, np.float32)
    names = [*(f"c{j}" for j in range(d - 1)), "y"]
    parquet.write_table(pa.table({name: X[:, j] for j, name in enumerate(names)}), folder / "x.parquet")
    return str(folder / "x.parquet")


def image_folder(folder: Path, n: int, side: int) -> str:
    from PIL import Image

    for k in range(n):
        (folder / "images" / "ab"[k % 2]).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (side, side * 3 // 4), (40 * k, 90, 7)).save(folder / "images" / "ab"[k % 2] / f"{k}.jpg")
    return str(folder / "images")


def npz(n: int, d: int, m: int, *, budget: int) -> Any:
    return command(npz_file, budget, m, n, d)


def parquet(n: int, d: int, m: int, *, budget: int) -> Any:
    return command(parquet_file, budget, m, n, d)


def images(n: int, side: int, m: int, *, budget: int) -> Any:
    return command(image_folder, budget, m, n, side)


def work_of(case: str, budget: int, sizes: dict[str, int]) -> Callable[[], Any]:
    make = globals()[case]
    return make(**sizes, budget=budget) if "budget" in make.__code__.co_varnames else make(**sizes)


def _resident(line: str) -> int:
    for row in Path("/proc/self/status").read_text().splitlines():
        if row.startswith(line):
            return 1024 * int(row.split()[1])
    raise OSError(line)


def measure(case: str, budget: int, sizes: dict[str, int], warm: dict[str, int]) -> tuple[int, str]:
    """The peak of resident memory that the work adds in this process, and the line of its refusal, or nothing."""
    with pm.config(memory=budget, n_jobs=1):
        work_of(case, budget, warm)()
        # Libraries and compiled code are there before; the small fit was within any budget.
        work, refusal = work_of(case, budget, sizes), ""
        ctypes.CDLL(None).malloc_trim(0)
        # The peak is that of the work alone from here.
        Path("/proc/self/clear_refs").write_text("5")
        before = _resident("VmRSS:")
        try:
            work()
        except MemoryError as error:
            refusal = str(error) or "a MemoryError without a word"
    return _resident("VmHWM:") - before, refusal


@cache
def _server() -> Any:
    """What forks a process that has loaded the libraries: loading them took most of the seconds of a measurement."""
    context, folder = multiprocessing.get_context("forkserver"), str(Path(__file__).parents[2])
    context.set_forkserver_preload(["tests.support.budget_server"])
    # With a fixed threshold, glibc returns the memory of freed arrays at once, so that the peak is that of live arrays.
    environment = {"MALLOC_MMAP_THRESHOLD_": "65536"}
    environment["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    with patch.dict(os.environ, environment):
        forkserver.ensure_running()
    return context


def _send(end: Any, *arguments: Any) -> None:
    try:
        end.send(measure(*arguments))
    except Exception:
        end.send(traceback.format_exc())


def peak(case: str, budget: int | str, sizes: dict[str, int], warm: dict[str, int]) -> tuple[int, str]:
    """As `measure`, in a process of its own."""
    receiving, sending = _server().Pipe(duplex=False)
    process = _server().Process(target=_send, args=(sending, case, parse_bytes(budget), sizes, warm))
    with receiving:
        with sending:
            process.start()
        try:
            found = receiving.recv()
        except EOFError:
            found = "no result"
    process.join()
    if isinstance(found, str):
        raise RuntimeError(f"{case}: exit {process.exitcode}\n{found}")
    return found


def _main(arguments: list[str]) -> None:
    case, budget, *rest = arguments
    cut = rest.index("--")
    sizes, warm = (
        {name: int(size) for name, _, size in (word.partition("=") for word in words)}
        for words in (rest[:cut], rest[cut + 1 :])
    )
    n_bytes, refusal = measure(case, int(budget), sizes, warm)
    sys.stdout.write(f"\n{n_bytes} {refusal}\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
