"""Speed of Fourier features by projection, against the bare product, the write of the output, and scikit-learn.

MNIST scaled to [0, 1], 20,000 rows in float32, 8,192 features as pairs of 4,096 directions; then a quarter of the rows
with 4,096 Gaussian columns. The product is NumPy's X @ W on all BLAS threads; the write is filling a new array of the
size of the output. Last, Walsh-Hadamard transforms of 2^24 numbers against a copy of them, both on two threads.

    python benchmarks/features.py --data DIR [--rows 20000] [--rounds 6]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from timing import clock_times

import phimap as pm
from phimap.ops import host, run_tasks
from phimap.projections import REGISTRY


def measure(X: np.ndarray, length_scale: float, rounds: int, projections: list[str]) -> None:
    n, d = X.shape
    s = 4096
    W = np.random.default_rng(0).standard_normal((d, s), dtype=np.float32)
    kernel = pm.kernels.Gaussian(length_scale)

    def write() -> None:
        np.empty((n, 2 * s), np.float32).fill(1)

    tasks: dict[str, Callable[[], object]] = {"product": lambda: X @ W, "write": write}
    sampler = RBFSampler(gamma=0.5 / length_scale**2, n_components=2 * s, random_state=0).fit(X[:10])
    tasks["RBFSampler"] = lambda: sampler.transform(X)
    skipped = []
    for name in projections:
        phi = pm.FourierFeatures(kernel, 2 * s, projection=name, random_state=0)
        try:
            phi.fit(X[:10])
        except ValueError as error:
            skipped.append(f"{name} ({error})")
            continue
        tasks[name] = lambda phi=phi: phi.transform(X)
    times = clock_times(tasks, rounds)
    print(f"n = {n:,}, d = {d:,}, m = {2 * s:,} (seconds; ratio to the product, to the write; RBFSampler over it)")
    for name, seconds in times.items():
        print(
            f"  {name:<20}{seconds:8.3f}{seconds / times['product']:8.2f}{seconds / times['write']:8.1f}"
            f"{times['RBFSampler'] / seconds:8.1f}"
        )
    for line in skipped:
        print(f"  not measured: {line}")


def measure_hadamard(rounds: int) -> None:
    """Transforms of rows of each width in place, in two slabs on two threads, and copies of the slabs."""
    ops = host(np.float32)
    values = np.zeros(2**24, np.float32)
    copies = np.empty_like(values)
    half = values.size // 2

    def on_two(task: Callable[[slice], object]) -> None:
        run_tasks(task, [slice(0, half), slice(half, None)], 2)

    tasks: dict[str, Callable[[], object]] = {
        "np.copyto": lambda: on_two(lambda part: np.copyto(copies[part], values[part]))
    }
    for width in (8, 32, 128, 512, 4096):
        tasks[f"width {width:,}"] = lambda width=width: on_two(lambda part: ops.fwht(values[part].reshape(-1, width)))
    times = clock_times(tasks, 5 * rounds)
    print("Walsh-Hadamard transforms of 2^24 float32 (milliseconds; ratio to the copy)")
    for name, seconds in times.items():
        print(f"  {name:<20}{1e3 * seconds:8.1f}{seconds / times['np.copyto']:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--projections", nargs="+", default=sorted(REGISTRY))
    arguments = parser.parse_args()
    with np.load(arguments.data / "mnist.npz") as file:
        X = file["X_train"][: arguments.rows].reshape(arguments.rows, -1).astype(np.float32) / 255
    measure(X, 10.0, arguments.rounds, arguments.projections)
    wide = np.random.default_rng(0).standard_normal((arguments.rows // 4, 4096), dtype=np.float32)
    measure(wide, 90.0, arguments.rounds, arguments.projections)
    measure_hadamard(arguments.rounds)


if __name__ == "__main__":
    main()
