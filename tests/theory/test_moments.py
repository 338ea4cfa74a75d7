"""Gaussian moments: every row of the published table, and what Stein's identity promises."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import phimap as pm
from phimap.theory import Ternary, gaussian_moments
from phimap.theory.moments import NAMED

TAUS = [0.1, 1.0, 2.5, 8.0]
PI = np.pi


def exp_row(tau):
    return 1 / np.sqrt(2 * tau + 1) - 1 / (tau + 1), 0.0, 1 / (4 * (tau + 1) ** 3)


def cos_row(tau):
    return (1 + np.exp(-2 * tau)) / 2 - np.exp(-tau), 0.0, np.exp(-tau) / 4


def sin_row(tau):
    return (1 - np.exp(-2 * tau)) / 2 - tau * np.exp(-tau), np.exp(-tau), 0.0


# Table 1 of Ali, Liao, Couillet (2022), its row "exp(t)" read as exp(-t^2 / 2).
TABLE = {
    "abs": ("abs", lambda tau: (tau * (1 - 2 / PI), 0.0, 1 / (2 * PI * tau))),
    "relu": ("relu", lambda tau: (tau / 2 * (1 / 2 - 1 / PI), 1 / 4, 1 / (8 * PI * tau))),
    "slopes": (
        lambda t: 0.7 * np.maximum(0, t) - 0.2 * np.maximum(0, -t),
        lambda tau: (tau * 0.5**2 * (PI - 2) / (4 * PI), 0.9**2 / 4, 0.5**2 / (8 * PI * tau)),
    ),
    "polynomial": (lambda t: 0.3 * t**2 - 0.5 * t + 2, lambda tau: (2 * tau**2 * 0.09, 0.25, 0.09)),
    "exp": (lambda t: np.exp(-(t**2) / 2), exp_row),
    "cos": ("cos", cos_row),
    "sin": ("sin", sin_row),
    "identity": ("identity", lambda tau: (0.0, 1.0, 0.0)),
    "sign": ("sign", lambda tau: (1 - 2 / PI, 2 / (PI * tau), 0.0)),
    "step": ("step", lambda tau: (1 / 4 - 1 / (2 * PI), 1 / (2 * PI * tau), 0.0)),
    "leaky-relu": (
        "leaky-relu",
        lambda tau: (tau * 0.99**2 * (PI - 2) / (4 * PI), 1.01**2 / 4, 0.99**2 / (8 * PI * tau)),
    ),
    "quadratic": ("quadratic", lambda tau: (2 * tau**2, 0.0, 1.0)),
}


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("row", TABLE)
def test_rows_of_the_published_table(row, tau):
    activation, formula = TABLE[row]
    expected = np.array(formula(tau))
    np.testing.assert_allclose(gaussian_moments(activation, tau), expected, rtol=1e-10, atol=1e-11 * (1 + tau**2))


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize(("lower", "upper"), [(-0.5, 1.2), (0.3, 0.3), (-np.inf, 0.7), (-2.0, -1.0)])
def test_corrected_ternary_row(lower, upper, tau):
    ternary = Ternary(lower, upper, 1.7)
    closed = ternary.moments(tau)
    np.testing.assert_allclose(gaussian_moments(ternary, tau), closed, atol=1e-12)
    # The formulas of the specification, written out.
    standard_deviation = np.sqrt(tau)
    f = norm(scale=standard_deviation).pdf
    below, above = norm.cdf(lower / standard_deviation), norm.sf(upper / standard_deviation)
    d1 = (f(upper) + f(lower)) ** 2
    slopes = upper * f(upper) + (lower * f(lower) if np.isfinite(lower) else 0)
    d0 = above + below - (above - below) ** 2 - tau * d1
    np.testing.assert_allclose(closed, 1.7**2 * np.array([d0, d1, (slopes / tau) ** 2 / 4]), rtol=1e-12, atol=1e-15)


def test_published_ternary_row_does_not_hold():
    tau, lower, upper = 1.0, -0.5, 1.2
    published = ((np.exp(-(upper**2) / tau) + np.exp(-(lower**2) / tau)) / PI) ** 2
    assert abs(Ternary(lower, upper, 1.0).moments(tau).d1 - published) > 0.05


def test_moments_of_the_gaussian_kernel_are_those_of_cosine_and_sine():
    expected = np.add(cos_row(0.7), sin_row(0.7))
    np.testing.assert_allclose(gaussian_moments(pm.kernels.Gaussian(), 0.7), expected, atol=1e-12)
    np.testing.assert_allclose(gaussian_moments(["cos", "sin"], 0.7), expected, atol=1e-12)
    # With width l the argument is t / l: each derivative brings 1 / l.
    wide = gaussian_moments(pm.kernels.Gaussian(length_scale=2.0), 4 * 0.7)
    np.testing.assert_allclose(np.array(wide) * [1, 4, 16], expected, atol=1e-12)


def test_moments_are_those_of_draws(rng):
    """Means of 10^6 draws, within 5 standard errors of a root of at most 3 in the integrand's standard deviation."""
    t = np.sqrt(1.3) * rng.standard_normal(1_000_000)
    values = np.floor(t) + np.tanh(3 * t)
    d0, d1, d2 = gaussian_moments(lambda t: np.floor(t) + np.tanh(3 * t), 1.3)
    slope, curvature = np.mean(t * values) / 1.3, np.mean((t**2 - 1.3) * values) / 1.3**2
    spread = [np.std(t * values) / 1.3e3, np.std((t**2 - 1.3) * values) / 1.3**2 / 1e3]
    assert abs(np.sqrt(d1) - slope) < 5 * spread[0]
    assert abs(2 * np.sqrt(d2) - abs(curvature)) < 5 * spread[1]
    assert abs(d0 + 1.3 * d1 - values.var()) < 5 * np.std((values - values.mean()) ** 2) / 1e3


def test_kernels_of_activations_stand_for_them():
    assert gaussian_moments(pm.kernels.ActivationKernel("erf"), 2.0) == gaussian_moments("erf", 2.0)


@pytest.mark.parametrize(
    ("activation", "tau", "error", "message"),
    [
        ("relu", 0.0, ValueError, r"`tau` must be greater than 0"),
        ("tanh", 1.0, ValueError, r"`activation` must be one of 'abs'.*got 'tanh'"),
        (3, 1.0, TypeError, r"`activation` must be a name.*got 3"),
        (pm.kernels.Laplacian(), 1.0, TypeError, r"`activation` must be a name"),
        ([], 1.0, TypeError, r"`activation` must be a name"),
        (lambda t: np.exp(t**2), 1.0, ValueError, r"`activation` must be finite with a second moment"),
        (lambda t: np.ones(3), 1.0, ValueError, r"`activation` must give one real number"),
    ],
)
def test_bad_parameters_name_the_remedy(activation, tau, error, message):
    with pytest.raises(error, match=message):
        gaussian_moments(activation, tau)


@pytest.mark.parametrize("name", NAMED)
def test_names_are_functions_of_arrays(name):
    assert NAMED[name](np.linspace(-1, 1, 5)).shape == (5,)
