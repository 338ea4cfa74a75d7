"""Error of every neural tangent map against its width, depth by depth.

Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*, Section 5.1 and Figure 2: mean
squared error of the entries of the kernel matrix of MNIST rows, for gradient features, explicit tensor features and
sketched ones. The relative Frobenius error stands beside it, on rows of norm 1 and on centred rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap._progress import Stages
from phimap.bench.datasets import load, unit_rows
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
from phimap.bench.ntk.methods import METHODS
from phimap.bench.options import BenchOptions
from phimap.kernels import NTK

DEPTHS = (1, 2, 3, 4, 5)
WIDTHS = (1024, 4096, 8192)
ERROR_ROWS = 1000
#: Relative errors of the authors' code at 8,192 features on rows of MNIST of norm 1, by depth, measured by us.
AUTHORS = {1: "0.033 to 0.048", 3: "0.058 to 0.062"}
# Rows that data-dependent maps may choose their landmarks among.
_FIT_ROWS = 20_000


@dataclass(frozen=True)
class Measurement:
    """One draw of one method.

    Attributes
    ----------
    dataset : str
    centred : bool
        Whether the mean of the rows was taken from them before they were scaled to norm 1.
    depth : int
    method : str
    width, n_components : int
        Features asked for, and those that the method made of it.
    seed : int
    error, mse : float
        Relative Frobenius error, mean squared error of the entries.
    fit_seconds, seconds : float
        Drawing the map, mapping the rows of the error.
    """

    dataset: str
    centred: bool
    depth: int
    method: str
    width: int
    n_components: int
    seed: int
    error: float
    mse: float
    fit_seconds: float
    seconds: float


def run(
    name: str,
    X: np.ndarray,
    methods: Sequence[str],
    *,
    centred: bool = False,
    depths: Sequence[int] = DEPTHS,
    widths: Sequence[int] = WIDTHS,
    n_rows: int = ERROR_ROWS,
    draws: Sequence[int] = range(5),
) -> Iterator[Measurement]:
    """Measure the methods, keys of `METHODS`, on one set of rows.

    The first `n_rows` of the order that the first of the seeds `draws` gives are those of the error, for all draws. The
    set is called `name`, and its mean is taken from the rows first if they are `centred`. Widths that a method cannot
    have are left out.
    """
    X = unit_rows(X[np.random.default_rng(draws[0]).permutation(len(X))], centred)
    rows = X[:n_rows]
    others = X[n_rows : n_rows + _FIT_ROWS] if len(X) > 2 * n_rows else X
    for depth in depths:
        exact = NTK(depth)(rows.astype(np.float64))
        size = np.linalg.norm(exact)
        for method in methods:
            for width in widths:
                for draw in draws:
                    phi = METHODS[method](depth, width, X.shape[1], draw)
                    start = time.perf_counter()
                    try:
                        phi.fit(others)
                    except ValueError:
                        # Explicit products need a width of their own at least.
                        continue
                    fitted = time.perf_counter()
                    Z = phi.transform(rows)
                    seconds = time.perf_counter() - fitted
                    distance = np.linalg.norm(Z.astype(np.float64) @ Z.T.astype(np.float64) - exact)
                    made = phi.output_width(X.shape[1])
                    figures = float(distance / size), float(distance**2 / exact.size), fitted - start, seconds
                    yield Measurement(name, centred, depth, method, width, made, draw, *figures)


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure the sets asked for, plain and centred: tables of the relative and of the mean squared error."""
    draws, methods = options.seeds(5), options.chosen(METHODS)
    depths, widths = options.depths or DEPTHS, options.widths or WIDTHS
    asked: dict[str, Any] = {"depths": depths, "widths": widths, "draws": draws}
    asked["n_rows"] = options.rows or ERROR_ROWS
    total = len(methods) * len(depths) * len(widths) * len(draws)
    found: list[Measurement] = []
    tables = []
    for data in [load(name, options.data, options.seed) for name in options.sets or ("MNIST",)]:
        for centred in (False, True):
            title = f"{data.name}{', centred' if centred else ''}"
            part = measured(stages, title, run(data.name, data.X, methods, centred=centred, **asked), total)
            tables += [_table(having(part, depth=depth), title, depth, widths) for depth in depths]
            found += part
    return Report(as_dicts(found), tables)


def _table(found: Sequence[Measurement], rows: str, depth: int, widths: Sequence[int]) -> Table:
    lines = []
    for (method,), of_method in grouped(found, "method").items():
        errors = [values(having(of_method, width=width), "error") for width in widths]
        cells = [mean_and_standard_deviation(one) if one.size else "-" for one in errors]
        widest = having(of_method, width=max(one.width for one in found))
        cells.append(f"{values(widest, 'mse').mean():.2g}" if widest else "-")
        cells.append(f"{values(widest, 'seconds').min():.2g}" if widest else "-")
        lines.append((method, *cells))
    if rows == "MNIST" and depth in AUTHORS:
        known = [AUTHORS[depth] if width == 8192 else "" for width in widths]
        lines.append(("authors' code", *known, "", ""))
    title = f"{rows}, depth {depth}: relative error"
    return Table(title, ("method", *(f"{width:,}" for width in widths), "MSE, widest", "seconds, widest"), lines)
