"""Figures of the page: letters that stay within their cells, bars that suit the rows, advice that suits the curve."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from phimap.report import figures
from phimap.report.curves import Curve
from phimap.report.page import _advice


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


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ([3.0, 2.0, 1.0], "still falling"),
        ([1.2, 1.005, 1.0], "flat"),
        ([1.2, 1.0, 1.1], "try --features 32"),
    ],
)
def test_advice_follows_the_curve(errors, words):
    assert words in _advice(Curve(np.array([16, 32, 64]), np.array(errors)))


def test_names_beside_the_axes_have_room():
    labels = np.array(["a rather long name", "b"] * 30)
    plot = figures.confusion(labels, labels)
    renderer = FigureCanvasAgg(plot.figure).get_renderer()
    for label in plot.axes.get_yticklabels():
        assert label.get_window_extent(renderer).x0 >= 0
