"""Error of every neural tangent map against its width, depth by depth.

Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*, Section 5.1 and Figure 2: mean
squared error of the entries of the kernel matrix of MNIST rows, for gradient features, explicit tensor features and
sketched ones; the sketched ones as the mean over nine shares of the sketch in the width, m_cs / m = 0.1, ..., 0.9
(``"shares"``). The relative Frobenius error stands beside it, on rows of norm 1 and on centred rows.

The publication has 10,000 rows and up to 655,360 features: ``--rows 10000``; the default is 1,000 rows, and 1,024 and
4,096 features.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from phimap._progress import Stages
from phimap.bench.datasets import load, unit_rows
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
from phimap.bench.ntk.methods import METHODS, shared
from phimap.bench.options import BenchOptions
from phimap.kernels import NTK

DEPTHS = (1, 2, 4)
WIDTHS = (1024, 4096)
ERROR_ROWS = 1000
#: Shares of the sketch in the width, over which the publication averages.
SHARES = tuple(part / 10 for part in range(1, 10))
CHOSEN = ("gradient", "tensor", "shares", "features", "sketch")
#: Figure 2 is a plot, and the text states no number of it.
PUBLISHED = "sketched ones least, gradient features most (a plot)"
_NAMES = {"gradient": "gradient features", "tensor": "explicit products", "shares": "sketched, mean over m_cs / m"}
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
    share : float or None
        Of the sketch in the width, for ``"shares"``.
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
    share: float | None
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
    """Measure the methods, keys of `METHODS` or ``"shares"``, on one set of rows.

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
            shares = SHARES if method == "shares" else (None,)
            for width, draw, share in product(widths, draws, shares):
                if share is None:
                    phi = METHODS[method](depth, width, X.shape[1], draw)
                else:
                    phi = shared(depth, width, share, draw)
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
                yield Measurement(name, centred, depth, method, width, made, draw, share, *figures)


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure the sets asked for, plain and centred: tables of the relative and of the mean squared error."""
    draws, methods = options.seeds(2), options.chosen((*METHODS, "shares")) if options.methods else list(CHOSEN)
    depths, widths = options.depths or DEPTHS, options.widths or WIDTHS
    asked: dict[str, Any] = {"depths": depths, "widths": widths, "draws": draws}
    asked["n_rows"] = options.rows or ERROR_ROWS
    each = sum(len(SHARES) if method == "shares" else 1 for method in methods)
    total = each * len(depths) * len(widths) * len(draws)
    found: list[Measurement] = []
    tables: list[Table] = []
    figures, findings = {}, []
    for data in [load(name, options.data, options.seed) for name in options.sets or ("MNIST",)]:
        for centred in (False, True):
            title = f"{data.name}{', centred' if centred else ''}"
            part = measured(stages, title, run(data.name, data.X, methods, centred=centred, **asked), total)
            tables += [_table(having(part, depth=depth), title, depth, widths) for depth in depths]
            found += part
        plain = having(found, dataset=data.name, centred=False)
        tables += [_shares_table(plain, data.name)] if "shares" in methods else []
        figures[f"ntk-error_{data.name}.png"] = partial(_figure, data.name, plain)
        findings += _findings(plain, data.name, min(len(data.X), asked["n_rows"]))
    return Report(as_dicts(found), tables, figures, findings)


def _shares_table(found: Sequence[Measurement], dataset: str) -> Table:
    """Mean squared error by the share of the sketch, at every depth and width."""
    lines = []
    for (depth, width), part in grouped(having(found, method="shares"), "depth", "width").items():
        errors = [values(having(part, share=share), "mse").mean() for share in SHARES]
        lines.append((f"depth {depth}, {width:,} features", *(f"{error:.2g}" for error in errors)))
    return Table(f"{dataset}: MSE by m_cs / m", ("", *(f"{share:g}" for share in SHARES)), lines)


def _findings(found: Sequence[Measurement], dataset: str, n_rows: int) -> list[Finding]:
    """Mean squared errors of the methods of Figure 2, and of ours, at every depth and the largest width."""
    findings = []
    for (depth,), of_depth in grouped(found, "depth").items():
        width = max(one.width for one in of_depth)
        of_width = having(of_depth, width=width)
        errors = {method: values(draws, "mse").mean() for (method,), draws in grouped(of_width, "method").items()}
        words = [f"{_NAMES.get(method, f'our {method}')} {error:.1e}" for method, error in errors.items()]
        size = f"{n_rows:,} rows of {dataset}, m = {width:,} (paper: 10,000 of MNIST, up to 655,360)"
        place = f"Figure 2, L = {depth}"
        quantity = "mean squared error of the kernel's entries"
        findings.append(Finding("Han et al. (2021)", place, quantity, size, "; ".join(words), PUBLISHED))
    return findings


def _figure(dataset: str, found: Sequence[Measurement], path: Path) -> None:
    """Mean squared error against the width, a panel for each depth: Figure 2."""
    depths = sorted({one.depth for one in found})
    figure, (axes,) = panels(max(6.4, 3.6 * len(depths)), 4.2, 1, len(depths), sharey=True)
    for axis, depth in zip(axes, depths, strict=True):
        for number, ((method,), part) in enumerate(grouped(found, "method").items()):
            by_width = sorted(grouped(having(part, depth=depth), "width").items())
            points = [(draws[0].n_components, values(draws, "mse").mean()) for _, draws in by_width]
            x, y = zip(*points, strict=True) if points else ((), ())
            axis.plot(x, y, marker="o", markersize=3, color=f"C{number}", label=_NAMES.get(method, method))
        axis.set(xscale="log", yscale="log", xlabel="features", title=f"L = {depth}")
        mark_widths(axis, sorted({one.width for one in found}))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("mean squared error")
    figure.suptitle(f"{dataset}: entries of the neural tangent kernel")
    legend_below(figure, axes[0], 3)
    save(figure, path)


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
