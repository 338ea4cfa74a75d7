"""Mixtures of ternary functions that match more than two degrees."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.theory import gaussian_moments, ternary_mixture, ternary_thresholds
from phimap.theory.moments import hermite_energies

TAUS = [0.1, 0.5, 1.34, 3.0, 8.0]
GAUSSIAN = pm.kernels.Gaussian()


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("degrees", [2, 3])
@pytest.mark.parametrize("target", [GAUSSIAN, "relu", "sign", np.tanh], ids=["gaussian", "relu", "sign", "tanh"])
def test_mean_kernel_has_the_degrees_of_the_target(target, degrees, tau):
    mixture = ternary_mixture(target, tau, degrees=degrees)
    wanted, _ = hermite_energies(target, tau, degrees)
    # By quadrature on the functions themselves.
    found = sum(
        share * hermite_energies(function, tau, degrees)[0]
        for function, share in zip(mixture.functions, mixture.shares, strict=True)
    )
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-8)
    assert sum(mixture.shares) == pytest.approx(1)
    assert min(mixture.shares) > 0
    assert len(mixture.functions) <= degrees


@pytest.mark.parametrize("tau", TAUS)
def test_energies_are_those_of_the_power_series(tau):
    """Of the Gaussian kernel: ``exp(-tau) tau^k / k!``; the first two are the moments."""
    energies, variance = hermite_energies(GAUSSIAN, tau, 3)
    np.testing.assert_allclose(energies, np.exp(-tau) * np.array([tau, tau**2 / 2, tau**3 / 6]), atol=1e-12)
    d0, d1, d2 = gaussian_moments(GAUSSIAN, tau)
    np.testing.assert_allclose(energies[:2], [tau * d1, 2 * tau**2 * d2], atol=1e-12)
    assert variance == pytest.approx(d0 + tau * d1)


@pytest.mark.parametrize("tau", TAUS)
def test_variance_is_below_that_of_one_function(tau):
    """Up to the steps of the grid; at tau = 3 it is two thirds."""
    mixture, single = ternary_mixture(GAUSSIAN, tau, degrees=2), ternary_thresholds(GAUSSIAN, tau).moments(tau)
    variance = sum(
        share * hermite_energies(function, tau, 1)[1]
        for function, share in zip(mixture.functions, mixture.shares, strict=True)
    )
    assert variance < 1.01 * (single.d0 + tau * single.d1)
    assert tau != 3.0 or variance < 0.7 * (single.d0 + tau * single.d1)


def test_leading_features_have_the_shares():
    mixture = ternary_mixture(GAUSSIAN, 1.34)
    assigned = mixture.assign(5000)
    for m in (50, 500, 5000):
        found = np.bincount(assigned[:m], minlength=len(mixture.shares))
        np.testing.assert_allclose(found, m * np.array(mixture.shares), atol=4)
    np.testing.assert_array_equal(mixture.assign(50), assigned[:50])


def test_even_targets_have_no_mixture_and_say_so():
    with (
        pytest.warns(UserWarning, match="no ternary function has the moments"),
        pytest.warns(UserWarning, match="no mixture of ternary functions has degrees 1 to 3"),
    ):
        mixture = ternary_mixture("abs", 1.0)
    assert mixture.shares == (1.0,)


@pytest.mark.parametrize(
    ("target", "tau", "degrees", "message"),
    [
        ("relu", 0.0, 3, r"`tau` must be greater than 0"),
        ("relu", 1.0, 4, r"`degrees` must be 2 or 3, got 4"),
        (lambda t: 0 * t + 3, 1.0, 3, r"`target` must not be constant"),
    ],
)
def test_bad_parameters_name_the_remedy(target, tau, degrees, message):
    with pytest.raises(ValueError, match=message):
        ternary_mixture(target, tau, degrees=degrees)
