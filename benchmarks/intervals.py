"""Intervals of `KernelRegressor` on held-out rows, and standard deviations against the exact process and far away.

Prints, from one run:

- with --exact, the ratio of the standard deviation to that of scikit-learn's `GaussianProcessRegressor` with the same
  kernel and noise, on 1,000 rows drawn from that process (the peer; the limit is 5 %), for the whole and for the
  function alone;
- the standard deviation far from all data, over that of the prior with noise;
- for each table the shares of test rows within conformal intervals of 80, 90 and 95 %, in percent, mean of the splits
  (within 1.5 points on average and 3 on each is asked for), those of Gaussian intervals from the standard deviations
  and of LightGBM's conformalised quantiles (300 trees), and the mean widths of our conformal intervals over LightGBM's.

    python benchmarks/intervals.py --data DIR [--exact] [--sets regression] [--splits 3] [--figure FILE]

With --figure the intervals of 90 % on the test rows of the last split of the last table are drawn.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import phimap as pm
from phimap.bench.tabular.tables import expand, load
from phimap.report.certainty_figures import band

COVERAGES = (0.8, 0.9, 0.95)
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


def within(y: np.ndarray, bounds: Sequence[np.ndarray]) -> list[float]:
    """Shares of targets within bounds (n, 2), in percent."""
    return [100 * float(np.mean((low <= y) & (y <= high))) for low, high in (one.T for one in bounds)]


def compare(name: str, arguments: argparse.Namespace) -> np.ndarray:
    """Fit a table on each split; return the mean shares within conformal intervals minus those meant, in percent."""
    table = load(name, arguments.data)
    shares, widths, seconds = [], [], 0.0
    for split in range(arguments.splits):
        train, test = table.split(split)
        X, y, new, true = table.X[train], table.y[train], table.X[test], table.y[test]
        start = time.process_time()
        model = pm.KernelRegressor(random_state=0).fit(X, y)
        seconds += time.process_time() - start
        mean, std = model.predict(new, return_std=True)
        found = {
            "conformal": [model.predict_interval(new, one) for one in COVERAGES],
            "gaussian": [mean[:, None] + norm.ppf((1 + one) / 2) * std[:, None] * [-1, 1] for one in COVERAGES],
            "lightgbm": [conformalised_quantiles(X, y, new, one) for one in COVERAGES],
        }
        shares.append([within(true, bounds) for bounds in found.values()])
        ours, theirs = (
            [np.mean(one[:, 1] - one[:, 0]) for one in found[method]] for method in ("conformal", "lightgbm")
        )
        widths.append(np.divide(ours, theirs))
    means = np.mean(shares, axis=0)
    columns = ["  ".join(f"{one:5.1f}" for one in row) for row in means]
    ratios = "  ".join(f"{one:.2f}" for one in np.mean(widths, axis=0))
    fits = f"{seconds / arguments.splits:3.0f} s"
    print(f"{name:16s} {'   '.join(columns)}   {ratios}   {fits}  {len(test)} test rows", flush=True)
    if arguments.figure is not None:
        low, high = found["conformal"][COVERAGES.index(0.9)].T
        values = np.stack([low, mean, high], axis=1)
        band(true, values, ("interval of 90 %", "prediction"), f"target of {name}").write(arguments.figure)
    return means[0] - 100 * np.array(COVERAGES)


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
    parser.add_argument("--sets", nargs="*", default=["regression"])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--exact", action="store_true", help="compare standard deviations with the exact process")
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    if arguments.exact:
        against_the_exact_process()
    if not arguments.sets:
        return
    print("test rows within 80, 90, 95 %: conformal, gaussian, LightGBM's; widths over LightGBM's; a fit")
    away = np.abs([compare(name, arguments) for name in expand(arguments.sets)])
    print(f"conformal: {away.mean():.2f} points away on average (limit 1.5), {away.max():.2f} at most (limit 3)")


if __name__ == "__main__":
    main()
