"""The spectral mixture kernel against the published formula, its law, its gradients."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.kernels import Additive, Gaussian, SpectralMixture, SpectralMixtureLaw
from phimap.projections import Gaussian as Independent
from phimap.projections import QuasiMonteCarlo, as_projection
from tests.support.statistics import is_mean

WEIGHTS = np.array([3.0, 1.0, 2.0])
MEANS = np.array([[0.0, 0.0], [2.0, -1.0], [0.5, 3.0]])
SCALES = np.array([[0.5, 1.0], [0.2, 0.3], [0.0, 0.4]])
KERNEL = SpectralMixture(WEIGHTS, MEANS, SCALES)
# Phases and exponents of a few units, and their functions.
ROUNDING = 1e-13


def published(x, y, weights, cycles, variances):
    """Equation 12 of the source, in cycles and variances, entry by entry; the mixture has the sum 1."""
    tau = np.asarray(x) - np.asarray(y)
    value = 0.0
    for weight, mu, v in zip(weights, cycles, variances, strict=True):
        envelope = np.prod([np.exp(-2 * np.pi**2 * t**2 * part) for t, part in zip(tau, v, strict=True)])
        value += weight / np.sum(weights) * envelope * np.cos(2 * np.pi * np.dot(tau, mu))
    return value


def test_values_are_those_of_the_published_formula(rng):
    X, Y = rng.normal(size=(9, 2)), rng.normal(size=(7, 2))
    cycles, variances = MEANS / (2 * np.pi), (SCALES / (2 * np.pi)) ** 2
    expected = np.array([[published(x, y, WEIGHTS, cycles, variances) for y in Y] for x in X])
    np.testing.assert_allclose(KERNEL(X, Y), expected, atol=ROUNDING)
    # Mutants: a cosine for each column, which is another kernel; weights that are no shares.
    product = sum(
        w * np.exp(-0.5 * np.square((X[:, None] - Y) * s).sum(axis=2)) * np.cos((X[:, None] - Y) * m).prod(axis=2)
        for w, m, s in zip(WEIGHTS / WEIGHTS.sum(), MEANS, SCALES, strict=True)
    )
    assert np.abs(product - expected).max() > 0.1
    assert np.abs(WEIGHTS.sum() * expected - KERNEL(X, Y)).max() > 0.1


def test_one_component_without_a_frequency_is_gaussian(rng):
    X = rng.normal(size=(20, 3))
    scales = np.array([[0.5, 1.0, 2.0]])
    np.testing.assert_allclose(SpectralMixture([2.0], 0.0, scales)(X), Gaussian(1 / scales[0])(X), atol=ROUNDING)
    np.testing.assert_array_equal(SpectralMixture()(X), Gaussian()(X))


def test_an_exactly_periodic_component_comes_back():
    kernel = SpectralMixture([1.0], [[2 * np.pi]], 0.0)
    np.testing.assert_allclose(kernel([[0.0]], [[0.5], [1.0], [100.0]]), [[-1.0, 1.0, 1.0]], atol=1e-12)


def test_an_offset_costs_no_digits(rng):
    X = rng.normal(size=(30, 2))
    # The rows themselves lose 2^-53 of 1e6.
    np.testing.assert_allclose(KERNEL(X + 1e6), KERNEL(X), atol=1e-8)


def test_draws_are_the_components_on_both_sides(seed):
    """False-alarm rate 1e-6 each; mutants: one side alone, and shares for weights that are equal."""
    law = KERNEL.spectral_law(2)
    assert isinstance(law, SpectralMixtureLaw)
    draws = law.sample(np.random.default_rng(seed), 100_000)
    shares = WEIGHTS / WEIGHTS.sum()
    second = sum(w * (np.outer(m, m) + np.diag(s**2)) for w, m, s in zip(shares, MEANS, SCALES, strict=True))
    products = draws[:, :, None] * draws[:, None, :]
    assert is_mean(draws, np.zeros(2))
    assert is_mean(products, second)
    assert not is_mean(draws * np.sign(draws[:, 1:]), np.zeros(2))
    equal = SpectralMixture(np.ones(3), MEANS, SCALES).spectral_law(2).sample(np.random.default_rng(seed), 100_000)
    assert not is_mean(equal[:, :, None] * equal[:, None, :], second)


def test_larger_samples_extend_smaller_ones():
    law = KERNEL.spectral_law(2)
    few, many = (law.sample(np.random.default_rng(3), size) for size in (5, 50))
    np.testing.assert_array_equal(many[:5], few)


def test_sobol_points_err_less_than_independent_draws():
    """Both are drawn 60 times with 64 directions; the ratio of mean squares is far below 1, and 1 for the mutant."""
    law, delta = KERNEL.spectral_law(2), np.array([0.4, -0.3])
    exact = KERNEL(delta[None], np.zeros((1, 2)))[0, 0]

    def mean_square(projection, seed):
        streams = np.random.default_rng(seed).spawn(60)
        found = [np.cos(projection.sample(law, 64, stream).to_dense() @ delta).mean() for stream in streams]
        return np.square(np.array(found) - exact).mean()

    assert as_projection("auto", law).name == "qmc"
    assert mean_square(QuasiMonteCarlo(), 0) < 0.3 * mean_square(Independent(), 0)
    assert mean_square(Independent(), 1) > 0.3 * mean_square(Independent(), 0)


def test_gradients_are_the_limits_of_differences(rng):
    X, Y, weights = rng.normal(size=(8, 2)), rng.normal(size=(11, 2)), rng.normal(size=(11, 3))
    step = 1e-6
    moved = [(KERNEL(X + step * e, Y) - KERNEL(X - step * e, Y)) @ weights / (2 * step) for e in np.eye(2)]
    expected = np.stack(moved, axis=1)
    np.testing.assert_allclose(KERNEL.gradients(X, Y, weights), expected, atol=1e-8)
    # A mutant: the envelope's slope alone.
    without = SpectralMixture(WEIGHTS, 0.0, SCALES).gradients(X, Y, weights)
    assert np.abs(without - expected).max() > 0.1


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"weights": [1.0, 0.0]}, ValueError, "`weights` must be positive, got 0.0. Leave out"),
        ({"weights": [[1.0]]}, ValueError, "`weights` must be one number for each component, got shape"),
        ({"weights": ["a"]}, TypeError, "`weights` must be numeric"),
        ({"means": [np.nan]}, ValueError, "`means` must be finite, got nan"),
        ({"means": [[1.0]]}, ValueError, r"`means` must be a number or of shape \(components, features\) = \(1, 2\)"),
        ({"scales": np.ones((2, 2))}, ValueError, r"`scales` must be a number or .*got shape \(2, 2\)"),
        ({"scales": -1.0}, ValueError, "`scales` must be at least 0, got -1.0. Use 0"),
    ],
)
def test_bad_parameters_are_named(parameters, error, message):
    with pytest.raises(error, match=message) as caught:
        SpectralMixture(**parameters)(np.zeros((1, 2)))
    assert "\n" not in str(caught.value)


def test_the_law_has_columns_of_its_own():
    with pytest.raises(TypeError, match="neither additive nor a mixture"):
        Additive(KERNEL, 1)(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="of its own columns alone"):
        KERNEL.spectral_law(2).unit(3)
