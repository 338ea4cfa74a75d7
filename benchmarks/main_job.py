"""The main job: kernel ridge regression on the protein data, ours against scikit-learn and the physical limit.

Prints, from one run on one split with the same scaling and width: the time, peak memory and held-out R2 of our fit
and of ``RBFSampler + RidgeCV``, and the time of the bare float32 rank-k updates ``G += Z^T Z`` that any method with
a Gram matrix must do. Every part runs in a process of its own, so that its peak memory is its own.

    python benchmarks/main_job.py --data DIR [--features 8192] [--skip-peer]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

N_ALPHAS = 8
SEED = 0


def load(data: Path):
    """Training and held-out rows (float32), as ``phimap fit`` splits them."""
    import numpy as np

    from phimap.io import holdout_mask, open_table

    parts = list(open_table(data / "protein.csv.gz", target="rmsd").batches(8192))
    X = np.concatenate([part for part, _ in parts])
    y = np.concatenate([part for _, part in parts])
    held_out = holdout_mask(0, len(X), 0.1, SEED)
    return X[~held_out], y[~held_out], X[held_out], y[held_out]


# The kernel as it is: the search has a benchmark of its own, `tabular.py`.
FIXED = {"length_scale": "median", "metric": None}


def ours(data: Path, features: int, kernel: str) -> dict:
    """Our fit, everything included: scaling, length scale, map, statistics, regularisation."""
    import phimap as pm
    from phimap._progress import peak_memory

    X, y, X_test, y_test = load(data)
    # One small fit first: the compiled kernels are loaded, as they are in any second fit.
    pm.KernelRegressor(kernel, 64, random_state=SEED, **FIXED).fit(X[:500], y[:500])
    start = time.perf_counter()
    model = pm.KernelRegressor(kernel, features, random_state=SEED, **FIXED).fit(X, y)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "stages": {stage.name: stage.seconds for stage in model.stages_},
        "r2": model.score(X_test, y_test),
        "peak": peak_memory(),
        "alpha": model.alpha_,
        "length_scale": getattr(model.kernel_, "length_scale", None),
    }


def peer(data: Path, features: int, length_scale: float) -> dict:
    """scikit-learn's RBFSampler and RidgeCV over eight regularisations, same scaling, same width."""
    import numpy as np
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y, X_test, y_test = load(data)
    model = make_pipeline(
        StandardScaler(),
        RBFSampler(gamma=0.5 / length_scale**2, n_components=features, random_state=SEED),
        RidgeCV(alphas=np.logspace(-4, 3, N_ALPHAS)),
    )
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "r2": model.score(X_test, y_test), "alpha": float(model[-1].alpha_), "peak": peak()}


def limit(data: Path, features: int) -> dict:
    """The float32 rank-k updates of the same number of rows, by BLAS on all its threads, and nothing else."""
    import numpy as np
    from scipy.linalg import blas

    n_rows = len(load(data)[0])
    rows = 4096
    Z = np.random.default_rng(SEED).standard_normal((rows, features), dtype=np.float32)
    gram = np.zeros((features, features), dtype=np.float32, order="F")
    blas.ssyrk(1.0, Z[:256].T, beta=1.0, c=gram, overwrite_c=True)
    start = time.perf_counter()
    for first in range(0, n_rows, rows):
        part = Z[: min(rows, n_rows - first)]
        gram = blas.ssyrk(1.0, part.T, beta=1.0, c=gram, overwrite_c=True)
    return {"seconds": time.perf_counter() - start}


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_part(arguments: argparse.Namespace, part: str, **options: object) -> dict:
    """One part in a new process."""
    command = [sys.executable, __file__, "--data", str(arguments.data), "--features", str(arguments.features)]
    command += ["--part", part, *(f"--{name}={value}" for name, value in options.items())]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(result.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("PHIMAP_DATA"), required="PHIMAP_DATA" not in os.environ
    )
    parser.add_argument("--features", type=int, default=8192)
    parser.add_argument("--kernel", default="gaussian")
    parser.add_argument("--length-scale", type=float)
    parser.add_argument("--skip-peer", action="store_true")
    parser.add_argument("--part", choices=["ours", "peer", "limit"])
    arguments = parser.parse_args()
    if arguments.part == "ours":
        print(json.dumps(ours(arguments.data, arguments.features, arguments.kernel)))
    elif arguments.part == "peer":
        print(json.dumps(peer(arguments.data, arguments.features, arguments.length_scale)))
    elif arguments.part == "limit":
        print(json.dumps(limit(arguments.data, arguments.features)))
    else:
        report(arguments)


def report(arguments: argparse.Namespace) -> None:
    """Run the parts, the limit before and after, since machines drift."""
    limits = [run_part(arguments, "limit")["seconds"]]
    gaussian = run_part(arguments, "ours", kernel="gaussian")
    limits.append(run_part(arguments, "limit")["seconds"])
    ntk = run_part(arguments, "ours", kernel="ntk")
    bare = sorted(limits)[0]
    print(f"protein, {arguments.features} features, seed {SEED}")
    print(f"bare rank-k updates       {limits[0]:8.2f} s {limits[1]:8.2f} s (before, after)")
    for name, ours_ in (("gaussian", gaussian), ("ntk", ntk)):
        print(
            f"phimap {name:<12}       {ours_['seconds']:8.2f} s   R2 {ours_['r2']:.4f}   "
            f"peak {ours_['peak'] / 1e9:.2f} GB   {ours_['seconds'] / bare:.2f} x the bare updates   "
            f"alpha {ours_['alpha']:.3g}"
        )
        print("   " + ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in ours_["stages"].items()))
    if not arguments.skip_peer:
        other = run_part(arguments, "peer", **{"length-scale": gaussian["length_scale"]})
        print(
            f"RBFSampler + RidgeCV({N_ALPHAS})  {other['seconds']:8.2f} s   R2 {other['r2']:.4f}   "
            f"peak {other['peak'] / 1e9:.2f} GB   {other['seconds'] / gaussian['seconds']:.1f} x our time   "
            f"alpha {other['alpha']:.3g}"
        )


if __name__ == "__main__":
    main()
