"""Mean absolute Shapley values for the report of a fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import phimap as pm
from phimap.explain.importance import mean_absolute_values
from phimap.report import bars
from tests.fuzz.samples import averaged


@pytest.mark.parametrize("kernel", ["gaussian", "ntk"])
def test_columns_of_an_encoded_frame(kernel):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"strong": rng.standard_normal(200), "town": rng.choice(["Ulm", "Bonn", "Kiel"], 200)})
    y = 2 * frame["strong"] + 0.2 * (frame["town"] == "Ulm")
    model = pm.KernelRegressor(kernel, 64, metric=None, random_state=0).fit(frame, y)
    sizes = mean_absolute_values(model, model.encoder_.transform(frame))
    assert sizes is not None
    assert sizes.shape == (2,)
    assert sizes[0] > 3 * sizes[1]


def test_trees_of_labels_count():
    """The kernel model of a share of 0 sees the first column alone, and the trees the second."""
    X = np.random.default_rng(0).standard_normal((300, 2))
    model = pm.KernelClassifier("gaussian", 32, metric=None, random_state=0).fit(X, X[:, 0] > 0)
    model = averaged(model, X, X[:, 1] > 0)
    model._fitted = replace(model._fitted, trees=replace(model._fitted.trees, share=1.0))
    sizes = mean_absolute_values(model, X)
    assert sizes[1] > 5 * sizes[0]


def test_bars_show_both():
    shares, sizes = [("a", 0.7), ("b", 0.3)], [("b", 4.0), ("a", 2.0)]
    drawn = bars.columns(
        [
            ("share of the metric", shares, bars.percent),
            ("mean absolute Shapley value", sizes, lambda size: f"{size:g}"),
        ]
    )
    assert drawn.heads[-1] == "mean absolute Shapley value"
    assert drawn.rows[0][1][1] == ("2", 0.5)
