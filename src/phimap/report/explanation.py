"""Render Shapley values as one HTML page, with figures that other pages can use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from phimap._number_text import number_text
from phimap.explain import Explanation
from phimap.report.bars import Bars
from phimap.report.page import environment
from phimap.report.style import INK, MAIN, MUTED, PAPER, SECOND, SEQUENCE, Plot, plain, shortened
from phimap.tables.tallies import likely_form

# Number of columns in the table, in the figure of all rows and in the waterfall, and number of figures of single
# columns.
_LISTED, _SWARM, _FALL, _DRAWN = 20, 10, 9, 4
# Largest number of rows that figures show as marks, and largest number of categories on an axis.
_MOST_MARKS, _MOST_CATEGORIES = 1000, 8
# Number of bins of the values. Marks in the same bin are drawn above each other, up to `_HALF` above and below their
# line; neighbouring lines are 1 apart.
_BINS, _HALF = 60, 0.36
# Longest label of a column or a category, in letters.
_LETTERS = 18
# A column of text has an axis of numbers if at least the share `_SHARE_READ` of its texts are numbers or dates. `_YEAR`
# is the number of seconds of a year.
_SHARE_READ, _YEAR = 0.9, 365.2425 * 86_400


def page(
    found: Explanation, data: str, model: str, pairs: Sequence[tuple[str, str, float]] = (), row_name: str = ""
) -> str:
    """Return an explanation of one output as a self-contained HTML document.

    Parameters
    ----------
    found : Explanation
        Values of one output.
    data, model : str
        Names of the files.
    pairs : sequence of (str, str, float)
        Pairs of columns with their shares of the variance; empty if they are not known.
    row_name : str
        Name of the row that the waterfall shows; used if only one row is explained.
    """
    sections: list[tuple[str, list[tuple[Plot | Bars, str]]]] = []
    n_rows = len(found.values)
    if n_rows == 1:
        base = float(found.base_values)
        caption = (
            f"From {number_text(base, 4)}, the mean output over the background rows, at the bottom, to "
            f"{number_text(base + float(found.values.sum()), 4)}, the output of this row: what each column adds or "
            "takes away."
        )
        sections.append((f"Why {row_name or 'this row'} gets its output", [(waterfall(found, 0), caption)]))
        sections.append(("Values of the columns", [(row_table(found, 0), "What each column adds, largest first.")]))
    else:
        caption = "Mean absolute Shapley value of each column over the rows: how far it moves the output, on average."
        swarm = "One mark a row: how far the column moves its output. Darker marks are rows with larger values."
        sections.append(
            ("What moves the output", [(importances(found), caption), (beeswarm(found), swarm)]),
        )
        drawn: list[tuple[Plot | Bars, str]] = [
            (along(found, column), _along_caption(found, column)) for column in _order(found)[:_DRAWN].tolist()
        ]
        sections.append(("The leading columns, one by one", drawn))
    if pairs:
        caption = (
            "Shares of the variance of the output that pairs of columns explain beyond both alone, if the columns were "
            "independent."
        )
        sections.append(("Pairs of columns", [(pair_table(pairs), caption)]))
    return (
        environment()
        .get_template("explanation.html.jinja")
        .render(
            data=Path(data).resolve().name,
            model=Path(model).name,
            lead=_lead(found),
            tiles=_tiles(found),
            sections=sections,
        )
    )


def importances(found: Explanation) -> Bars:
    """Chart the mean absolute Shapley value of each column, largest first."""
    sizes, order = found.importances, _order(found)[:_LISTED]
    largest = sizes[order[0]] or 1.0
    rows = [
        (found.feature_names[j], [(number_text(float(sizes[j]), 3), float(sizes[j] / largest))]) for j in order.tolist()
    ]
    alt = f"Mean absolute Shapley values; the largest is that of {found.feature_names[order[0]]}."
    return Bars("importances", alt, ("column", "mean absolute value"), rows)


def row_table(found: Explanation, row: int) -> Bars:
    """Chart the Shapley values of one row, largest absolute value first."""
    values = found.values[row]
    order = np.argsort(-np.abs(values), kind="stable")[:_LISTED]
    largest = float(np.abs(values[order[0]])) or 1.0
    rows = [
        (
            f"{found.feature_names[j]} = {_cell(found.data[row, j])}",
            [(_signed(float(values[j])), float(values[j]) / largest)],
        )
        for j in order.tolist()
    ]
    return Bars("row-values", "Shapley values of one row.", ("column", "value"), rows)


def pair_table(pairs: Sequence[tuple[str, str, float]]) -> Bars:
    """Chart the shares of the variance that pairs of columns explain."""
    largest = max((share for *_, share in pairs), default=0.0) or 1.0
    rows = [(f"{one} and {other}", [(f"{100 * share:.2g} %", share / largest)]) for one, other, share in pairs]
    return Bars("pairs", "Shares of pairs of columns.", ("pair", "share of the variance"), rows)


def beeswarm(found: Explanation) -> Plot:
    """Plot the Shapley values of the leading columns, one mark for each row."""
    order = _order(found)[:_SWARM]
    values, data = found.values[:_MOST_MARKS], found.data[:_MOST_MARKS]
    alt = f"Shapley values of {len(order)} columns at {len(values)} rows."
    with Plot("beeswarm", alt, size=(5.4, 0.9 + 0.38 * len(order))) as plot:
        axes = plot.axes
        for place, column in enumerate(order.tolist()):
            heights = _spread(values[:, column], np.ptp(values[:, order]) or 1.0)
            axes.scatter(
                values[:, column],
                place + heights,
                c=_colours(data[:, column]),
                s=9,
                linewidths=0,
                alpha=0.8,
            )
        axes.axvline(0, color=INK, linewidth=1)
        axes.set_yticks(range(len(order)), [plain(shortened(found.feature_names[j], _LETTERS)) for j in order])
        axes.set(xlabel="Shapley value", ylim=(len(order) - 0.5, -0.5))
        axes.grid(axis="y", visible=False)
        _space_ticks(axes)
    return plot


def along(found: Explanation, column: int) -> Plot:
    """Plot the Shapley values of one column against its cells."""
    name = found.feature_names[column]
    values, cells = found.values[:_MOST_MARKS, column], found.data[:_MOST_MARKS, column]
    numbers = _along_axis(cells)
    with Plot(f"along-{column}", f"Shapley values of {name} against its value.") as plot:
        axes = plot.axes
        if numbers is None:
            texts, labels = _categories(cells)
            labels = labels[:_MOST_CATEGORIES]
            for place, label in enumerate(labels):
                chosen = values[texts == label]
                heights = _spread(chosen, np.ptp(values) or 1.0)
                axes.scatter(chosen, place + heights, color=MAIN, s=10, linewidths=0, alpha=0.5)
                axes.plot([chosen.mean()] * 2, [place - 0.4, place + 0.4], color=SECOND, linewidth=2)
            axes.set_yticks(range(len(labels)), [plain(shortened(label, _LETTERS)) for label in labels])
            axes.set(xlabel="Shapley value", ylim=(len(labels) - 0.5, -0.5))
            axes.axvline(0, color=INK, linewidth=1)
            _space_ticks(axes)
        else:
            axes.scatter(numbers, values, color=MAIN, s=12, linewidths=0, alpha=0.5)
            axes.axhline(0, color=INK, linewidth=1)
            axes.set(xlabel=plain(name), ylabel="Shapley value")
            axes.locator_params(nbins=6)
    return plot


def _along_caption(found: Explanation, column: int) -> str:
    """The caption of the figure of a column."""
    cells = found.data[:_MOST_MARKS, column]
    what = f"What {found.feature_names[column]} adds to the output, by its value; one mark a row"
    if _along_axis(cells) is not None:
        return f"{what}."
    n_categories = len(_categories(cells)[1])
    if n_categories <= _MOST_CATEGORIES:
        return f"{what}, and lines at the means."
    return f"{what}, and lines at the means, for the {_MOST_CATEGORIES} most frequent of {n_categories:,} values."


def _categories(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cells as texts, and the distinct texts, most frequent first."""
    texts = np.array([_cell(cell) for cell in cells])
    labels, counts = np.unique(texts, return_counts=True)
    return texts, labels[np.argsort(-counts, kind="stable")]


