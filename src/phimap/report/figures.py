"""The figures of a report; each function draws one plot from results."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.ticker import NullFormatter

from phimap._number_text import number_text
from phimap.report.curves import Curve
from phimap.report.style import (
    INK,
    MAIN,
    PAPER,
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

# Maximum number of points drawn as marks. More marks would hide each other, so the density is drawn instead.
_MOST_MARKS = 1500
# Maximum number of classes in a confusion matrix, for readability; the classes with the most mistakes are shown.
_MOST_CLASSES = 20
# Maximum number of bars of a histogram. More bars would be thinner than the lines between them.
_MOST_BARS = 60
# Largest and smallest font size of the counts in a confusion matrix, in points, and the width of a digit relative to
# the font size. The width assumes a wide font, because the page determines the font.
_COUNT_SIZES, _DIGIT = (13.0, 5.5), 0.68
# Distance of a label from its line, and between the lines of labels, in points.
_GAP, _LINE = 4, 15
# Height of a histogram relative to its highest bar, if three lines of labels must fit above the bars.
_HEADROOM = 1.25
# Side of a confusion matrix in points, without labels and margins.
_MATRIX = 280


def predicted_against_true(true: np.ndarray, predicted: np.ndarray, name: str) -> Plot:
    """Plot predictions against true values, with the line of exact predictions."""
    alt = f"Predicted {name} against true {name} on held-out rows; points on the line are exact."
    with Plot("predicted", alt, size=(5.4, 4.5)) as plot:
        axes = plot.axes
        # A few extreme predictions are ignored in the limits of the axes, because they would compress the rest of the
        # plot.
        rough = np.quantile(predicted, [0.002, 0.998])
        low, high = min(true.min(), rough[0]), max(true.max(), rough[1])
        margin = 0.03 * (high - low)
        bounds = (low - margin, high + margin)
        if true.size > _MOST_MARKS:
            shades: dict[str, Any] = {"norm": LogNorm(), "cmap": ListedColormap(SEQUENCE), "linewidths": 0}
            cells = axes.hexbin(true, predicted, gridsize=38, extent=bounds * 2, mincnt=1, **shades)
            bar = shade_bar(plot.figure, axes, cells, "rows per cell", format="{x:,.0f}")
            bar.ax.yaxis.set_minor_formatter(NullFormatter())
        else:
            axes.plot(true, predicted, "o", color=MAIN, alpha=0.45, markersize=4, markeredgewidth=0)
        axes.plot([low, high], [low, high], color=SECOND, linewidth=1.5)
        axes.set(xlabel=f"true {plain(name)}", ylabel=f"predicted {plain(name)}", xlim=bounds, ylim=bounds)
        axes.locator_params(nbins=6)
    return plot


def residuals(true: np.ndarray, predicted: np.ndarray, name: str) -> Plot:
    """Plot a histogram of the errors, with the middle 80 percent marked."""
    errors = predicted - true
    low, high = np.quantile(errors, [0.1, 0.9])
    alt = f"Histogram of residuals of {name}; 80 percent lie between {number_text(low, 3)} and {number_text(high, 3)}."
    with Plot("residuals", alt, size=(5.4, 4.5)) as plot:
        axes = plot.axes
        # The most extreme 0.1 percent on either side are ignored, because they would compress all other errors into a
        # few bars.
        first, last = np.quantile(errors, [0.001, 0.999])
        # The number of bars follows Rice's rule.
        bins = int(np.clip(2 * errors.size ** (1 / 3), 5, _MOST_BARS))
        heights = np.histogram(errors, bins, (float(first), float(last)))[0]
        axes.hist(errors, bins=bins, range=(float(first), float(last)), color=MAIN, edgecolor=PAPER, linewidth=0.6)
        axes.axvline(0, color=INK, linewidth=1)
        left, right = axes.get_xlim()
        width = axes.get_window_extent().width * 72 / plot.figure.dpi
        for edge, percent, outwards in ((low, 10, -1), (high, 90, 1)):
            axes.axvline(edge, color=SECOND, linewidth=1.2, linestyle=(0, (4, 3)))
            label = f"{percent} %: {number_text(edge, 3)}"
            room = width * ((edge - left if outwards < 0 else right - edge) / (right - left))
            # Near the frame, the label is on the inner side of its line, below the other labels.
            fits = text_width(label) + _GAP <= room
            if not fits:
                # The labels need room above the bars.
                axes.set_ylim(top=_HEADROOM * heights.max())
            side, down = (outwards, -2) if fits else (-outwards, -2 - _LINE * (2 if outwards > 0 else 1))
            note_at_top(
                axes, edge, label, (_GAP * side, down), ha="left" if side > 0 else "right", va="top", color=SECOND
            )
        axes.set(xlabel=f"predicted \N{MINUS SIGN} true {plain(name)}", ylabel="held-out rows")
        axes.grid(axis="x", visible=False)
        axes.locator_params(axis="x", nbins=5)
    return plot


def confusion(true: np.ndarray, predicted: np.ndarray) -> Plot:
    """Plot the confusion matrix: number of rows by true and predicted class, shaded by the share of the true class."""
    labels, codes = np.unique(np.concatenate([true, predicted]), return_inverse=True)
    counts = np.zeros((labels.size, labels.size), dtype=np.intp)
    np.add.at(counts, (codes[: true.size], codes[true.size :]), 1)
    if labels.size > _MOST_CLASSES:
        mistakes = counts.sum(axis=0) + counts.sum(axis=1) - 2 * counts.diagonal()
        shown = np.sort(np.argsort(-mistakes, kind="stable")[:_MOST_CLASSES])
        counts, labels = counts[np.ix_(shown, shown)], labels[shown]
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    # Square roots spread the small shares, which are mistakes, over more shades.
    level = np.minimum((np.sqrt(share) * len(SEQUENCE)).astype(int), len(SEQUENCE) - 1)
    alt = f"Confusion matrix of {labels.size} classes on held-out rows."
    with Plot("confusion", alt, size=(5.4, 4.9)) as plot:
        axes = plot.axes
        k = labels.size
        drawn = np.ma.masked_where(counts == 0, level)
        shades: dict[str, Any] = {"cmap": ListedColormap(SEQUENCE), "vmin": -0.5, "vmax": len(SEQUENCE) - 0.5}
        axes.pcolormesh(drawn, edgecolors=PAPER, linewidth=1.5, **shades)
        for i, j in np.argwhere(counts):
            colour = PAPER if level[i, j] >= len(SEQUENCE) // 2 else INK
            text, size = _count(int(counts[i, j]), 0.9 * _MATRIX / k)
            axes.text(j + 0.5, i + 0.5, text, ha="center", va="center", color=colour, fontsize=size)
        texts = [plain(shortened(label)) for label in labels]
        axes.set(xlabel="predicted", ylabel="true", aspect="equal")
        axes.set_xticks(np.arange(k) + 0.5, texts, rotation=90 if max(map(len, texts)) > 3 and k > 4 else 0)
        axes.set_yticks(np.arange(k) + 0.5, texts)
        axes.invert_yaxis()
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    return plot


def against_alpha(
    alphas: np.ndarray,
    estimate: np.ndarray,
    criterion: str,
    chosen: float,
    path: Curve | None,
    error: str,
) -> Plot:
    """Plot the criterion's estimate and the held-out error against the regularisation."""
    same_unit = error == "RMSE"
    rows = 1 if same_unit or path is None or alphas.size <= 1 else 2
    name = {"gcv": "GCV", "held-out": "validation rows"}.get(criterion, criterion)
    alt = f"Error against regularisation; the chosen value is {number_text(chosen, 3)}."
    with Plot("alpha", alt, rows=rows, head=0.3) as plot:
        top, bottom = plot.panels[0], plot.panels[-1]
        if alphas.size > 1:
            top.plot(alphas, estimate, color=MAIN, label=name)
        if path is not None:
            bottom.plot(path.x, path.y, "o--", color=SECOND, linewidth=1.5, label="held-out rows")
        for axes in plot.panels:
            axes.axvline(chosen, color=INK, linewidth=1)
            axes.locator_params(axis="y", nbins=6 // rows + 1)
        # The text is at the top of the line, where there is room because the error is low at the chosen value.
        text = f"{'chosen' if alphas.size > 1 else 'given'}: {number_text(chosen, 3)}"
        note_at_top(top, chosen, text, (4, -2), va="top", color=INK)
        if same_unit:
            top.set_ylabel("RMSE")
            legend_above(top)
        else:
            top.set_ylabel("estimate, root" if error == "error" else f"estimated {error}")
            if path is not None:
                bottom.set_ylabel("held-out error")
                bottom.yaxis.set_major_formatter(_percent)
        bottom.set(xscale="log", xlabel="regularisation (alpha)")
        # Tick labels are texts, because drawing powers of ten as formulas takes longer than the rest of the figure.
        bottom.xaxis.set_major_formatter("{x:g}")
        bottom.xaxis.set_minor_formatter(NullFormatter())
    return plot


def against_width(curve: Curve, error: str) -> Plot:
    """Plot the held-out error of the model and of narrower models against the number of features."""
    first, last = number_text(curve.y[0], 3), number_text(curve.y[-1], 3)
    alt = f"Held-out error against the number of features, from {first} at {curve.x[0]} to {last}."
    with Plot("width", alt) as plot:
        axes = plot.axes
        axes.plot(curve.x, curve.y, "o-", color=MAIN)
        axes.plot(curve.x[-1], curve.y[-1], "o", color=SECOND, markersize=8)
        axes.set_xscale("log", base=2)
        # Labels of every second width, from the last on, leave room for each other.
        axes.set_xticks(curve.x[::-2], [f"{x:,}" for x in curve.x[::-2]])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylabel(f"held-out {error}")
        if error != "RMSE":
            axes.yaxis.set_major_formatter(_percent)
        axes.locator_params(axis="y", nbins=6)
        axes.set_xlabel("features")
    return plot


def _count(count: int, room: float) -> tuple[str, float]:
    """Return a count as text, and a font size with which it fits `room` points; round to thousands if necessary."""
    text, least = f"{count:,}", _COUNT_SIZES[1]
    if len(text) * _DIGIT * least > room:
        text = f"{count / 1000:.0f}k" if count >= 1000 else str(count)
    return text, float(np.clip(room / (len(text) * _DIGIT), least, _COUNT_SIZES[0]))


def _percent(share: float, _: object) -> str:
    """Format a share as an axis label in percent; ticks outside [0, 1] get an empty label."""
    return f"{100 * share:.4g} %" if -1e-9 <= share <= 1 + 1e-9 else ""
