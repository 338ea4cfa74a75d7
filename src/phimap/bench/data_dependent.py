"""Features that look at the data beside those that do not: error and accuracy against their number, and against time.

Liu, Huang, Chen, Suykens (2021), *Random features for kernel approximation*, Sections 2.4 and 4, describe the methods
and measure none. Every time is that of a whole fit, the selection of features and the choice of alpha among it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import phimap as pm
from phimap._progress import Stages
from phimap.bench import datasets, uci
from phimap.bench.experiment import (
    Finding,
    Report,
    Table,
    as_dicts,
    grouped,
    having,
    mean_and_standard_deviation,
    measured,
    values,
)
from phimap.bench.figures import legend_below, mark_widths, panels, save, styles
from phimap.bench.options import BenchOptions
from phimap.kernels import FiniteSpectrum, Gaussian
from phimap.learn.search.length_scale import median_length_scale

WIDTHS = (64, 128, 256, 512, 1024)
#: Length scales of the Gaussian kernel, in medians of the distances: the usual one, and one that is far too narrow.
SCALES = (1.0, 0.25)
_SETS, _BUNDLED = ("letter", "magic04", "protein"), ("digits", "diabetes")
_MOST_ROWS, _TEST_ROWS = 8000, 4000
# Rows on which the error of the kernel is measured.
_ERROR_ROWS = 1000
#: The method that learns a metric, and the length scale with it.
METRIC = "learned metric"


def _reweighted(method: str) -> Any:
    # The draws are independent, so that the weights alone tell these from plain features.
    return lambda kernel, m: pm.ReweightedFeatures(kernel, m, method=method, projection="gaussian")


def _compressed(method: str) -> Any:
    def make(kernel: Gaussian, m: int) -> Any:
        wide = pm.FourierFeatures(kernel, 4 * m, projection="gaussian")
        return pm.CompressedFeatures(wide, m, method=method)

    return make


#: What makes the map of each method, from a kernel and a width.
MAPS: dict[str, Any] = {
    "gaussian": lambda kernel, m: pm.FourierFeatures(kernel, m, projection="gaussian"),
    "orthogonal": lambda kernel, m: pm.FourierFeatures(kernel, m, projection="orthogonal"),
    "minimum-energy": lambda kernel, m: pm.FourierFeatures(kernel, m, projection="minimum-energy"),
    "nystroem": lambda kernel, m: pm.NystroemFeatures(kernel, m),
    "leverage": lambda kernel, m: pm.LeverageFeatures(kernel, m),
    "surrogate": lambda kernel, m: pm.LeverageFeatures(kernel, m, scores="surrogate"),
    **{name: _reweighted(name) for name in ("kitchen-sinks", "polarization", "alignment", "stein", "least-squares")},
    "frank-wolfe": _compressed("frank-wolfe"),
    "giga": _compressed("giga"),
}


@dataclass(frozen=True)
class Task:
    """Training and test rows with standardised columns, and what learns on them.

    Attributes
    ----------
    name : str
    X, X_test : ndarray of shape (n, d), (n_test, d)
    y, y_test : ndarray of shape (n,), (n_test,)
    learner : type
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    learner: type


@dataclass(frozen=True)
class Measurement:
    """One fit.

    Attributes
    ----------
    dataset, method : str
    scale : float
        Length scale of the kernel in medians; NaN where it was searched for.
    n_components, seed : int
    error : float
        Relative Frobenius error against the Gaussian kernel on test rows; NaN for methods that make another kernel.
    score : float
        Accuracy in percent, or 100 R2, on the test rows.
    map_seconds : float
        Of the map's own fit, which is the selection; NaN where the learner makes the map.
    seconds : float
        Of the learner's fit.
    """

    dataset: str
    method: str
    scale: float
    n_components: int
    seed: int
    error: float
    score: float
    map_seconds: float
    seconds: float


