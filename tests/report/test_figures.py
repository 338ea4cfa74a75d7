"""Figures of the page: letters that stay within their cells, bars that suit the rows, advice that suits the curve."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from phimap.comparison import Comparison, ModelResult
from phimap.report import Permutations, figures, kernel_figures
from phimap.report.comparison import error_against_time
from phimap.report.curves import WidthAdvice
from phimap.report.page import SEARCH_CAPTION, _advice, _columns, environment


@pytest.mark.parametrize(("n_classes", "per_class"), [(2, 10_695), (10, 10_695), (20, 10_695), (20, 12)])
def test_counts_stay_within_their_cells(n_classes, per_class):
    labels = np.repeat(np.array([f"c{k:02}" for k in range(n_classes)]), per_class)
    plot = figures.confusion(labels, labels)
    found = [(text.get_text(), text.get_fontsize()) for text in plot.axes.texts]
    assert len(found) == n_classes
    side = plot.axes.get_window_extent().height * 72 / plot.figure.dpi / n_classes
    # Digits of any common font are at most 0.65 of its size wide.
    assert all(0.65 * size * len(text) <= side for text, size in found)
    assert {text for text, _ in found} == {f"{per_class:,}" if n_classes < 20 or per_class < 1000 else "11k"}


@pytest.mark.parametrize(("n_rows", "n_bars"), [(40, 6), (1000, 20), (10**6, 60)])
def test_residuals_have_as_many_bars_as_rows_can_fill(rng, n_rows, n_bars):
    plot = figures.residuals(np.zeros(n_rows), rng.standard_normal(n_rows), "y")
    assert len(plot.axes.patches) == pytest.approx(n_bars, abs=1)


@pytest.mark.parametrize("tail", [-1, 0, 1])
def test_labels_of_residuals_lie_within_the_frame(rng, tail):
    errors = rng.standard_normal(2000) if not tail else tail * 9000 * rng.random(2000) ** 3
    axes = figures.residuals(np.zeros(2000), errors, "y").axes
    axes.figure.canvas.draw()
    frame, boxes = axes.get_window_extent(), [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == 2
    assert all(frame.x0 - 30 <= box.x0 and box.x1 <= frame.x1 for box in boxes)
    assert not boxes[0].overlaps(boxes[1])


@pytest.mark.parametrize(
    ("advice", "words"),
    [
        (WidthAdvice(400, 64, None, True), "On 400 validation rows, 64 features err less than half as many: more"),
        (WidthAdvice(400, 64, None, False), "more --features will hardly help"),
        (WidthAdvice(400, 64, 32, False), "try --features 32"),
    ],
)
def test_advice_follows_the_validation_rows(advice, words):
    assert words in _advice(advice)
    assert _advice(None) == ""


def test_names_beside_the_axes_have_room():
    labels = np.array(["a rather long name", "b"] * 30)
    plot = figures.confusion(labels, labels)
    renderer = FigureCanvasAgg(plot.figure).get_renderer()
    for label in plot.axes.get_yticklabels():
        assert label.get_window_extent(renderer).x0 >= 0


def overlapping(texts) -> list[tuple[str, str]]:
    """Pairs of drawn texts whose boxes overlap."""
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text()]
    return [
        (one, other)
        for place, (one, box) in enumerate(boxes)
        for other, second in boxes[:place]
        if box.overlaps(second)
    ]


@pytest.mark.parametrize("n_kernels", [3, 12, 40])
def test_labels_of_the_search_do_not_overlap(n_kernels):
    names = np.repeat([("gaussian", "laplacian", "cauchy")[k % 3] for k in range(n_kernels)], 3)
    n_rows = np.repeat(1000 + 1000 * (np.arange(n_kernels) // 2), 3)
    log = SimpleNamespace(
        errors=np.linspace(0.9, 0.3, names.size),
        n_rows=n_rows,
        n_components=n_rows // 4,
        kernels=names.tolist(),
        metrics=["none"] * names.size,
    )
    plot = kernel_figures.search(log)
    FigureCanvasAgg(plot.figure).draw()
    notes = [text for text in plot.axes.texts if "rows" in text.get_text()]
    assert notes
    assert overlapping(notes) == []
    places = plot.axes.transData.transform(
        np.column_stack([plot.axes.get_xticks(), np.ones(len(plot.axes.get_xticks()))])
    )
    # Turned by 30 degrees, neighbours are half of their distance apart, and a line is 12 points high.
    assert (np.diff(places[:, 0]) * 72 / plot.figure.dpi >= 24).all()


def test_the_caption_of_the_search_names_what_the_axis_shows():
    log = SimpleNamespace(
        errors=np.array([0.9, 0.5]),
        n_rows=np.full(2, 1000),
        n_components=np.full(2, 256),
        kernels=["laplacian"] * 2,
        metrics=["none"] * 2,
    )
    plot = kernel_figures.search(log)
    assert plot.axes.get_ylabel() == "mean squared error / variance"
    # The variance is the error of the mean.
    assert SEARCH_CAPTION.startswith("Every trial in order: the mean squared error of")
    assert "where 1 is the error of the mean" in SEARCH_CAPTION


@pytest.mark.parametrize("n_trials", [1, 2, 5, 12, 45, 120])
def test_the_chosen_trial_is_named_within_the_figure(n_trials):
    """The last trial is the best. Mutant: its label is always centred, and is cut where trials are many."""
    log = SimpleNamespace(
        errors=np.linspace(0.9, 0.3, n_trials),
        n_rows=np.full(n_trials, 1000),
        n_components=np.full(n_trials, 256),
        kernels=["laplacian"] * n_trials,
        metrics=["none"] * n_trials,
    )
    plot = kernel_figures.search(log)
    renderer = FigureCanvasAgg(plot.figure).get_renderer()
    (chosen,) = [text for text in plot.axes.texts if text.get_text() == "chosen"]
    assert plot.figure.bbox.containsx(chosen.get_window_extent(renderer).x0)
    assert plot.figure.bbox.containsx(chosen.get_window_extent(renderer).x1)
    chosen.set_horizontalalignment("center")
    chosen.set_x(0)
    assert plot.figure.bbox.containsx(chosen.get_window_extent(renderer).x1) == (n_trials < 20)


@pytest.mark.parametrize(
    ("task", "rise", "shown"),
    [
        ("classification", -1.08e-17, "0 %"),
        ("classification", 1e-17, "0 %"),
        ("classification", -0.00167, "-0.17 %"),
        ("classification", 0.01, "1 %"),
        ("regression", -1e-16, "0 %"),
        ("regression", 1.96, "98 %"),
    ],
)
def test_rises_that_round_to_zero_are_shown_as_zero(task, rise, shown):
    found = Permutations(2.0, np.array([rise]), 1200)
    facts = SimpleNamespace(
        permutations=found, task=task, names=["hours"], importances=[], leading=[], dependences=None
    )
    (bars, _), *_ = _columns(facts)
    assert bars.rows[0][1][0][0] == shown


def test_names_of_methods_do_not_overlap():
    """Methods of nearly equal errors and seconds. Mutant: every name at the same offset from its mark."""
    names = ["linear", "neighbours", "hgb", "lightgbm", "phimap", "gaussian", "ntk", "nystroem"]
    results = tuple(
        ModelResult(name, "", (1 + 0.001 * k,), 1.0, 1 + 0.01 * k, 0.1, None, 1.0) for k, name in enumerate(names)
    )
    found = Comparison("regression", 100, 100, 3, ["a", "b", "c"], 1, 2.0, results, (), {})
    plot = error_against_time(found)
    FigureCanvasAgg(plot.figure).draw()
    assert overlapping(plot.axes.texts) == []
    for text in plot.axes.texts:
        text.xyann = (7, 5)
    assert overlapping(plot.axes.texts)


def test_heads_of_tables_do_not_break_inside_words():
    page = environment().get_template("page.html.jinja").render()
    rules = [rule for rule in page.split("}") if "overflow-wrap: normal" in rule]
    assert any("th[scope=col]" in rule and ".bars" in rule and ".columns" in rule for rule in rules)
    assert page.index("overflow-wrap: normal") > page.index(".bars th, .bars td")
    # A rule of higher specificity would break the last head of a table of columns.
    broken = [rule.partition("{")[0] for rule in page.split("}") if "overflow-wrap: anywhere" in rule]
    assert not [names for names in broken if ":last-child" in names and ":not(.columns)" not in names]
