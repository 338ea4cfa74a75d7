"""Features of indefinite kernels on the sphere: their parts, their signs, and the kernel that they estimate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import eval_gegenbauer

import phimap as pm
from phimap.kernels import Zonal
from tests.support.statistics import is_mean

EPS = np.finfo(np.float64).eps


def difference_of_gaussians(cosine):
    """Of unit rows, whose squared distance is 2 - 2 cos."""
    return np.exp(2 * (cosine - 1)) - 0.7 * np.exp(8 * (cosine - 1))


def sphere_polynomial(cosine):
    """Pennington's polynomial kernel ``(1 - |x - y|^2 / a^2)^p`` of unit rows, p = 4 and a^2 = 1.6."""
    return (1 - (2 - 2 * cosine) / 1.6) ** 4


KERNELS = {
    "tanh": Zonal("tanh", gamma=2.0),
    "shifted": Zonal("tanh", gamma=1.5, coef0=-0.5),
    "difference": Zonal(difference_of_gaussians),
    "polynomial": Zonal(sphere_polynomial),
    "cosine": Zonal(np.cos, gamma=3.0),
}


def estimates(phi, X, n_seeds):
    """Of many draws: with the signature, and without it."""
    signed, unsigned = [], []
    for seed in range(n_seeds):
        Z = phi.set_params(random_state=seed).fit_transform(X)
        unsigned.append(Z @ Z.T)
        signed.append(Z @ Z.T if phi.signature_ is None else (Z * phi.signature_) @ Z.T)
    return np.array(signed), np.array(unsigned)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("d", [2, 3, 8, 40])
def test_coefficients_are_those_of_gegenbauer(name, d):
    """And give the kernel at every cosine; mutant: one coefficient of the other sign."""
    b = KERNELS[name].zonal_coefficients(d)
    cosines = np.linspace(-1, 1, 41)
    values = np.zeros(41)
    wrong = values.copy()
    last = np.flatnonzero(np.abs(b) > 1e-3)[-1]
    for k in np.flatnonzero(b):
        # For d = 2 the polynomials are Chebyshev's, a limit.
        P = (
            np.cos(k * np.arccos(cosines))
            if d == 2
            else eval_gegenbauer(k, d / 2 - 1, cosines) / eval_gegenbauer(k, d / 2 - 1, 1.0)
        )
        values += b[k] * P
        wrong += (-1 if k == last else 1) * b[k] * P
    exact = KERNELS[name]._of_cosine(cosines)
    # Rounding hides high degrees of many inputs, which nearly parallel rows see.
    slack = np.where((d > 8) & (np.abs(cosines) > 0.8), 1e-3, 1e-8)
    assert (np.abs(values - exact) <= slack).all()
    assert np.abs(wrong - exact).max() > 1e-3


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("exact_degrees", [(), (0, 1)])
def test_estimates_are_unbiased_with_their_signature(name, exact_degrees):
    """False-alarm rate 1e-6; mutants: the signature forgotten, and a missing factor."""
    X = np.random.default_rng(2).standard_normal((5, 4)) * np.arange(1, 6)[:, None]
    phi = pm.SphericalFeatures(KERNELS[name], 40, exact_degrees=exact_degrees, projection="gaussian")
    samples, unsigned = estimates(phi, X, 200)
    exact = phi.kernel_(X)
    assert is_mean(samples, exact)
    assert not is_mean(1.5 * samples, exact)
    negative = np.minimum(phi.kernel_.zonal_coefficients(4), 0)
    assert (phi.signature_ is None) == (not negative.any())
    if negative.any():
        assert not is_mean(unsigned, exact)


@pytest.mark.parametrize("width", [1, 3])
def test_narrow_maps_are_unbiased(width):
    """False-alarm rate 1e-6; mutants: twice and half the estimate."""
    X = np.random.default_rng(2).standard_normal((3, 3))
    phi = pm.SphericalFeatures(KERNELS["difference"], width, projection="gaussian")
    samples, _ = estimates(phi, X, 600)
    assert is_mean(samples, phi.kernel_(X))
    assert not is_mean(2 * samples, phi.kernel_(X))
    assert not is_mean(0.5 * samples, phi.kernel_(X))


