"""How long a user waits for a default fit: seconds by the clock on one thread and on all, beside LightGBM's.

The training rows are those of split 0 of `phimap bench tabular`, and synthetic rows of 20 columns. LightGBM grows 500
trees at rate 0.05 on as many threads. Every fit follows a small one, which loads and compiles. Asked for on two
threads: 2 s for 5,000 rows of 20 columns, and 10 s for 40,000 of them with 4,096 features.

    python benchmarks/wait.py --data DIR [--sets cal_housing letter] [--threads 1 2]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from phimap.bench.tabular.tables import load
from phimap.comparison.methods import METHODS
from phimap.config import thread_count

SETS = ["cal_housing", "pol", "kin40k", "adult", "letter", "connect4"]
#: Synthetic tables: numbers of rows, and of features, which None leaves to phimap.
SYNTHETIC = [(5_000, None), (40_000, 4096)]
SMALL = 300
SEED = 0


def synthetic(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of 20 columns, and a smooth target with noise."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n_rows, 20)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * np.abs(X[:, 3]) + 0.3 * rng.standard_normal(n_rows)
    return X, y


def seconds(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Seconds of a fit by the clock, after a small fit."""
    model.fit(X[:SMALL], y[:SMALL])
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of the data sets")
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, thread_count()}))
    options = parser.parse_args()
    tables = []
    for n_rows, width in SYNTHETIC:
        tables.append((f"synthetic, {width or 'auto'} features", "regression", width, *synthetic(n_rows)))
    for name in options.sets:
        rows = load(name, options.data)
        train, _ = rows.split(0)
        tables.append((name, rows.task, None, rows.X[train], rows.y[train]))
    print(f"{'table':26s} {'rows':>7s} threads {'phimap s':>9s} LightGBM s  ratio speed-up")
    for table, task, width, X, y in tables:
        first = None
        for n_jobs in options.threads:
            mine, theirs = (
                seconds(METHODS[name].make(task, width, SEED).set_params(n_jobs=n_jobs), X, y)
                for name in ("phimap", "lightgbm")
            )
            first = first or mine
            figures = f"{mine:9.2f} {theirs:10.2f} {mine / theirs:6.2f} {first / mine:8.2f}"
            print(f"{table:26s} {len(y):7,d} {n_jobs:7d} {figures}", flush=True)


if __name__ == "__main__":
    main()
