"""Losses: their slopes against differences of their values."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.learn.losses.losses import Huber, Logistic, Loss, SquaredHinge, log_probabilities, scale_ratio, scale_step


def rows(t, n=40, seed=0):
    rng = np.random.default_rng(seed)
    scores, classes = 2 * rng.standard_normal((n, t)), rng.integers(max(t, 2), size=n)
    signs = np.where(np.arange(t) == classes[:, None], 1.0, -1.0)
    return scores, signs


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), Huber()])
@pytest.mark.parametrize("t", [1, 3])
def test_slopes_are_those_of_the_values(loss: Loss, t):
    scores, signs = rows(t)
    step = 1e-6
    for k in range(t):
        shift = step * (np.arange(t) == k)
        expected = (loss.values(scores + shift, signs) - loss.values(scores - shift, signs)) / (2 * step)
        np.testing.assert_allclose(loss.slopes(scores, signs)[:, k], expected, atol=1e-8)


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), Huber()])
@pytest.mark.parametrize("t", [1, 3])
def test_curvatures_are_those_of_the_slopes(loss: Loss, t):
    scores, signs = rows(t)
    found = loss.curvatures(scores, signs, loss.slopes(scores, signs))
    for k in range(t):
        step = 1e-5 * np.eye(t)[k]
        expected = (loss.slopes(scores + step, signs) - loss.slopes(scores - step, signs))[:, k] / 2e-5
        np.testing.assert_allclose(found[:, k], expected, atol=1e-8)


def test_losses_of_huge_margins_are_finite():
    for loss in (Logistic(), SquaredHinge()):
        for t in (1, 3):
            scores, signs = rows(t)
            assert np.isfinite(loss.values(1e4 * scores, signs)).all()
            assert np.isfinite(loss.slopes(1e4 * scores, signs)).all()


def test_probabilities_are_those_of_the_loss():
    for t in (1, 3):
        scores, signs = rows(t)
        classes = (signs[:, 0] > 0).astype(int) if t == 1 else signs.argmax(axis=1)
        found = log_probabilities(scores)
        np.testing.assert_allclose(np.exp(found).sum(axis=1), 1)
        np.testing.assert_allclose(-found[np.arange(len(classes)), classes], Logistic().values(scores, signs))


def test_held_out_errors_are_bounded():
    errors = np.array([[0.5], [5.0], [1e3], [1e9]])
    zeros = np.zeros_like(errors)
    held_out, values = Huber().held_out_values(errors, zeros), Huber().values(errors, zeros)
    np.testing.assert_array_equal(held_out[:2], values[:2])
    assert held_out[1] < held_out[2] == held_out[3] < values[2]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.45])
@pytest.mark.parametrize("start", [1e-6, 1.0, 1e6])
def test_scale_makes_the_mean_of_bounded_squares_one(rng, share, start):
    errors = rng.standard_normal((2000, 1))
    errors[: int(2000 * share)] *= 1e5
    weights, scale = rng.uniform(0.5, 2, 2000), np.array([start])
    for _ in range(60):
        scale = scale * scale_ratio(scale_step(errors / scale, weights))
    bounded = np.minimum(np.square(errors[:, 0] / scale), 1.35**2)
    assert np.average(bounded, weights=weights) == pytest.approx(1.0)


def test_huber_in_units_is_the_loss_of_standardised_targets(rng):
    scores, targets = rng.standard_normal((50, 2)), 10 + 5 * rng.standard_normal((50, 2))
    centre, scale = np.array([9.0, 11.0]), np.array([4.0, 6.0])
    loss, standardised = Huber(centre, scale), (targets - centre) / scale
    for method in ("values", "slopes", "held_out_values"):
        np.testing.assert_array_equal(
            getattr(loss, method)(scores, targets), getattr(Huber(), method)(scores, standardised)
        )
