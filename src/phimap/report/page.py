"""Render the results of a fit as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap._number_text import number_text
from phimap._progress import Stage
from phimap.learn.search.log import SearchLog
from phimap.report import bars, certainty_figures, figures, kernel_figures
from phimap.report.axes import Axis
from phimap.report.bars import Bars
from phimap.report.certainty import HeldOutIntervals, HeldOutProbabilities
from phimap.report.certainty_figures import Groups
from phimap.report.curves import Curves, WidthAdvice
from phimap.report.dependence import Dependences
from phimap.report.permutation import Permutations
from phimap.report.style import Plot, shortened

# Phrases about how the error along the regularisation path is estimated, by name of the criterion.
_ESTIMATES = {
    "gcv": "by generalised cross-validation",
    "leave-one-out": "each row predicted from all others",
    "held-out": "by validation rows taken from them",
    "given": "at the value given",
}
# Words for the captions of means in groups of rows.
_GROUPS, _WITHIN = "up to ten groups", "with two standard errors"


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
    measure : str
        Name of the error: ``"RMSE"``, ``"error"`` of classes, or the name of a loss.
    levels : sequence of float or None
        Levels of the q quantiles in `predicted` (k,) or (k, q); None if other values are predicted.
    alphas, estimate : ndarray of shape (a,)
        Values of alpha on the regularisation path, and the estimate at each alpha: of the root of the mean squared
        error, or of the mean loss.
    criterion : str
        Method of the estimate: ``"gcv"``, ``"leave-one-out"``, ``"held-out"``, or ``"given"``.
    alpha : float
        Regularisation of the model.
    certainty : HeldOutIntervals or HeldOutProbabilities or None
        Intervals or probabilities of held-out rows.
    curves : Curves or None
        Held-out errors of narrower and differently regularised models.
    leading : sequence of (name, share)
        Columns with the largest shares of the learned metric; empty if no metric was learned.
    importances : sequence of (name, size)
        Mean absolute Shapley values of all columns; empty if they were not computed.
    names : sequence of str
        Names of all columns, in the order of `permutations`.
    permutations : Permutations or None
        Rises of the held-out error if columns are shuffled.
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
    inputs : str
        Number of the feature columns, and the names of the ones left out, in words.
    n_columns : int
        Number of all feature columns of the file. `columns` may describe only some of the feature columns, or be empty.
    command : str
        Command line of the fit.
    held_out_by : str
        A sentence on the choice of the held-out rows; empty if no rows were held out.
    """

    data: str
    target: str
    task: str
    headline: str
    tiles: Sequence[tuple[str, str, str]]
    true: np.ndarray | None
    predicted: np.ndarray | None
    measure: str
    levels: Sequence[float] | None
    alphas: np.ndarray
    estimate: np.ndarray
    criterion: str
    alpha: float
    certainty: HeldOutIntervals | HeldOutProbabilities | None
    curves: Curves | None
    leading: Sequence[tuple[str, float]]
    importances: Sequence[tuple[str, float]]
    names: Sequence[str]
    permutations: Permutations | None
    dependences: Dependences | None
    search: SearchLog | None
    stages: Sequence[Stage]
    tables: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    columns: Sequence[Sequence[str]]
    inputs: str
    n_columns: int
    command: str
    held_out_by: str


def render(facts: Facts) -> str:
    """Return the report as a self-contained HTML document."""
    return environment().get_template("report.html.jinja").render(facts=facts, sections=_sections(facts))


#: The caption of the trials of the search.
SEARCH_CAPTION = (
    f"Every trial in order: the {kernel_figures.SEARCH_ERROR} of a small model on rows it has not seen, where 1 is the "
    "error of the mean. Each kernel tries its widths, then follows its metrics. Trials above the frame are not shown."
)


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
    if isinstance(facts.certainty, HeldOutIntervals):
        sections.append(("Intervals", _intervals(facts.certainty, facts.target)))
    if isinstance(facts.certainty, HeldOutProbabilities):
        sections.append(("Probabilities", _probabilities(facts.certainty)))
    sections.append(("What the error depends on", _dependence(facts)))
    if facts.search is not None:
        sections.append(("How the kernel was chosen", [(kernel_figures.search(facts.search), SEARCH_CAPTION)]))
    caption = "Where the time went, and the highest memory of the process by the end of each stage."
    sections.append(("Time and memory", [(bars.time_and_memory(facts.stages), caption)]))
    return [(title, drawn) for title, drawn in sections if drawn]


