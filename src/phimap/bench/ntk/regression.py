"""Kernel ridge regression on UCI sets: exact kernels, random Fourier features and neural tangent features.

Zandieh, Han, Avron, Shoham, Kim, Shin (2021), *Scaling neural tangent kernels via sketching and random features*,
Section 5.3 and Table 2: 8,192 features, mean squared error in original units over four folds, and the seconds of the
whole regression. Han et al. (2021), Table 2, is the same with 10,000 features.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import phimap as pm
from phimap._progress import Stages
from phimap.bench.exact_ridge import fit_predict
from phimap.bench.experiment import Report, Table, as_dicts, grouped, mean_and_standard_deviation, measured, values
from phimap.bench.ntk.methods import METHODS as MAPS
from phimap.bench.options import BenchOptions
from phimap.bench.uci import load_regression
from phimap.kernels import NTK, Gaussian, Kernel
from phimap.learn.search.length_scale import median_length_scale

WIDTH = 8192
FOLDS = 4
SETS = ("protein", "kin40k", "elevators", "cal_housing", "cpu_act")
CHOSEN = ("rbf", "rff", "ntk", "published", "features")
#: Published mean squared errors and seconds, by source, set and method; the seconds are of the papers' machines.
PUBLISHED = {
    "Zandieh et al. 2021, m = 8,192": {
        "protein": {
            "rbf": (18.96, 46.45),
            "rff": (19.72, 12.1),
            "ntk": (20.24, 76.93),
            "NTKRF": (20.51, 4.3),
            "NTKSketch": (21.19, 14.91),
        },
    },
    "Han et al. 2021, m = 10,000": {
        "protein": {
            "rbf": (112.82, 110.2),
            "rff": (81.98, 14.6),
            "ntk": (90.03, 243.0),
            "NTKRF": (90.28, 13.9),
            "NTKRF, Gibbs": (85.99, 16.1),
        },
    },
}
# The kernel of more rows takes minutes to factorise.
_EXACT_ROWS = 5000
_SCALE_ROWS = 1000


@dataclass(frozen=True)
class Measurement:
    """One fold of one method.

    Attributes
    ----------
    dataset, method : str
    depth : int
        0 for kernels without one.
    n_rows, fold : int
        `n_rows` of the set, training and test.
    mse : float
    seconds : float
        Features, fit and prediction.
    """

    dataset: str
    method: str
    depth: int
    n_rows: int
    fold: int
    mse: float
    seconds: float


def run(
    name: str,
    X: np.ndarray,
    y: np.ndarray,
    methods: Sequence[str],
    *,
    depths: Sequence[int] = (1,),
    width: int = WIDTH,
    seed: int = 0,
) -> Iterator[Measurement]:
    """Fit every method in every fold, with `width` features.

    Where an exact kernel is asked for and the rows are more than 5,000, all is done on 5,000 of them as well, and the
    exact kernels there alone. Methods are ``"rbf"``, ``"rff"``, ``"ntk"`` or those of the error's experiment. The seed
    is that of the folds and of the maps.
    """
    order = np.random.default_rng(seed).permutation(len(X))
    exact = bool({"rbf", "ntk"} & set(methods))
    for size in sorted({min(len(X), _EXACT_ROWS), len(X)}) if exact else [len(X)]:
        folds = np.array_split(order[:size], FOLDS)
        for fold, test in enumerate(folds):
            train = np.concatenate(folds[:fold] + folds[fold + 1 :])
            mean, standard_deviation = X[train].mean(axis=0), X[train].std(axis=0)
            scaled = ((X - mean) / np.where(standard_deviation > 0, standard_deviation, 1.0)).astype(np.float32)
            for method in methods:
                for depth in depths if method not in ("rbf", "rff") else (0,):
                    if method not in ("rbf", "ntk") or size <= _EXACT_ROWS:
                        start = time.perf_counter()
                        predicted = _predict(method, depth, width, scaled[train], y[train], scaled[test], seed)
                        seconds = time.perf_counter() - start
                        mse = float(np.square(predicted - y[test]).mean())
                        yield Measurement(name, method, depth, size, fold, mse, seconds)


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
    """Fit the methods asked for: a table for each set and number of rows, with the published figures."""
    methods = options.chosen(("rbf", "rff", "ntk", *MAPS)) if options.methods else list(CHOSEN)
    depths, width = options.depths or (1, 3), (options.widths or [WIDTH])[0]
    loaded = {name: load_regression(name, options.data) for name in options.sets or SETS}
    found: list[Measurement] = []
    for name, (X, y) in loaded.items():
        chosen = np.random.default_rng(options.seed).permutation(len(X))[: options.rows]
        fits = run(name, X[chosen], y[chosen], methods, depths=depths, width=width, seed=options.seed)
        found += measured(stages, name, fits)
    tables = [_table(group, *key, width=width) for key, group in grouped(found, "dataset", "n_rows").items()]
    for source, by_set in PUBLISHED.items():
        lines = [
            (f"{name}, {method}", f"{mse:g}", f"{seconds:g}")
            for name, figures in by_set.items()
            if name in loaded
            for method, (mse, seconds) in figures.items()
        ]
        if lines:
            tables.append(Table(f"published: {source}", ("set, method", "MSE", "seconds there"), lines))
    return Report(as_dicts(found), tables)


def _table(found: Sequence[Measurement], dataset: str, n_rows: int, *, width: int) -> Table:
    lines = []
    for (method, depth), folds in grouped(found, "method", "depth").items():
        name = f"{method}, depth {depth}" if depth else method
        lines.append(
            (name, mean_and_standard_deviation(values(folds, "mse")), f"{values(folds, 'seconds').mean():.2f}")
        )
    title = f"{dataset}, {n_rows:,} rows, {width:,} features: mean squared error over {FOLDS} folds"
    return Table(title, ("method", "MSE", "seconds a fold"), lines)
