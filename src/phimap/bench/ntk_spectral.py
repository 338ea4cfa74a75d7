"""Condition numbers of regularised estimates of the arc-cosine kernel, with and without leverage-score sampling.

Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*, Section 4.1 and Figure 1: the
condition number of ``(A_1 + alpha I)^{-1/2} (Z Z^T + alpha I) (A_1 + alpha I)^{-1/2}`` with ``alpha = 1e-4 n`` for 100
to 1,000 rectified features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import Dataset, load
from phimap.bench.experiment import Report, Request, Table, mean_and_deviation

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
class Row:
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
    repeats: int = 5,
    seed: int = 0,
    advance: Callable[[], object] = lambda: None,
) -> Iterator[Row]:
    """Measure the methods on the first rows of a set.

    Parameters
    ----------
    data : Dataset
    methods : sequence of str
        Keys of `METHODS`.
    widths : sequence of int
        Numbers of rectified features.
    n_rows : int
    repeats : int
        Draws, with seeds ``seed, seed + 1, ...``.
    advance : callable
        Called after each draw.

    Yields
    ------
    Row
    """
    X = data.X[:n_rows].astype(float)
    for method in methods:
        for width in widths:
            for draw in range(seed, seed + repeats):
                options = {"relu_components": width, "random_state": draw, **METHODS[method]}
                phi = pm.NTKFeatures(1, width, **options).fit(X)
                found = pm.metrics.spectral_approximation(phi, X, ALPHA * len(X), n_subset=len(X))
                advance()
                yield Row(data.name, method, width, draw, found.condition_number, found.delta)


def report(request: Request, stages: Stages) -> Report:
    """Measure the sets asked for: a table of condition numbers of each."""
    repeats, methods = request.draws(5), request.chosen(METHODS)
    widths = request.widths or WIDTHS
    loaded = [load(name, request.data, request.seed) for name in request.sets or ("magic04", "letter", "MNIST")]
    rows: list[Row] = []
    for data in loaded:
        with stages.stage(data.name, len(methods) * len(widths) * repeats) as advance:
            step, n_rows = partial(advance, 1), request.rows or ROWS
            options = {"widths": widths, "n_rows": n_rows, "repeats": repeats, "seed": request.seed}
            rows += run(data, methods, advance=step, **options)
    return Report([asdict(row) for row in rows], [_table(rows, data.name, widths) for data in loaded])


def _table(rows: Sequence[Row], dataset: str, widths: Sequence[int]) -> Table:
    chosen = [row for row in rows if row.dataset == dataset]
    lines = []
    for method in dict.fromkeys(row.method for row in chosen):
        by_width = ([row for row in chosen if (row.method, row.width) == (method, width)] for width in widths)
        lines.append((method, *(mean_and_deviation([row.condition_number for row in found]) for found in by_width)))
    title = f"{dataset}: condition number of rectified features, alpha = {ALPHA:g} n"
    return Table(title, ("method", *(f"m = {width:,}" for width in widths)), lines)
