"""Ternary functions that match the moments of others."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.theory import Ternary, gaussian_moments, ternary_thresholds

TAUS = [0.1, 0.3, 0.5, 1.0, 1.34, 2.0, 4.0, 8.0]
GAUSSIAN = pm.kernels.Gaussian()


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize(
    "target",
    [GAUSSIAN, "sin", "sign", "step", "relu", "leaky-relu", "gelu", np.tanh],
    ids=lambda target: getattr(target, "__name__", str(target)),
)
def test_first_two_moments_are_matched(target, tau):
    ternary = ternary_thresholds(target, tau)
    wanted = gaussian_moments(target, tau)
    # By quadrature on the function itself, so that the closed form is not its own witness.
    np.testing.assert_allclose(gaussian_moments(ternary, tau)[1:], wanted[1:], rtol=0, atol=1e-8)
    assert ternary.lower <= ternary.upper
    assert ternary.height > 0


@pytest.mark.parametrize("tau", TAUS)
def test_no_other_match_has_a_nearer_d0(tau):
    """Against a search over pairs of thresholds that does not know of branches."""
    ternary, wanted = ternary_thresholds(GAUSSIAN, tau), gaussian_moments(GAUSSIAN, tau)
    missed = abs(ternary.moments(tau).d0 - wanted.d0)
    uppers, lowers = np.linspace(-1, 5, 61), np.linspace(-5, 3, 4001)
    best = np.inf
    for upper in uppers * np.sqrt(tau):
        lower = lowers[lowers * np.sqrt(tau) <= upper] * np.sqrt(tau)
        density = [np.exp(-(s**2) / (2 * tau)) / np.sqrt(2 * np.pi * tau) for s in (upper, lower)]
        height = np.sqrt(wanted.d1) / (density[0] + density[1])
        d2 = (height * (upper * density[0] + lower * density[1]) / tau) ** 2 / 4
        close = np.flatnonzero(np.diff(np.sign(d2 - wanted.d2)))
        for k in close:
            found = Ternary(lower[k], upper, height[k]).moments(tau).d0
            best = min(best, abs(found - wanted.d0))
    # The search is as coarse as its steps.
    assert missed <= best + 1e-3


@pytest.mark.parametrize("tau", [2.0, 4.0, 8.0])
def test_all_three_moments_of_the_gaussian_kernel_where_they_can_be(tau):
    moments = ternary_thresholds(GAUSSIAN, tau).moments(tau)
    np.testing.assert_allclose(moments, gaussian_moments(GAUSSIAN, tau), atol=1e-8)


@pytest.mark.parametrize("name", ["sign", "step"])
def test_binary_targets_are_found_as_themselves(name):
    ternary = ternary_thresholds(name, 1.7)
    assert ternary.is_binary
    np.testing.assert_allclose(ternary.moments(1.7), gaussian_moments(name, 1.7), atol=1e-12)


@pytest.mark.parametrize("tau", TAUS)
def test_two_levels_match_as_well(tau):
    binary = ternary_thresholds(GAUSSIAN, tau, levels=2)
    assert binary.is_binary
    assert binary.lower == binary.upper
    np.testing.assert_allclose(gaussian_moments(binary, tau)[1:], gaussian_moments(GAUSSIAN, tau)[1:], atol=1e-8)


def test_height_is_what_makes_a_match_possible():
    """With height 1 the least error over all thresholds stays away from 0 at tau = 1."""
    wanted = np.array(gaussian_moments(GAUSSIAN, 1.0)[1:])
    points = np.linspace(-4, 4, 161)
    errors = [
        np.abs(np.array(Ternary(lower, upper, 1.0).moments(1.0)[1:]) - wanted).max()
        for lower in points
        for upper in points[points >= lower]
    ]
    assert min(errors) > 0.01


@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize("target", ["cos", "abs", "quadratic"])
def test_even_targets_have_no_match_and_say_so(target, levels):
    with pytest.warns(UserWarning, match=r"no ternary function has the moments d1=.*residual of"):
        ternary = ternary_thresholds(target, 1.0, levels=levels)
    weights = [1.0, 1.0, 2.0]
    wanted = weights * np.array(gaussian_moments(target, 1.0))

    def error(lower, upper, height):
        return np.linalg.norm(weights * np.array(Ternary(lower, upper, height).moments(1.0)) - wanted)

    least = error(*ternary)
    assert least < np.linalg.norm(wanted)
    # No small change makes it better.
    for step in (-1e-3, 1e-3):
        moved = (ternary.lower + step, ternary.upper, ternary.height)
        assert levels == 2 or error(*moved) >= least - 1e-9
        assert error(ternary.lower, ternary.upper, ternary.height + step) >= least - 1e-9
        assert error(ternary.lower + step, ternary.upper + step, ternary.height) >= least - 1e-9


def test_moments_may_be_given():
    assert ternary_thresholds(gaussian_moments("relu", 2.0), 2.0) == ternary_thresholds("relu", 2.0)


def test_values():
    t = np.array([-2.0, -1.0, 0.0, 0.5, 0.6])
    np.testing.assert_array_equal(Ternary(-1.0, 0.5, 2.0)(t), [-2, 0, 0, 0, 2])
    np.testing.assert_array_equal(Ternary(0.5, 0.5, 2.0)(t), [-2, -2, -2, -2, 2])
    np.testing.assert_array_equal(Ternary(-np.inf, 0.5, 2.0)(t), [0, 0, 0, 0, 2])


@pytest.mark.parametrize(
    ("target", "tau", "levels", "message"),
    [
        ("relu", -1.0, 3, r"`tau` must be greater than 0"),
        ("relu", 1.0, 4, r"`levels` must be 2 or 3, got 4"),
        (lambda t: 0 * t + 3, 1.0, 3, r"`target` must not be constant"),
    ],
)
def test_bad_parameters_name_the_remedy(target, tau, levels, message):
    with pytest.raises(ValueError, match=message):
        ternary_thresholds(target, tau, levels=levels)
