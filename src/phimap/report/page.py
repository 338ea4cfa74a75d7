"""Render the results of a fit as one HTML page."""

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

# Smallest relative difference between two errors that the advice counts as a difference.
_NOTICEABLE = 0.02
# Smallest difference between a column's shares in the metric and in the Shapley values that counts as a disagreement.
_DISAGREES = 0.1
# Phrases that describe how the error is estimated along the regularisation path, by name of the criterion.
_ESTIMATES = {
    "gcv": "by generalised cross-validation",
    "leave-one-out": "each row predicted from all others",
    "held-out": "by validation rows taken from them",
    "given": "at the value given",
}


@dataclass(frozen=True)
class Facts:
    """The content of a report.

    Attributes
    ----------
    data, target, task : str
        Names of the data and of the target column, and the task.
    headline : str
        The result of the fit in one sentence.
    tiles : sequence of (label, value, note)
        Key figures.
    true, predicted : ndarray of shape (k,) or None
        Targets and predictions of the held-out rows; None if no rows were held out.
    alphas, estimate : ndarray of shape (a,)
        Values of alpha on the regularisation path, and the root of the estimated mean squared error at each alpha.
    criterion : str
        Method of the estimate: ``"gcv"``, ``"leave-one-out"``, ``"held-out"``, or ``"given"``.
    alpha : float
        Regularisation of the model.
    curves : Curves or None
        Held-out errors of narrower and differently regularised models.
    leading : sequence of (name, share)
        Columns with the largest shares of the learned metric; empty if no metric was learned.
    importances : sequence of (name, size)
        Mean absolute Shapley values of all columns; empty if they were not computed.
    dependences : Dependences or None
        Partial dependence of the predictions on the leading columns.
    search : SearchLog or None
        Trials of the kernel search; None if there was no search.
    stages : sequence of Stage
        Stages of the fit, with the time and memory of each stage.
    tables : sequence of (title, rows)
        Tables with two cells in each row.
    columns : sequence of rows
        Table that describes the feature columns; the first row is the heading.
    n_columns : int
        Number of all feature columns. `columns` may describe only some of the feature columns, or be empty.
    command : str
        Command line of the fit.
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
    importances: Sequence[tuple[str, float]]
    dependences: Dependences | None
    search: SearchLog | None
    stages: Sequence[Stage]
    tables: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    columns: Sequence[Sequence[str]]
    n_columns: int
    command: str


def render(facts: Facts) -> str:
    """Return the report as a self-contained HTML document."""
    return environment().get_template("report.html.jinja").render(facts=facts, sections=_sections(facts))


def environment() -> Any:
    """Return the Jinja environment of the page templates; it escapes all inserted text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    options: dict[str, Any] = {"autoescape": True, "undefined": StrictUndefined, "trim_blocks": True}
    return Environment(loader=PackageLoader("phimap.report", "."), lstrip_blocks=True, **options)


def _sections(facts: Facts) -> list[tuple[str, list[tuple[Plot | Bars, str]]]]:
    """Return section titles with their figures and captions: results on the data first, then how the fit proceeded."""
    sections = [(f"What {facts.target} depends on", _columns(facts))]
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
        against = "Predicted against true. Exact predictions lie on the line."
        left = "What the model leaves unexplained. Four of five errors lie between the dashed lines."
        drawn = figures.predicted_against_true(true, predicted, facts.target)
        return [(drawn, against), (figures.residuals(true, predicted, facts.target), left)]
    matrix = "Confusion matrix: held-out rows by true and predicted class, shaded by share of the true class."
    shares = "Share of each class that is found, and of its predictions that are right; the least found is on top."
    return [(figures.confusion(true, predicted), matrix), (bars.classes(true, predicted), shares)]


def _columns(facts: Facts) -> list[tuple[Plot | Bars, str]]:
    """Return the figures of the most relevant columns and of the predictions along them, with captions."""
    if not facts.leading:
        return []
    n_shown = len(facts.leading)
    shown = "" if n_shown == facts.n_columns else f"The leading {n_shown} of {facts.n_columns:,} columns are shown."
    caption = (
        "Share of each column in the metric that was learned: how strongly the model changes along it, in units of the "
        f"column's spread. {shown}"
    )
    if facts.importances:
        caption += (
            " Beside it, the mean absolute Shapley value: how far the column moves the prediction, on average. "
            + _disagreement(facts)
        )
    drawn: list[tuple[Plot | Bars, str]] = [(bars.relevances(facts.leading, facts.importances), caption)]
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


def _disagreement(facts: Facts) -> str:
    """Say which leading column has the most different shares in the metric and in the Shapley values."""
    total = sum(size for _, size in facts.importances) or 1.0
    shares = {name: size / total for name, size in facts.importances}
    whole = sum(share for _, share in facts.leading) or 1.0
    name, share = max(facts.leading, key=lambda one: abs(one[1] - shares.get(one[0], 0.0)))
    if abs(share - shares.get(name, 0.0)) < _DISAGREES * min(1.0, whole):
        return "Both agree within a tenth for every column shown."
    by_values = shares.get(name, 0.0)
    why = (
        "the model bends along it, more than it moves"
        if share > by_values
        else "it moves predictions, along a line that is nearly straight"
    )
    shares_text = f"{100 * share:.0f} % of the metric, {100 * by_values:.0f} % of the values"
    return f"They disagree most on {name}: {shares_text}; {why}."


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
        width = curves.path_width if curves else 0
        estimate = facts.alphas, facts.estimate, facts.criterion, facts.alpha
        drawn.append((figures.against_alpha(*estimate, path, width, error), caption))
    if curves is not None and curves.width is not None:
        caption = "Held-out error against the number of features, at the regularisation chosen for all of them."
        drawn.append((figures.against_width(curves.width, error), f"{caption} {_advice(curves.width)}"))
    return drawn


def _advice(curve: Curve) -> str:
    """Return advice on the number of features, given the error against the number of features."""
    best = int(np.argmin(curve.y))
    last, before = curve.y[-1], curve.y[-2]
    if curve.y[best] < (1 - _NOTICEABLE) * last:
        fewer = f"{int(curve.x[best]):,}"
        return f"{fewer} features err less than {int(curve.x[-1]):,}: try --features {int(curve.x[best])}."
    if last < (1 - _NOTICEABLE) * before:
        return "The line is still falling at its end: more --features will help."
    return "The line is flat at its end: more --features will hardly help."