def _held_out(true: np.ndarray, predicted: np.ndarray, facts: Facts) -> list[tuple[Plot | Bars, str]]:
    if facts.levels is not None:
        return _quantiles(true, predicted.reshape(len(true), -1), facts.levels, facts.target)
    if facts.measure == "deviance":
        drawn = figures.predicted_against_true(true, predicted, facts.target)
        words = f"mean prediction of {facts.target}", f"mean {facts.target}"
        means = certainty_figures.agreement(Groups.of_rows(predicted, true), "means", words)
        caption = f"Mean true value in {_GROUPS} of like prediction, {_WITHIN}. Exact means lie on the line."
        return [(drawn, "Predicted mean against true value. Values scatter about the line."), (means, caption)]
    if facts.task == "regression":
        against = "Predicted against true. Exact predictions lie on the line."
        left = "What the model leaves unexplained. Four of five errors lie between the dashed lines."
        drawn = figures.predicted_against_true(true, predicted, facts.target)
        return [(drawn, against), (figures.residuals(true, predicted, facts.target), left)]
    matrix = "Confusion matrix: held-out rows by true and predicted class, shaded by share of the true class."
    shares = "Share of each class that is found, and of its predictions that are right; the least found is on top."
    return [(figures.confusion(true, predicted), matrix), (bars.classes(true, predicted), shares)]


