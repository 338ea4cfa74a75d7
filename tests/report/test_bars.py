"""Bars of the page: what they say of classes, columns and stages."""

from __future__ import annotations

import numpy as np

from phimap._progress import Stage
from phimap.report import bars


def test_classes_have_recall_and_precision_the_hardest_on_top():
    true = np.array(["a"] * 8 + ["b"] * 2)
    predicted = np.array(["a"] * 7 + ["b"] + ["a", "b"])
    found = bars.classes(true, predicted)
    assert [name for name, _ in found.rows] == ["b", "a"]
    (recall, _), (precision, length) = found.rows[0][1]
    assert (recall, precision, length) == ("50.0 % of 2", "50.0 % of 2", 0.5)
    assert found.rows[1][1][0] == ("87.5 % of 8", 0.875)


def test_a_class_that_is_never_predicted_is_told():
    found = bars.classes(np.array([0, 0, 1]), np.array([0, 0, 0]))
    assert found.rows[0] == ("1", [("0 % of 1", 0.0), ("never predicted", 0.0)])


def test_bars_reach_to_the_longest():
    stages = [Stage("a", 1.0, 2**20), Stage("b", 4.0, 4 * 2**20)]
    found = bars.time_and_memory(stages)
    assert [[length for _, length in values] for _, values in found.rows] == [[0.25, 0.25], [1.0, 1.0]]
    shares = bars.columns(
        [("share", [("b", 0.25), ("a", 0.5), ("c", -0.1)], bars.percent), ("size", [("b", 3.0)], str)]
    )
    assert [name for name, _ in shares.rows] == ["a", "b", "c"]
    assert [values[0][1] for _, values in shares.rows] == [1.0, 0.5, 0.0]
    assert [values[1] for _, values in shares.rows] == [("0.0", 0.0), ("3.0", 1.0), ("0.0", 0.0)]
    assert shares.alt == "What columns matter; first by share is a with 50.0 %."
