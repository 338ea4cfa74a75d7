"""Growth of boosted trees: phimap's, scikit-learn's and LightGBM's seconds, on one thread.

All grow the same number of rounds with the same leaves, without subsampling, on the training rows of tables of numbers.
The limit copies the bins of all rows, one byte a number, once a tree.

    python benchmarks/trees.py --data DIR [--rounds 50]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits
from timing import least_seconds

from phimap.bench.tabular.tables import load
from phimap.learn.trees.growth import Boosting, TreeRows

TABLES = ("pol", "protein", "magic04", "adult", "connect4", "optdigits", "letter")
LEAVES, RATE = 31, 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("PHIMAP_DATA"), help="folder of the data sets")
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    print(f"{options.rounds} rounds of trees of {LEAVES} leaves, one thread\n")
    print("table        rows columns trees   seconds  scikit-learn / ours  LightGBM / ours  ours / copy")
    for name in TABLES:
        table = load(name, options.data)
        X, is_numbers = np.ascontiguousarray(table.X, np.float64), table.task == "regression"
        y = table.y if is_numbers else np.unique(table.y, return_inverse=True)[1]
        classes = np.eye(y.max() + 1)[y] if not is_numbers else y[:, None]
        Y = 2 * classes[:, 1:] - 1 if classes.shape[1] == 2 else classes
        of_sklearn = HistGradientBoostingRegressor if is_numbers else HistGradientBoostingClassifier
        of_lightgbm = LGBMRegressor if is_numbers else LGBMClassifier
        shared = {"learning_rate": RATE, "random_state": 0}
        codes, n_trees = TreeRows.of(X, Y, None, has_labels=not is_numbers).codes, options.rounds * Y.shape[1]
        tasks = {
            "ours": lambda X=X, Y=Y, labels=not is_numbers: Boosting(
                TreeRows.of(X, Y, None, has_labels=labels), rate=RATE, n_leaves=LEAVES, n_jobs=1
            ).grow(options.rounds),
            "scikit-learn": lambda X=X, y=y, model=of_sklearn, shared=shared: model(
                max_iter=options.rounds, max_leaf_nodes=LEAVES, early_stopping=False, **shared
            ).fit(X, y),
            "LightGBM": lambda X=X, y=y, model=of_lightgbm, shared=shared: model(
                n_estimators=options.rounds, num_leaves=LEAVES, n_jobs=1, verbose=-1, **shared
            ).fit(X, y),
            "copy": lambda codes=codes, n_trees=n_trees: [codes.copy() for _ in range(n_trees)],
        }
        with threadpool_limits(1):
            found = {task: seconds.cpu for task, seconds in least_seconds(tasks, 3).items()}
        ours = found["ours"]
        shown = f"{found['scikit-learn'] / ours:>20.1f} {found['LightGBM'] / ours:>16.2f} {ours / found['copy']:>12.1f}"
        print(f"{name:<10} {len(X):>6} {X.shape[1]:>7} {n_trees:>5} {ours:>9.2f} {shown}", flush=True)


if __name__ == "__main__":
    main()
