"""Kernel ridge regression on UCI sets: exact kernels, random Fourier features and neural tangent features.

Zandieh, Han, Avron, Shoham, Kim, Shin (2021), *Scaling neural tangent kernels via sketching and random features*,
Section 5.3 and Table 2: 8,192 features, mean squared error in original units over four folds, and the seconds of the
whole regression. Table 2 of Han et al. (2021) has the same measures with 10,000 features.

The default is 10,000 rows of each set and 8,192 features; ``--rows 500000`` takes all rows, and ``--features 10000`` is
the width of Han et al. Exact kernels are fitted to at most 5,000 rows, and the other methods to these rows as well. The
sets of the papers are protein and four large sets whose file users convert themselves (`uci_large.npz`); missing sets
are skipped.

Differences from the source: columns are standardised on the training rows of each fold for every set, while the
authors' code only centres CT slices. As in their code, the folds of the papers' sets are consecutive rows; CT slices is
sorted by patient, so different folds contain different patients. The papers count fewer rows than the files have,
without stating why.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import standardised
from phimap.bench.exact_ridge import fit_predict
from phimap.bench.experiment import Finding, Report, ResultTable, mean_and_standard_deviation, measured, read_sets
from phimap.bench.ntk.methods import METHODS as MAPS
from phimap.bench.options import BenchOptions
from phimap.bench.uci import load_regression
from phimap.kernels import NTK, Gaussian, Kernel
from phimap.learn.search.families import median_length_scale

WIDTH = 8192
FOLDS = 4
CHOSEN = ("rbf", "rff", "ntk", "published", "published-countsketch", "published-gibbs", "sketch", "features")
#: Number of rows of each set as stated in the papers.
PUBLISHED_ROWS = {
    "MillionSongs": 467_315,
    "WorkLoads": 179_585,
    "CT": 53_500,
    "protein": 39_617,
    "SuperConduct": 19_077,
}
# Published mean squared errors, and seconds on the papers' machines. The keys are the paper and the width, then the
# set. The columns are the methods in `_COLUMNS`.
_COLUMNS = ("rbf", "rff", "ntk", "published", "sketch", "published-countsketch", "published-gibbs")
_RESULTS = {
    ("Zandieh et al. (2021)", 8192): {
        "MillionSongs": (None, (109.5, 231), None, (94.27, 95), (92.83, 36)),
        "WorkLoads": (None, (40340, 53.0), None, (35540, 35.7), (35380, 27.5)),
        "CT": ((35.37, 59.23), (48.2, 15.2), (30.52, 72.1), (46.91, 2.12), (46.52, 18.8)),
        "protein": ((18.96, 46.45), (19.72, 12.1), (20.24, 76.93), (20.51, 4.3), (21.19, 14.91)),
    },
    ("Han et al. (2021)", 10_000): {
        "MillionSongs": (None, (108.5, 159), None, None, None, (80.77, 149.7), (80.94, 168.5)),
        "WorkLoads": (None, (70500, 63.7), None, None, None, (24300, 50.9), (23800, 53.0)),
        "protein": ((112.82, 110.2), (81.98, 14.6), (90.03, 243.0), None, None, (90.28, 13.9), (85.99, 16.1)),
        "SuperConduct": ((2239.83, 19.5), (1175.13, 7.1), (513.25, 51.9), None, None, (527.58, 7.9), (492.78, 12.7)),
    },
}
#: The published results. The keys are the paper and the width, then the set, then the method.
PUBLISHED = {
    paper: {
        name: {method: result for method, result in zip(_COLUMNS, row, strict=False) if result is not None}
        for name, row in by_set.items()
    }
    for paper, by_set in _RESULTS.items()
}
#: Names of the methods in the tables of the papers. Methods whose name starts with "our" are not in the papers.
_NAMES = {
    "rbf": "RBF kernel",
    "rff": "RFF",
    "ntk": "NTK",
    "published": "NTKRF",
    "published-countsketch": "NTKRF",
    "published-gibbs": "NTKRF with Gibbs sampling",
    "sketch": "NTKSketch",
    "features": "our NTKFeatures",
}
_MOST_ROWS = 10_000
# Maximum number of rows for exact kernels. The factorisation of a larger kernel matrix takes minutes.
_EXACT_ROWS = 5000
_SCALE_ROWS = 1000


def run(
    name: str,
    X: np.ndarray,
    y: np.ndarray,
    methods: Sequence[str],
    *,
    depths: Sequence[int] = (1,),
    width: int = WIDTH,
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    """Fit every method in every fold, with `width` features.

    If an exact kernel is among the methods and there are more than 5,000 rows, all methods are also fitted to 5,000 of
    the rows, and exact kernels only to these 5,000. Methods are ``"rbf"``, ``"rff"``, ``"ntk"`` or keys of
    `phimap.bench.ntk.methods.METHODS`. The seed draws the folds and the maps. Folds of the papers' sets are consecutive
    rows, and folds of other sets are random.

    In a measurement, `depth` is 0 for kernels without a depth. `n_rows` is the number of training and test rows
    together. `seconds` is the time of forming features, fitting and predicting.
    """
    order = np.random.default_rng(seed).permutation(len(X))
    consecutive = name in PUBLISHED_ROWS
    exact = bool({"rbf", "ntk"} & set(methods))
    for size in sorted({min(len(X), _EXACT_ROWS), len(X)}) if exact else [len(X)]:
        folds = np.array_split(np.sort(order[:size]) if consecutive else order[:size], FOLDS)
        for fold, test in enumerate(folds):
            train = np.concatenate(folds[:fold] + folds[fold + 1 :])
            scaled = standardised(X, X[train])
            for method in methods:
                if method in ("rbf", "ntk") and size > _EXACT_ROWS:
                    continue
                for depth in depths if method not in ("rbf", "rff") else (0,):
                    start = time.perf_counter()
                    predicted = _predict(method, depth, width, scaled[train], y[train], scaled[test], seed)
                    seconds = time.perf_counter() - start
                    row = {"dataset": name, "method": method, "depth": depth, "n_rows": size, "fold": fold}
                    yield row | {"mse": float(np.square(predicted - y[test]).mean()), "seconds": seconds}


def _predict(
    method: str, depth: int, width: int, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, seed: int
) -> np.ndarray:
    if method in ("rbf", "ntk"):
        kernel: Kernel = NTK(depth) if method == "ntk" else Gaussian(median_length_scale(X[:_SCALE_ROWS]))
        return fit_predict(kernel, X.astype(np.float64), y[:, None], X_test.astype(np.float64), seed)[:, 0]
    if method == "rff":
        kernel = Gaussian(median_length_scale(X[:_SCALE_ROWS]))
        phi = pm.FourierFeatures(kernel, width, projection="gaussian", random_state=seed)
    else:
        phi = MAPS[method](depth, width, X.shape[1], seed)
    return pm.KernelRegressor(phi, standardize=False, random_state=seed).fit(X, y).predict(X_test)


def report(options: BenchOptions, stages: Stages) -> Report:
    """Fit the chosen methods, and make a table for each set and number of rows, and tables of published values."""
    methods = options.chosen(("rbf", "rff", "ntk", *MAPS)) if options.methods else list(CHOSEN)
    depths, width = options.depths or (1,), (options.widths or [WIDTH])[0]
    optional = () if options.sets else set(PUBLISHED_ROWS) - {"protein"}
    loaded, missing = read_sets(
        lambda name: (name, *load_regression(name, options.data)), options.sets or PUBLISHED_ROWS, optional
    )
    parts = []
    for name, X, y in loaded:
        chosen = np.sort(np.random.default_rng(options.seed).permutation(len(X))[: options.rows or _MOST_ROWS])
        fits = run(name, X[chosen], y[chosen], methods, depths=depths, width=width, seed=options.seed)
        parts.append(measured(stages, name, fits))
    found = pd.concat(parts, ignore_index=True)
    tables = [_table(part, *key, width=width) for key, part in found.groupby(["dataset", "n_rows"], sort=False)]
    for (paper, m), by_set in PUBLISHED.items():
        lines = [
            {"set, method": f"{name}, {_NAMES[method]}", "MSE": mse, "seconds there": seconds}
            for name, figures in by_set.items()
            if name in set(found["dataset"])
            for method, (mse, seconds) in figures.items()
        ]
        if lines:
            formats = {"MSE": "g", "seconds there": "g"}
            tables.append(ResultTable(f"published: {paper}, m = {m:,}", pd.DataFrame(lines), formats))
    return Report(found, [*tables, *missing], findings=list(_findings(found, width)))


def _findings(found: pd.DataFrame, width: int) -> Iterator[Finding]:
    """Yield each method's error at its largest number of rows and its smallest depth, with both papers' values."""
    for (paper, m), by_set in PUBLISHED.items():
        for (name, method), of_method in found.groupby(["dataset", "method"], sort=False):
            published = by_set.get(name, {}).get(method)
            if name not in by_set or (published is None and method != "features"):
                continue
            n_rows, depth = of_method["n_rows"].max(), of_method["depth"].min()
            folds = of_method[(of_method["n_rows"] == n_rows) & (of_method["depth"] == depth)]
            run, theirs = [f"{n_rows:,} rows"], [f"{PUBLISHED_ROWS[name]:,} rows"]
            if method not in ("rbf", "ntk"):
                run.append(f"m = {width:,}")
                theirs.append(f"m = {m:,}")
            run += [f"depth {depth}"] if depth else []
            yield Finding(
                paper,
                f"Table 2, {name}, {_NAMES[method]}",
                "mean squared error, seconds a fold",
                ", ".join(run),
                f"{mean_and_standard_deviation(folds['mse'])}, {folds['seconds'].mean():.1f}",
                "-" if published is None else f"{published[0]:,}, {published[1]:g}",
                "-" if published is None else ", ".join(theirs),
            )


def _table(found: pd.DataFrame, dataset: str, n_rows: int, *, width: int) -> ResultTable:
    frame = found.groupby(["method", "depth"], sort=False, as_index=False)
    frame = frame.agg({"mse": mean_and_standard_deviation, "seconds": "mean"})
    depths = [f", depth {depth}" if depth else "" for depth in frame.pop("depth")]
    frame = frame.assign(method=frame["method"] + depths).set_axis(["method", "MSE", "seconds a fold"], axis=1)
    title = f"{dataset}, {n_rows:,} rows, {width:,} features: mean squared error over {FOLDS} folds"
    return ResultTable(title, frame, {"seconds a fold": ".2f"})
