"""What the figures of the experiments share: panels, ticks, legends, the lines of methods, and the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from phimap._files import write_whole


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