def load(name: str, folder: Path | None, seed: int = 0, most_rows: int = _MOST_ROWS) -> Task:
    """Read a set of either kind, at most so many training rows and 4,000 test rows of it."""
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
    mean, spread = X.mean(axis=0), X.std(axis=0)
    X, X_test = (((rows - mean) / np.where(spread > 0, spread, 1.0)).astype(np.float32) for rows in (X, X_test))
    return Task(name, X, y, X_test[:_TEST_ROWS], y_test[:_TEST_ROWS], learner)


def run(
    task: Task, methods: Sequence[str], *, widths: Sequence[int] = WIDTHS, draws: Sequence[int] = range(3)
) -> Iterator[Measurement]:
    """Fit every method at every scale and width; the first fit of each, which compiles, is not counted."""
    median = median_length_scale(task.X[:_ERROR_ROWS])
    for method in methods:
        _fitted(task, method, Gaussian(median), min(widths), 0)
        for scale in (float("nan"),) if method == METRIC else SCALES:
            kernel = Gaussian(median * scale)
            for width in widths:
                for seed in draws:
                    yield _measured(task, method, kernel, scale, width, seed)


def _measured(task: Task, method: str, kernel: Gaussian, scale: float, width: int, seed: int) -> Measurement:
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
    return Measurement(task.name, method, scale, width, seed, error, score, map_seconds, seconds)


