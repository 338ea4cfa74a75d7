"""Mean absolute Shapley values for the report of a fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import phimap as pm
from phimap.explain.importance import mean_absolute_values
from phimap.report import bars


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


def test_bars_show_both():
    drawn = bars.relevances([("a", 0.7), ("b", 0.3)], [("b", 4.0), ("a", 2.0)])
    assert drawn.heads[-1] == "mean absolute Shapley value"
    assert drawn.rows[0][1][1] == ("2", 0.5)