def test_some_kernels_are_indefinite_and_some_are_not(rng):
    X = rng.standard_normal((60, 3))
    for name, indefinite in (("tanh", True), ("difference", True), ("polynomial", True), ("cosine", True)):
        lowest = np.linalg.eigvalsh(KERNELS[name](X))[0]
        assert (lowest < -1e-3) == indefinite
    phi = pm.SphericalFeatures(Zonal(np.exp), 64, random_state=0).fit(X)
    assert phi.signature_ is None
    assert phi.record_.negative is None


def test_variance_is_below_the_documented_one(seed):
    """Over rows that are uniform on the sphere: widths in proportion to the parts, ``(k_+(1) + k_-(1))^2 / m``."""
    X = np.random.default_rng(seed).standard_normal((300, 5))
    kernel, m = KERNELS["difference"], 400
    phi = pm.SphericalFeatures(kernel, m, exact_degrees=(), projection="gaussian", random_state=seed).fit(X)
    b = kernel.zonal_coefficients(5)
    assert (phi.signature_ > 0).sum() == round(m * b[b > 0].sum() / np.abs(b).sum())
    Z = phi.transform(X)
    squares = ((Z * phi.signature_) @ Z.T - kernel(X))[~np.eye(300, dtype=bool)] ** 2
    assert squares.mean() < 1.3 * np.abs(b).sum() ** 2 / m
    assert squares.mean() > 0.2 * np.abs(b).sum() ** 2 / m


def test_exact_degrees_lower_the_error(rng):
    X = rng.standard_normal((100, 6))
    errors = [
        np.mean(
            [
                pm.metrics.relative_error(
                    pm.SphericalFeatures(KERNELS["tanh"], 256, exact_degrees=exact, random_state=s).fit(X), X
                )
                for s in range(5)
            ]
        )
        for exact in ((), (0, 1))
    ]
    assert errors[1] < 0.8 * errors[0]


def test_zero_rows_and_few_inputs():
    X = np.array([[0.0], [2.0], [-3.0]])
    phi = pm.SphericalFeatures(Zonal("tanh", coef0=-0.2), 8, random_state=0).fit(X)
    Z = phi.transform(X)
    np.testing.assert_allclose((Z * phi.signature_) @ Z.T, phi.kernel_(X), atol=64 * EPS)
    assert not Z[0].any()


@pytest.mark.parametrize(
    ("phi", "error", "message"),
    [
        (pm.SphericalFeatures(pm.kernels.Gaussian()), TypeError, r"`kernel` must be a Zonal kernel, got Gaussian"),
        (pm.SphericalFeatures(exact_degrees=(2,)), ValueError, r"`exact_degrees` must be some of 0 and 1, got \(2,\)"),
        (pm.SphericalFeatures(Zonal("sinh")), ValueError, r"`function` must be 'tanh' or a callable, got 'sinh'"),
        (pm.SphericalFeatures(Zonal(np.sum)), ValueError, r"`function` must give one real number for each"),
        (pm.SphericalFeatures(Zonal(coef0=np.inf)), ValueError, r"`coef0` must be finite"),
        (pm.SphericalFeatures(projection="sparse-grid"), ValueError, r"`projection`"),
    ],
)
def test_what_does_not_serve_is_named(phi, error, message):
    with pytest.raises(error, match=message):
        phi.fit(np.eye(4))


def test_learners_take_the_features_as_they_are(rng):
    X = rng.standard_normal((300, 4))
    y = np.tanh(X[:, 0] / np.linalg.norm(X, axis=1)) + 0.5 * X[:, 1] / np.linalg.norm(X, axis=1)
    model = pm.KernelRegressor(Zonal("tanh", gamma=2.0), n_components=256, random_state=0).fit(X, y)
    assert isinstance(model.feature_map_, pm.SphericalFeatures)
    assert model.score(X, y) > 0.95
