"""Error and accuracy of data-dependent and data-independent features, against number of features and time.

Liu, Huang, Chen, Suykens (2021), *Random features for kernel approximation*, Sections 2.4 and 4, describe the methods
without measuring them. All times are times of a whole fit, including the selection of features and the choice of alpha.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import phimap as pm
from phimap._progress import Stages
from phimap.bench import datasets, uci
from phimap.bench.experiment import Finding, Report, ResultTable, mean_and_standard_deviation, measured, spread
from phimap.bench.figures import curves, finish, mark_widths, panels, plot_curves, styles
from phimap.bench.options import BenchOptions
from phimap.kernels import FiniteSpectrum, Gaussian
from phimap.learn.search.families import median_length_scale

WIDTHS = (64, 128, 256, 512, 1024)
#: Length scales of the Gaussian kernel, in units of the median distance: the usual length scale, and one that is much
#: too small.
SCALES = (1.0, 0.25)
_SETS, _BUNDLED = ("letter", "magic04", "protein"), ("digits", "diabetes")
_MOST_ROWS, _TEST_ROWS = 8000, 4000
# Number of rows on which the error of the kernel is measured.
_ERROR_ROWS = 1000
#: Name of the method that learns a metric, including the length scale.
METRIC = "learned metric"


def _compressed(kernel: Gaussian, m: int, method: str) -> Any:
    return pm.CompressedFeatures(pm.FourierFeatures(kernel, 4 * m, projection="gaussian"), m, method=method)


#: For each method, a function that makes the map from a kernel and a number of features. Reweighted features have
#: independent directions, so that they differ from plain features only in their weights.
MAPS: dict[str, Any] = {
    **{name: partial(pm.FourierFeatures, projection=name) for name in ("gaussian", "orthogonal", "minimum-energy")},
    "nystroem": pm.NystroemFeatures,
    "leverage": pm.LeverageFeatures,
    "surrogate": partial(pm.LeverageFeatures, scores="surrogate"),
    **{
        name: partial(pm.ReweightedFeatures, method=name, projection="gaussian")
        for name in ("kitchen-sinks", "polarization", "alignment", "stein", "least-squares")
    },
    **{name: partial(_compressed, method=name) for name in ("frank-wolfe", "giga")},
}


@dataclass(frozen=True)
class TableTask(datasets.Dataset):
    """Training and test rows with standardised columns and targets or labels, and the learner class."""

    learner: type


def load(name: str, folder: Path | None, seed: int = 0, most_rows: int = _MOST_ROWS) -> TableTask:
    """Read at most `most_rows` training rows and 4,000 test rows of a regression or classification set."""
    if name in uci.REGRESSION:
        X, y = uci.load_regression(name, folder)
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = np.split(order, [min(most_rows, 2 * len(order) // 3)])
        X, X_test, y, y_test = X[train], X[test], y[train], y[test]
        learner = pm.KernelRegressor
    else:
        data = datasets.load(name, folder, seed)
        order = np.random.default_rng(seed).permutation(len(data.X))[:most_rows]
        X, X_test, y, y_test = data.X[order], data.X_test, data.y[order], data.y_test
        learner = pm.KernelClassifier
    X, X_test = (datasets.standardised(rows, X) for rows in (X, X_test))
    return TableTask(name, X, y, X_test[:_TEST_ROWS], y_test[:_TEST_ROWS], learner)


def run(
    task: TableTask, methods: Sequence[str], *, widths: Sequence[int] = WIDTHS, draws: Sequence[int] = range(3)
) -> Iterator[dict[str, Any]]:
    """Fit every method at every scale and width.

    Each method is first fitted once without timing, because its first fit compiles loops.

    In a measurement, `scale` is the length scale of the kernel in units of the median distance, NaN if it was searched
    for. `error` is the relative Frobenius error against the Gaussian kernel on test rows, NaN for methods that estimate
    another kernel.
    `score` is the accuracy in percent or 100 R2 on the test rows. `map_seconds` is the time of a separate fit of the
    map, NaN if the learner makes the map. `seconds` is the time of the learner's fit.
    """
    median = median_length_scale(task.X[:_ERROR_ROWS])
    for method in methods:
        _fitted(task, method, Gaussian(median), min(widths), 0)
        scales = (float("nan"),) if method == METRIC else SCALES
        for scale, width, seed in product(scales, widths, draws):
            case = {"dataset": task.name, "method": method, "scale": scale, "n_components": width, "seed": seed}
            yield case | _measured(task, method, Gaussian(median * scale), width, seed)


def _measured(task: TableTask, method: str, kernel: Gaussian, width: int, seed: int) -> dict[str, float]:
    model, seconds = _fitted(task, method, kernel, width, seed)
    error = map_seconds = float("nan")
    if method != METRIC:
        start = time.perf_counter()
        phi = MAPS[method](kernel, width).set_params(random_state=seed)
        phi.fit(task.X[: phi.fit_rows()], task.y[: phi.fit_rows()])
        map_seconds = time.perf_counter() - start
        if not isinstance(phi.kernel_, FiniteSpectrum):
            error = pm.metrics.relative_error(phi, task.X_test, n_subset=_ERROR_ROWS)
    score = 100 * float(model.score(task.X_test, task.y_test))
    return {"error": error, "score": score, "map_seconds": map_seconds, "seconds": seconds}


def _fitted(task: TableTask, method: str, kernel: Gaussian, width: int, seed: int) -> tuple[Any, float]:
    """Return the learner fitted to a method's features, and the seconds of the fit."""
    if method == METRIC:
        model: Any = task.learner("gaussian", width, metric="auto", random_state=seed)
    else:
        phi = MAPS[method](kernel, width).set_params(random_state=seed)
        model = task.learner(phi, standardize=None, random_state=seed)
    start = time.perf_counter()
    model.fit(task.X, task.y)
    return model, time.perf_counter() - start


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure the chosen sets and methods, and make tables of errors, scores and times, and figures for each set."""
    draws, methods = options.seeds(3), options.chosen([*MAPS, METRIC])
    has_folder = options.data is not None or "PHIMAP_DATA" in os.environ
    names = options.sets or (_SETS if has_folder else _BUNDLED)
    # All sets are read before the first is measured, so that a missing file is reported at once.
    tasks = [load(name, options.data, options.seed, options.rows or _MOST_ROWS) for name in names]
    widths = sorted(options.widths or WIDTHS)
    n_fits = len(widths) * len(draws) * sum(1 if method == METRIC else len(SCALES) for method in methods)
    fits = {
        one.name: measured(stages, one.name, run(one, methods, widths=widths, draws=draws), n_fits) for one in tasks
    }
    tables, figures, findings = [], {}, []
    n_rows = {one.name: len(one.X) for one in tasks}
    for name, of_set in fits.items():
        for scale in SCALES:
            part = of_scale(of_set, scale)
            tables += [_table(name, scale, part, what) for what in _WORDS]
            figures[f"data-dependent_{name}_{scale:g}.png"] = partial(_figure, name, scale, part)
            findings += _findings(name, scale, part, n_rows[name])
        tables.append(equal_accuracy(name, of_set))
    return Report(pd.concat(fits.values(), ignore_index=True), tables, figures, findings)


def _findings(dataset: str, scale: float, found: pd.DataFrame, n_rows: int) -> Iterator[Finding]:
    """Return the smallest error and the best score at the middle width, and the results of plain features."""
    widths = sorted(set(found["n_components"]))
    width, draws = widths[len(widths) // 2], found["seed"].nunique()
    means = found[found["n_components"] == width].groupby("method", sort=False)[["error", "score"]].mean()
    for what, winner in (("error", means["error"].idxmin()), ("score", means["score"].idxmax())):
        if "gaussian" in means.index:
            place = f"Sections 2.4 and 4, {dataset}, length scale {scale:g} medians"
            ours = f"{means[what][winner]:.3g} ({winner}); plain features {means[what]['gaussian']:.3g}"
            size = f"{n_rows:,} training rows, {width:,} features, {draws} draws"
            yield Finding("Liu et al. (2021)", place, _WORDS[what], size, ours)


def of_scale(found: pd.DataFrame, scale: float) -> pd.DataFrame:
    """Select the measurements at this length scale, and all of the method that searches for a length scale."""
    return found[(found["scale"] == scale) | (found["method"] == METRIC)]


#: Names of the measured quantities in tables and figures.
_WORDS = {
    "error": "relative error of the kernel",
    "score": "test accuracy or 100 R2",
    "seconds": "seconds of the fit, selection included",
}


def _table(dataset: str, scale: float, found: pd.DataFrame, what: str) -> ResultTable:
    frame = spread(found.dropna(subset=what), "method", "n_components", what, mean_and_standard_deviation, "m = {}")
    return ResultTable(f"{dataset}, length scale {scale:g} medians: {_WORDS[what]}", frame)


def equal_accuracy(dataset: str, found: pd.DataFrame, baseline: str = "gaussian") -> ResultTable:
    """Return the share of the number of plain features with which each method reaches their mean score.

    Plain features are those of the `baseline`. Scores between the measured widths are interpolated linearly in the
    logarithm of the width. "<" marks a method that reaches the score at the smallest width already. ">" marks a method
    that does not reach the score at the largest width.
    """
    lines = []
    for scale in SCALES:
        scores = of_scale(found, scale).groupby(["method", "n_components"], sort=False)["score"].mean()
        curves = {method: part.droplevel(0).sort_index() for method, part in scores.groupby(level=0, sort=False)}
        plain = curves.pop(baseline, pd.Series(dtype=float)).iloc[1:]
        for method, curve in curves.items():
            shares = {f"of {width}": _share(curve, width, score) for width, score in plain.items()}
            lines.append({"length scale, method": f"{scale:g} {method}"} | shares)
    return ResultTable(f"{dataset}: share of the number of plain features that gives their score", pd.DataFrame(lines))


def _share(curve: pd.Series, width: float, score: float) -> str:
    """Format the share of `width` at which `curve`, which holds scores by width, first reaches `score`."""
    widths, scores = curve.index.to_numpy(), curve.to_numpy()
    above = np.flatnonzero(scores >= score)
    if not above.size:
        return f"> {widths[-1] / width:.2g}"
    place = int(above[0])
    if place == 0:
        return f"< {widths[0] / width:.2g}"
    part = (score - scores[place - 1]) / (scores[place] - scores[place - 1])
    return f"{widths[place - 1] * (widths[place] / widths[place - 1]) ** part / width:.2f}"


def _figure(dataset: str, scale: float, found: pd.DataFrame, path: Path) -> None:
    """Plot error and score against the width, and score against the seconds of the fit."""
    figure, (axes,) = panels(13, 4.2, columns=3)
    means, style = curves(found, "n_components", **dict.fromkeys(_WORDS, "mean")), styles(found["method"])
    for axis, x, y in zip(axes, (None, None, "seconds"), ("error", "score", "score"), strict=True):
        plot_curves(axis, {method: means[method] for method in style}, x, y, style)
        axis.set(ylabel=_WORDS[y], xscale="log", xlabel="features" if x is None else _WORDS[x])
        if x is None:
            mark_widths(axis, found["n_components"])
    axes[0].set_yscale("log")
    finish(figure, axes, path, title=f"{dataset}, length scale {scale:g} medians", columns=7)
