"""Helper functions for the figures of the experiments: panels, ticks, legends, line styles, and files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from phimap._files import write_whole


def panels(width: float, height: float, rows: int = 1, columns: int = 1, **shared: Any) -> tuple[Any, np.ndarray]:
    """Return a figure of this size in inches, and an array (rows, columns) of its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG, replacing the file only once it is complete."""
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=130))


def mark_widths(axis: Any, widths: Iterable[int]) -> None:
    """Make the axis of the numbers of features logarithmic, with ticks at these numbers only."""
    from matplotlib.ticker import NullLocator

    ticks = sorted(set(widths))
    axis.set_xscale("log")
    axis.set_xticks(ticks, [f"{width:,}" for width in ticks])
    axis.xaxis.set_minor_locator(NullLocator())


def styles(methods: Iterable[str], black: str = "gaussian") -> dict[str, dict[str, Any]]:
    """Return line styles by method: black for one method, then ten colours, then the same colours dashed."""
    names = list(dict.fromkeys(methods))
    others = [name for name in names if name != black]
    chosen: dict[str, dict[str, Any]] = {black: {"color": "k", "linewidth": 2}} if others != names else {}
    for number, name in enumerate(others):
        chosen[name] = {"color": f"C{number % 10}", "linestyle": "-" if number < 10 else "--"}
    return chosen


def curves(found: pd.DataFrame, x: str, **how: Any) -> dict[str, pd.DataFrame]:
    """Return a frame for each method, with ascending `x` as index. `how` gives the aggregation of each column."""
    return {method: part.groupby(x).agg(how) for method, part in found.groupby("method", sort=False)}


def plot_curves(
    axis: Any, lines: Mapping[str, pd.DataFrame], x: str | None, y: str, style: Mapping[str, Mapping[str, Any]]
) -> None:
    """Plot a line for each method: column `y` of its frame against column `x`, or against the index if `x` is None."""
    for method, line in lines.items():
        at = line.index if x is None else line[x]
        axis.plot(at, line[y], marker="o", markersize=3, **{"label": method, **style[method]})


def accuracies(title: str, found: pd.DataFrame, path: Path) -> None:
    """Plot the mean accuracy of methods against number of features and against the least seconds of the draws.

    `found` has the columns `method`, `n_components`, `accuracy` and `seconds`. Methods without features, such as exact
    kernels, are horizontal lines in the first panel.
    """
    figure, (axes,) = panels(9.6, 4.2, 1, 2, sharey=True)
    means, style = curves(found, "n_components", accuracy="mean", seconds="min"), styles(found["method"], black="")
    for method, line in means.items():
        if line.index[0]:
            plot_curves(axes[0], {method: line}, None, "accuracy", style)
        else:
            axes[0].axhline(line["accuracy"].iloc[0], **style[method] | {"linestyle": "--", "label": method})
    plot_curves(axes[1], means, "seconds", "accuracy", style)
    if widths := set(found["n_components"]) - {0}:
        mark_widths(axes[0], widths)
        axes[0].tick_params(axis="x", labelrotation=45)
    axes[0].set(xlabel="features", ylabel="test accuracy (%)")
    axes[1].set(xscale="log", xlabel="seconds of fit and prediction")
    finish(figure, axes, path, title=title, columns=5)


def finish(figure: Any, axes: Any, path: Path, *, title: str = "", columns: int = 0) -> None:
    """Draw grids, the title and, if `columns` is not 0, one legend below in that many columns; write the file."""
    for axis in axes:
        axis.grid(alpha=0.3)
    if title:
        figure.suptitle(title)
    if columns:
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
    save(figure, path)
