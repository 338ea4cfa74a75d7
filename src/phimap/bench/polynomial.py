"""Error and time of every sketch of the polynomial kernel against its number of features, for several degrees.

Rows have norm 1, and the kernel is ``<x, y>^p`` or ``(1 + <x, y>)^p``. The second kernel is, up to a factor, the kernel
``(1 - |x - y|^2 / 4)^p`` of Pennington, Yu, Kumar (2015), *Spherical random features for polynomial kernels*, which
Wacker, Kanagawa, Filippone (2022), *Improved random features for dot product kernels*, use with high degrees. Our
sketches are compared with scikit-learn's PolynomialCountSketch, the TensorSketch of Pham and Pagh (2013).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.kernel_approximation import PolynomialCountSketch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import SETS, load, unit_rows
from phimap.bench.experiment import Report, ResultTable, mean_and_standard_deviation, measured, spread
from phimap.bench.figures import curves, finish, mark_widths, panels, plot_curves, styles
from phimap.bench.options import BenchOptions
from phimap.bench.uci import REGRESSION, load_regression
from phimap.features.power_series.powers import METHODS as POWERS
from phimap.kernels import Polynomial

DEGREES = (2, 3, 7, 10, 20)
COEF0 = (0, 1)
WIDTHS = (512, 2048, 8192)
ERROR_ROWS = 1000
#: Name of scikit-learn's map, and name of our map that the last table compares with it.
PEER, OURS = "scikit-learn", "polysketch"
# Maximum number of rows to which maps are fitted.
_FIT_ROWS = 5000
# Maximum of the product of rows, degree and width in one call of `transform`. Scikit-learn's map holds so many numbers
# in memory at once: the transforms of all rows.
_PIECE = 2**25


def _features(degree: int, coef0: int, width: int, seed: int, **options: object) -> Any:
    kernel = Polynomial(degree, gamma=1.0, coef0=coef0)
    return pm.DotProductFeatures(kernel, width, random_state=seed, **options)  # pyright: ignore[reportArgumentType]


def _plain(sketch: type[pm.sketches.Sketch], degree: int, coef0: int, width: int, seed: int) -> Any:
    """Sketch the whole kernel at once, as the power `degree` of the inner product of rows (x, sqrt(coef0))."""
    power = sketch(width, degree=degree, random_state=seed)  # pyright: ignore[reportCallIssue]
    return make_pipeline(FunctionTransformer(partial(_extended, value=coef0**0.5)), power) if coef0 else power


def _extended(X: np.ndarray, value: float) -> np.ndarray:
    return np.column_stack([X, np.full(len(X), value, X.dtype)])


#: Functions that make a map from degree, constant, number of features and seed, by the map's name. The maps are
#: `DotProductFeatures` with each of its methods and without adaptation to the data, sketches of the whole power, and
#: scikit-learn's map.
METHODS: dict[str, Callable[[int, int, int, int], Any]] = {
    **{method: partial(_features, method=method) for method in POWERS},
    "oblivious": partial(_features, adaptive=False),
    "plain-polysketch": partial(_plain, pm.sketches.PolySketch),
    "plain-tensorsketch": partial(_plain, pm.sketches.TensorSketch),
    PEER: lambda degree, coef0, width, seed: PolynomialCountSketch(
        gamma=1.0, degree=degree, coef0=coef0, n_components=width, random_state=seed
    ),
}


def run(
    name: str,
    X: np.ndarray,
    methods: Sequence[str],
    *,
    degrees: Sequence[int] = DEGREES,
    coef0: Sequence[int] = COEF0,
    widths: Sequence[int] = WIDTHS,
    n_rows: int = ERROR_ROWS,
    draws: Sequence[int] = range(3),
) -> Iterator[dict[str, Any]]:
    """Measure the methods, keys of `METHODS`, on one set of rows, each scaled to norm 1.

    The error is measured on the same rows for all draws, and maps are fitted to other rows if there are enough. For
    each kernel, the loop over the seeds `draws` encloses the loop over methods, so that other load on the machine slows
    all methods alike. In a measurement, `coef0` is the constant of the kernel, `fit_seconds` the time of drawing the
    map, and `seconds` the time of mapping the rows on which the error is measured.
    """
    X = unit_rows(X[np.random.default_rng(draws[0]).permutation(len(X))])
    rows = X[:n_rows]
    others = X[n_rows : n_rows + _FIT_ROWS] if len(X) > 2 * n_rows else X
    for degree, constant in product(degrees, coef0):
        exact = Polynomial(degree, gamma=1.0, coef0=constant)(rows.astype(np.float64))
        size = np.linalg.norm(exact)
        for method in methods:
            # The first call compiles or loads code. The measured times must not include it.
            METHODS[method](degree, constant, 64, draws[0]).fit(others[:64]).transform(rows[:2])
        for draw, method, width in product(draws, methods, widths):
            phi = METHODS[method](degree, constant, width, draw)
            start = time.perf_counter()
            phi.fit(others)
            fitted = time.perf_counter()
            piece = max(1, _PIECE // (degree * width))
            pieces = [phi.transform(rows[first : first + piece]) for first in range(0, len(rows), piece)]
            seconds = time.perf_counter() - fitted
            Z = np.concatenate(pieces).astype(np.float64)
            case = {
                "dataset": name,
                "method": method,
                "degree": degree,
                "coef0": constant,
                "width": width,
                "seed": draw,
            }
            error = float(np.linalg.norm(Z @ Z.T - exact) / size)
            yield case | {"error": error, "fit_seconds": fitted - start, "seconds": seconds}


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure the chosen sets, and make a table for each kernel, a comparison with scikit-learn, and figures."""
    draws, methods = options.seeds(3), options.chosen(METHODS)
    widths, n_rows = sorted(options.widths or WIDTHS), options.rows or ERROR_ROWS
    # All sets are read before the first is measured, so that a missing file is reported at once.
    loaded = {name: _load(name, options) for name in options.sets or ("MNIST", "letter", "protein")}
    total = len(DEGREES) * len(COEF0) * len(methods) * len(widths) * len(draws)
    asked: dict[str, Any] = {"degrees": DEGREES, "widths": widths, "n_rows": n_rows, "draws": draws}
    by_set = {name: measured(stages, name, run(name, X, methods, **asked), total) for name, X in loaded.items()}
    found = pd.concat(by_set.values(), ignore_index=True)
    tables = [
        _table(part, *kernel)
        for of_set in by_set.values()
        for kernel, part in of_set.groupby(["dataset", "coef0", "degree"])
    ]
    if PEER in methods and OURS in methods:
        tables.append(_comparison(found))
    figures = {
        f"polynomial_{name}_{coef0}.png": partial(_figure, part, name, coef0)
        for (name, coef0), part in found.groupby(["dataset", "coef0"])
    }
    return Report(found, tables, figures)


