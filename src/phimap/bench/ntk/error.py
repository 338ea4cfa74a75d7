"""Error of every neural tangent map against its number of features, for several depths.

Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*, Section 5.1 and Figure 2: mean
squared error of the entries of the kernel matrix of MNIST rows, for gradient features, explicit tensor features and
sketched features. Errors of sketched features are averaged over nine shares of the sketch in the width, m_cs / m = 0.1,
..., 0.9 (method ``"shares"``). The relative Frobenius error is also reported.

The publication has 10,000 rows (``--rows 10000``) and 160 to 655,360 features. The default is 1,000 rows, and 1,024 and
4,096 features.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from phimap._progress import Stages
from phimap.bench.datasets import load, unit_rows
from phimap.bench.experiment import Finding, Report, ResultTable, mean_and_standard_deviation, measured, spread
from phimap.bench.figures import curves, finish, mark_widths, panels, plot_curves, styles
from phimap.bench.ntk.methods import METHODS, shared
from phimap.bench.options import BenchOptions
from phimap.kernels import NTK

DEPTHS = (1, 2, 4)
WIDTHS = (1024, 4096)
ERROR_ROWS = 1000
#: Shares of the sketch's features in all features. The publication averages the error over these shares.
SHARES = tuple(part / 10 for part in range(1, 10))
CHOSEN = ("gradient", "tensor", "shares", "features", "sketch")
#: Published result, in words, because Figure 2 is a plot without numbers.
PUBLISHED = "sketched ones least, gradient features most (a plot)"
_NAMES = {"gradient": "gradient features", "tensor": "explicit products", "shares": "sketched, mean over m_cs / m"}
#: Relative errors by depth that we measured with the authors' code, for 8,192 features and rows of MNIST of norm 1.
AUTHORS = {1: "0.033 to 0.048", 3: "0.058 to 0.062"}
# Maximum number of rows to which maps are fitted. Data-dependent maps choose their landmarks among these rows.
_FIT_ROWS = 20_000


def run(
    name: str,
    X: np.ndarray,
    methods: Sequence[str],
    *,
    depths: Sequence[int] = DEPTHS,
    widths: Sequence[int] = WIDTHS,
    n_rows: int = ERROR_ROWS,
    draws: Sequence[int] = range(5),
) -> Iterator[dict[str, Any]]:
    """Measure the methods, keys of `METHODS` or ``"shares"``, on one set of rows.

    The first seed of `draws` permutes the rows. All draws measure the error on the first `n_rows` of the permuted rows.
    `name` is the name of the set. Widths that a method does not support are left out.

    In a measurement, `width` is the requested number of features, and `n_components` the number that the method makes.
    `share` is the share of the sketch in the width, None except for ``"shares"``. `error` is the relative Frobenius
    error, and `mse` the mean squared error of the entries. `fit_seconds` is the time of drawing the map, and `seconds`
    the time of mapping the rows on which the error is measured.
    """
    X = unit_rows(X[np.random.default_rng(draws[0]).permutation(len(X))])
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
                    # Explicit products need a minimum number of features.
                    continue
                fitted = time.perf_counter()
                Z = phi.transform(rows)
                seconds = time.perf_counter() - fitted
                distance = np.linalg.norm(Z.astype(np.float64) @ Z.T.astype(np.float64) - exact)
                case = {"dataset": name, "depth": depth, "method": method, "width": width}
                case |= {"n_components": phi.output_width(X.shape[1]), "seed": draw, "share": share}
                errors = {"error": float(distance / size), "mse": float(distance**2 / exact.size)}
                yield case | errors | {"fit_seconds": fitted - start, "seconds": seconds}


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure the chosen sets, and make tables of the relative and the mean squared error."""
    draws, methods = options.seeds(2), options.chosen((*METHODS, "shares")) if options.methods else list(CHOSEN)
    depths, widths = options.depths or DEPTHS, options.widths or WIDTHS
    asked: dict[str, Any] = {"depths": depths, "widths": widths, "draws": draws}
    asked["n_rows"] = options.rows or ERROR_ROWS
    each = sum(len(SHARES) if method == "shares" else 1 for method in methods)
    total = each * len(depths) * len(widths) * len(draws)
    parts, tables, figures, findings = [], [], {}, []
    for data in [load(name, options.data, options.seed) for name in options.sets or ("MNIST",)]:
        found = measured(stages, data.name, run(data.name, data.X, methods, **asked), total)
        tables += [_table(part, data.name, depth, widths) for depth, part in found.groupby("depth", sort=False)]
        tables += [_shares_table(found, data.name)] if "shares" in methods else []
        figures[f"ntk-error_{data.name}.png"] = partial(_figure, data.name, found)
        findings += _findings(found, data.name, min(len(data.X), asked["n_rows"]))
        parts.append(found)
    return Report(pd.concat(parts, ignore_index=True), tables, figures, findings)


