"""Held-out rows that learners call far, and what drawing them back changes, on real tables.

For each table, size of the training set and kernel: the share of held-out rows that `OutsideWarning` tells of, and the
score (R2, accuracy) on them with and without drawing back. All of these rows come like those of the training, so that
both should be nothing. Then the largest prediction for rows far away, as a multiple of the largest target's distance
from the mean, with and without.

    python benchmarks/far_rows.py --data DIR [--sets pol mnist] [--rows 500 4000] [--kernels gaussian ntk]
"""

from __future__ import annotations

import argparse
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import phimap as pm
from phimap.bench.uci import load_regression
from phimap.learn.extrapolation import OutsideWarning

IMAGES = ("digits", "mnist")
TABLES = ("protein", "elevators", "pol", "bike", "parkinsons", "keggdirected", "cal_housing", "house_16H", "cpu_act")
TABLES += ("skillcraft", "ailerons", "abalone", "wind", "bank32nh")
MOST_TESTED = 4000


def rows_of(name: str, n: int, folder: Path | None) -> tuple[np.ndarray, ...]:
    """Training rows and targets, at most `n`, and others."""
    if name == "mnist":
        assert folder is not None
        with np.load(folder / "mnist.npz") as arrays:
            X, X_test = (arrays[f"X_{part}"].reshape(-1, 784).astype(np.float32) for part in ("train", "test"))
            return X[:n], arrays["y_train"][:n], X_test[:MOST_TESTED], arrays["y_test"][:MOST_TESTED]
    X, y = load_digits(return_X_y=True) if name == "digits" else load_regression(name, folder)
    order = np.random.default_rng(0).permutation(len(y))
    n = min(n, 3 * len(y) // 4)
    train, test = order[:n], order[n : n + MOST_TESTED]
    return X[train], y[train], X[test], y[test]


def measured(name: str, n: int, kernel: str, folder: Path | None, **settings: Any) -> dict[str, float]:
    """Share of held-out rows that are far, scores with and without drawing back, and the same far away."""
    X, y, X_test, y_test = rows_of(name, n, folder)
    learner = pm.KernelClassifier if name in IMAGES else pm.KernelRegressor
    settings = {"n_components": 512, "random_state": 0, "effort": "fast", "corrections": None, **settings}
    model = learner(kernel, **settings).fit(X, y)
    far_rows = X_test[:200] + 100 * (X.max(axis=0) - X.min(axis=0) + 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OutsideWarning)
        score = model.score(X_test, y_test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideWarning)
        far = reach(model, X, far_rows)
        model._fitted = replace(model._fitted, map=replace(model._fitted.map, range=None))
        return {
            "far": sum(told.message.n_far for told in caught if isinstance(told.message, OutsideWarning)) / len(X_test),
            "score": score,
            "score without": model.score(X_test, y_test),
            "reach": far,
            "reach without": reach(model, X, far_rows),
        }


def reach(model: Any, X: np.ndarray, far_rows: np.ndarray) -> float:
    """Largest distance from the mean output at far rows, in units of the largest at training rows."""
    outputs = model.decision_function if hasattr(model, "decision_function") else model.predict
    centre = np.squeeze(model.solution_.centre)
    return float(np.abs(outputs(far_rows) - centre).max() / np.abs(outputs(X) - centre).max())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("PHIMAP_DATA"))
    parser.add_argument("--sets", nargs="+", default=[*IMAGES, *TABLES])
    parser.add_argument("--rows", nargs="+", type=int, default=[500, 4000])
    parser.add_argument("--kernels", nargs="+", default=["gaussian", "laplacian", "auto", "ntk", "polynomial"])
    options = parser.parse_args()
    print("table          rows  kernel      far rows  score   change    far away  without")
    for name in options.sets:
        for n in options.rows:
            for kernel in options.kernels:
                found = measured(name, n, kernel, options.data)
                change = 100 * (found["score"] - found["score without"])
                print(
                    f"{name:13s} {n:5d}  {kernel:10s} {100 * found['far']:7.2f} %  {found['score']:.4f} {change:+.3f} %"
                    f"  {found['reach']:8.3g} {found['reach without']:8.3g}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
