"""How the figures look: SVG that takes its colours from the page, and so follows light and dark."""

from __future__ import annotations

import io
import re
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Colours that stand for the page's variables; the values themselves are never seen.
INK, MUTED, GRID, MAIN, SECOND, PAPER = "#a10001", "#a10002", "#a10003", "#a10004", "#a10005", "#a10006"
SEQUENCE = [f"#a1001{level}" for level in range(8)]
_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    MAIN: "--main",
    SECOND: "--second",
    PAPER: "--card",
} | {colour: f"--level-{level}" for level, colour in enumerate(SEQUENCE)}

_RULES: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": GRID,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": MUTED,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.size": 10.5,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "legend.fontsize": 9.5,
    "lines.linewidth": 2,
    "lines.markersize": 5.5,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.color": GRID,
    "ytick.labelcolor": MUTED,
}


class Plot:
    """A figure in the report's style, as a context: ``with Plot(...) as plot`` draws on ``plot.axes``."""

    def __init__(self, name: str, alt: str, *, size: tuple[float, float] = (5.4, 3.7), rows: int = 1):
        self.name = name
        self.alt = alt
        self._size = size
        self._rows = rows
        self.axes: Axes
        self.svg = ""

    def __enter__(self) -> Plot:
        self._rules = rc_context({**_RULES, "svg.hashsalt": self.name})
        self._rules.__enter__()
        self.figure = Figure(figsize=self._size, layout="constrained")
        grid = self.figure.subplots(self._rows, 1, sharex=self._rows > 1, squeeze=False)
        self.panels: list[Axes] = list(grid[:, 0])
        self.axes = self.panels[0]
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        try:
            if kind is None:
                self.svg = _inline(self.figure, self.name, self.alt)
        finally:
            self._rules.__exit__(kind, *rest)


def plain(text: str) -> str:
    """`text` as Matplotlib shows it to the letter, dollar signs too, which would enclose formulas."""
    return text.replace("$", r"\$")


def _inline(figure: Figure, name: str, alt: str) -> str:
    """The figure as an SVG element that scales with the page and shares no identifiers with its neighbours."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)
    # The page's own font; Matplotlib's is only on the machine that drew.
    svg = re.sub(r"font: ([0-9.]+px) [^;\"]*", r"font-size: \1", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    label = alt.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
