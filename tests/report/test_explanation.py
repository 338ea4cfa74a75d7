"""Figures of Shapley values: labels that fit, columns of two values, and captions."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from phimap.explain import Explanation
from phimap.report import explanation, style

#: Points of a letter of a tick label in the page's fonts, at 10.5 points.
LETTER = 6.0


def found(*columns, scale=1.0, name="column"):
    """An explanation whose values rise with the column."""
    data = np.stack(columns, axis=1)
    values = scale * (data - data.mean(axis=0)) / np.ptp(data, axis=0)
    return Explanation(values, 0.0, data, [f"{name} {j}" for j in range(data.shape[1])], True)


def labels_of_x(svg):
    """Places and texts of the numbers at the x axis, and the width of the figure, in points."""
    width = float(re.search(r'viewBox="0 0 ([0-9.]+)', svg).group(1))
    axis = svg[svg.index("xtick_1") : svg.index("matplotlib.axis_2")]
    texts = re.findall(r'<text[^>]*?(?:x="([0-9.]+)"|translate\(([0-9.]+) )[^>]*>([^<A-Za-z]*)</text>', axis)
    return [(float(x or moved), text) for x, moved, text in texts], width


def test_the_last_label_of_an_axis_is_not_cut():
    plot = explanation.along(found(np.linspace(-124.3, -114.45, 40)), 0)
    labels, width = labels_of_x(plot.svg)
    assert len(labels) > 3
    assert max(x + LETTER * len(text) / 2 for x, text in labels) < width


def test_long_labels_below_marks_have_space():
    plot = explanation.beeswarm(found(np.linspace(0, 1, 40), scale=430_000.0, name="housing median age"))
    labels, _ = labels_of_x(plot.svg)
    ends = sorted((x - LETTER * len(text) / 2, x + LETTER * len(text) / 2) for x, text in labels)
    assert all(one[1] + 3 * LETTER < other[0] for one, other in pairwise(ends))


def test_columns_of_two_values_are_drawn_like_categories():
    one = found(np.arange(20) % 2 * 1.0, np.arange(20) % 3 * 1.0)
    assert explanation._along_caption(one, 0).endswith("one mark a row, and lines at the means.")
    assert explanation._along_caption(one, 1).endswith("one mark a row.")
    shown = [re.findall(r">(Shapley value|column 1)<", explanation.along(one, j).svg) for j in (0, 1)]
    assert shown == [["Shapley value"], ["column 1", "Shapley value"]]


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["13.10.2008", "01.01.2000", None, "02.01.2001"], [2008.78, 2000.0, np.nan, 2001.0]),
        (["2008-10-13 00:00:00", "2000-01-01 12:00:00"], [2008.78, 2000.0]),
        (["$1,620.14", "$20.50", None], [1620.14, 20.5, np.nan]),
        (["a", "b", "2000-01-01"], None),
    ],
)
def test_texts_of_dates_and_amounts_are_numbers_of_an_axis(texts, numbers):
    """Only dates in one form were: the others were drawn as the eight most frequent of 298 values."""
    read = explanation._numbers(np.array(texts, dtype=object))
    if numbers is None:
        assert read is None
    else:
        np.testing.assert_allclose(read, numbers, atol=0.01)


def test_values_of_zero_have_no_sign():
    assert [explanation._signed(value) for value in (0.0, 2.5, -2.5)] == ["0", "+2.5", "\N{MINUS SIGN}2.5"]


def test_bars_of_a_row_have_the_colours_of_the_waterfall():
    """Bars of negative values had the colour of positive ones."""
    one = Explanation(np.array([[3.0, -1.5, 0.0]]), 10.0, np.zeros((1, 3)), ["up", "down", "level"], True)
    text = explanation.page(one, "data.csv", "m.phimap")
    bars = re.findall(r'<td>([^<]*)<span class="(bar[^"]*)" style="width: ([0-9.]+)%', text)
    assert bars == [("+3", "bar", "100.0"), ("\N{MINUS SIGN}1.5", "bar second", "50.0"), ("0", "bar", "0.0")]
    falls = re.findall(r"fill: var\(--(main|second)\)", explanation.waterfall(one, 0).svg)
    assert set(falls) == {"main", "second"}


def test_labels_that_fit_move_no_margin():
    with style.Plot("short", "Short labels.") as plot:
        plot.axes.set_xlim(0.0, 1.0)
    assert style._overhang(plot.axes, 5.0) <= style._LETTER * 3
