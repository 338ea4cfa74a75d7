"""Monotone constraints of `KernelRegressor`, beside those of LightGBM and HistGradientBoosting.

The constraints of a table are made from its training rows: the three columns of largest rank correlation with the
target may only rise or only fall with it. Prints for each table, from one split, the RMSE on test rows over the
standard deviation of the target: of our default fit with the constraints, of LightGBM and of HistGradientBoosting with
them, and of our Gaussian model without them (1,024 features); the largest step against a constraint on grids of 50
values for 200 test rows, as a share of the range of the outputs (below 0.001 is asked for), with and without the
constraints; and seconds of the processor.

    python benchmarks/monotone.py --data DIR [--sets abalone cal_housing house_8L] [--rows 6000] [--figure FILE]

With --figure the mean prediction of the last table along the constrained column --column is drawn, with and without
the constraints. Columns are counted from zero; by default it is the first with a constraint.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.ensemble import HistGradientBoostingRegressor

import phimap as pm
from phimap.bench.tabular.tables import load
from phimap.report.certainty_figures import beside

SETS = ("abalone", "cal_housing", "house_8L")
N_CONSTRAINED, GRID, ROWS_OF_GRID = 3, 50, 200


def constraints_of(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A sign for each column; zero for columns without a constraint."""
    correlations = np.nan_to_num([spearmanr(column, y)[0] for column in X.T])
    chosen = np.argsort(-np.abs(correlations))[:N_CONSTRAINED]
    signs = np.zeros(X.shape[1], int)
    signs[chosen] = np.sign(correlations[chosen])
    return signs


def along(model: Any, X: np.ndarray, rows: np.ndarray, column: int) -> tuple[np.ndarray, np.ndarray]:
    """A grid (g,) over the range of a column of X, and the outputs (g, r) for rows that have its values there."""
    values = np.linspace(X[:, column].min(), X[:, column].max(), GRID)
    changed = np.repeat(rows[None], GRID, axis=0)
    changed[:, :, column] = values[:, None]
    return values, model.predict(changed.reshape(-1, X.shape[1])).reshape(GRID, len(rows))


def worst_step(model: Any, X: np.ndarray, rows: np.ndarray, signs: np.ndarray) -> float:
    """The largest step against a constraint, as a share of the range of the outputs."""
    worst, scale = 0.0, np.ptp(model.predict(X))
    for column in np.flatnonzero(signs):
        outputs = along(model, X, rows, int(column))[1]
        worst = max(worst, float((-signs[column] * np.diff(outputs, axis=0)).max() / scale))
    return worst


def compare(name: str, arguments: argparse.Namespace) -> None:
    """One split of one table."""
    from lightgbm import LGBMRegressor

    table = load(name, arguments.data)
    train, test = table.split(0, arguments.rows)
    X, y, new, true = table.X[train], table.y[train], table.X[test], table.y[test]
    signs = constraints_of(X, y)
    start = time.process_time()
    ours = pm.KernelRegressor(monotonic_cst=signs, random_state=0).fit(X, y)
    seconds = time.process_time() - start
    free = pm.KernelRegressor("gaussian", 1024, corrections=None, trees=None, random_state=0).fit(X, y)
    boosting = LGBMRegressor(monotone_constraints=signs.tolist(), n_jobs=1, random_state=0, verbose=-1).fit(X, y)
    histogram = HistGradientBoostingRegressor(monotonic_cst=signs, random_state=0).fit(X, y)
    errors = [
        np.sqrt(np.mean((model.predict(new) - true) ** 2)) / true.std() for model in (ours, boosting, histogram, free)
    ]
    steps = [worst_step(model, X, new[:ROWS_OF_GRID], signs) for model in (ours, free)]
    print(
        f"{name:14s} {' '.join(f'{error:7.3f}' for error in errors)}   {' '.join(f'{step:8.5f}' for step in steps)}   "
        f"{seconds:4.0f} s",
        flush=True,
    )
    if arguments.figure is not None:
        column = int(np.flatnonzero(signs)[0]) if arguments.column is None else arguments.column
        found = []
        for label, model in (("constrained", ours), ("free", free)):
            values, outputs = along(model, X, new[:ROWS_OF_GRID], column)
            found.append((label, values, outputs.mean(axis=1)))
        alt = f"Mean prediction of {name} along column {column}, with and without monotone constraints."
        words = f"column {column} of {name}", f"mean prediction, {name}"
        beside(found, "monotone", words, alt).write(arguments.figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--column", type=int)
    arguments = parser.parse_args()
    print("error: ours, LightGBM, HistGradientBoosting constrained, ours free; worst step: constrained, free; a fit")
    for name in arguments.sets:
        compare(name, arguments)


if __name__ == "__main__":
    main()
