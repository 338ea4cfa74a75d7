"""The alpha that ridge regression chooses by itself against the best one in hindsight, on real tables.

For each regression table of the UCI collection, split and kernel it prints the test error (RMSE) at the chosen alpha
over the least one of a fine grid on the very same features, less one: the excess. Then the median, the 95th percentile
and the worst, over all tables and over those of 200 training rows and more. The least is taken on the test rows
themselves, so that part of the excess is their luck, the more so the fewer they are: beside each stands how many
standard errors of the paired difference it is. The line of a table and kernel has less of it: there the mean squared
error over all splits at the alphas chosen stands over that at the one alpha which is best for all splits together.

    python benchmarks/alpha.py --data DIR [--sets gas pol] [--splits 3] [--kernels gaussian matern] [--rows 5000]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from fitted_features import features_of

import phimap as pm

FILE = "uci_regression.npz"
GRID = np.logspace(-10, 8, 145)
LARGE = 200


def errors(Z: np.ndarray, y: np.ndarray, test: np.ndarray, targets: np.ndarray, alphas: np.ndarray) -> np.ndarray:
    """Squared errors (k, n_test) of ridge regression in closed form, float64, at each alpha."""
    centre, mean = Z.mean(axis=0), y.mean()
    U, s, Vt = np.linalg.svd(Z - centre, full_matrices=False)
    inner, outer = U.T @ (y - mean), (test - centre) @ Vt.T
    return np.array([np.square(outer @ (s / (s**2 + alpha) * inner) + mean - targets) for alpha in alphas])


def measured(name: str, split: int, kernel: str, options: argparse.Namespace) -> dict[str, Any]:
    """Chosen and best alpha of one fit, and the excess."""
    with np.load(options.data / FILE) as archive:
        X, y = archive[f"{name}_X"], archive[f"{name}_y"].ravel()
    order = np.random.default_rng(split).permutation(len(y))[: options.rows]
    X, y = X[order].astype(np.float32), y[order] / y[order].std()
    n = int(0.9 * len(y))
    model = pm.KernelRegressor(kernel, options.features, metric=None, length_scale="median", random_state=split)
    model.fit(X[:n], y[:n])
    features = features_of(model)
    Z, test = (features(part).to_host().astype(np.float64) for part in (X[:n], X[n:]))
    found = errors(Z, y[:n], test, y[n:], np.append(GRID, model.alpha_))
    means = found.mean(axis=1)
    best = int(means[:-1].argmin())
    gap = found[-1] - found[best]
    return {
        "name": name,
        "split": split,
        "kernel": kernel,
        "n": n,
        "alpha": model.alpha_,
        "best": GRID[best],
        "excess": max(0.0, float(np.sqrt(means[-1] / means[best]) - 1)),
        "standard_errors": float(gap.mean() / max(gap.std() / len(gap) ** 0.5, 1e-300)),
        "means": means,
    }


def main() -> None:
    data = os.environ.get("PHIMAP_DATA")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--sets", nargs="+", help="default: all")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--kernels", nargs="+", default=["gaussian", "matern"])
    parser.add_argument("--features", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=5000)
    options = parser.parse_args()
    found, together = [], []
    with np.load(options.data / FILE) as archive:
        names = options.sets or sorted(key[:-2] for key in archive.files if key.endswith("_X"))
    for name in names:
        for kernel in options.kernels:
            for split in range(options.splits):
                one = measured(name, split, kernel, options)
                found.append(one)
                print(
                    f"{name:15} {kernel:9} split {split}   {one['n']:5} rows   alpha {one['alpha']:9.3g}   best "
                    f"{one['best']:9.3g}   excess {one['excess']:7.2%}   {one['standard_errors']:5.1f} standard errors",
                    flush=True,
                )
            splits = found[-options.splits :]
            means = np.mean([one["means"] for one in splits], axis=0)
            excess = max(0.0, float(np.sqrt(means[-1] / means[:-1].min()) - 1))
            together.append({"n": splits[0]["n"], "excess": excess})
            print(f"{name:15} {kernel:9} all splits   excess {excess:7.2%}", flush=True)
    for of, cases in (("fits", found), ("tables and kernels", together)):
        for label, least in (("all", 0), (f"{LARGE} rows and more", LARGE)):
            excess = np.array([one["excess"] for one in cases if one["n"] >= least])
            if excess.size:
                median, high = np.quantile(excess, [0.5, 0.95])
                print(f"{label}: median {median:.2%}, 95 % {high:.2%}, worst {excess.max():.2%} of {excess.size} {of}")


if __name__ == "__main__":
    sys.exit(main())
