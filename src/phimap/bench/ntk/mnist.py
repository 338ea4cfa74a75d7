"""Accuracy of neural tangent maps on MNIST against their width and their time.

Zandieh, Han, Avron, Shoham, Kim, Shin (2021), *Scaling neural tangent kernels via sketching and random features*,
Section 5.1 and Figure 2a: one-hot targets of mean zero, ridge regression with the regularisation of best validation,
depth 1; gradient features and, on a subset, the exact kernel beside them.

The publication has all 60,000 training rows: ``--rows 60000``; the default is 10,000.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import Dataset, load
from phimap.bench.exact_ridge import fit_predict
from phimap.bench.experiment import Finding, Report, Table, as_dicts, grouped, having, measured, values
from phimap.bench.figures import accuracies
from phimap.bench.ntk.methods import METHODS
from phimap.bench.options import BenchOptions
from phimap.kernels import NTK

WIDTHS = (512, 2048, 8192)
CHOSEN = ("published", "features", "sketch", "gradient", "exact")
#: Read off the axes of Figure 2a of Zandieh et al. (2021), on all 60,000 rows.
PUBLISHED = "Zandieh et al.: NTKRF about 97 % near 10,000 features, NTKSketch close, GradRF worst"
_NAMES = {"published": "NTKRF", "sketch": "NTKSketch", "gradient": "GradRF", "features": "our NTKFeatures"}
_PUBLISHED = {
    "published": "about 97 near 10,000 features",
    "sketch": "close to NTKRF",
    "gradient": "worst of the three",
}
_ALL_ROWS, _MOST_ROWS = 60_000, 10_000
# The kernel of more rows takes minutes to factorise.
_EXACT_ROWS = 5000


@dataclass(frozen=True)
class Measurement:
    """One fit.

    Attributes
    ----------
    dataset, method : str
    depth, n_rows, n_components, seed : int
        `n_rows` of training; `n_components` is 0 for the exact kernel.
    accuracy : float
        On the test rows, in percent.
    seconds : float
        Fit and prediction.
    """

    dataset: str
    method: str
    depth: int
    n_rows: int
    n_components: int
    seed: int
    accuracy: float
    seconds: float


def run(
    data: Dataset,
    methods: Sequence[str],
    *,
    depths: Sequence[int] = (1,),
    widths: Sequence[int] = WIDTHS,
    n_rows: int | None = None,
    draws: Sequence[int] = (0,),
) -> Iterator[Measurement]:
    """Fit every method at every width to at most `n_rows` rows, which the seeds `draws` choose.

    Methods are keys of `METHODS`, or ``"exact"``, which is fitted to at most 5,000 rows; where it is asked for, every
    method is fitted to those rows as well.
    """
    available = min(n_rows or len(data.X), len(data.X))
    sizes = sorted({min(available, _EXACT_ROWS), available}) if "exact" in methods else [available]
    for draw in draws:
        order = np.random.default_rng(draw).permutation(len(data.X))
        for size in sizes:
            X, y = data.X[order[:size]], data.y[order[:size]]
            for depth in depths:
                for method in methods:
                    if method == "exact":
                        if size <= _EXACT_ROWS:
                            start = time.perf_counter()
                            labels = _exact_labels(NTK(depth), X, y, data.X_test, draw)
                            yield _measurement(data, method, depth, size, 0, draw, labels, start)
                        continue
                    for width in widths:
                        phi = METHODS[method](depth, width, X.shape[1], draw)
                        start = time.perf_counter()
                        model = pm.KernelClassifier(phi, standardize="global", random_state=draw).fit(X, y)
                        labels = model.predict(data.X_test)
                        yield _measurement(data, method, depth, size, phi.output_width(X.shape[1]), draw, labels, start)


def _exact_labels(kernel: NTK, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, seed: int) -> np.ndarray:
    # The learner's scaling: the columns' means are taken, and one factor, which the kernel turns into another one.
    centre = X.mean(axis=0, dtype=np.float64)
    classes = np.unique(y)
    one_hot = (y[:, None] == classes).astype(np.float64)
    return classes[fit_predict(kernel, X - centre, one_hot, X_test - centre, seed).argmax(axis=1)]


def _measurement(
    data: Dataset, method: str, depth: int, size: int, width: int, seed: int, labels: np.ndarray, start: float
) -> Measurement:
    seconds = time.perf_counter() - start
    return Measurement(
        data.name, method, depth, size, width, seed, 100.0 * float((labels == data.y_test).mean()), seconds
    )


def report(options: BenchOptions, stages: Stages) -> Report:
    """Fit the methods asked for: a table of accuracies and seconds for each set, depth and number of rows."""
    draws = options.seeds(1)
    methods = options.chosen((*METHODS, "exact")) if options.methods else list(CHOSEN)
    asked: dict[str, Any] = {"depths": options.depths or (1,), "widths": options.widths or WIDTHS}
    loaded = [load(name, options.data, options.seed) for name in options.sets or ("MNIST",)]
    found: list[Measurement] = []
    for data in loaded:
        fits = run(data, methods, n_rows=options.rows or _MOST_ROWS, draws=draws, **asked)
        found += measured(stages, data.name, fits)
    groups = grouped(found, "dataset", "depth", "n_rows")
    figures, findings = {}, []
    for data in loaded:
        part = having(found, dataset=data.name)
        most, depth = max(one.n_rows for one in part), part[0].depth
        widest = having(part, n_rows=most, depth=depth)
        title = f"{data.name}, {most:,} rows, depth {depth}"
        figures[f"ntk-mnist_{data.name}.png"] = partial(accuracies, title, widest)
        findings += _findings(widest) if data.name == "MNIST" and depth == 1 else []
    return Report(as_dicts(found), [_table(group, *key) for key, group in groups.items()], figures, findings)


def _findings(found: Sequence[Measurement]) -> list[Finding]:
    """Accuracy of each method at the most features."""
    findings = []
    for (method,), of_method in grouped(found, "method").items():
        width = max(one.n_components for one in of_method)
        fits = having(of_method, n_components=width)
        size = f"{fits[0].n_rows:,} training rows" + (f", m = {width:,}" if width else "")
        size += "" if fits[0].n_rows == _ALL_ROWS else f" (paper: {_ALL_ROWS:,})"
        ours = f"{values(fits, 'accuracy').mean():.2f}"
        place = f"Figure 2a, {_NAMES.get(method, method)}"
        published = _PUBLISHED.get(method, "-")
        findings.append(Finding("Zandieh et al. (2021)", place, "accuracy on MNIST (%)", size, ours, published))
    return findings


def _table(found: Sequence[Measurement], dataset: str, depth: int, n_rows: int) -> Table:
    lines = []
    for (method, width), fits in grouped(found, "method", "n_components").items():
        accuracy, seconds = values(fits, "accuracy").mean(), values(fits, "seconds").min()
        lines.append((method, f"{width:,}" if width else "-", f"{accuracy:.2f}", f"{seconds:.2f}"))
    title = f"{dataset}, depth {depth}, {n_rows:,} training rows"
    if dataset == "MNIST" and depth == 1:
        title += f"\n{PUBLISHED}"
    return Table(title, ("method", "features", "accuracy (%)", "seconds"), lines)
