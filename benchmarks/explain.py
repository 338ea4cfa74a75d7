"""Seconds a row of exact Shapley values, beside the processor's limit and shap's sampling at equal error.

For 4,096 landmarks or Fourier features, 100 background rows and 10, 20, 40 and 80 columns, on one thread: milliseconds
a row, their ratio to the time for the same number of multiplications and additions at the rate of a matrix product, and
the growth from one number of columns to the next. Then, for 20 columns, the time that `shap.PermutationExplainer` takes
for values of a given error: it is run with a few permutations, and its squared error falls like one over their number.
The exact values are those of phimap, which agree with brute force to 1e-8 (`tests/explain`).

    python benchmarks/explain.py [--rows 4] [--columns 10 20 40 80] [--error 1e-4]

The second part needs shap.
"""

from __future__ import annotations

import argparse
from time import perf_counter, thread_time

import numpy as np

import phimap as pm

TERMS, BACKGROUND = 4096, 100


def fitted(kind: str, d: int) -> tuple[pm.KernelRegressor, np.ndarray]:
    """A model of 4,096 terms on random rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((TERMS + 200, d))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + X.mean(axis=1)
    kernel = pm.kernels.Gaussian(1.5 * d**0.5)
    maps = {
        "landmarks": pm.NystroemFeatures(kernel, TERMS, random_state=0),
        "Fourier": pm.FourierFeatures(kernel, TERMS, random_state=0),
    }
    model = pm.KernelRegressor(maps[kind], metric=None, corrections=None, alpha=1e-2, random_state=0, n_jobs=1)
    return model.fit(X, y), X


def rate() -> float:
    """Multiplications and additions a second of a matrix product in float64, on one thread."""
    A = np.random.default_rng(0).standard_normal((1024, 1024))
    from phimap.ops import single_threaded_blas

    with single_threaded_blas():
        A @ A
        start = thread_time()
        for _ in range(3):
            A @ A
        return 3 * 2 * 1024**3 / (thread_time() - start)


def seconds_a_row(model: pm.KernelRegressor, X: np.ndarray, n_rows: int) -> float:
    """Seconds of this thread for each further row, without the tables of the background."""
    background = X[-BACKGROUND:]
    pm.explain.shapley_values(model, X[:1], background)
    times = []
    for count in (1, 1 + n_rows):
        start = thread_time()
        pm.explain.shapley_values(model, X[:count], background)
        times.append(thread_time() - start)
    return (times[1] - times[0]) / n_rows


def operations(kind: str, d: int) -> float:
    """Multiplications and additions a row: 7 for each factor and node of ceil(d / 2), 18 for each phase and node >= 0.

    These are the numbers of the exact Gauss-Legendre rule, whatever rule is used.
    """
    nodes = -(-d // 2)
    return TERMS * BACKGROUND * d * nodes * 7 if kind == "landmarks" else TERMS / 2 * BACKGROUND * d * nodes / 2 * 18


def beside_shap(n_rows: int, error: float) -> None:
    """Print the time of both at equal error for 20 columns."""
    import shap

    print(
        f"\n{'20 columns':12}{'exact ms':>10}{'shap ms':>10}{'its error':>11}{f'shap ms at {error:g}':>19}{'ratio':>9}"
    )
    for kind in ("landmarks", "Fourier"):
        model, X = fitted(kind, 20)
        rows, background = X[:n_rows], X[-BACKGROUND:]
        exact = pm.explain.shapley_values(model, rows, background).values
        ours = seconds_a_row(model, X, max(n_rows, 4))
        explainer = shap.PermutationExplainer(model.predict, shap.maskers.Independent(background, BACKGROUND), seed=0)
        start = perf_counter()
        found = explainer(rows, max_evals=2 * 2 * 20 + 2, silent=True).values
        theirs = (perf_counter() - start) / n_rows
        reached = np.sqrt(np.mean((found - exact) ** 2)) / np.ptp(model.predict(X))
        at_error = theirs * max(1.0, (reached / error) ** 2)
        times = f"{1e3 * ours:10.1f}{1e3 * theirs:10.0f}{reached:11.1e}{1e3 * at_error:19.0f}"
        print(f"{kind:12}{times}{at_error / ours:9.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--columns", type=int, nargs="+", default=[10, 20, 40, 80])
    parser.add_argument("--error", type=float, default=1e-4, help="root mean square, as a share of the outputs' range")
    options = parser.parse_args()
    limit = rate()
    print(f"{'terms':12}{'columns':>8}{'ms a row':>10}{'over limit':>12}{'growth':>8}")
    for kind in ("landmarks", "Fourier"):
        before = None
        for d in options.columns:
            seconds = seconds_a_row(*fitted(kind, d), options.rows)
            growth = "" if before is None else f"{seconds / before:.1f}"
            print(f"{kind:12}{d:8}{1e3 * seconds:10.1f}{seconds * limit / operations(kind, d):12.1f}{growth:>8}")
            before = seconds
    try:
        beside_shap(options.rows, options.error)
    except ImportError:
        print("\nshap is not installed: the second table is left out. pip install shap.")


if __name__ == "__main__":
    main()
