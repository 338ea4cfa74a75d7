"""Condition numbers of regularised estimates of the arc-cosine kernel, with and without leverage-score sampling.

Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*, Section 4.1 and Figure 1: the
condition number of ``(A_1 + alpha I)^{-1/2} (Z Z^T + alpha I) (A_1 + alpha I)^{-1/2}`` with ``alpha = 1e-4 n`` for 100
to 1,000 rectified features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import Dataset, load
from phimap.bench.experiment import (
    Report,
    Table,
    as_dicts,
    grouped,
    having,
    mean_and_standard_deviation,
    measured,
    values,
)
from phimap.bench.options import BenchOptions

WIDTHS = (100, 250, 500, 1000)
ALPHA = 1e-4
ROWS = 1000
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
    return Report(as_dicts(found), [_table(having(found, dataset=data.name), data.name, widths) for data in loaded])


def _table(found: Sequence[Measurement], dataset: str, widths: Sequence[int]) -> Table:
    lines = []
    for (method,), of_method in grouped(found, "method").items():
        numbers = (values(having(of_method, width=width), "condition_number") for width in widths)
        lines.append((method, *map(mean_and_standard_deviation, numbers)))
    title = f"{dataset}: condition number of rectified features, alpha = {ALPHA:g} n"
    return Table(title, ("method", *(f"m = {width:,}" for width in widths)), lines)
