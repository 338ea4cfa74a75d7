"""Style of the figures: SVG with colours from the page, so that figures follow light and dark mode."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

# Placeholder colours, which `_inline` replaces by the page's CSS variables.
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

# Colours of a figure outside a page, where the variables of the page are undefined: the colours of the page in light
# mode.
_LIGHT = {INK: "#1b2430", MUTED: "#5a6675", GRID: "#dfe4ea", MAIN: "#2a6f97", SECOND: "#c8553d", PAPER: "#ffffff"}

# Size of texts in points, and its factor in files for wide pages. A figure of 5.4 inches is 330 pixels wide on a phone,
# which makes texts of this size 11 pixels high. On wide screens, the page multiplies the sizes by the factor.
_TEXT, _WIDE = 13.0, 0.77
# Size and family of a text, in the two forms in which versions of Matplotlib write them.
_FONT = re.compile(r"font(?:-size)?: ([0-9.]+)px[^;\"]*(?:; font-family: [^;\"]*)?")

_RULES: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": GRID,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": MUTED,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.size": _TEXT,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "legend.fontsize": _TEXT,
    "lines.linewidth": 2,
    "lines.markersize": 5.5,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.color": GRID,
    "ytick.labelcolor": MUTED,
}


# Width of a letter of axis labels, height of a line of text, and spacing, in inches.
_LETTER, _LINE, _SPACE = 0.109, 0.3, 0.12


class Plot:
    """A figure in the report's style, used as a context manager: ``with Plot(...) as plot`` draws on ``plot.axes``."""

    def __init__(
        self, name: str, alt: str, *, size: tuple[float, float] = (5.4, 3.7), rows: int = 1, head: float = 0.15
    ):
        self.name = name
        self.alt = alt
        self._size = size
        self._rows = rows
        # Space in inches above the axes for text.
        self._head = head
        self.axes: Axes
        self.svg = ""

    def __enter__(self) -> Plot:
        self._rules = rc_context({**_RULES, "svg.hashsalt": self.name})
        self._rules.__enter__()
        self.figure = Figure(figsize=self._size)
        grid = self.figure.subplots(self._rows, 1, sharex=self._rows > 1, squeeze=False)
        self.panels: list[Axes] = list(grid[:, 0])
        self.axes = self.panels[0]
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        try:
            if kind is None:
                _set_margins(self.figure, self._head)
                self.svg: str = _inline(self.figure, self.name, self.alt)
        finally:
            self._rules.__exit__(kind, *rest)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the figure to an SVG file, in the colours of light mode on white. A figure always gives the same file.

        The placeholders of `SEQUENCE` are not replaced.
        """
        buffer = io.StringIO()
        with rc_context({**_RULES, "svg.hashsalt": self.name}):
            self.figure.savefig(buffer, format="svg", facecolor=PAPER, metadata={"Date": None})
        svg = _FONT.sub(lambda font: font[0].replace(font[1], f"{_WIDE * float(font[1]):.4g}", 1), buffer.getvalue())
        for placeholder, colour in _LIGHT.items():
            svg = svg.replace(placeholder, colour)
        Path(path).write_text(svg, encoding="utf-8")


def plain(text: str) -> str:
    """Escape dollar signs in `text`, because Matplotlib would otherwise read them as delimiters of formulas."""
    return text.replace("$", r"\$")


def shortened(label: object, letters: int = 14) -> str:
    """Shorten a label to a number of letters."""
    text = str(label)
    return text if len(text) <= letters else text[: letters - 1] + "…"


def legend_above(axes: Axes, points: float = 2) -> None:
    """Place a legend `points` points above the axes, where no line crosses it."""
    height = axes.figure.get_figheight() * 72  # pyright: ignore
    lift = points / (height * axes.get_position().height)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1 + lift),
        borderaxespad=0,
        borderpad=0.2,
        handlelength=1.6,
        columnspacing=1.2,
        ncols=3,
    )


def note_at_top(axes: Axes, x: float, text: str, offset: tuple[float, float], **options: Any) -> None:
    """Write `text` at the upper end of the vertical line at `x`, moved by `offset` points."""
    options = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", **options}
    axes.annotate(text, (x, 1), offset, **options)


def text_width(text: str) -> float:
    """Return the estimated width of a text in points."""
    return 72 * _LETTER * len(text)


def free_offset(axes: Axes, place: tuple[float, float], text: str, taken: list[Bbox]) -> tuple[float, float]:
    """Return an offset in points of a text from a mark at `place`, at which it overlaps no text in `taken`.

    The box of the text is added to `taken`. Offsets above and below are tried in turn, farther and farther away.
    """
    x, y = axes.transData.transform(place) * 72 / axes.figure.dpi  # pyright: ignore
    width, height = text_width(text), 72 * _LINE * 0.8
    step = 0
    while True:
        up = 5 + step // 2 * height if step % 2 == 0 else -5 - height - step // 2 * height
        box = Bbox.from_bounds(x + 7, y + up, width, height)
        if not any(box.overlaps(other) for other in taken):
            taken.append(box)
            return 7, up
        step += 1


def shade_bar(figure: Figure, axes: Axes, shades: Any, label: str, **options: Any) -> Any:
    """Draw a colour bar without an outline beside the axes, and return it."""
    bar = figure.colorbar(shades, ax=axes, pad=0.02, aspect=30, label=label, **options)
    bar.outline.set_visible(False)  # pyright: ignore
    return bar


def _set_margins(figure: Figure, head: float) -> None:
    """Set the margins of the figure so that the axis labels fit.

    Matplotlib's own layouts draw every figure once more to measure texts, which takes longer than all other steps.
    Here, the length of a text is estimated from its number of letters.
    """
    width, height = figure.get_size_inches()
    left, right, bottom = _SPACE, _SPACE, _SPACE
    for axes in figure.axes:
        _name_factor(axes.xaxis)
        _name_factor(axes.yaxis)
        names = _longest(axes.yaxis) + (_LINE if axes.get_ylabel() else 0)
        if axes.yaxis.get_ticks_position() == "right":
            right = max(right, names + _SPACE)
        else:
            left = max(left, names + _SPACE)
        labels = axes.get_xticklabels()
        turned = np.sin(np.deg2rad(max((label.get_rotation() for label in labels), default=0.0)))
        under = max(_LINE, float(turned) * _longest(axes.xaxis))
        bottom = max(bottom, under + (_LINE if axes.get_xlabel() else 0) + _SPACE)
        if not turned:
            right = max(right, _overhang(axes, width - left - right) + _SPACE / 2)
    figure.subplots_adjust(left / width, bottom / height, 1 - right / width, 1 - head / height, hspace=0.12)


def _name_factor(axis: Axis) -> None:
    """Write the common factor of the tick labels, such as 1e6, beside the label of an axis.

    Matplotlib writes it at the end of the axis, where legends and notes stand.
    """
    # Matplotlib knows the common factor of the labels only after it has made the labels.
    axis.get_ticklabels()
    factor, label = axis.get_major_formatter().get_offset(), axis.get_label_text()
    if factor and label:
        axis.set_label_text(f"{label} ({factor})")
        axis.get_offset_text().set_visible(False)


def _overhang(axes: Axes, width: float) -> float:
    """Return the estimated length in inches by which labels of the x axis project beyond the right end of the axes."""
    ends = [0.0]
    for label in axes.get_xticklabels():
        place = axes.transAxes.inverted().transform(axes.transData.transform((label.get_position()[0], 1.0)))[0]
        if place <= 1.0 + 1e-9:
            ends.append(_LETTER * len(label.get_text()) / 2 - (1.0 - place) * width)
    return max(ends)


def _longest(axis: Axis) -> float:
    """Return the estimated length in inches of the longest tick label of an axis."""
    names = [label.get_text() for label in axis.get_ticklabels(which="both")]
    return _LETTER * max((len(name) for name in names), default=0) + _SPACE / 2


def _inline(figure: Figure, name: str, alt: str) -> str:
    """Return the figure as an SVG element that scales with the page; its identifiers are unique within the page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)
    # The page's font is used, because the reader's computer may not have Matplotlib's font.
    svg = _FONT.sub(rf"font-size: calc(\1px * var(--text, {_WIDE}))", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    label = alt.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
