"""Error of spread directions of additive kernels over that of independent ones, and what the map and its kernel cost.

Root mean square error of all entries on 300 random rows of standardised tables (columns that do not vary left out), as
a share of that of independent directions (worked out exactly, not drawn), the mean square taken over seeds. The length
scale is the median distance on subsets. Times are medians of five runs on one thread, beside those of the Gaussian
kernel of the same table.

    python benchmarks/additive.py --data DIR [--sets elevators parkinsons cpu_act] [--seeds 5]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from math import comb
from pathlib import Path
from time import perf_counter

import numpy as np

import phimap as pm
from phimap.learn.search.families import median_length_scale

FILES = ("uci_regression.npz", "regression_extra.npz")
PROJECTIONS = ("orthogonal", "qmc", "minimum-energy", "auto")
WIDTHS = (512, 4096)
ROWS = 300


def rows_of(name: str, folder: Path) -> np.ndarray:
    """Standardised rows (n, d) of a table."""
    for file in FILES:
        with np.load(folder / file) as arrays:
            if f"{name}_X" in arrays:
                X = arrays[f"{name}_X"].astype(np.float64)
                X = X[:, X.std(axis=0) > 0]
                return (X - X.mean(axis=0)) / X.std(axis=0)
    raise SystemExit(f"no table {name!r} in {', '.join(FILES)} of {folder}.")


def seconds(work: Callable[[], object]) -> float:
    """Median of five runs, after one that compiles."""
    work()
    times = []
    for _ in range(5):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return float(np.median(times))


def costs_of(kernel: pm.kernels.Additive, X: np.ndarray) -> list[float]:
    """Seconds of fit and transform at the largest width, of the same for the Gaussian kernel, and of both exactly."""
    found = []
    phi, plain = (
        pm.FourierFeatures(one, WIDTHS[-1], random_state=0, n_jobs=1) for one in (kernel, pm.kernels.Gaussian(5.0))
    )
    found += [seconds(lambda: phi.fit(X)), seconds(lambda: phi.transform(X))]
    found += [seconds(lambda: plain.fit(X)), seconds(lambda: plain.transform(X))]
    with pm.config(n_jobs=1):
        return [*found, seconds(lambda: kernel(X)), seconds(lambda: pm.kernels.Gaussian(5.0)(X))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("PHIMAP_DATA", "data")))
    parser.add_argument("--sets", nargs="+", default=["elevators", "parkinsons", "cpu_act"])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    print("| table | columns | order | subsets | features | independent | " + " | ".join(PROJECTIONS) + " |")
    print("|---|" + "---:|" * (5 + len(PROJECTIONS)))
    costs = []
    for name in options.sets:
        rows = rows_of(name, options.data)
        rows = rows[np.random.default_rng(0).permutation(len(rows))]
        X, d = rows[:ROWS], rows.shape[1]
        for order in (1, 2, 3):
            bare = pm.kernels.Additive(pm.kernels.Gaussian(), order)
            kernel = pm.kernels.Additive(pm.kernels.Gaussian(median_length_scale(rows[:1000], bare)), order)
            K, doubled = kernel(X), kernel(2 * X)
            n_subsets = comb(d, order)
            for width in WIDTHS:
                independent = ((1 + doubled) / 2 - K**2).mean() / (width // 2)
                shares = []
                for projection in PROJECTIONS:
                    maps = (
                        pm.FourierFeatures(kernel, width, projection=projection, random_state=seed).fit_transform(X)
                        for seed in range(options.seeds)
                    )
                    shares.append((np.mean([((Z @ Z.T - K) ** 2).mean() for Z in maps]) / independent) ** 0.5)
                cells = " | ".join(f"{share:.2f}" for share in shares)
                print(
                    f"| {name} | {d} | {order} | {n_subsets} | {width} | {independent**0.5:.4f} | {cells} |", flush=True
                )
            costs.append((name, order, *costs_of(kernel, rows[:1000].astype(np.float32))))
    print("\n| table | order | fit, ms | transform | fit, Gaussian | transform | exact values, ms | Gaussian |")
    print("|---|" + "---:|" * 7)
    for name, order, *times in costs:
        print(f"| {name} | {order} | " + " | ".join(f"{1e3 * time:.0f}" for time in times) + " |")


if __name__ == "__main__":
    main()
