"""Bar charts as HTML tables. On a narrow page the text of a table wraps, while the text of an image would shrink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phimap._number_text import number_text
from phimap._progress import Stage

# Smaller shares are printed as "below 0.1 %".
_LEAST_SHARE = 1e-3
# Maximum number of classes listed. Classes with the lowest recall are listed first.
_MOST_CLASSES = 20


@dataclass(frozen=True)
class Bars:
    """A bar chart with one or several bars for each name.

    Attributes
    ----------
    name : str
        Identifier, unique among the figures of a page.
    alt : str
        Description of the chart in one sentence.
    heads : tuple of str
        Headings of the column of names and of each column of bars.
    rows : list of (str, list of (str, float))
        Name of each row, and the text and length (0 to 1) of its bar in each column.
    """

    name: str
    alt: str
    heads: tuple[str, ...]
    rows: list[tuple[str, list[tuple[str, float]]]]


def relevances(leading: Sequence[tuple[str, float]], importances: Sequence[tuple[str, float]] = ()) -> Bars:
    """Chart the share of each column in the learned metric, largest first, beside mean absolute Shapley values."""
    name, share = leading[0]
    alt = f"Relevance of columns; most relevant is {name} with {100 * share:.3g} percent."
    sizes = dict(importances)
    largest = max(sizes.values(), default=0.0) or 1.0
    rows = []
    for name, one in leading:
        values = [(_percent(one), one / share)]
        if sizes:
            values.append((number_text(sizes.get(name, 0.0), 3), sizes.get(name, 0.0) / largest))
        rows.append((name, values))
    heads = ("column", "share of the metric", *(("mean absolute Shapley value",) if sizes else ()))
    return Bars("relevances", alt, heads, rows)


def classes(true: np.ndarray, predicted: np.ndarray) -> Bars:
    """Chart the recall and precision of each class, lowest recall first."""
    labels, codes, sizes = np.unique(true, return_inverse=True, return_counts=True)
    right = np.bincount(codes, weights=true == predicted, minlength=labels.size).astype(np.intp)
    found = right / sizes
    order = np.argsort(found, kind="stable")[:_MOST_CLASSES]
    rows = []
    for place in order.tolist():
        named = int((predicted == labels[place]).sum())
        recall, precision = float(found[place]), float(right[place]) / named if named else 0.0
        says = f"{_percent(precision)} of {named:,}" if named else "never predicted"
        rows.append((str(labels[place]), [(f"{_percent(recall)} of {sizes[place]:,}", recall), (says, precision)]))
    worst = order[0]
    alt = f"Share of each class found; lowest for {labels[worst]} at {found[worst]:.1%}."
    return Bars("classes", alt, ("class", "found (recall)", "right where predicted (precision)"), rows)


def time_and_memory(stages: Sequence[Stage]) -> Bars:
    """Chart the seconds of each stage, and the peak memory of the process up to the end of the stage."""
    seconds = np.array([stage.seconds for stage in stages])
    memory = np.array([stage.peak_bytes for stage in stages]) / 2**20
    alt = f"Time and memory per stage; {seconds.sum():.1f} seconds in all, {memory.max():.0f} MB at most."
    lengths = zip(seconds / max(seconds.max(), 1e-9), memory / max(memory.max(), 1e-9), strict=True)
    rows = [
        (stage.name, [(f"{stage.seconds:.2f} s", float(time)), (f"{stage.peak_bytes / 2**20:,.0f} MB", float(peak))])
        for stage, (time, peak) in zip(stages, lengths, strict=True)
    ]
    return Bars("stages", alt, ("stage", "time", "highest memory so far"), rows)


def _percent(share: float) -> str:
    """Format a share in percent, with one decimal unless it is 0 % or 100 %."""
    if 0 < share < _LEAST_SHARE:
        return f"below {100 * _LEAST_SHARE:g} %"
    return f"{100 * share:.{0 if share >= 0.995 or share == 0 else 1}f} %"
