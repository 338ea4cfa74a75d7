"""Ridge regression in passes on real data: conjugate gradients against Cholesky factorisation and the limits.

Prints, from one run on one split, the passes, the time, the peak memory of the whole process (interpreter and data
included) and the held-out mean squared error of ``solver="cg"``; beside them the Cholesky factorisation at up to
8,192 features (the peer, which does not fit the budget at 32,768), and what is asked for on protein: 15 passes, 4 GB,
at 8,192 features the peer's error to 0.1 %. Every part runs in a process of its own, so that its peak memory is its
own.

    python benchmarks/solvers.py --data DIR [--sets protein] [--features 8192 32768] [--memory 4GB]

``--tiles`` prints instead what a product takes of a tile of features that is formed anew, kept in float32, or kept in
half precision, and how far half precision moves it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

SEED = 0
PEER_FEATURES = 8192
MOST_PASSES, MOST_GB, MOST_ERROR_RATIO = 15, 4.0, 1.001


def part(data: Path, name: str, features: int, solver: str, memory: str) -> dict:
    """One fit, everything included."""
    import numpy as np

    import phimap as pm
    from phimap._progress import peak_memory
    from phimap.bench.uci import load_regression

    X, y = load_regression(name, data)
    order = np.random.default_rng(SEED).permutation(len(y))
    X, y = X[order].astype(np.float32), y[order]
    n = int(0.9 * len(y))
    model = pm.KernelRegressor(
        "gaussian", features, length_scale="median", metric=None, solver=solver, memory=memory, random_state=SEED
    )
    start = time.perf_counter()
    model.fit(X[:n], y[:n])
    seconds = time.perf_counter() - start
    # Before the prediction, which is no part of the fit.
    gigabytes = peak_memory() / 2**30
    solution = model.solution_
    return {
        "form": solution.form,
        "status": solution.status,
        "passes": solution.n_passes,
        "residual": solution.residual,
        "alpha": solution.alpha,
        "seconds": seconds,
        "gigabytes": gigabytes,
        "error": float(np.square(model.predict(X[n:]) - y[n:]).mean()),
    }


def tiles(data: Path, features: int) -> str:
    """Seconds of one product with one column, by where a tile of features comes from."""
    import numpy as np

    import phimap as pm
    from phimap.bench.uci import load_regression
    from phimap.learn.data.batches import feature_rows
    from phimap.learn.data.blocks import feature_block
    from phimap.learn.ridge.normal_equations import gram_times

    X, _ = load_regression("protein", data)
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)[: feature_rows(features, 4)]
    phi = pm.FourierFeatures(pm.kernels.Gaussian(3.0), features, random_state=SEED).fit(X)
    Z, weights = phi.transform(X), np.ones(len(X))
    half = Z.astype(np.float16)
    V = np.random.default_rng(SEED).standard_normal((features, 1))
    sources = {
        "formed anew": lambda: phi.transform(X),
        "float32": lambda: Z,
        "float16": lambda: half.astype(np.float32),
    }
    seconds, images = {}, {}
    for source, tile in sources.items():
        spent = []
        for _ in range(5):
            start = time.perf_counter()
            images[source] = gram_times(feature_block(tile()), V, weights, None)
            spent.append(time.perf_counter() - start)
        seconds[source] = min(spent)
    moved = np.linalg.norm(images["float16"] - images["float32"]) / np.linalg.norm(images["float32"])
    shown = "   ".join(f"{source} {spent:.3f} s" for source, spent in seconds.items())
    return f"{len(X)} rows, m {features:>6}   {shown}   half precision moves the product by {moved:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--sets", nargs="+", default=["protein"])
    parser.add_argument("--features", type=int, nargs="+", default=[8192, 32768])
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--tiles", action="store_true")
    parser.add_argument("--part", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        name, solver, features = options.part
        print(json.dumps(part(options.data, name, int(features), solver, options.memory)))
        return
    if options.tiles:
        for features in options.features:
            print(tiles(options.data, features), flush=True)
        return
    for name in options.sets:
        for features in options.features:
            compare(name, features, options)


def compare(name: str, features: int, options: argparse.Namespace) -> None:
    """Print a line for each solver at one width."""
    peer = None
    for solver in ("cholesky", "cg") if features <= PEER_FEATURES else ("cg",):
        command = [sys.executable, __file__, "--data", str(options.data), "--memory", options.memory]
        command += ["--part", name, solver, str(features)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            print(f"{name} {solver} m {features}: {run.stderr.strip().splitlines()[-1]}", flush=True)
            continue
        found = json.loads(run.stdout.splitlines()[-1])
        line = (
            f"{name:<9} {solver:<8} m {features:>6}  {found['status']} in {found['passes']:>2} passes "
            f"(limit {MOST_PASSES})   residual {found['residual']:.1e}   alpha {found['alpha']:.3g}   "
            f"{found['seconds']:.1f} s   peak {found['gigabytes']:.2f} GB (limit {MOST_GB:g})   "
            f"error {found['error']:.5g}"
        )
        if peer:
            line += f"   error / peer {found['error'] / peer['error']:.4f} (limit {MOST_ERROR_RATIO})"
            line += f"   time / peer {found['seconds'] / peer['seconds']:.2f}"
        peer = found
        print(line, flush=True)


if __name__ == "__main__":
    main()
