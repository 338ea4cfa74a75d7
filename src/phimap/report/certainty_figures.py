"""Figures of bands, shares, means and probabilities on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap._number_text import number_text
from phimap.report.style import INK, MAIN, SECOND, Plot, legend_above, plain

# Largest number of rows that are drawn as marks. Largest number of groups of rows whose means are drawn, and least
# number of rows of a group.
_MOST_MARKS, _GROUPS, _LEAST_GROUP = 400, 10, 8
# Largest number of steps of a precision-recall curve that are drawn.
_MOST_STEPS = 400


@dataclass(frozen=True)
class Groups:
    """Means of predictions and of observations in groups of rows.

    Attributes
    ----------
    means, found : ndarray of shape (g,)
        Means of the predictions, and of the observed values.
    reach : ndarray of shape (g,)
        Two standard errors of `found`.
    """

    means: np.ndarray
    found: np.ndarray
    reach: np.ndarray

    @classmethod
    def of_rows(cls, predicted: np.ndarray, found: np.ndarray) -> Groups:
        """Return means of ten groups of rows (r,) in the order of `predicted`, or of fewer if there are few rows."""
        count = int(np.clip(len(predicted) // _LEAST_GROUP, 1, _GROUPS))
        parts = np.array_split(np.argsort(predicted, kind="stable"), count)
        means = np.array([predicted[one].mean() for one in parts])
        reach = np.array([2 * found[one].std() / np.sqrt(one.size) for one in parts])
        return cls(means, np.array([found[one].mean() for one in parts]), reach)

    def roots(self) -> Groups:
        """Return the groups with the square roots of all means.

        Standard errors are divided by twice the root, because the derivative of sqrt(x) is 1 / (2 sqrt(x)).
        """
        found = np.sqrt(self.found)
        return Groups(np.sqrt(self.means), found, self.reach / np.maximum(2 * found, np.finfo(float).tiny))


def band(true: np.ndarray, values: np.ndarray, words: tuple[str, str], name: str) -> Plot:
    """Plot a band and the true values, row by row, in the order of the middle of the band.

    `values` (r, 3) holds the lower bound, the middle and the upper bound. `words` names the band and its middle.
    """
    low, middle, high = values.T
    inside = np.mean((low <= true) & (true <= high))
    alt = f"Band of {name}, {words[0]}, on held-out rows; {100 * inside:.3g} percent of the true values lie within it."
    order = np.argsort(middle, kind="stable")
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), _MOST_MARKS)).astype(np.intp))]
    places = np.arange(len(shown))
    with Plot("band", alt, size=(5.4, 4.5), head=0.3) as plot:
        axes = plot.axes
        axes.fill_between(places, low[shown], high[shown], color=MAIN, alpha=0.3, lw=0, label=words[0])
        axes.plot(places, middle[shown], color=MAIN, linewidth=1.5, label=words[1])
        axes.plot(places, true[shown], ".", color=SECOND, markersize=4, label="true")
        axes.set(xlabel=f"held-out rows, in the order of the {words[1]}", ylabel=plain(name))
        legend_above(axes)
        axes.locator_params(nbins=6)
    return plot


def shares(
    levels: Sequence[float] | np.ndarray, found: Sequence[tuple[str, np.ndarray]], n_rows: int, words: tuple[str, str]
) -> Plot:
    """Plot the observed shares of `n_rows` true values against the intended shares.

    `found` holds the name and the shares (k,) of one or two series, and `words` the labels of the axes.
    """
    alt = f"The {words[1]}: " + "; ".join(
        f"{name} "
        + ", ".join(f"{100 * y:.3g} percent at {100 * x:.3g} percent" for x, y in zip(levels, ys, strict=True))
        for name, ys in found
    )
    with Plot("shares", alt, size=(5.4, 4.5), head=0.3 if len(found) > 1 else 0.15) as plot:
        axes = plot.axes
        axes.plot([0, 1], [0, 1], color=INK, linewidth=1)
        styles: list[dict[str, Any]] = [{"fmt": "o", "color": MAIN}, {"fmt": "s", "color": SECOND, "mfc": "none"}]
        for (name, ys), style in zip(found, styles, strict=False):
            # Half width of the band: two standard errors of the share.
            reach = 2 * np.sqrt(ys * (1 - ys) / n_rows)
            axes.errorbar(levels, ys, yerr=reach, capsize=3, label=name, **style)
        if len(found) > 1:
            legend_above(axes)
        least = min(0.0 if min(levels) < 0.5 else 0.4, *(float(ys.min()) - 0.05 for _, ys in found))
        limits = (max(least, 0.0), 1.0)
        axes.set(xlabel=words[0], ylabel=words[1], xlim=limits, ylim=limits)
    return plot


def agreement(groups: Groups, name: str, words: tuple[str, str]) -> Plot:
    """Plot the observed means in groups of rows against the predicted means; `words` are the labels of the axes."""
    alt = f"The {words[1]} against the {words[0]} in {len(groups.means)} groups of held-out rows, beside the diagonal."
    with Plot(name, alt, size=(5.4, 4.5)) as plot:
        axes = plot.axes
        ends = [min(groups.means.min(), groups.found.min()), max(groups.means.max(), groups.found.max())]
        axes.plot(ends, ends, color=INK, linewidth=1)
        axes.errorbar(groups.means, groups.found, yerr=groups.reach, fmt="o", color=MAIN, capsize=3)
        axes.set(xlabel=plain(words[0]), ylabel=plain(words[1]))
        axes.locator_params(nbins=6)
    return plot


def beside(
    found: Sequence[tuple[str, np.ndarray, np.ndarray]],
    name: str,
    words: tuple[str, str],
    alt: str,
    *,
    diagonal: bool = False,
) -> Plot:
    """Plot two series, each a name, x (k,) and y (k,): as curves, or with `diagonal` as marks beside the diagonal.

    `words` are the labels of the axes.
    """
    with Plot(name, alt, size=(5.4, 4.5), head=0.3) as plot:
        axes = plot.axes
        if diagonal:
            values = np.concatenate([one for _, x, y in found for one in (x, y)])
            axes.plot([values.min(), values.max()], [values.min(), values.max()], color=INK, linewidth=1)
        for (label, x, y), colour, mark, dashes in zip(found, (MAIN, SECOND), "os", ("-", "--"), strict=False):
            style: dict[str, Any] = {"marker": mark, "linestyle": ""} if diagonal else {"linestyle": dashes}
            axes.plot(x, y, color=colour, label=label, **style)
        axes.set(xlabel=plain(words[0]), ylabel=plain(words[1]))
        axes.locator_params(nbins=6)
        legend_above(axes)
    return plot


def precision_recall(is_class: np.ndarray, probabilities: np.ndarray, label: object) -> tuple[Plot, float]:
    """Plot precision against recall of a class over all thresholds, and return the average precision.

    `is_class` and `probabilities` have the shape (r,). The mark shows the threshold of one half. Above this threshold
    the class is more probable than the other class.
    """
    from sklearn.metrics import average_precision_score, precision_recall_curve

    precision, recall, thresholds = precision_recall_curve(is_class, probabilities)
    average, share = float(average_precision_score(is_class, probabilities)), float(is_class.mean())
    shown = np.unique(np.linspace(0, len(recall) - 1, min(len(recall), _MOST_STEPS)).astype(np.intp))
    half = int(np.searchsorted(thresholds, 0.5))
    alt = f"Precision against recall of {label}; the average precision is {number_text(average, 3)}."
    with Plot("precision-recall", alt, size=(5.4, 4.5), head=0.3) as plot:
        axes = plot.axes
        axes.step(recall[shown], precision[shown], where="post", color=MAIN, label="model")
        axes.axhline(share, color=INK, linewidth=1, label="chance")
        # Possibly no row is assigned to the class at this threshold. The precision is then undefined.
        if half < len(thresholds):
            axes.plot(recall[half], precision[half], "o", color=SECOND, markersize=8, label="threshold 1/2")
        axes.set(xlabel=f"share of {plain(str(label))} that is found (recall)", xlim=(0, 1.02), ylim=(0, 1.02))
        axes.set_ylabel("share of these that is right (precision)")
        legend_above(axes)
    return plot, average
