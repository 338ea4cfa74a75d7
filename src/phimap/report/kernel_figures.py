"""Figures of a fitted kernel: predictions along columns, and the trials of the kernel search."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.ticker import NullFormatter

from phimap._number_text import number_text
from phimap.learn.search.log import SearchLog
from phimap.report.dependence import Dependence
from phimap.report.style import (
    INK,
    MAIN,
    MUTED,
    SECOND,
    SEQUENCE,
    Plot,
    legend_above,
    note_at_top,
    plain,
    shade_bar,
    shortened,
    text_width,
)

# Upper end of the error axis. The mean predictor has error 1; much larger errors would compress the rest of the plot.
_HIGHEST_ERROR = 1.3
# Least width of the axes of the search, and least distance of two names of kernels, in points. The names are turned by
# 30 degrees, so the height of a line is the sine of the angle times the distance.
_WIDTH, _APART = 300.0, 34.0
#: What the vertical axis of the search shows, in units of the variance, and its caption names.
SEARCH_ERROR = "mean squared error"
_MARKS = {"none": ("o", MUTED, "no metric"), "diagonal": ("s", MAIN, "diagonal"), "full": ("D", SECOND, "full")}


def along_column(found: Dependence, place: int, label: str, limits: tuple[float, float]) -> Plot:
    """Plot the mean prediction and its band along one column; figures of several columns share the axis `limits`."""
    (axis,), mean, (low, high) = found.axes, found.mean, found.band
    alt = f"Mean {label} against {axis.name}, from {number_text(mean.min(), 3)} to {number_text(mean.max(), 3)}."
    margin = 0.06 * (limits[1] - limits[0]) or 1.0
    span = limits[0] - margin, limits[1] + margin
    k, words = len(mean), f"mean {plain(label)}"
    with Plot(f"along-{place}", alt, size=(5.4, 1.1 + 0.3 * k if axis.is_categories else 3.2)) as plot:
        axes = plot.axes
        if axis.is_categories:
            axes.hlines(range(k), low, high, color=MUTED, linewidth=1.2)
            axes.plot(mean, range(k), "o", color=MAIN)
            axes.set_yticks(range(k), [plain(shortened(value)) for value in axis.values])
            axes.set(xlabel=words, ylabel=plain(axis.name), xlim=span, ylim=(k - 0.5, -0.5))
            axes.grid(axis="y", visible=False)
            axes.locator_params(axis="x", nbins=5)
        else:
            axes.fill_between(axis.values, low, high, color=MAIN, alpha=0.15, linewidth=0)
            axes.plot(axis.values, mean, color=MAIN, marker="o" if k < 12 else "")
            axes.set(xlabel=plain(axis.name), ylabel=words, ylim=span)
            _set_ticks(axes, found)
    return plot


def along_pair(found: Dependence, label: str) -> Plot:
    """Plot the mean prediction as shades of colour over the values of two columns."""
    first, second = found.names
    low, high = number_text(found.mean.min(), 3), number_text(found.mean.max(), 3)
    alt = f"Mean {label} by {first} and {second}, from {low} to {high}."
    with Plot("along-pair", alt, size=(5.4, 4.4)) as plot:
        axes = plot.axes
        options: dict[str, Any] = {"cmap": ListedColormap(SEQUENCE), "shading": "nearest"}
        grids = (date2num(grid) if grid.dtype.kind == "M" else grid for grid in found.grids)
        shades = axes.pcolormesh(*grids, found.mean.T, edgecolors="face", linewidth=0.3, **options)
        shade_bar(plot.figure, axes, shades, f"mean {plain(label)}")
        axes.set(xlabel=plain(first), ylabel=plain(second))
        axes.grid(visible=False)
        _set_ticks(axes, found)
    return plot


def _set_ticks(axes: Axes, found: Dependence) -> None:
    """Set ticks at numbers, or at dates in the words of a calendar."""
    for name, axis, grid in zip("xy", (axes.xaxis, axes.yaxis), (*found.grids, found.mean), strict=False):
        if grid.dtype.kind == "M":
            dates = AutoDateLocator(minticks=2, maxticks=5)
            axis.set_major_locator(dates)
            axis.set_major_formatter(ConciseDateFormatter(dates))
        else:
            axes.locator_params(axis=name, nbins=6)  # pyright: ignore[reportArgumentType]


def search(log: SearchLog) -> Plot:
    """Plot the held-out error of every trial in order.

    Marks distinguish metrics, and thin lines separate kernels. Thick lines separate rungs of the search, which differ
    in the number of rows or of features.
    """
    errors, n_rows = log.errors, log.n_rows
    last = np.flatnonzero((n_rows == n_rows.max()) & np.isfinite(errors))
    best = int(last[np.argmin(errors[last])]) if last.size else 0
    alt = (
        f"Held-out error of {errors.size} trials; the best is {log.kernels[best]} with {number_text(errors[best], 3)}."
    )
    order = np.arange(errors.size)
    metrics = np.array(log.metrics)
    with Plot("search", alt, size=(5.4, 4.2), head=0.75) as plot:
        axes = plot.axes
        for kind, (mark, colour, label) in _MARKS.items():
            of_kind = metrics == kind
            if of_kind.any():
                axes.plot(order[of_kind], errors[of_kind], mark, color=colour, markersize=5, label=label)
        axes.plot(best, errors[best], "o", color=INK, markersize=11, markerfacecolor="none", markeredgewidth=1.4)
        # Width of a trial along the axis, in points.
        step = _WIDTH / (errors.size + 0.6)
        word, align, shift = "chosen", "center", 0
        if step * (errors.size - best) < text_width(word) / 2:
            align, shift = "right", 8
        axes.annotate(
            word, (best, errors[best]), (shift, -9), textcoords="offset points", ha=align, va="top", color=INK
        )
        shown = errors[np.isfinite(errors)]
        axes.set_yscale("log")
        if shown.size:
            axes.set_ylim(0.85 * shown.min(), 1.1 * min(shown.max(), _HIGHEST_ERROR))
        axes.yaxis.set_major_formatter("{x:.3g}")
        axes.yaxis.set_minor_formatter("{x:.2g}" if _within_a_decade(axes.get_ylim()) else NullFormatter())
        places, names = [], []
        # Position where the last note ends. Notes that would overlap are omitted.
        noted = -np.inf
        runs = groupby(order, key=lambda trial: (log.kernels[trial], n_rows[trial], log.n_components[trial]))
        level = None
        for (kernel, rows, width), trials in runs:
            trials = list(trials)
            first = trials[0]
            place = (first + trials[-1]) / 2
            if not places or step * (place - places[-1]) >= _APART:
                places.append(place)
                names.append(kernel)
            changed = level != (rows, width)
            if first:
                axes.axvline(first - 0.5, color=INK if changed else MUTED, linewidth=1.2 if changed else 0.5)
            # A note names the changes from the previous trial.
            told = level or (None, None)
            sizes = ((rows, told[0], "rows"), (width, told[1], "features"))
            text = ", ".join(f"{size:,} {name}" for size, last, name in sizes if size != last)
            # A note that would end beyond the axes begins further left.
            start = min(step * first, _WIDTH - text_width(text))
            if changed and start >= noted:
                noted = start + text_width(text)
                note_at_top(axes, first - 0.4, text, (2 + start - step * first, 3), color=MUTED, annotation_clip=False)
            level = rows, width
        axes.set_xticks(places, names, rotation=30, ha="right", rotation_mode="anchor")
        axes.set_xlim(-0.8, errors.size - 0.2)
        axes.tick_params(axis="x", length=0)
        axes.grid(axis="x", visible=False)
        axes.set_ylabel(f"{SEARCH_ERROR} / variance")
        legend_above(axes, 20)
    return plot


def _within_a_decade(limits: tuple[float, float]) -> bool:
    """Whether the limits span less than a decade, so that a logarithmic axis has at most one major tick."""
    return limits[1] < 10 * limits[0]
