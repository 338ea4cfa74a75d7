"""Ridge regression in passes on the protein data: conjugate gradients against Cholesky factorisation and the limits.

Prints, from one run on one split, the passes, the time, the peak memory and the held-out mean squared error of
``solver="cg"`` at 8,192 and 32,768 features; beside them the Cholesky factorisation at 8,192 features (the peer, which
does not fit the budget at 32,768), and what is asked for: 15 passes, 4 GB, at 8,192 features the peer's error to 0.1 %.
Every part runs in a process of its own, so that its peak memory is its own.

    python benchmarks/solvers.py --data DIR [--features 8192 32768] [--memory 4GB]
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


def part(data: Path, features: int, solver: str, memory: str) -> dict:
    """One fit, everything included."""
    import numpy as np

    import phimap as pm
    from phimap._progress import peak_memory
    from phimap.bench.uci import load_regression

    X, y = load_regression("protein", data)
    order = np.random.default_rng(SEED).permutation(len(y))
    X, y = X[order].astype(np.float32), y[order]
    n = int(0.9 * len(y))
    model = pm.KernelRegressor(n_components=features, solver=solver, memory=memory, random_state=SEED)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--features", type=int, nargs="+", default=[8192, 32768])
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--part", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(part(options.data, int(options.part[1]), options.part[0], options.memory)))
        return
    peer = None
    for solver, features in [("cholesky", PEER_FEATURES), *(("cg", m) for m in options.features)]:
        command = [sys.executable, __file__, "--data", str(options.data), "--memory", options.memory]
        run = subprocess.run([*command, "--part", solver, str(features)], capture_output=True, text=True, check=False)
        if run.returncode:
            print(f"{solver} m {features}: {run.stderr.strip().splitlines()[-1]}", flush=True)
            continue
        found = json.loads(run.stdout.splitlines()[-1])
        peer = found if solver == "cholesky" else peer
        line = (
            f"{solver:<8} m {features:>6}  {found['status']} in {found['passes']:>2} passes (limit {MOST_PASSES})   "
            f"residual {found['residual']:.1e}   alpha {found['alpha']:.3g}   {found['seconds']:.1f} s   "
            f"peak {found['gigabytes']:.2f} GB (limit {MOST_GB:g})   error {found['error']:.3f}"
        )
        if peer and solver == "cg" and features == PEER_FEATURES:
            line += f"   error / peer {found['error'] / peer['error']:.4f} (limit {MOST_ERROR_RATIO})"
            line += f"   time / peer {found['seconds'] / peer['seconds']:.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
