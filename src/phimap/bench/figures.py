"""Helper functions for the figures of the experiments: panels, ticks, legends, line styles, and files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def mark_widths(axis: Any, widths: Sequence[int]) -> None:
    """Set the ticks of a logarithmic axis to these numbers of features only."""
    from matplotlib.ticker import NullLocator

    axis.set_xticks(widths, [f"{width:,}" for width in widths])
    axis.xaxis.set_minor_locator(NullLocator())


def styles(methods: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return line styles by method: black for `gaussian`, then ten colours, then the same colours dashed."""
    names = list(dict.fromkeys(methods))
    others = [name for name in names if name != "gaussian"]
    chosen: dict[str, dict[str, Any]] = {"gaussian": {"color": "k", "linewidth": 2}} if others != names else {}
    for number, name in enumerate(others):
        chosen[name] = {"color": f"C{number % 10}", "linestyle": "-" if number < 10 else "--"}
    return chosen


def accuracies(title: str, found: pd.DataFrame, path: Path) -> None:
    """Plot the mean accuracy of methods against number of features and against the least seconds of the draws.

    `found` has the columns `method`, `n_components`, `accuracy` and `seconds`. Methods without features, such as exact
    kernels, are horizontal lines in the first panel.
    """
    figure, (axes,) = panels(9.6, 4.2, 1, 2, sharey=True)
    widths = sorted(set(found["n_components"]) - {0})
    for number, (method, fits) in enumerate(found.groupby("method", sort=False)):
        means = fits.groupby("n_components").agg({"accuracy": "mean", "seconds": "min"})
        style = {"color": f"C{number}", "label": method}
        if means.index[0]:
            axes[0].plot(means.index, means["accuracy"], marker="o", markersize=3, **style)
        else:
            axes[0].axhline(means["accuracy"].iloc[0], linestyle="--", **style)
        axes[1].plot(means["seconds"], means["accuracy"], marker="o", markersize=3, **style)
    if widths:
        axes[0].set_xscale("log")
        mark_widths(axes[0], widths)
        axes[0].tick_params(axis="x", labelrotation=45)
    axes[0].set(xlabel="features", ylabel="test accuracy (%)")
    axes[1].set(xscale="log", xlabel="seconds of fit and prediction")
    finish(figure, axes, path, title=title, columns=5)


def finish(figure: Any, axes: Iterable[Any], path: Path, *, title: str = "", columns: int = 0) -> None:
    """Draw grids, the title and, if `columns` is not 0, one legend below in that many columns; write the file."""
    axes = list(axes)
    for axis in axes:
        axis.grid(alpha=0.3)
    if title:
        figure.suptitle(title)
    if columns:
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
    save(figure, path)
