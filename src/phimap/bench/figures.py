"""What the figures of the experiments share: panels, ticks, legends, the lines of methods, and the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from phimap._files import write_whole
from phimap.bench.experiment import grouped, values


def panels(width: float, height: float, rows: int = 1, columns: int = 1, **shared: Any) -> tuple[Any, np.ndarray]:
    """A figure of that size in inches, and its axes (rows, columns)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG, replacing the file only once it is complete."""
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=130))


def mark_widths(axis: Any, widths: Sequence[int]) -> None:
    """Ticks at the numbers of features on a logarithmic axis, and nowhere else."""
    from matplotlib.ticker import NullLocator

    axis.set_xticks(widths, [f"{width:,}" for width in widths])
    axis.xaxis.set_minor_locator(NullLocator())


def legend_below(figure: Any, axis: Any, most_columns: int) -> None:
    """One legend for all panels, of the lines of one of them."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=most_columns, frameon=False, fontsize=8)


def styles(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Lines of the methods: the baseline black, ten colours for the others, then the same ones dashed."""
    others = [name for name in methods if name != "gaussian"]
    chosen: dict[str, dict[str, Any]] = {"gaussian": {"color": "k", "linewidth": 2}} if others != methods else {}
    for number, name in enumerate(others):
        chosen[name] = {"color": f"C{number % 10}", "linestyle": "-" if number < 10 else "--"}
    return chosen


def accuracies(title: str, found: Sequence[Any], path: Path) -> None:
    """Accuracy of methods against their features and against their seconds, means over the draws.

    The measurements have a `method`, `n_components`, `accuracy` and `seconds`; those without features, as of exact
    kernels, are lines across.
    """
    figure, (axes,) = panels(9.6, 4.2, 1, 2, sharey=True)
    widths = sorted({one.n_components for one in found if one.n_components})
    for number, ((method,), of_method) in enumerate(grouped(found, "method").items()):
        points = [
            (width, values(fits, "seconds").min(), values(fits, "accuracy").mean())
            for (width,), fits in sorted(grouped(of_method, "n_components").items())
        ]
        x, seconds, accuracy = np.array(points).T
        style = {"color": f"C{number}", "label": method}
        if x[0]:
            axes[0].plot(x, accuracy, marker="o", markersize=3, **style)
        else:
            axes[0].axhline(accuracy[0], linestyle="--", **style)
        axes[1].plot(seconds, accuracy, marker="o", markersize=3, **style)
    if widths:
        axes[0].set_xscale("log")
        mark_widths(axes[0], widths)
        axes[0].tick_params(axis="x", labelrotation=45)
    axes[0].set(xlabel="features", ylabel="test accuracy (%)")
    axes[1].set(xscale="log", xlabel="seconds of fit and prediction")
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.suptitle(title)
    legend_below(figure, axes[0], 5)
    save(figure, path)
