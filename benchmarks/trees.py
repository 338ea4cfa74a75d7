"""Boosted trees: phimap's, scikit-learn's and LightGBM's seconds and test losses, on one thread.

All grow trees of the same number of leaves at the same learning rate, without subsampling, on four fifths of the rows
of tables of numbers. With more than two classes scikit-learn and LightGBM grow a tree for each class in a round. A tree
of phimap is for all classes, and five times as many rounds are grown. The loss is the root mean squared error, or the
log loss of the probabilities. The limit copies the bins of all rows, one byte a number, once a tree.

    python benchmarks/trees.py --data DIR [--rounds 100]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss, root_mean_squared_error
from threadpoolctl import threadpool_limits
from timing import least_seconds

from phimap.bench.tabular.tables import TabularSet, load
from phimap.learn.trees.growth import Boosting, TreeRows

TABLES = ("pol", "protein", "magic04", "adult", "connect4", "optdigits", "letter")
LEAVES, RATE, SEVERAL = 31, 0.1, 5


def tasks_of(table: TabularSet, rounds: int) -> tuple[dict[str, Callable[[], Any]], int]:
    """Return calls that fit to the training rows and return the test outputs, and the number of trees of phimap."""
    train, test = table.split(0)
    X, X_test = (np.ascontiguousarray(table.X[rows], np.float64) for rows in (train, test))
    is_numbers, y = table.task == "regression", table.y[train]
    classes = y[:, None] if is_numbers else np.eye(int(y.max()) + 1)[y]
    Y = 2 * classes[:, 1:] - 1 if classes.shape[1] == 2 else classes
    shared, n_rounds = {"learning_rate": RATE, "random_state": 0}, rounds if Y.shape[1] == 1 else SEVERAL * rounds

    def ours() -> np.ndarray:
        rows = TreeRows.of(X, Y, None, has_labels=not is_numbers)
        return (
            Boosting(rows, rate=RATE, n_leaves=LEAVES, rng=np.random.default_rng(0)).grow(n_rounds).outputs(X_test, 1)
        )

    def peer(model: Any) -> np.ndarray:
        model.fit(X, y)
        return model.predict(X_test) if is_numbers else model.predict_proba(X_test)

    of_sklearn = HistGradientBoostingRegressor if is_numbers else HistGradientBoostingClassifier
    of_lightgbm = LGBMRegressor if is_numbers else LGBMClassifier
    tasks = {
        "ours": ours,
        "scikit-learn": lambda: peer(
            of_sklearn(max_iter=rounds, max_leaf_nodes=LEAVES, early_stopping=False, **shared),
        ),
        "LightGBM": lambda: peer(
            of_lightgbm(n_estimators=rounds, num_leaves=LEAVES, n_jobs=1, verbose=-1, **shared),
        ),
    }
    codes = TreeRows.of(X, Y, None, has_labels=not is_numbers).codes
    return tasks | {"copy": lambda: [codes.copy() for _ in range(n_rounds)]}, n_rounds


def loss(table: TabularSet, outputs: np.ndarray) -> float:
    """Return the loss of outputs for the test rows: numbers, probabilities, or their differences for two classes."""
    y = table.y[table.split(0)[1]]
    if table.task == "regression":
        return float(root_mean_squared_error(y, outputs.ravel()))
    shares = np.hstack([1 - outputs, 1 + outputs]) / 2 if outputs.shape[1] == 1 else outputs
    return float(log_loss(y, shares, labels=np.arange(shares.shape[1])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("PHIMAP_DATA"), help="folder of the data sets")
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    print(f"trees of {LEAVES} leaves, one thread; scikit-learn and LightGBM: {options.rounds} rounds")
    print(f"{'':44}{'seconds / ours':>26}{'':13}{'loss / ours':>25}")
    peers = ("scikit-learn", "LightGBM")
    names = "".join(f"{name:>13}" for name in peers)
    print(f"table        rows columns classes trees seconds{names}  ours / copy{names}")
    for name in TABLES:
        table = load(name, options.data)
        tasks, n_trees = tasks_of(table, options.rounds)
        with threadpool_limits(1):
            seconds = {task: found.cpu for task, found in least_seconds(tasks, 2).items()}
            losses = {task: loss(table, tasks[task]()) for task in ("ours", *peers)}
        n_classes = 0 if table.task == "regression" else np.unique(table.y).size
        shape = f"{name:<10} {len(table.X) * 4 // 5:>6} {table.X.shape[1]:>7} {n_classes:>7} {n_trees:>5}"
        line = f"{shape} {seconds['ours']:>7.2f}"
        line += "".join(f"{seconds[peer] / seconds['ours']:>13.2f}" for peer in peers)
        line += f"{seconds['ours'] / seconds['copy']:>13.1f}"
        print(line + "".join(f"{losses[peer] / losses['ours']:>13.3f}" for peer in peers), flush=True)


if __name__ == "__main__":
    main()
