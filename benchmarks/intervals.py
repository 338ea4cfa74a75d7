"""Predictive standard deviations of `KernelRegressor`: against the exact process, far away, and on held-out rows.

Prints, from one run:

- the ratio of the standard deviation to that of scikit-learn's `GaussianProcessRegressor` with the same kernel and
  noise, on 1,000 rows drawn from that process (the peer; the limit is 5 %), for the whole and for the function alone;
- the standard deviation far from all data, over that of the prior with noise;
- on real tables, at default settings and with a Gaussian kernel of the median width, the shares of held-out rows
  within the central 50, 80 and 95 % of a normal law (the 80 % interval is to hold 75 to 85 %), the root mean square
  of standardised errors, and the seconds of the prediction without and with standard deviations. The first three
  tables were looked at in the design, the others not.

    python benchmarks/intervals.py --data DIR [--sets protein elevators ...] [--settings default gaussian]
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

SETS = ("protein", "elevators", "kin40k", "bike", "pol", "cal_housing")
SHARES = (0.5, 0.8, 0.95)
SETTINGS = {"default": {}, "gaussian": {"kernel": "gaussian", "length_scale": "median", "metric": None}}
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
        sigma = model._current_predictive().noise.variance
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


def coverage(name: str, settings: str, data: Path) -> None:
    """One split of one table."""
    X, y = table(name, data)
    order = np.random.default_rng(0).permutation(len(y))
    n = int(0.8 * len(y))
    train, test = order[:n], order[n:]
    start = time.perf_counter()
    model = pm.KernelRegressor(n_components=4096, random_state=0, **SETTINGS[settings]).fit(X[train], y[train])
    fitted = time.perf_counter()
    model.predict(X[test])
    predicted = time.perf_counter()
    mean, std = model.predict(X[test], return_std=True)
    first = time.perf_counter()
    model.predict(X[test], return_std=True)
    second = time.perf_counter()
    z = np.abs(y[test] - mean) / std
    shares = " ".join(f"{np.mean(z <= norm.ppf(0.5 + share / 2)):.3f}" for share in SHARES)
    predictive = model._current_predictive()
    print(
        f"  {name:12s} {settings:9s} {shares}   {np.sqrt(np.mean(z**2)):.3f}   "
        f"{'local' if predictive.noise.local else 'one':5s} "
        f"tau {predictive.function.open_share:.3f}   fit {fitted - start:.1f} s, predict {predicted - fitted:.1f} s, "
        f"with std {first - predicted:.1f} s, again {second - first:.1f} s ({len(test)} rows)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    arguments = parser.parse_args()
    against_the_exact_process()
    print("held-out rows within the central 50, 80, 95 % (80 %: 0.75 to 0.85); rms of standardised errors; noise")
    for name in arguments.sets:
        for settings in arguments.settings:
            coverage(name, settings, arguments.data)


if __name__ == "__main__":
    main()