def _load(name: str, options: BenchOptions) -> np.ndarray:
    """Load the rows (n, d) of a set. Columns of regression sets are scaled to [0, 1], other sets as `SETS` states."""
    if name in SETS:
        return load(name, options.data, options.seed).X
    if name not in REGRESSION:
        raise ValueError(f"--sets must be among {', '.join((*SETS, *REGRESSION))}, got {name!r}.")
    X, _ = load_regression(name, options.data)
    widths = np.ptp(X, axis=0)
    return (X - X.min(axis=0)) / np.where(widths > 0, widths, 1.0)


def _kernel(degree: int | str, coef0: int) -> str:
    return f"({coef0} + <x, y>)^{degree}" if coef0 else f"<x, y>^{degree}"


def _table(found: pd.DataFrame, dataset: str, coef0: int, degree: int) -> ResultTable:
    """Return the table of mean errors and smallest times of the methods by width."""
    errors = spread(found, "method", "width", "error", mean_and_standard_deviation, "m = {:,}")
    seconds = spread(found, "method", "width", "seconds", "min", "s, {:,}")
    frame = errors.merge(seconds, on="method", sort=False)
    widest = found[found["width"] == found["width"].max()]
    frame["s, fit"] = frame["method"].map(widest.groupby("method")["fit_seconds"].min())
    formats = dict.fromkeys([*seconds.columns[1:], "s, fit"], ".2g")
    return ResultTable(f"{dataset}, {_kernel(degree, coef0)}: relative error, seconds", frame, formats)


def _comparison(found: pd.DataFrame) -> ResultTable:
    """Return the table of error and time of our map relative to scikit-learn's map, at the largest width."""
    width = found["width"].max()
    means = found[found["width"] == width].groupby(["method", "dataset", "coef0", "degree"], sort=False)
    means = means.agg({"error": "mean", "seconds": "min"})
    ratios = means.loc[OURS] / means.loc[PEER]
    cells = ratios.apply(lambda row: f"{row['error']:.2g}, {row['seconds']:.2g}", axis=1).rename("cell").reset_index()
    frame = spread(cells, ["dataset", "coef0"], "degree", "cell", "first", "p = {}")
    frame["coef0"] = [_kernel("p", coef0) for coef0 in frame["coef0"]]
    frame = frame.rename(columns={"dataset": "data set", "coef0": "kernel"})
    return ResultTable(f"error and seconds of {OURS} over those of PolynomialCountSketch, m = {width:,}", frame)


def _figure(found: pd.DataFrame, dataset: str, coef0: int, path: Path) -> None:
    """Plot error (top row) and seconds (bottom row) against the width, with one column of panels for each degree."""
    degrees, style = found.groupby("degree"), styles(found["method"], black=PEER)
    figure, axes = panels(3.2 * len(degrees), 6.2, 2, len(degrees), sharex=True, sharey="row")
    for (above, below), (degree, chosen) in zip(axes.T, degrees, strict=True):
        lines = curves(chosen, "width", error="mean", seconds="min")
        for axis, measure in ((above, "error"), (below, "seconds")):
            plot_curves(axis, lines, None, measure, style)
            mark_widths(axis, chosen["width"])
            axis.set_yscale("log")
        above.set_title(_kernel(degree, coef0))
        below.set_xlabel("features m")
    axes[0, 0].set_ylabel("relative error")
    axes[1, 0].set_ylabel("seconds")
    finish(figure, axes.ravel(), path, title=f"{dataset}, rows of norm 1", columns=9)
