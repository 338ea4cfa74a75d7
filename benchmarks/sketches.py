"""Speed and error of sketches, against scikit-learn and against the limit, as ratios within one run.

1. CountSketch of a matrix with 1 % nonzeros, as CSR and as dense rows; beside them scikit-learn's
   `PolynomialCountSketch(degree=1)`, the same sketch, and `SparseRandomProjection`.
2. Walsh-Hadamard transform of 4096 x 4096 float32, against a copy of the array.
3. PolySketch: all products of x and e1 against the single power.
4. Polynomial kernels of MNIST: PolySketch and TensorSketch against `PolynomialCountSketch`, time and relative error.
5. Degree 20 for nearly parallel rows and for MNIST: PolySketch against TensorSketch.

    python benchmarks/sketches.py --data DIR [--rows 20000] [--rounds 3] [--parts 1 2 3 4 5]
"""

from __future__ import annotations

import argparse
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.kernel_approximation import PolynomialCountSketch
from sklearn.random_projection import SparseRandomProjection
from timing import clock_times, least_seconds, timed

import phimap as pm
from phimap.config import thread_count
from phimap.ops import ops_for, run_tasks


def report(title: str, times: dict[str, float], reference: str) -> None:
    print(f"{title} (seconds; ratio to {reference})")
    for name, seconds in times.items():
        print(f"  {name:<44}{seconds:10.4f}{seconds / times[reference]:10.2f}")


def sparse_input(rows: int, rounds: int) -> None:
    d, m = 10_000, 256
    rng = np.random.default_rng(0)
    # As many entries in every row; the few that coincide are added.
    bounds = np.arange(0, rows * d // 100 + 1, d // 100, dtype=np.int32)
    places = rng.integers(d, size=bounds[-1], dtype=np.int32), bounds
    X = sparse.csr_array((rng.standard_normal(places[0].size, dtype=np.float32), *places), shape=(rows, d))
    X.sum_duplicates()
    dense = X.toarray()
    tasks: dict[str, Callable[[], object]] = {}
    for name, sketch in {
        "CountSketch": pm.sketches.CountSketch(m, random_state=0),
        "OSNAP": pm.sketches.OSNAP(m, random_state=0),
    }.items():
        sketch.fit(X[:10])
        tasks[f"{name}, CSR"] = lambda sketch=sketch: sketch.transform(X)
        tasks[f"{name}, dense"] = lambda sketch=sketch: sketch.transform(dense)
    width: Any = m  # scikit-learn's annotation knows its default alone
    projection = SparseRandomProjection(n_components=width, dense_output=True, random_state=0).fit(X)
    tasks["SparseRandomProjection, CSR"] = lambda: projection.transform(X)
    times = clock_times(tasks, rounds)
    # A tenth of the rows, once, is enough of the same sketch by scikit-learn.
    peer = PolynomialCountSketch(degree=1, n_components=m, random_state=0).fit(X[:10])
    _, tenth = timed(lambda: peer.transform(X[: rows // 10]))
    times["PolynomialCountSketch(degree=1), CSR, x 10"] = 10 * tenth.clock
    report(f"1. {rows:,} x {d:,}, 1 % nonzeros, to {m:,}", times, "CountSketch, CSR")


def hadamard(rounds: int) -> None:
    X = np.random.default_rng(0).standard_normal((4096, 4096), dtype=np.float32)
    Y = np.empty_like(X)
    ops = ops_for(X)
    times = clock_times(
        {
            "np.copyto": lambda: np.copyto(Y, X),
            "fwht": lambda: run_tasks(lambda start: ops.fwht(Y[start : start + 256]), range(0, 4096, 256), None),
        },
        rounds,
    )
    report(f"2. 4096 x 4096 float32, {thread_count(None)} threads", times, "np.copyto")


def all_degrees(rounds: int) -> None:
    X = np.random.default_rng(0).standard_normal((256, 784), dtype=np.float32)
    ops = ops_for(X)
    print("3. PolySketch, 256 x 784: CPU milliseconds of one power, of all cases; ratio")
    for form in ("fourier", "hadamard"):
        for m in (1024, 4096):
            for p in (2, 3, 4, 6, 8, 12, 16, 20):
                record = pm.sketches.PolySketch(m, degree=p, form=form).sample(784, np.random.default_rng(0)).bind(ops)
                times = least_seconds(
                    {
                        "single": lambda record=record, p=p: record.apply_product(ops, [X] * p),
                        "all": lambda record=record: deque(record.cases(ops, X), maxlen=0),
                    },
                    10 * rounds,
                )
                single, every = 1e3 * times["single"].cpu, 1e3 * times["all"].cpu
                print(f"  {form:<10} m = {m:<6}p = {p:<4}{single:9.2f}{every:9.2f}{every / single:7.2f}")


def relative_errors(draw: Callable[[int], np.ndarray], K: np.ndarray, n_seeds: int) -> np.ndarray:
    """Relative Frobenius errors of ``Z Z^T`` over seeds."""
    errors = []
    for seed in range(n_seeds):
        Z = draw(seed).astype(np.float64)
        errors.append(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))
    return np.array(errors)


def compare(X: np.ndarray, degree: int, m: int, rounds: int, n_seeds: int, *, peer: bool = True) -> None:
    K = (X.astype(np.float64) @ X.T.astype(np.float64)) ** degree
    maps = {
        "PolySketch": pm.sketches.PolySketch(m, degree=degree),
        "PolySketch, hadamard": pm.sketches.PolySketch(m, degree=degree, form="hadamard"),
        "TensorSketch": pm.sketches.TensorSketch(m, degree=degree),
    }
    if peer:
        maps["PolynomialCountSketch"] = PolynomialCountSketch(gamma=1.0, coef0=0, degree=degree, n_components=m)
    for sketch in maps.values():
        sketch.set_params(random_state=0).fit(X)
    times = clock_times({name: lambda sketch=sketch: sketch.transform(X) for name, sketch in maps.items()}, rounds)
    print(f"  degree {degree}, m = {m:,}: seconds, relative error (root mean square of {n_seeds} seeds)")
    for name, sketch in maps.items():
        errors = relative_errors(lambda seed, s=sketch: s.set_params(random_state=seed).fit_transform(X), K, n_seeds)
        print(f"    {name:<30}{times[name]:9.3f}{np.sqrt(np.mean(errors**2)):10.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--parts", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    arguments = parser.parse_args()
    with np.load(arguments.data / "mnist.npz") as file:
        X = file["X_train"][:1000].reshape(1000, -1).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    if 1 in arguments.parts:
        sparse_input(arguments.rows, arguments.rounds)
    if 2 in arguments.parts:
        hadamard(3 * arguments.rounds)
    if 3 in arguments.parts:
        all_degrees(arguments.rounds)
    if 4 in arguments.parts:
        print("4. Polynomial kernels <x, y>^p of 1,000 normalised rows of MNIST")
        for degree in (2, 3, 7):
            compare(X, degree, 4096, arguments.rounds, arguments.seeds)
    if 5 in arguments.parts:
        print("5. Degree 20: 1,000 normalised rows of MNIST, then 500 rows 1 + 0.2 N(0, 1) in 100 dimensions")
        compare(X, 20, 4096, arguments.rounds, arguments.seeds, peer=False)
        Y = 1 + 0.2 * np.random.default_rng(0).standard_normal((500, 100), dtype=np.float32)
        Y /= np.linalg.norm(Y, axis=1, keepdims=True)
        compare(Y, 20, 4096, arguments.rounds, arguments.seeds, peer=False)


if __name__ == "__main__":
    main()