def _quantiles(
    true: np.ndarray, predicted: np.ndarray, levels: Sequence[float], target: str
) -> list[tuple[Plot | Bars, str]]:
    below = (true[:, None] <= predicted).mean(axis=0)
    words = "level of the quantile", "share of true values below"
    caption = f"Share of the true values below each quantile, {_WITHIN}. Exact quantiles lie on the line."
    shares = certainty_figures.shares(levels, [("quantiles", below)], len(true), words)
    drawn: list[tuple[Plot | Bars, str]] = [(shares, caption)]
    if len(levels) > 1:
        places = [0, len(levels) // 2, -1]
        low, middle, high = (100 * levels[place] for place in places)
        labels = f"{low:g} % to {high:g} %", f"{middle:g} % quantile"
        caption = f"The band between the outer quantiles, meant to hold {high - low:g} % of the true values."
        drawn.insert(0, (certainty_figures.band(true, predicted[:, places], labels, target), caption))
    return drawn


def _intervals(found: HeldOutIntervals, target: str) -> list[tuple[Plot | Bars, str]]:
    true, n_rows = found.true, len(found.true)
    values = np.column_stack([found.bounds[:, 0], found.predicted, found.bounds[:, 1]])
    labels = f"{100 * found.drawn:g} % interval", "prediction"
    inside = np.mean((values[:, 0] <= true) & (true <= values[:, 2]))
    caption = (
        f"Intervals meant to hold {100 * found.drawn:g} % of the true values; they hold "
        f"{100 * inside:.1f} % of {n_rows:,} held-out rows."
    )
    drawn: list[tuple[Plot | Bars, str]] = [(certainty_figures.band(true, values, labels, target), caption)]
    series, more = [("intervals", found.shares)], ""
    normal = found.shares_of_deviations()
    if normal is not None:
        series.append(("normal law", normal))
        more = " Squares: intervals of the normal law, by the standard deviations."
    words = "coverage that is meant", "share of true values within the interval"
    plot = certainty_figures.shares(found.coverages, series, n_rows, words)
    drawn.append(
        (plot, f"Share of the true values within intervals, {_WITHIN}. Exact intervals lie on the line.{more}")
    )
    if found.deviations is not None:
        squares = Groups.of_rows(found.deviations.astype(float) ** 2, (found.predicted - true).astype(float) ** 2)
        words = f"standard deviation of {target}", f"root mean square error of {target}"
        caption = f"Error in {_GROUPS} of like standard deviation, {_WITHIN}. Exact deviations lie on the line."
        drawn.append((certainty_figures.agreement(squares.roots(), "deviations", words), caption))
    return drawn


def _probabilities(found: HeldOutProbabilities) -> list[tuple[Plot | Bars, str]]:
    shown = found.shown_class()
    if shown is None:
        is_class, probabilities = found.named_class()
        words = "probability of the predicted class", "share of the predictions that are right"
        what = "Share of right predictions"
    else:
        found_label, is_class, probabilities = shown
        label = shortened(found_label)
        words = f"probability of {label}", f"share of {label}"
        what = f"Share of {label}"
    groups = Groups.of_rows(probabilities.astype(float), is_class.astype(float))
    caption = f"{what} in {_GROUPS} of like probability, {_WITHIN}. Exact probabilities lie on the line."
    drawn: list[tuple[Plot | Bars, str]] = [(certainty_figures.agreement(groups, "reliability", words), caption)]
    if shown is not None:
        plot, average = certainty_figures.precision_recall(is_class, probabilities, label)
        caption = (
            f"Precision and recall of {label}, the rarer class, over all thresholds of its probability. The average "
            f"precision is {average:.3f}; that of chance is the share of the class, {is_class.mean():.3f}."
        )
        drawn.append((plot, caption))
    return drawn


def _columns(facts: Facts) -> list[tuple[Plot | Bars, str]]:
    """Return a chart of the most important columns, and figures of predictions along some of them, with captions."""
    measures, captions = [], []
    found = facts.permutations
    if found is not None:
        regression = facts.task == "regression"
        scale = found.error if regression and found.error > 0 else 1.0
        values = [(name, float(rise) / scale) for name, rise in zip(facts.names, found.rises, strict=True)]
        head, what = ("rise of the error", "RMSE") if regression else ("more wrong labels", "share of wrong labels")
        # Adding 0.0 turns -0.0 into 0.0, which is shown without a minus sign.
        measures.append((head, values, lambda value: f"{number_text(round(100 * value, 2) + 0.0, 3)} %"))
        captions.append(
            f"How far the {what} of {found.n_rows:,} held-out rows rises if the values of a column are shuffled."
        )
    if facts.importances:
        measures.append(("mean absolute Shapley value", facts.importances, lambda value: number_text(value, 3)))
        captions.append("The mean absolute Shapley value: how far the column moves the prediction, on average.")
    if facts.leading:
        measures.append(("share of the metric", facts.leading, bars.percent))
        captions.append(
            "The share of the metric: how much the column counts for the distance of two rows. A small share does not "
            "mean that the column can be left out."
        )
    if not measures:
        return []
    drawn: list[tuple[Plot | Bars, str]] = [(bars.columns(measures), " ".join(captions))]
    found = facts.dependences
    if found is None:
        return drawn
    label = facts.target if found.output is None else f"probability of {found.output}"
    bands = [one.band for one in found.singles]
    limits = float(min(band.min() for band in bands)), float(max(band.max() for band in bands))
    over = f"the mean over {found.n_rows} training rows in which"
    if found.pair is not None:
        which = (
            "whose shuffling raises the error most" if facts.permutations else "with the largest shares of the metric"
        )
        caption = (
            f"Predictions by the two columns of numbers or dates {which}: {over} both are set to each pair. Pairs of "
            "values that no row has are coloured, too: there the prediction is an extrapolation."
        )
        drawn.append((kernel_figures.along_pair(found.pair, label), caption))
    for place, one in enumerate(found.singles):
        caption = f"Predictions along {one.names[0]}: {over} it alone is set to each value. {_band_text(one.axes[0])}"
        drawn.append((kernel_figures.along_column(one, place, label, limits), caption))
    return drawn


def _band_text(axis: Axis) -> str:
    """Describe the band of a figure, and the number of categories that the figure omits."""
    text = "The band holds the predictions of four in five of these rows."
    if not axis.is_categories:
        return text
    left_out = f" Left out: {axis.others}." if axis.others else ""
    return f"{text.replace('band holds', 'lines hold')}{left_out}"


def _dependence(facts: Facts) -> list[tuple[Plot | Bars, str]]:
    error = facts.measure
    curves = facts.curves
    path = curves.path if curves else None
    drawn: list[tuple[Plot | Bars, str]] = []
    if facts.alphas.size > 1 or path is not None:
        caption = "Error against regularisation."
        if facts.alphas.size > 1:
            caption += f" The solid line estimates it from the training rows alone, {_ESTIMATES[facts.criterion]}."
        if path is not None and curves is not None:
            caption += f" The dashed line is measured on held-out rows, with {curves.path_width:,} of the features."
        estimate = facts.alphas, facts.estimate, facts.criterion, facts.alpha
        drawn.append((figures.against_alpha(*estimate, path, error), caption))
    if curves is not None and curves.width is not None:
        caption = "Held-out error against the number of features, at the regularisation chosen for all of them."
        drawn.append((figures.against_width(curves.width, error), f"{caption} {_advice(curves.advice)}".rstrip()))
    return drawn


def _advice(advice: WidthAdvice | None) -> str:
    """Return advice on the number of features in words; empty if the validation rows do not suggest a change."""
    if advice is None:
        return ""
    rows = f"{advice.n_rows:,} validation rows"
    if advice.fewer is not None:
        return f"On {rows}, {advice.fewer:,} features err less than {advice.width:,}: try --features {advice.fewer}."
    if advice.falls:
        return f"On {rows}, {advice.width:,} features err less than half as many: more --features will help."
    return f"On {rows}, half as many features err as little: more --features will hardly help."
