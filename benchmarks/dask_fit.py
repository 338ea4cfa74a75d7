"""Dask: two workers of one thread beside one process with two threads, on the same rows.

The process runs first, then the cluster; every worker reports what it has received. Each row of the table is one size.
The issue asks for a time within 1.25 of that of the process, and for coefficients within 1e-12.

    python benchmarks/dask_fit.py                      # 400,000 rows x 28 columns, 2,048 features: some minutes
    python benchmarks/dask_fit.py --rows 50000 --features 512 --json
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

import phimap as pm
from phimap.learn.rows.batches import feature_rows


def table(n_rows: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of float32 with a smooth target and noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_columns)).astype(np.float32)
    return X, (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n_rows)).astype(np.float64)


def learner(n_components: int, solver: str) -> pm.KernelRegressor:
    """A fit whose time is that of the passes: nothing is searched, and alpha is given."""
    return pm.KernelRegressor(
        "gaussian",
        n_components,
        length_scale="median",
        metric=None,
        alpha=1.0,
        corrections=None,
        solver=solver,
        random_state=0,
    )


def received(dask_worker: Any) -> int:
    """Bytes that a worker has received from others."""
    return sum(entry["total"] for entry in dask_worker.transfer_incoming_log)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of both, bytes between workers, and how far the coefficients are apart."""
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    X, y = table(options.rows, options.columns)
    model = learner(options.features, options.solver)
    # What is compiled, is compiled here and by the workers before the clock runs.
    # A chunk is cut where a batch of features ends, so that both sum the same products.
    batch = feature_rows(options.features, X.itemsize)
    warm = slice(0, 2 * batch)
    learner(options.features, options.solver).fit(X[warm], y[warm])
    start = time.perf_counter()
    with pm.config(n_jobs=2):
        alone = model.fit(X, y).coef_
    seconds_alone = time.perf_counter() - start
    chunk = options.batches * batch
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        lazy, targets = (da.from_array(one, chunks=(chunk, *one.shape[1:])).persist() for one in (X, y))
        wait([lazy, targets])
        learner(options.features, options.solver).fit(lazy[: 2 * chunk], targets[: 2 * chunk])
        before = sum(client.run(received).values())
        start = time.perf_counter()
        together = model.fit(lazy, targets).coef_
        seconds = time.perf_counter() - start
        moved = sum(client.run(received).values()) - before
    return {
        "rows": options.rows,
        "columns": options.columns,
        "features": options.features,
        "solver": options.solver,
        "process_seconds": seconds_alone,
        "cluster_seconds": seconds,
        "ratio": seconds / seconds_alone,
        "megabytes_between_workers": moved / 1e6,
        "triangle_megabytes": 4 * options.features**2 / 1e6,
        "largest_difference": float(np.abs(together - alone).max() / np.abs(alone).max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--columns", type=int, default=28)
    parser.add_argument("--features", type=int, default=2048)
    parser.add_argument("--batches", type=int, default=4, help="batches of features in a chunk")
    parser.add_argument("--solver", choices=("cholesky", "cg"), default="cholesky")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options)
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:28} {value:.4g}" if isinstance(value, float) else f"{name:28} {value}")


if __name__ == "__main__":
    main()
