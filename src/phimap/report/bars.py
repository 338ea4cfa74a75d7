"""Bar charts as HTML tables. On a narrow page the text of a table wraps, but the text of an image would shrink."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from phimap._number_text import label_text
from phimap._progress import Stage

# Smaller shares are printed as "below 0.1 %".
_LEAST_SHARE = 1e-3
# Maximum number of classes in a chart. Classes with the lowest recall come first.
_MOST_CLASSES = 20
# Maximum number of columns listed.
_MOST_COLUMNS = 15


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
        Headings of the columns: first the column of names, then each column of bars.
    rows : list of (str, list of (str, float))
        Name of each row, and the text and length (-1 to 1) of its bar in each column. Negative bars have the colour
        that negative values have in figures.
    """

    name: str
    alt: str
    heads: tuple[str, ...]
    rows: list[tuple[str, list[tuple[str, float]]]]


def columns(measures: Sequence[tuple[str, Sequence[tuple[str, float]], Callable[[float], str]]]) -> Bars:
    """Chart several measures of each column, in the order of the first measure.

    Parameters
    ----------
    measures : sequence of (head, values, text)
        Heading, the values of columns by name, and a function that writes a value. Columns without a value have 0.
    """
    head, first, text = measures[0]
    order = [name for name, _ in sorted(first, key=lambda one: -one[1])][:_MOST_COLUMNS]
    tables = [dict(values) for _, values, _ in measures]
    largest = [max(max(table.values(), default=0.0), 0.0) or 1.0 for table in tables]
    rows = [
        (
            name,
            [
                (write(table.get(name, 0.0)), max(table.get(name, 0.0), 0.0) / most)
                for table, most, (_, _, write) in zip(tables, largest, measures, strict=True)
            ],
        )
        for name in order
    ]
    alt = f"What columns matter; first by {head} is {order[0]} with {text(tables[0][order[0]])}."
    return Bars("columns", alt, ("column", *(head for head, _, _ in measures)), rows)


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
        says = f"{percent(precision)} of {named:,}" if named else "never predicted"
        rows.append(
            (label_text(labels[place]), [(f"{percent(recall)} of {sizes[place]:,}", recall), (says, precision)])
        )
    worst = order[0]
    alt = f"Share of each class found; lowest for {label_text(labels[worst])} at {found[worst]:.1%}."
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


def percent(share: float) -> str:
    """Format a share in percent, with one decimal unless it is 0 % or 100 %."""
    if 0 < share < _LEAST_SHARE:
        return f"below {100 * _LEAST_SHARE:g} %"
    return f"{100 * share:.{0 if share >= 0.995 or share == 0 else 1}f} %"
