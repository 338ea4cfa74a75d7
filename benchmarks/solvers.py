"""Ridge regression in passes on real data: conjugate gradients against Cholesky factorisation and the limits.

Prints, from one run on one split, the passes, the time, the peak memory of the whole process (interpreter and data
included) and the held-out mean squared error of ``solver="cg"``; beside them the Cholesky factorisation at up to
8,192 features (the peer, which does not fit the budget at 32,768), and what is asked for on protein: 15 passes, 4 GB,
at 8,192 features the peer's error to 0.1 %. Every part runs in a process of its own, so that its peak memory is its
own.

    python benchmarks/solvers.py --data DIR [--sets protein] [--features 8192 32768] [--memory 4GB]

``--columns`` fits 8,192 and 100,000 features of 200,000 of the 245,057 rows of skin, its two classes as numbers 0 and
1, by ``solver="auto"``. It prints the solver with its reason, passes, time, resident memory and the errors on the other
rows:

    nice python benchmarks/solvers.py --data DIR --columns [--features 8192 100000] [--rows 200000] [--memory 6GB]

``--constants`` prints the constants of `phimap.learn.ridge.cost`, from seconds of the processor on one thread.

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
# Of skin's three colours, standardised: a narrow kernel, which many features serve.
COLUMNS_LENGTH_SCALE = 0.1
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


def columns(data: Path, rows: int, features: int, memory: str, alpha: float | str) -> str:
    """One fit of many features to many rows, in words."""
    import numpy as np

    import phimap as pm
    from phimap._progress import peak_memory

    with np.load(data / "medium_classification.npz") as sets:
        X, y = sets["skin_X"].astype(np.float32), sets["skin_y"].astype(float)
    order = np.random.default_rng(SEED).permutation(len(y))
    train, test = order[:rows], order[rows:]
    model = pm.KernelRegressor(
        "gaussian",
        features,
        alpha=alpha,
        length_scale=COLUMNS_LENGTH_SCALE,
        metric=None,
        corrections=None,
        memory=memory,
        random_state=SEED,
    )
    start = time.perf_counter()
    model.fit(X[train], y[train])
    seconds, gigabytes, solution = time.perf_counter() - start, peak_memory() / 2**30, model.solution_
    predicted = model.predict(X[test])
    return (
        f"skin {rows} rows   m {features:>6}   {solution.form} ({solution.choice})   {solution.status} in "
        f"{solution.n_passes} passes   residual {solution.residual:.1e}   alpha {solution.alpha:.3g}   "
        f"{seconds:.0f} s   "
        f"peak {gigabytes:.2f} GB   squared error {np.square(predicted - y[test]).mean():.6f}   "
        f"wrong {((predicted > 0.5) != (y[test] > 0.5)).mean():.5f}"
    )


def constants() -> None:
    """The constants of `phimap.learn.ridge.cost`, measured on one thread."""
    import numpy as np

    import phimap as pm
    from phimap.learn.blocks.blocks import FeatureRows, feature_block
    from phimap.learn.blocks.triangle import BlockTriangle
    from phimap.learn.ridge import cost
    from phimap.learn.ridge.nystroem_preconditioner import NystroemPreconditioner, test_matrix
    from phimap.learn.ridge.solve import solve_ridge
    from phimap.learn.ridge.statistics import RidgeStatistics
    from phimap.ops import single_threaded_blas

    n, m, rank, rng = 4096, 4096, 1024, np.random.default_rng(SEED)

    def spent(work) -> float:
        found = []
        for _ in range(3):
            start = time.process_time()
            work()
            found.append(time.process_time() - start)
        return min(found)

    with single_threaded_blas():
        X = rng.standard_normal((n, 28)).astype(np.float32)
        phi = pm.FourierFeatures(pm.kernels.Gaussian(5.0), m, random_state=SEED, n_jobs=1).fit(X)
        block, Y, ones = feature_block(phi.transform(X)), np.sin(X[:, :1]), np.ones(n)
        features = spent(lambda: phi.transform(X)) / (n * m)
        print(f"NONLINEARITY, with the projection {features:.2g} (kept {cost.NONLINEARITY:.2g})")
        gram = spent(lambda: block.add_gram(BlockTriangle.zeros(m), 1, 1))
        print(f"FLOPS {n * m * m / gram:.3g} (kept {cost.FLOPS:.3g})")
        for k in (1, 10, 100, rank):
            V = rng.standard_normal((m, k))
            seconds, kept = (
                spent(lambda V=V: block.gram_times(V, ones, 1)),
                4 * n * m * (k + cost.HALF_SPEED) / cost.FLOPS,
            )
            print(f"products with {k} columns: {seconds:.3g} s, by HALF_SPEED {kept:.3g} s")
        statistics = RidgeStatistics.empty(m, 1)
        statistics.update(block, Y, 1)
        held_out = FeatureRows(block.rows(np.arange(410)), Y[:410])
        extreme = FeatureRows(block.rows(np.arange(410, 538)), Y[410:538])
        chosen = spent(lambda: solve_ridge(statistics, held_out=held_out, extreme=extreme, n_jobs=1)) / m**3
        given = spent(lambda: solve_ridge(statistics, 1.0, n_jobs=1)) / m**3
        print(f"CHOOSING {chosen:.2g} (kept {cost.CHOOSING:.2g}), SOLVING {given:.2g} (kept {cost.SOLVING:.2g})")
        test = test_matrix(m, rank, rng)
        sketch = test * np.linspace(1, 2, m)[:, None]
        made = NystroemPreconditioner.of_sketch(test, sketch.copy(), 1e-9)
        making = spent(lambda: test_matrix(m, rank, rng)) + spent(
            lambda: NystroemPreconditioner.of_sketch(test, sketch.copy(), 1e-9)
        )
        R = rng.standard_normal((m, 1))
        applying = spent(lambda: made.solve(R, 1e-3)) / (m * rank)
        print(f"MAKING {making / (m * rank**2):.2g} (kept {cost.MAKING:.2g})")
        print(f"APPLYING {applying:.2g} (kept {cost.APPLYING:.2g})")


def tiles(data: Path, features: int) -> str:
    """Seconds of one product with one column, by where a tile of features comes from."""
    import numpy as np

    import phimap as pm
    from phimap.bench.uci import load_regression
    from phimap.learn.blocks.blocks import feature_block
    from phimap.learn.rows.batches import feature_rows

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
            images[source] = feature_block(tile()).gram_times(V, weights, None)
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
    parser.add_argument("--features", type=int, nargs="+")
    parser.add_argument("--memory")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--alpha", default="auto")
    parser.add_argument("--columns", action="store_true")
    parser.add_argument("--constants", action="store_true")
    parser.add_argument("--tiles", action="store_true")
    parser.add_argument("--part", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.features = options.features or ([8192, 100_000] if options.columns else [8192, 32768])
    options.memory = options.memory or ("6GB" if options.columns else "4GB")
    if options.constants:
        constants()
        return
    if options.columns:
        wide(options)
        return
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


def wide(options: argparse.Namespace) -> None:
    """Print a line for each width, each in a process of its own."""
    alpha = options.alpha if options.alpha == "auto" else float(options.alpha)
    if len(options.features) == 1:
        print(columns(options.data, options.rows, options.features[0], options.memory, alpha), flush=True)
        return
    for features in options.features:
        command = [sys.executable, __file__, "--data", str(options.data), "--columns", "--features", str(features)]
        command += ["--rows", str(options.rows), "--memory", options.memory, "--alpha", options.alpha]
        subprocess.run(command, check=True)


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