def waterfall(found: Explanation, row: int) -> Plot:
    """Plot how the Shapley values of one row add up to its output, the largest absolute value at the top."""
    values = found.values[row]
    order = np.argsort(-np.abs(values), kind="stable")
    shown, others = order[:_FALL], order[_FALL:]
    steps = [
        (f"{shortened(found.feature_names[j], _LETTERS)} = {_cell(found.data[row, j])}", float(values[j]))
        for j in shown
    ]
    if others.size:
        steps.append((f"{others.size} other columns", float(values[others].sum())))
    base = float(found.base_values)
    total = base + float(values.sum())
    alt = f"From {number_text(base, 3)} to {number_text(total, 3)} by the values of the columns."
    with Plot("waterfall", alt, size=(5.4, 1.3 + 0.36 * len(steps)), head=0.3) as plot:
        axes, end = plot.axes, total
        span = max(sum(abs(step) for _, step in steps), 1e-300)
        for place, (_, step) in enumerate(steps):
            start = end - step
            colour = MAIN if step >= 0 else SECOND
            axes.barh(place, step, left=start, color=colour, height=0.62)
            axes.plot([start, start], [place - 0.31, place + 1.31], color=MUTED, linewidth=0.8)
            right = max(start, end)
            axes.annotate(
                _signed(step),
                (right, place),
                (4, 0),
                textcoords="offset points",
                va="center",
                # The background hides lines that would cross the text.
                bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1},
            )
            end = start
        low, high = axes.get_xlim()
        axes.set_xlim(low, high + 0.3 * (high - low) + 1e-12 * span)
        axes.axvline(base, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.set_yticks(range(len(steps)), [plain(label) for label, _ in steps])
        axes.set(xlabel="output")
        axes.set_ylim(len(steps) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.locator_params(axis="x", nbins=6)
    return plot


def _space_ticks(axes: Any) -> None:
    """Set the number of ticks of the x axis: fewer if their labels are long."""
    longest = max(len(label.get_text()) for label in axes.get_xticklabels())
    axes.locator_params(axis="x", nbins=6 if longest <= 5 else 4)


def _order(found: Explanation) -> np.ndarray:
    """Indices of the columns by mean absolute Shapley value, largest first."""
    return np.argsort(-found.importances, kind="stable")


def _spread(values: np.ndarray, span: float) -> np.ndarray:
    """Heights (n,) of marks at `values`, so that marks of the same bin lie above each other."""
    bins = np.floor(values / span * _BINS).astype(np.intp)
    order = np.argsort(bins, kind="stable")
    _, starts, counts = np.unique(bins[order], return_index=True, return_counts=True)
    places = np.arange(len(values)) - np.repeat(starts, counts)
    # Marks alternate above and below the middle. The fullest bin fills the height if it has at least 12 marks.
    signed = np.where(places % 2, 1, -1) * ((places + 1) // 2)
    heights = np.empty(len(values))
    heights[order] = signed * 2 * _HALF / max(counts.max(), 12)
    return heights


def _colours(cells: np.ndarray) -> Any:
    """A colour for each cell. Numbers get levels of the page's sequence by rank; other cells get a single colour."""
    numbers = _numbers(cells)
    if numbers is None:
        return MAIN
    distinct = np.unique(numbers[np.isfinite(numbers)])
    ranks = np.searchsorted(distinct, numbers) / max(1, distinct.size - 1)
    levels = np.clip(ranks * (len(SEQUENCE) - 3) + 2, 2, len(SEQUENCE) - 1).astype(np.intp)
    return [SEQUENCE[level] if finite else MUTED for level, finite in zip(levels, np.isfinite(numbers), strict=True)]


def _numbers(cells: np.ndarray) -> np.ndarray | None:
    """The cells as numbers, dates in years, with NaN for missing cells; None if most cells are other texts."""
    listed = cells.tolist()
    if all(cell is None or isinstance(cell, int | float) for cell in listed):
        return np.array([np.nan if cell is None else cell for cell in listed], dtype=np.float64)
    # Imported here because it needs pyarrow, which data frames need as well.
    from phimap.tables.cells import Cells, text_column

    texts = Cells("", text_column(np.array([None if cell is None else str(cell) for cell in listed], dtype=object)))
    readings = [texts.numbers(reading) for reading in texts.readings()]
    readings.append(1970 + texts.seconds(likely_form(texts)) / _YEAR)
    best = min(readings, key=lambda numbers: np.isnan(numbers).sum())
    n_read = np.count_nonzero(~np.isnan(best))
    return best if n_read >= _SHARE_READ * np.count_nonzero(~texts.missing) and n_read else None


def _along_axis(cells: np.ndarray) -> np.ndarray | None:
    """The cells as numbers of an axis; None for categories, and for numbers with at most two values."""
    numbers = _numbers(cells)
    return None if numbers is None or np.unique(numbers[np.isfinite(numbers)]).size <= 2 else numbers


def _cell(cell: Any) -> str:
    """A cell as short text."""
    if cell is None or cell != cell:
        return "missing"
    if cell == "":
        return "(empty)"
    if isinstance(cell, float | np.floating):
        return number_text(float(cell), 4)
    return shortened(str(cell).removesuffix(" 00:00:00"), _LETTERS)


def _signed(value: float) -> str:
    sign = "+" if value > 0 else "\N{MINUS SIGN}" if value < 0 else ""
    return sign + number_text(abs(value), 3)


def _lead(found: Explanation) -> str:
    order = _order(found)
    names = [found.feature_names[j] for j in order[:2].tolist()]
    subject = "this row" if len(found.values) == 1 else f"{len(found.values):,} rows"
    leading = f"{names[0]} moves the output most" + (f", then {names[1]}" if len(names) > 1 else "")
    return f"Shapley values of {subject}: {leading}."


def _tiles(found: Explanation) -> list[tuple[str, str, str]]:
    how = ("exact", "up to rounding") if found.exact else ("sampled", "with standard errors")
    tiles = [
        ("Rows", f"{len(found.values):,}", f"{found.values.shape[1]:,} columns"),
        ("Base value", number_text(float(found.base_values), 4), "mean output of the background"),
        ("Values", *how),
    ]
    if not found.exact and found.standard_errors is not None:
        typical = float(np.sqrt(np.mean(found.standard_errors**2)))
        tiles.append(("Standard error", number_text(typical, 2), "root mean square"))
    return tiles
