"""Intervals of `KernelRegressor` on held-out rows, and standard deviations against the exact process and far away.

Prints, from one run:

- with --exact, the ratio of the standard deviation to that of scikit-learn's `GaussianProcessRegressor` with the same
  kernel and noise, on 1,000 rows drawn from that process (the peer; the limit is 5 %), for the whole and for the
  function alone;
- the standard deviation far from all data, over that of the prior with noise;
- on real tables, the shares of held-out rows within conformal intervals of 80, 90 and 95 % (within 1.5 points on
  average and 3 on each is asked for), and within Gaussian intervals from the standard deviations; mean widths in
  standard deviations of the target; with --peer beside LightGBM's conformalised quantiles, 300 trees.

    python benchmarks/intervals.py --data DIR [--exact] [--rows 8000] [--sets protein pol ...] [--peer protein ...]
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import phimap as pm

SETS = ("concrete", "airfoil", "parkinsons", "elevators", "kin40k", "bike", "pol", "cal_housing", "protein", "wine")
COVERAGES = (0.8, 0.9, 0.95)
SETTINGS = {
    "default": {},
    "512": {"n_components": 512},
    "gaussian": {"kernel": "gaussian", "length_scale": "median", "metric": None, "n_components": 4096},
}
ROWS, NEW_ROWS, NOISE, WIDTHS = 1000, 500, 0.3, (1024, 4096, 16384)


def against_the_exact_process() -> None:
    """Rows drawn from a Gaussian process with noise, which both models know."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (ROWS + NEW_ROWS, 3))
    kernel = pm.kernels.Gaussian(1.0)
    root = np.linalg.cholesky(kernel(X) + 1e-9 * np.eye(len(X)))
    y = root @ rng.standard_normal(len(X)) + NOISE * rng.standard_normal(len(X))
    X, new, y = X[:ROWS], X[ROWS:], y[:ROWS]
    exact = GaussianProcessRegressor(1.0 * RBF(1.0) + WhiteKernel(NOISE**2), alpha=0, optimizer=None).fit(X, y)
    expected = exact.predict(new, return_std=True)[1]
    print("std over that of the exact process (limit 0.95 to 1.05): mean, least, most; of the function alone; far away")
    for m in WIDTHS:
        model = pm.KernelRegressor(kernel, m, alpha=NOISE**2, standardize=False, random_state=0).fit(X, y)
        ratio = model.predict(new, return_std=True)[1] / expected
        # Without the noise, in units of it.
        sigma = model._deviations.predictive.noise.variance
        alone = np.sqrt(((ratio * expected) ** 2 / sigma - 1) / (expected**2 / NOISE**2 - 1))
        far = model.predict(new + 100.0, return_std=True)[1] / np.sqrt(sigma * (1 + 1 / NOISE**2))
        print(
            f"  m={m:6d}  {ratio.mean():.3f} {ratio.min():.3f} {ratio.max():.3f}   "
            f"{alone.mean():.3f} {alone.min():.3f} {alone.max():.3f}   {far.mean():.3f}",
            flush=True,
        )


def table(name: str, data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Rows and targets of a table."""
    if name == "protein":
        rows = np.loadtxt(data / "protein.csv.gz", delimiter=",", skiprows=1)
        return rows[:, 1:].astype(np.float32), rows[:, 0]
    for file in ("uci_regression.npz", "regression_extra.npz"):
        with np.load(data / file, allow_pickle=False) as arrays:
            if f"{name}_X" in arrays:
                # The last two columns of bike add up to the target.
                columns = slice(0, 15) if name == "bike" else slice(None)
                return arrays[f"{name}_X"][:, columns].astype(np.float32), arrays[f"{name}_y"].astype(np.float64)
    raise SystemExit(f"no table {name!r} in {data}")


def coverage(name: str, settings: str, data: Path, rows: int | None, peer: bool) -> list[float]:
    """One split of one table; return the shares of held-out rows within intervals minus the shares meant, in percent.

    Mean widths are in standard deviations of the target.
    """
    X, y = table(name, data)
    order = np.random.default_rng(0).permutation(len(y))
    n = int(0.8 * len(y)) if rows is None else min(int(0.8 * len(y)), rows)
    train, test = order[:n], order[n:]
    start = time.perf_counter()
    model = pm.KernelRegressor(random_state=0, **SETTINGS[settings]).fit(X[train], y[train])
    fitted = time.perf_counter()
    found = [model.predict_interval(X[test], one) for one in COVERAGES]
    seconds = {stage.name: stage.seconds for stage in model.stages_}
    mean, std = model.predict(X[test], return_std=True)
    gaussian = [
        np.stack([mean - norm.ppf((1 + c) / 2) * std, mean + norm.ppf((1 + c) / 2) * std], 1) for c in COVERAGES
    ]
    lines = {"conformal": found, "gaussian": gaussian}
    if peer:
        lines["lightgbm"] = [conformalised_quantiles(X[train], y[train], X[test], one) for one in COVERAGES]
    corrected = "corrected" if model.corrections_ is not None else "linear"
    times = f"fit {fitted - start:.1f} s, of these intervals {seconds['intervals']:.1f} s"
    print(f"  {name} ({n} rows, {settings}, {corrected}): {times}")
    for method, bounds in lines.items():
        shares = [np.mean((one[:, 0] <= y[test]) & (y[test] <= one[:, 1])) for one in bounds]
        widths = [np.mean(one[:, 1] - one[:, 0]) / y.std() for one in bounds]
        print(
            f"    {method:10s} within {' '.join(f'{100 * one:5.1f}' for one in shares)}"
            f"   width {' '.join(f'{one:.3f}' for one in widths)}",
            flush=True,
        )
        if method == "conformal":
            away = [100 * (share - meant) for share, meant in zip(shares, COVERAGES, strict=True)]
    return away


def conformalised_quantiles(X: np.ndarray, y: np.ndarray, new: np.ndarray, coverage: float) -> np.ndarray:
    """Intervals (n, 2) of LightGBM's quantiles, corrected on a fifth of the rows (Romano, Patterson, Candes 2019)."""
    import lightgbm

    n = len(y) // 5
    bounds = []
    for level in ((1 - coverage) / 2, (1 + coverage) / 2):
        model = lightgbm.LGBMRegressor(
            objective="quantile",
            alpha=level,
            n_estimators=300,
            learning_rate=0.05,
            random_state=0,
            verbose=-1,
            n_jobs=1,
        ).fit(X[n:], y[n:])
        bounds.append((model.predict(X[:n]), model.predict(new)))
    (low, low_new), (high, high_new) = bounds
    scores = np.sort(np.maximum(low - y[:n], y[:n] - high))
    q = scores[min(n - 1, int(np.ceil(coverage * (n + 1))) - 1)]
    return np.stack([low_new - q, high_new + q], axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=["default"])
    parser.add_argument("--rows", type=int, help="most training rows")
    parser.add_argument("--peer", nargs="*", default=(), help="tables on which LightGBM is fitted, too")
    parser.add_argument("--exact", action="store_true", help="compare standard deviations with the exact process")
    arguments = parser.parse_args()
    if arguments.exact:
        against_the_exact_process()
    print(f"held-out rows within intervals of {', '.join(f'{100 * one:.0f} %' for one in COVERAGES)}; mean widths")
    away = [
        coverage(name, settings, arguments.data, arguments.rows, name in arguments.peer)
        for name in arguments.sets
        for settings in arguments.settings
    ]
    if away:
        print(f"mean {np.mean(np.abs(away)):.2f} points (limit 1.5), largest {np.max(np.abs(away)):.2f} (limit 3)")


if __name__ == "__main__":
    main()
