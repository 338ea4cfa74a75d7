"""Median and robust spread of targets, with weights and ties."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import median_abs_deviation

from phimap.learn.targets.base import RobustTargets


def test_median_and_spread_are_those_of_scipy(rng):
    Y = rng.standard_normal((501, 2)) * [1.0, 1e6] + [3.0, -5.0]
    found = RobustTargets.of_sample(Y)
    np.testing.assert_array_equal(found.centre, np.median(Y, axis=0))
    np.testing.assert_allclose(found.spread, median_abs_deviation(Y, scale="normal"), rtol=1e-3)


def test_weights_are_repeated_rows(rng):
    y, weights = rng.standard_normal(200), rng.integers(1, 5, 200)
    found, expected = RobustTargets.of_sample(y, weights.astype(float)), RobustTargets.of_sample(y.repeat(weights))
    np.testing.assert_array_equal(found.centre, expected.centre)
    np.testing.assert_array_equal(found.spread, expected.spread)


@pytest.mark.parametrize(("y", "spread"), [(np.r_[np.zeros(60), np.full(40, 0.6745)], 1.0), (np.full(9, 7.0), 1.0)])
def test_targets_that_are_mostly_one_value_have_a_spread(y, spread):
    assert RobustTargets.of_sample(y).spread == pytest.approx(spread)


def test_far_targets_move_to_the_limit_and_others_stay(rng):
    y = rng.standard_normal(99)
    y[3], y[4] = 1e9, -1e9
    found = RobustTargets.of_sample(y)
    clipped = found.clipped(y[:, None], 10.0)[:, 0]
    np.testing.assert_array_equal(np.delete(clipped, [3, 4]), np.delete(y, [3, 4]))
    assert clipped[3] == found.centre[0] + 10 * found.spread[0]
    assert clipped[4] == found.centre[0] - 10 * found.spread[0]
