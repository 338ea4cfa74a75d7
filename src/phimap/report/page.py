"""From the results of a fit to one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap._progress import Stage
from phimap.learn.search.log import SearchLog
from phimap.report import bars, figures, kernel_figures
from phimap.report.bars import Bars
from phimap.report.curves import Curve, Curves
from phimap.report.dependence import Dependences
from phimap.report.style import Plot

# Relative differences of errors below this are not worth advice.
_NOTICEABLE = 0.02
# How the error along the path of the regularisation is known, by the criterion's name.
_ESTIMATES = {
    "gcv": "by generalised cross-validation",
    "leave-one-out": "each row predicted from all others",
    "held-out": "by validation rows taken from them",
    "given": "at the value given",
}


@dataclass(frozen=True)
class Facts:
    """What a report shows.

    Attributes
    ----------
    data, target, task : str
    headline : str
        What the fit achieved, in a sentence.
    tiles : sequence of (label, value, note)
        Key figures.
    true, predicted : ndarray of shape (k,) or None
        Held-out targets; None where nothing was held out.
    alphas, estimate : ndarray of shape (a,)
        The path of the regularisation and the root of the squared error that is expected along it.
    criterion : str
        How that is estimated: ``"gcv"``, ``"leave-one-out"``, ``"held-out"``, or ``"given"``.
    alpha : float
    curves : Curves or None
    leading : sequence of (name, share)
        Columns with the largest weights in the metric; empty where none was learned.
    dependences : Dependences or None
        Of the predictions on the leading columns.
    search : SearchLog or None
        What was tried; None where nothing was open.
    stages : sequence of Stage
    tables : sequence of (title, rows)
        Rows of two cells.
    columns : sequence of rows
        Description of the feature columns, the first row being the head.
    n_columns : int
        All columns, of which `columns` may describe fewer or none.
    command : str
    """

    data: str
    target: str
    task: str
    headline: str
    tiles: Sequence[tuple[str, str, str]]
    true: np.ndarray | None
    predicted: np.ndarray | None
    alphas: np.ndarray
    estimate: np.ndarray
    criterion: str
    alpha: float
    curves: Curves | None
    leading: Sequence[tuple[str, float]]
    dependences: Dependences | None
    search: SearchLog | None
    stages: Sequence[Stage]
    tables: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    columns: Sequence[Sequence[str]]
    n_columns: int
    command: str


def render(facts: Facts) -> str:
    """The report as a complete HTML document without references to anything outside it."""
    return environment().get_template("report.html.jinja").render(facts=facts, sections=_sections(facts))


def environment() -> Any:
    """The templates of pages, which escape what they are given."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("phimap.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _sections(facts: Facts) -> list[tuple[str, list[tuple[Plot | Bars, str]]]]:
    """Titles, and figures with their captions: what the data say comes before what the fit did."""
    sections: list[tuple[str, list[tuple[Plot | Bars, str]]]] = [
        (f"What {facts.target} depends on", _columns(facts)),
    ]
    if facts.true is not None and facts.predicted is not None:
        sections.append(("Held-out rows", _held_out(facts.true, facts.predicted, facts)))
    sections.append(("What the error depends on", _dependence(facts)))
    if facts.search is not None:
        caption = (
            "Every trial in order: the mean squared error of a small model on rows it has not seen, where 1 is the "
            "error of the mean. Each kernel tries its widths, then follows its metrics. Trials "
            "above the frame are not shown."
        )
        sections.append(("How the kernel was chosen", [(kernel_figures.search(facts.search), caption)]))
    caption = "Where the time went, and the highest memory of the process by the end of each stage."
    sections.append(("Time and memory", [(bars.time_and_memory(facts.stages), caption)]))
    return [(title, drawn) for title, drawn in sections if drawn]


def _held_out(true: np.ndarray, predicted: np.ndarray, facts: Facts) -> list[tuple[Plot | Bars, str]]:
    if facts.task == "regression":
        return [
            (
                figures.predicted_against_true(true, predicted, facts.target),
                "Predicted against true. Exact predictions lie on the line.",
            ),
            (
                figures.residuals(true, predicted, facts.target),
                "What the model leaves unexplained. Four of five errors lie between the dashed lines.",
            ),
        ]
    return [
        (
            figures.confusion(true, predicted),
            "Confusion matrix: held-out rows by true and predicted class, shaded by share of the true class.",
        ),
        (
            bars.classes(true, predicted),
            "Share of each class that is found, and of its predictions that are right; the least found is on top.",
        ),
    ]


def _columns(facts: Facts) -> list[tuple[Plot | Bars, str]]:
    """The columns that matter, and the predictions along them."""
    if not facts.leading:
        return []
    n_shown = len(facts.leading)
    shown = "" if n_shown == facts.n_columns else f"The leading {n_shown} of {facts.n_columns:,} columns are shown."
    caption = (
        "Share of each column in the metric that was learned: how strongly the model changes along it, in units of the "
        f"column's spread. {shown}"
    )
    drawn: list[tuple[Plot | Bars, str]] = [(bars.relevances(facts.leading), caption)]
    found = facts.dependences
    if found is None:
        return drawn
    label = facts.target if found.output is None else f"probability of {found.output}"
    means = [one.mean for one in (*found.singles, found.pair) if one is not None]
    limits = float(min(mean.min() for mean in means)), float(max(mean.max() for mean in means))
    over = f"the mean over {found.n_rows} training rows in which"
    if found.pair is not None:
        caption = f"Predictions by the two leading columns: {over} both are set to each pair of values."
        drawn.append((kernel_figures.along_pair(found.pair, label), caption))
    for place, one in enumerate(found.singles):
        caption = f"Predictions along {one.names[0]}: {over} it alone is set to each value."
        drawn.append((kernel_figures.along_column(one, place, label, limits), caption))
    return drawn


def _dependence(facts: Facts) -> list[tuple[Plot | Bars, str]]:
    error = "RMSE" if facts.task == "regression" else "error"
    curves = facts.curves
    path = curves.path if curves else None
    drawn: list[tuple[Plot | Bars, str]] = []
    if facts.alphas.size > 1 or path is not None:
        caption = "Error against regularisation."
        if facts.alphas.size > 1:
            caption += f" The solid line estimates it from the training rows alone, {_ESTIMATES[facts.criterion]}."
        if path is not None and curves is not None:
            caption += f" The dashed line is measured on held-out rows, with {curves.path_width:,} of the features."
        drawn.append(
            (
                figures.against_alpha(
                    facts.alphas,
                    facts.estimate,
                    facts.criterion,
                    facts.alpha,
                    path,
                    curves.path_width if curves else 0,
                    error,
                ),
                caption,
            )
        )
    if curves is not None and curves.width is not None:
        caption = (
            "Held-out error against the number of features, at the regularisation chosen for all of them. "
            + _advice(curves.width)
        )
        drawn.append((figures.against_width(curves.width, error), caption))
    return drawn


def _advice(curve: Curve) -> str:
    """What the error against the number of features says to do."""
    best = int(np.argmin(curve.y))
    last, before = curve.y[-1], curve.y[-2]
    if curve.y[best] < (1 - _NOTICEABLE) * last:
        fewer = f"{int(curve.x[best]):,}"
        return f"{fewer} features err less than {int(curve.x[-1]):,}: try --features {int(curve.x[best])}."
    if last < (1 - _NOTICEABLE) * before:
        return "The line is still falling at its end: more --features will help."
    return "The line is flat at its end: more --features will hardly help."
