"""One target that is far from all others is told, by its row and value."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import phimap as pm
from phimap.learn.rows.summary import ExtremeTargets, ExtremeTargetWarning
from tests.support.learners import GAUSSIAN


@pytest.mark.parametrize("value", [1e9, -1e9])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_the_row_and_its_value_are_named_across_batches(rng, value, offset):
    y = offset + rng.standard_normal(300)
    y[217] = value
    extremes = ExtremeTargets()
    for start in range(0, 300, 70):
        extremes.update(y[start : start + 70])
    told = extremes.message("`y`")
    assert told is not None
    assert f"`y` is {value:g} in row 217, which alone makes " in told


@pytest.mark.parametrize("draw", ["standard_normal", "standard_exponential", "standard_cauchy"])
def test_common_targets_are_not_told(draw):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y = getattr(rng, draw)(3000)
        extremes = ExtremeTargets()
        # Cauchy variables have no variance, and one may well make half of it: their logarithm is what one would fit.
        extremes.update(np.log1p(np.abs(y)) if draw == "standard_cauchy" else y)
        assert extremes.message("`y`") is None


def test_few_rows_and_equal_ones_are_not_told():
    for y in (np.r_[np.zeros(10), 1.0], np.ones(50)):
        extremes = ExtremeTargets()
        extremes.update(y)
        assert extremes.message("`y`") is None


def test_the_learner_warns_once(rng):
    X = rng.standard_normal((200, 2))
    y = X[:, 0].copy()
    model = pm.KernelRegressor(n_components=16, random_state=0, **GAUSSIAN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
    y[31] = 1e9
    with pytest.warns(ExtremeTargetWarning, match=r"`y` is 1e\+09 in row 31, which alone makes 99\.\d+ %") as caught:
        model.fit(X, y)
    assert len(caught) == 1