def _fitted(task: Task, method: str, kernel: Gaussian, width: int, seed: int) -> tuple[Any, float]:
    """The learner on a method's features, and the seconds of its fit."""
    if method == METRIC:
        model = task.learner("gaussian", width, metric="auto", random_state=seed)
    else:
        phi = MAPS[method](kernel, width).set_params(random_state=seed)
        model = task.learner(phi, standardize=None, random_state=seed)
    start = time.perf_counter()
    model.fit(task.X, task.y)
    return model, time.perf_counter() - start


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure the sets and methods asked for: tables of errors, scores and times, and figures of each set."""
    draws, methods = options.seeds(3), options.chosen([*MAPS, METRIC])
    has_folder = options.data is not None or "PHIMAP_DATA" in os.environ
    names = options.sets or (_SETS if has_folder else _BUNDLED)
    # Every set is read before the first is measured: a missing file shows at once.
    tasks = [load(name, options.data, options.seed, options.rows or _MOST_ROWS) for name in names]
    widths = sorted(options.widths or WIDTHS)
    n_fits = len(widths) * len(draws) * sum(1 if method == METRIC else len(SCALES) for method in methods)
    found: list[Measurement] = []
    for task in tasks:
        found += measured(stages, task.name, run(task, methods, widths=widths, draws=draws), n_fits)
    tables, figures = [], {}
    for task in tasks:
        for scale in SCALES:
            part = of_scale(having(found, dataset=task.name), scale)
            tables += [_table(task.name, scale, part, what) for what in ("error", "score", "seconds")]
            figures[f"data-dependent_{task.name}_{scale:g}.png"] = partial(_figure, task.name, scale, part)
        tables.append(equal_accuracy(task.name, having(found, dataset=task.name)))
    return Report(as_dicts(found), tables, figures, _findings(found))


def _findings(found: Sequence[Measurement]) -> list[Finding]:
    """The least error and the best score at the middle width, beside plain features; the survey prints none."""
    findings = []
    for (dataset,), of_set in grouped(found, "dataset").items():
        widths = sorted({one.n_components for one in of_set})
        width = widths[len(widths) // 2]
        for scale in SCALES:
            part = having(of_scale(of_set, scale), n_components=width)
            means = {method: fits for (method,), fits in grouped(part, "method").items()}
            draws = len({one.seed for one in part})
            for what, choose in (("error", min), ("score", max)):
                by_method = {name: float(values(fits, what).mean()) for name, fits in means.items()}
                by_method = {name: mean for name, mean in by_method.items() if not np.isnan(mean)}
                if "gaussian" not in by_method:
                    continue
                winner = choose(by_method, key=by_method.__getitem__)
                findings.append(
                    Finding(
                        "Liu et al. (2021)",
                        f"Sections 2.4 and 4, {dataset}, length scale {scale:g} medians",
                        _WORDS[what],
                        f"{width:,} features, {draws} draws",
                        f"{by_method[winner]:.3g} ({winner}); plain features {by_method['gaussian']:.3g}",
                    )
                )
    return findings


def of_scale(found: Sequence[Measurement], scale: float) -> list[Measurement]:
    """Measurements at a length scale, and those that searched for their own."""
    return [one for one in found if one.scale == scale or one.method == METRIC]


#: What is measured, in words.
_WORDS = {
    "error": "relative error of the kernel",
    "score": "test accuracy or 100 R2",
    "seconds": "seconds of the fit, selection included",
}


def _table(dataset: str, scale: float, found: Sequence[Measurement], what: str) -> Table:
    widths = sorted({one.n_components for one in found})
    lines = []
    for (method,), part in grouped(found, "method").items():
        if not np.isnan(values(part, what)).all():
            cells = (mean_and_standard_deviation(values(having(part, n_components=width), what)) for width in widths)
            lines.append((method, *cells))
    title = f"{dataset}, length scale {scale:g} medians: {_WORDS[what]}"
    return Table(title, ("method", *(f"m = {width}" for width in widths)), lines)


def equal_accuracy(dataset: str, found: Sequence[Measurement], baseline: str = "gaussian") -> Table:
    """Features that each method needs for the mean score of plain ones, as a share of their number.

    Scores between the measured widths are taken as linear in the logarithm; a method that is better at the least width
    already, or not at the largest, is said to be so.
    """
    lines, plain = [], np.empty((0, 2))
    for scale in SCALES:
        part = of_scale(found, scale)
        plain = _curve(having(part, method=baseline))
        for method in dict.fromkeys(one.method for one in part if one.method != baseline):
            curve = _curve(having(part, method=method))
            lines.append((f"{scale:g} {method}", *(_share(curve, width, score) for width, score in plain[1:])))
    columns = ("length scale, method", *(f"of {int(width)}" for width, _ in plain[1:]))
    return Table(f"{dataset}: share of the number of plain features that gives their score", columns, lines)


def _curve(found: Sequence[Measurement]) -> np.ndarray:
    """Widths and mean scores (k, 2), by width."""
    groups = sorted(grouped(found, "n_components").items())
    return np.array([(width, values(part, "score").mean()) for (width,), part in groups]).reshape(-1, 2)


def _share(curve: np.ndarray, width: float, score: float) -> str:
    """The first width at which a method has the score, over `width`."""
    above = np.flatnonzero(curve[:, 1] >= score)
    if not above.size:
        return f"> {curve[-1, 0] / width:.2g}"
    place = int(above[0])
    if place == 0:
        return f"< {curve[0, 0] / width:.2g}"
    (low, low_score), (high, high_score) = curve[place - 1], curve[place]
    part = (score - low_score) / (high_score - low_score)
    return f"{low * (high / low) ** part / width:.2f}"


def _figure(dataset: str, scale: float, found: Sequence[Measurement], path: Path) -> None:
    """Error and score against the width, and score against the seconds of the fit."""
    figure, (axes,) = panels(13, 4.2, columns=3)
    widths = sorted({one.n_components for one in found})
    drawn = styles(list(dict.fromkeys(one.method for one in found)))
    for method, style in drawn.items():
        part = having(found, method=method)
        means = {
            name: [values(having(part, n_components=width), name).mean() for width in widths]
            for name in ("error", "score", "seconds")
        }
        axes[0].plot(widths, means["error"], label=method, marker="o", markersize=3, **style)
        axes[1].plot(widths, means["score"], marker="o", markersize=3, **style)
        axes[2].plot(means["seconds"], means["score"], marker="o", markersize=3, **style)
    for axis in axes[:2]:
        axis.set(xscale="log", xlabel="features")
        mark_widths(axis, widths)
    axes[0].set(yscale="log", ylabel=_WORDS["error"])
    axes[1].set(ylabel=_WORDS["score"])
    axes[2].set(xscale="log", xlabel=_WORDS["seconds"], ylabel=_WORDS["score"])
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.suptitle(f"{dataset}, length scale {scale:g} medians")
    legend_below(figure, axes[0], 7)
    save(figure, path)
