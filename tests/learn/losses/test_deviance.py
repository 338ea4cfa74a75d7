"""Deviances and the pinball loss: against their definitions, and slopes against differences of values."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import mean_pinball_loss, mean_tweedie_deviance

from phimap.learn.losses.deviance import Deviance
from phimap.learn.losses.pinball import Pinball

POWERS = (1.0, 1.2, 1.5, 1.9, 2.0)


def positive_targets(power, rng):
    y = rng.gamma(1.0, 3.0, (60, 2))
    if power < 2:
        y[:20] = 0.0
    return y


@pytest.mark.parametrize("power", POWERS)
def test_values_are_half_of_the_deviance_of_scikit_learn(power, rng):
    y, scores = positive_targets(power, rng), rng.standard_normal((60, 2))
    centre = np.array([0.5, -1.0])
    found = Deviance(power, centre).values(scores, y)
    expected = sum(mean_tweedie_deviance(y[:, k], np.exp(scores[:, k] + centre[k]), power=power) for k in range(2))
    assert found.mean() == pytest.approx(0.5 * expected)


@pytest.mark.parametrize("power", POWERS)
def test_slopes_and_curvatures_of_a_deviance_are_derivatives(power, rng):
    y, scores, loss = positive_targets(power, rng), 2 * rng.standard_normal((60, 2)), Deviance(power, 0.3)
    slopes = loss.slopes(scores, y)
    for k in range(2):
        step = 1e-5 * np.eye(2)[k]
        expected = (loss.values(scores + step, y) - loss.values(scores - step, y)) / 2e-5
        np.testing.assert_allclose(slopes[:, k], expected, rtol=1e-6, atol=1e-6)
        expected = (loss.slopes(scores + step, y) - loss.slopes(scores - step, y))[:, k] / 2e-5
        np.testing.assert_allclose(loss.curvatures(scores, y, slopes)[:, k], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("power", POWERS)
def test_a_deviance_stays_finite_convex_and_smooth_where_an_exponential_overflows(power):
    scores = np.linspace(-2000.0, 2000.0, 4001)[:, None]
    loss, y = Deviance(power), np.ones_like(scores)
    values, slopes = loss.values(scores, y), loss.slopes(scores, y)[:, 0]
    assert np.isfinite(values).all()
    assert (np.diff(slopes) >= 0).all()
    # The mean slope of a convex function lies between the slopes at both ends.
    steps, room = np.diff(values), 1e-9 * np.abs(slopes).max()
    assert (steps >= slopes[:-1] - room).all()
    assert (steps <= slopes[1:] + room).all()


@pytest.mark.parametrize("power", POWERS)
def test_stiffness_is_the_curvature_at_the_mean(power):
    loss, y = Deviance(power, np.log(7.0)), np.full((5, 1), 7.0)
    zero = np.zeros_like(y)
    assert loss.stiffness == pytest.approx(float(loss.curvatures(zero, y, loss.slopes(zero, y)).mean()))


LEVELS = np.array([0.05, 0.5, 0.9])


def test_unsmoothed_losses_are_those_of_scikit_learn(rng):
    y, scores = 3 * rng.standard_normal((50, 3)), 3 * rng.standard_normal((50, 3))
    found = Pinball(levels=LEVELS).unsmoothed(scores, y).mean(axis=0)
    expected = [mean_pinball_loss(y[:, k], scores[:, k], alpha=level) for k, level in enumerate(LEVELS)]
    np.testing.assert_allclose(found, expected)


def test_slopes_and_curvatures_of_a_smoothed_pinball_loss_are_derivatives(rng):
    y, scores = rng.standard_normal((200, 3)), rng.standard_normal((200, 3))
    loss = Pinball(levels=LEVELS, width=0.7, bandwidth=0.7)
    slopes = loss.slopes(scores, y)
    for k in range(3):
        step = 1e-6 * np.eye(3)[k]
        expected = (loss.values(scores + step, y) - loss.values(scores - step, y)) / 2e-6
        np.testing.assert_allclose(slopes[:, k], expected, atol=1e-8)
        expected = (loss.slopes(scores + step, y) - loss.slopes(scores - step, y))[:, k] / 2e-6
        np.testing.assert_allclose(loss.curvatures(scores, y, slopes)[:, k], expected, atol=1e-8)


def test_smoothing_lowers_the_loss_by_at_most_its_bound(rng):
    y, scores, width = rng.standard_normal((500, 3)), rng.standard_normal((500, 3)), 0.4
    for level in LEVELS:
        exact = Pinball(levels=level).unsmoothed(scores, y).sum(axis=1)
        lower = exact - Pinball(levels=level, width=width).values(scores, y)
        bound = 1.5 * width * max(level, 1 - level) ** 2
        assert lower.min() >= -1e-12
        assert 0.9 * bound < lower.max() <= bound * (1 + 1e-9)
