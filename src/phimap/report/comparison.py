"""Render a comparison of methods as one HTML page."""

from __future__ import annotations

from pathlib import Path

from matplotlib.ticker import NullFormatter
from matplotlib.transforms import Bbox

from phimap._number_text import number_text
from phimap.comparison import Comparison
from phimap.comparison.result import OURS
from phimap.report.page import environment
from phimap.report.style import INK, MAIN, MUTED, SECOND, Plot, free_offset

# Upper end of the error axis, in units of the smallest error. Much larger errors would compress the rest of the plot.
_HIGHEST = 3.0


def page(found: Comparison, data: str, target: str) -> str:
    """Return the comparison as a self-contained HTML document."""
    parts = {"table": found.table(), "verdict": found.verdict(), "tiles": _tiles(found)}
    parts |= {"found": found, "data": Path(data).resolve().name, "target": target, "plot": error_against_time(found)}
    return environment().get_template("comparison.html.jinja").render(parts)


def error_against_time(found: Comparison) -> Plot:
    """Plot the error of every method against the seconds of a fit."""
    names = ", ".join(one.name for one in found.results)
    with Plot("methods", f"Error against processor seconds of the fit: {names}.", size=(5.4, 4.2)) as plot:
        axes = plot.axes
        for one in found.results:
            colour = SECOND if one.name == OURS else MAIN
            bar = one.spread if found.n_splits > 1 else 0.0
            place = (one.processor_seconds, one.error)
            axes.errorbar(*place, yerr=bar, fmt="o", color=colour, elinewidth=1.2, markersize=7)
        axes.axhline(found.baseline, color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.set_xscale("log")
        if found.results:
            errors, seconds = [one.error for one in found.results], [one.processor_seconds for one in found.results]
            high = min(max(*errors, found.baseline), _HIGHEST * errors[0]) or 1.0
            low = errors[0] - max(found.results[0].spread if found.n_splits > 1 else 0.0, 0.0)
            margin = 0.08 * (high - low)
            axes.set_ylim(max(0.0, low - margin), high + margin)
            # There must be room for the names to the right of the marks.
            axes.set_xlim(0.6 * min(seconds), 3.5 * max(seconds))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set(xlabel="processor seconds of a fit, one thread", ylabel=found.measure)
        taken: list[Bbox] = []
        for one in found.results:
            place = (one.processor_seconds, one.error)
            offset = free_offset(axes, place, one.name, taken)
            axes.annotate(one.name, place, offset, textcoords="offset points", color=INK)
    return plot


def _tiles(found: Comparison) -> list[tuple[str, str, str]]:
    tiles = []
    if found.results:
        best = found.results[0]
        tiles.append((f"Best: {best.name}", number_text(best.error, 4), found.measure))
        tiles += [
            ("phimap", number_text(one.error, 4), f"{found.beside_best(OURS)}, default settings")
            for one in found.results[1:]
            if one.name == OURS
        ]
    constant = "the mean" if found.task == "regression" else "the commonest class"
    return [
        *tiles,
        ("Baseline", number_text(found.baseline, 4), constant),
        ("Rows", f"{found.n_rows:,}", f"of {found.n_all:,}; {found.n_columns:,} columns"),
        ("Splits", str(found.n_splits), "each tests other rows"),
    ]