def _shares_table(found: pd.DataFrame, dataset: str) -> ResultTable:
    """Return the table of mean squared error by share of the sketch, for every depth and width."""
    frame = spread(found, ["depth", "width"], "share", "mse", head="{:g}")
    head = [f"depth {depth}, {width:,} features" for depth, width in zip(frame["depth"], frame["width"], strict=True)]
    frame = frame.drop(columns=["depth", "width"])
    formats = dict.fromkeys(frame, ".2g")
    frame.insert(0, "", head)
    return ResultTable(f"{dataset}: MSE by m_cs / m", frame, formats)


def _findings(found: pd.DataFrame, dataset: str, n_rows: int) -> Iterator[Finding]:
    """Yield the mean squared errors of all methods for every depth at the largest width."""
    for depth, of_depth in found.groupby("depth", sort=False):
        width, draws = of_depth["width"].max(), of_depth["seed"].nunique()
        errors = of_depth[of_depth["width"] == width].groupby("method", sort=False)["mse"].mean()
        words = [f"{_NAMES.get(method, f'our {method}')} {error:.1e}" for method, error in errors.items()]
        yield Finding(
            "Han et al. (2021)",
            f"Figure 2, L = {depth}",
            "mean squared error of the kernel's entries",
            f"{n_rows:,} rows of {dataset}, m = {width:,}, {draws} draw{'s' * (draws > 1)}",
            "; ".join(words),
            PUBLISHED,
            "10,000 rows of MNIST, m = 160 to 655,360",
        )


def _figure(dataset: str, found: pd.DataFrame, path: Path) -> None:
    """Plot the mean squared error against the width as in Figure 2, one panel for each depth."""
    depths = found.groupby("depth")
    style = {name: one | {"label": _NAMES.get(name, name)} for name, one in styles(found["method"], black="").items()}
    figure, (axes,) = panels(max(6.4, 3.6 * len(depths)), 4.2, 1, len(depths), sharey=True)
    for axis, (depth, part) in zip(axes, depths, strict=True):
        plot_curves(axis, curves(part, "width", n_components="first", mse="mean"), "n_components", "mse", style)
        axis.set(yscale="log", xlabel="features", title=f"L = {depth}")
        mark_widths(axis, found["width"])
    axes[0].set_ylabel("mean squared error")
    finish(figure, axes, path, title=f"{dataset}: entries of the neural tangent kernel", columns=3)


def _table(found: pd.DataFrame, rows: str, depth: int, widths: Sequence[int]) -> ResultTable:
    frame = spread(found, "method", "width", "error", mean_and_standard_deviation, "{:,}")
    widest = found[found["width"] == found["width"].max()].groupby("method").agg({"mse": "mean", "seconds": "min"})
    frame["MSE, widest"] = frame["method"].map(widest["mse"])
    frame["seconds, widest"] = frame["method"].map(widest["seconds"])
    formats = {"MSE, widest": ".2g", "seconds, widest": ".2g"}
    if rows == "MNIST" and depth in AUTHORS:
        known = {f"{width:,}": AUTHORS[depth] if width == 8192 else "" for width in widths}
        authors = pd.DataFrame([{"method": "authors' code", **known, "MSE, widest": "", "seconds, widest": ""}])
        frame = pd.concat([pd.DataFrame(ResultTable("", frame, formats).lines, columns=frame.columns), authors])
        return ResultTable(f"{rows}, depth {depth}: relative error", frame)
    return ResultTable(f"{rows}, depth {depth}: relative error", frame, formats)
