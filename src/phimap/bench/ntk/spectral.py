"""Condition numbers of regularised estimates of the arc-cosine kernel, with and without leverage-score sampling.

Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*, Section 4.1 and Figure 1: the
condition number of ``(A_1 + alpha I)^{-1/2} (Z Z^T + alpha I) (A_1 + alpha I)^{-1/2}`` with ``alpha = 1e-4 n`` for 100
to 1,000 rectified features.

The publication has three sets, which it does not name in the text; the default is 1,000 rows each of three others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import Dataset, load
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
from phimap.bench.figures import legend_below, mark_widths, panels, save
from phimap.bench.options import BenchOptions

WIDTHS = (100, 250, 500, 1000)
ALPHA = 1e-4
ROWS = 1000
#: Figure 1 is a plot, and the text states no number of it.
PUBLISHED = "Gibbs below Gaussian on every set (a plot)"
#: Options of the rectified features by the name of the method.
METHODS = {
    "gaussian": {"projection": "gaussian"},
    "gibbs": {"projection": "gaussian", "sampling": "gibbs"},
    "leverage": {"projection": "gaussian", "sampling": "leverage"},
    "orthogonal": {"projection": "orthogonal"},
    "leverage, orthogonal": {"projection": "orthogonal", "sampling": "leverage"},
}


@dataclass(frozen=True)
class Measurement:
    """One draw of one method.

    Attributes
    ----------
    dataset, method : str
    width, seed : int
    condition_number : float
    delta : float
        Least eps of the spectral approximation.
    """

    dataset: str
    method: str
    width: int
    seed: int
    condition_number: float
    delta: float


def run(
    data: Dataset,
    methods: Sequence[str],
    *,
    widths: Sequence[int] = WIDTHS,
    n_rows: int = ROWS,
    draws: Sequence[int] = range(5),
) -> Iterator[Measurement]:
    """Measure the methods, keys of `METHODS`, with `widths` rectified features on the first rows of a set."""
    X = data.X[:n_rows].astype(float)
    for method in methods:
        for width in widths:
            for draw in draws:
                options = {"relu_components": width, "random_state": draw, **METHODS[method]}
                phi = pm.NTKFeatures(1, width, **options).fit(X)
                found = pm.metrics.spectral_approximation(phi, X, ALPHA * len(X), n_subset=len(X))
                yield Measurement(data.name, method, width, draw, found.condition_number, found.delta)


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure the sets asked for: a table of condition numbers of each."""
    draws, methods, widths = options.seeds(5), options.chosen(METHODS), options.widths or WIDTHS
    loaded = [load(name, options.data, options.seed) for name in options.sets or ("magic04", "letter", "MNIST")]
    found: list[Measurement] = []
    for data in loaded:
        numbers = run(data, methods, widths=widths, n_rows=options.rows or ROWS, draws=draws)
        found += measured(stages, data.name, numbers, len(methods) * len(widths) * len(draws))
    tables = [_table(having(found, dataset=data.name), data.name, widths) for data in loaded]
    sizes = {data.name: min(len(data.X), options.rows or ROWS) for data in loaded}
    return Report(as_dicts(found), tables, {"ntk-spectral.png": partial(_figure, found)}, _findings(found, sizes))


def _findings(found: Sequence[Measurement], sizes: dict[str, int]) -> list[Finding]:
    """Condition numbers of all methods on each set, at the fewest and at the most features."""
    findings = []
    for (dataset, width), part in grouped(found, "dataset", "width").items():
        if width in (min(one.width for one in found), max(one.width for one in found)):
            numbers = {
                method: values(draws, "condition_number").mean() for (method,), draws in grouped(part, "method").items()
            }
            ours = "; ".join(f"{method} {number:.3g}" for method, number in numbers.items())
            size = f"{sizes[dataset]:,} rows, {len({one.seed for one in part})} draws (paper: sets not named)"
            place = f"Figure 1, {dataset}, m = {width:,}"
            findings.append(Finding("Han et al. (2021)", place, "condition number", size, ours, PUBLISHED))
    return findings


def _figure(found: Sequence[Measurement], path: Path) -> None:
    """Condition number against the number of features, a panel for each set."""
    by_set = grouped(found, "dataset")
    figure, (axes,) = panels(max(6.4, 3.6 * len(by_set)), 4.2, 1, len(by_set))
    for axis, ((dataset,), part) in zip(axes, by_set.items(), strict=True):
        for (method,), of_method in grouped(part, "method").items():
            points = [
                (width, values(draws, "condition_number").mean())
                for (width,), draws in sorted(grouped(of_method, "width").items())
            ]
            axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=method)
        axis.set(xscale="log", yscale="log", xlabel="rectified features", title=dataset)
        mark_widths(axis, sorted({one.width for one in part}))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("condition number")
    legend_below(figure, axes[0], 3)
    save(figure, path)


def _table(found: Sequence[Measurement], dataset: str, widths: Sequence[int]) -> Table:
    lines = []
    for (method,), of_method in grouped(found, "method").items():
        numbers = (values(having(of_method, width=width), "condition_number") for width in widths)
        lines.append((method, *map(mean_and_standard_deviation, numbers)))
    title = f"{dataset}: condition number of rectified features, alpha = {ALPHA:g} n"
    return Table(title, ("method", *(f"m = {width:,}" for width in widths)), lines)
