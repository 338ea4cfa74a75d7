"""Condition numbers of regularised estimates of the arc-cosine kernel, with and without leverage-score sampling.

Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*, Section 4.1 and Figure 1: the
condition number of ``(A_1 + alpha I)^{-1/2} (Z Z^T + alpha I) (A_1 + alpha I)^{-1/2}`` for n rows, with
``alpha = 1e-4 n``, for 100 to 1,000 rectified features Z. A_1 is the matrix of the arc-cosine kernel of order 1.

The publication has three sets of the UCI repository. Its text does not name them, and does not state their numbers of
rows. The default is 1,000 rows each of two sets of the repository and of MNIST, which is not from the repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import Dataset, load
from phimap.bench.experiment import Finding, Report, ResultTable, mean_and_standard_deviation, measured, spread
from phimap.bench.figures import curves, finish, mark_widths, panels, plot_curves, styles
from phimap.bench.options import BenchOptions

WIDTHS = (100, 250, 500, 1000)
ALPHA = 1e-4
ROWS = 1000
#: The published result, and the data on which it was measured. Figure 1 is a plot without numbers.
PUBLISHED = "Gibbs below Gaussian on every set (a plot)"
PUBLISHED_SIZE = "three UCI sets, not named in the text, m = 100 to 1,000"
_UCI = ("magic04", "letter")
#: Options of the rectified features by the name of the method.
METHODS: dict[str, dict[str, Any]] = {
    "gaussian": {"projection": "gaussian"},
    "gibbs": {"projection": "gaussian", "sampling": "gibbs"},
    "leverage": {"projection": "gaussian", "sampling": "leverage"},
    "orthogonal": {"projection": "orthogonal"},
    "leverage, orthogonal": {"projection": "orthogonal", "sampling": "leverage"},
}


def run(
    data: Dataset,
    methods: Sequence[str],
    *,
    widths: Sequence[int] = WIDTHS,
    n_rows: int = ROWS,
    draws: Sequence[int] = range(5),
) -> Iterator[dict[str, Any]]:
    """Measure the methods, keys of `METHODS`, with `widths` rectified features on the first rows of a set.

    In a measurement, `delta` is the smallest epsilon for which ``Z Z^T + alpha I`` lies between ``1 - epsilon`` and
    ``1 + epsilon`` times ``A_1 + alpha I``.
    """
    X = data.X[:n_rows].astype(float)
    for method, width, draw in product(methods, widths, draws):
        phi = pm.NTKFeatures(1, width, relu_components=width, random_state=draw, **METHODS[method]).fit(X)
        found = pm.metrics.spectral_approximation(phi, X, ALPHA * len(X), n_subset=len(X))
        row = {"dataset": data.name, "method": method, "width": width, "seed": draw}
        yield row | {"condition_number": found.condition_number, "delta": found.delta}


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure the chosen sets, and make a table of condition numbers for each set."""
    draws, methods, widths = options.seeds(5), options.chosen(METHODS), options.widths or WIDTHS
    loaded = [load(name, options.data, options.seed) for name in options.sets or ("magic04", "letter", "MNIST")]
    by_set = {}
    for data in loaded:
        numbers = run(data, methods, widths=widths, n_rows=options.rows or ROWS, draws=draws)
        by_set[data.name] = measured(stages, data.name, numbers, len(methods) * len(widths) * len(draws))
    found = pd.concat(by_set.values(), ignore_index=True)
    tables = [_table(part, name) for name, part in by_set.items()]
    sizes = {data.name: min(len(data.X), options.rows or ROWS) for data in loaded}
    return Report(found, tables, {"ntk-spectral.png": partial(_figure, by_set)}, list(_findings(found, sizes)))


def _findings(found: pd.DataFrame, sizes: dict[str, int]) -> Iterator[Finding]:
    """Yield the condition numbers of all methods on each set, at the smallest and largest number of features."""
    ends = found[found["width"].isin([found["width"].min(), found["width"].max()])]
    for (dataset, width), part in ends.groupby(["dataset", "width"], sort=False):
        numbers = part.groupby("method", sort=False)["condition_number"].mean()
        ours = "; ".join(f"{method} {number:.3g}" for method, number in numbers.items())
        size = f"{sizes[dataset]:,} rows, {part['seed'].nunique()} draws"
        published = (PUBLISHED, PUBLISHED_SIZE) if dataset in _UCI else ()
        place = f"like Figure 1, {dataset}, m = {width:,}"
        yield Finding("Han et al. (2021)", place, "condition number", size, ours, *published)


def _figure(by_set: dict[str, pd.DataFrame], path: Path) -> None:
    """Plot the condition number against the number of features, one panel for each set."""
    figure, (axes,) = panels(max(6.4, 3.6 * len(by_set)), 4.2, 1, len(by_set))
    for axis, (dataset, part) in zip(axes, by_set.items(), strict=True):
        means = curves(part, "width", condition_number="mean")
        plot_curves(axis, means, None, "condition_number", styles(means, black=""))
        axis.set(yscale="log", xlabel="rectified features", title=dataset)
        mark_widths(axis, part["width"])
    axes[0].set_ylabel("condition number")
    finish(figure, axes, path, columns=3)


def _table(found: pd.DataFrame, dataset: str) -> ResultTable:
    frame = spread(found, "method", "width", "condition_number", mean_and_standard_deviation, "m = {:,}")
    return ResultTable(f"{dataset}: condition number of rectified features, alpha = {ALPHA:g} n", frame)
