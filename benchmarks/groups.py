"""Rows in groups: `KernelRegressor` with and without `groups`, beside ridge regression and boosting, on new groups.

Prints for each table and fold of `GroupKFold` the RMSE on new groups of the mean, ridge regression (its alpha by
grouped folds), HistGradientBoosting, and of our default fit without groups and with them; the RMSE that the fit with
groups told over that on new groups (within 10 % is asked for), the same without groups; and the shares of rows of new
groups within intervals of 90 %, without groups and with them. The tables are

- made: 300 groups of 8 rows, six columns that are constant in a group and two that are not; the target is linear in all
  of them, with an offset of standard deviation 1 for each group and noise of 0.3;
- parkinsons: 5,875 recordings of 42 subjects, whose number is the group and no feature.

    python benchmarks/groups.py --data DIR [--tables made parkinsons] [--figure FILE]

With --figure the RMSE on new groups is drawn against the one that the fit told, for the folds of the last table.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import phimap as pm
from phimap.bench.tabular.tables import load
from phimap.learn.rows.grouped import GroupedRowsWarning
from phimap.report.certainty_figures import beside

FOLDS = {"made": 3, "parkinsons": 5}
ALPHAS = np.logspace(-2, 4, 19)


def made() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, targets and groups, in random order."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(300), 8)
    X = np.hstack([rng.standard_normal((300, 6))[groups], rng.standard_normal((groups.size, 2))])
    y = X @ np.linspace(-0.3, 0.3, 8) + rng.standard_normal(300)[groups] + 0.3 * rng.standard_normal(groups.size)
    order = rng.permutation(groups.size)
    return X[order], y[order], groups[order]


def rmse(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


def within(model: pm.KernelRegressor, X: np.ndarray, y: np.ndarray) -> float:
    """Share of targets within intervals of 90 %, in percent."""
    low, high = model.predict_interval(X, 0.9).T
    return 100 * float(np.mean((low <= y) & (y <= high)))


def compare(name: str, data: Path, figure: Path | None) -> np.ndarray:
    """Print the errors of each fold; return their means."""
    if name == "made":
        X, y, groups = made()
    else:
        table = load(name, data)
        X, y, groups = table.X[:, 1:], table.y, np.unique(table.X[:, 0], return_inverse=True)[1]
    lines = []
    for train, test in GroupKFold(FOLDS[name]).split(X, y, groups):
        seen, new = (X[train], y[train]), (X[test], y[test])
        folds = list(GroupKFold(5).split(*seen, groups[train]))
        ridge = GridSearchCV(make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": ALPHAS}, cv=folds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GroupedRowsWarning)
            rows = pm.KernelRegressor(random_state=0).fit(*seen)
        grouped = pm.KernelRegressor(random_state=0).fit(*seen, groups=groups[train])
        models = (ridge.fit(*seen), HistGradientBoostingRegressor(random_state=0).fit(*seen), rows, grouped)
        errors = [float(np.sqrt(np.mean((new[1] - seen[1].mean()) ** 2))), *(rmse(model, *new) for model in models)]
        told = [np.sqrt(model.solution_.scores.min()) / rmse(model, *new) for model in (grouped, rows)]
        lines.append([*errors, *told, within(rows, *new), within(grouped, *new)])
        show(name, lines[-1])
    if figure is not None:
        by_rows, with_groups, share, share_by_rows = np.array(lines)[:, 3:7].T
        found = [
            ("with groups", share * with_groups, with_groups),
            ("without groups", share_by_rows * by_rows, by_rows),
        ]
        alt = f"RMSE on new groups against the RMSE told by the fit, {name}: with groups near the diagonal."
        beside(found, "told", ("RMSE told by the fit", "RMSE on new groups"), alt, diagonal=True).write(figure)
    return np.mean(lines, axis=0)


def show(name: str, line: Any) -> None:
    print(f"{name:16s} {' '.join(f'{one:7.3f}' for one in line[:7])} {' '.join(f'{one:6.1f}' for one in line[7:])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("PHIMAP_DATA"))
    parser.add_argument("--tables", nargs="+", choices=FOLDS, default=list(FOLDS))
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    print("RMSE: mean, ridge, boosting, ours by rows, ours with groups; told / new with groups, by rows; within 90 %")
    for name in arguments.tables:
        show(f"{name}, mean", compare(name, arguments.data, arguments.figure))


if __name__ == "__main__":
    main()
