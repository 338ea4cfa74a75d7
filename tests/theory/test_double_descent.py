"""Predicted errors of random-feature regression against drawn features, and against what is known in limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

import phimap as pm
from phimap.theory import (
    FeatureMoments,
    covariate_moments,
    feature_moments,
    gaussian_covariates,
    gaussian_moments,
    predicted_errors,
)
from tests.support.statistics import FALSE_ALARM

N, N_TEST, D, ALPHA = 160, 200, 80, 1e-2
GAUSSIAN = pm.kernels.Gaussian(length_scale=D**0.5)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    slope = rng.standard_normal(D) / D**0.5
    X, X_test = rng.standard_normal((N, D)), rng.standard_normal((N_TEST, D))
    noise = 0.3 * rng.standard_normal(N + N_TEST)
    return X, X @ slope + noise[:N], X_test, X_test @ slope + noise[N:]


def ridge_errors(Z, Z_test, y, y_test, alpha):
    coef = np.linalg.solve(Z.T @ Z + alpha * np.eye(Z.shape[1]), Z.T @ y)
    return np.mean((Z @ coef - y) ** 2), np.mean((Z_test @ coef - y_test) ** 2)


def simulated(functions, data, n_directions, alpha, draws=40):
    """Training and test errors (draws, 2) by the definition: functions of drawn Gaussian directions."""
    X, y, X_test, y_test = data
    found = []
    for seed in range(draws):
        W = np.random.default_rng(seed).standard_normal((D, n_directions))
        b = np.random.default_rng([seed, 1]).uniform(0, 2 * np.pi, n_directions)
        Z, Z_test = (
            np.concatenate([f(rows @ W / D**0.5, b) for f in functions], axis=1) / n_directions**0.5
            for rows in (X, X_test)
        )
        found.append(ridge_errors(Z, Z_test, y, y_test, alpha))
    return np.array(found)


def room(samples):
    """How far the mean of the samples may lie from its expectation."""
    n = len(samples)
    return stats.t.isf(FALSE_ALARM / 2, n - 1) * samples.std(ddof=1) / n**0.5


def agrees(samples, expected, tolerance):
    """Whether the mean of the samples can lie within a relative tolerance of what is expected."""
    return bool(abs(samples.mean() - expected) <= tolerance * expected + room(samples))


MAPS = {
    "pairs": ((lambda a, b: np.cos(a), lambda a, b: np.sin(a)), GAUSSIAN, "pairs"),
    "offset": ((lambda a, b: 2**0.5 * np.cos(a + b),), GAUSSIAN, "offset"),
    "relu": ((lambda a, b: np.maximum(a, 0),), pm.kernels.ActivationKernel("relu"), "pairs"),
    "erf": ((lambda a, b: pm.theory.moments.NAMED["erf"](a),), pm.kernels.ActivationKernel("erf"), "pairs"),
}


def moments_of(name, data):
    functions, kernel, pairing = MAPS[name]
    scale = 1.0 if kernel is GAUSSIAN else D**-0.5
    return functions, feature_moments(kernel, scale * data[0], scale * data[2], pairing=pairing)


@pytest.mark.parametrize("share", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("name", MAPS)
def test_predictions_are_the_means_of_draws(name, share, data):
    """False-alarm rate 1e-6 at a bias of 4 %; mutants: no variance, and the exact kernel."""
    functions, moments = moments_of(name, data)
    n_directions = round(share * N / len(functions))
    found = predicted_errors(moments, data[1], data[3], n_directions=n_directions, alpha=ALPHA)
    drawn = simulated(functions, data, n_directions, ALPHA)
    assert agrees(drawn[:, 0], found.train, 0.04)
    assert agrees(drawn[:, 1], found.test, 0.04)
    # The draws are enough to see an error of a third.
    assert room(drawn[:, 1]) < 0.25 * drawn[:, 1].mean()
    assert found.test == found.bias + found.variance
    if share <= 1:
        assert not agrees(drawn[:, 1], found.bias, 0.04)
        exact = predicted_errors(moments, data[1], data[3], n_directions=1e9, alpha=ALPHA)
        assert not agrees(drawn[:, 1], exact.test, 0.04)


@pytest.mark.parametrize("share", [0.5, 1.0, 2.0])
def test_gaussian_covariates_stand_in_for_features_of_gaussian_rows(share, data):
    n_directions = round(share * N / 2)
    given = {"n_directions": n_directions, "alpha": ALPHA}
    X, y, X_test, y_test = data
    exact = predicted_errors(feature_moments(GAUSSIAN, X, X_test), y, y_test, **given)
    stand_in = predicted_errors(gaussian_covariates(GAUSSIAN, X, X_test), y, y_test, **given)
    # The terms left out have size d^(-1/2), and one tau stands for all norms.
    assert stand_in.test == pytest.approx(exact.test, rel=0.05)
    assert stand_in.train == pytest.approx(exact.train, rel=0.1)


def test_gaussian_covariates_are_the_moments_of_their_features(data):
    X, _, X_test, _ = data
    scaled, scaled_test = X / D**0.5, X_test / D**0.5
    tau = np.square(scaled).sum(axis=1).mean()
    ((mu0, mu1, mu_star),) = covariate_moments("relu", tau)
    (moments,) = gaussian_covariates("relu", scaled, scaled_test)
    rng = np.random.default_rng(0)
    W = rng.standard_normal((D, 200_000)) / tau**0.5
    features = mu0 + mu1 * scaled[:3] @ W + mu_star * rng.standard_normal((3, W.shape[1]))
    np.testing.assert_allclose(features @ features.T / W.shape[1], moments.train[:3, :3], atol=6 / 200_000**0.5)
    test = mu0 + mu1 * scaled_test[:2] @ W + mu_star * rng.standard_normal((2, W.shape[1]))
    np.testing.assert_allclose(test @ features.T / W.shape[1], moments.cross[:2, :3], atol=6 / 200_000**0.5)
    np.testing.assert_allclose(np.square(test).mean(axis=1), moments.test[:2], atol=8 / 200_000**0.5)


@pytest.mark.parametrize("activation", ["relu", "erf", "abs", "cos"])
def test_covariate_moments_are_those_of_the_activation(activation):
    tau = 0.7
    ((mu0, mu1, mu_star),) = covariate_moments(activation, tau)
    d0, d1, _ = gaussian_moments(activation, tau)
    assert mu1**2 == pytest.approx(tau * d1, abs=1e-12)
    assert mu_star**2 == pytest.approx(d0, abs=1e-12)
    t = np.polynomial.hermite_e.hermegauss(100)
    values = pm.theory.moments.NAMED[activation](tau**0.5 * t[0])
    # Kinks cost a Gauss-Hermite rule two digits more than smooth functions.
    assert mu0 == pytest.approx(t[1] @ values / t[1].sum(), abs=3e-3)


def test_second_moments_of_pairs_by_simulation():
    rng = np.random.default_rng(0)
    X, X_test = rng.standard_normal((4, 3)), rng.standard_normal((2, 3))
    W = rng.standard_normal((3, 400_000))
    kernel = pm.kernels.Gaussian()
    for function, moments in zip((np.cos, np.sin), feature_moments(kernel, X, X_test), strict=True):
        A, B = function(X @ W), function(X_test @ W)
        for drawn, expected in ((A @ A.T, moments.train), (B @ A.T, moments.cross)):
            np.testing.assert_allclose(drawn / W.shape[1], expected, atol=6 / W.shape[1] ** 0.5)
        np.testing.assert_allclose(np.square(B).mean(axis=1), moments.test, atol=6 / W.shape[1] ** 0.5)


@pytest.mark.parametrize("alpha", [1e-8, 1e-2, 10.0])
@pytest.mark.parametrize("n_directions", [3, 80, 160, 2000])
def test_effective_ridge_solves_its_equation(alpha, n_directions, data):
    # Of one function, by bisection on the eigenvalues (Jacot et al. 2020).
    _, moments = moments_of("offset", data)
    found = predicted_errors(moments, data[1], data[3], n_directions=n_directions, alpha=alpha)
    values = np.maximum(np.linalg.eigvalsh(moments[0].train), 0)

    def gap(log_ridge):
        ridge = np.exp(log_ridge)
        return alpha + ridge / n_directions * np.sum(values / (values + ridge)) - ridge

    expected = np.exp(optimize.brentq(gap, np.log(alpha), 12, xtol=1e-13))
    assert found.effective_ridge == pytest.approx([expected], rel=1e-6)
    mean = moments[0].cross @ np.linalg.solve(moments[0].train + expected * np.eye(N), data[1])
    assert found.bias == pytest.approx(np.mean((mean - data[3]) ** 2), rel=1e-6)


def test_many_directions_give_the_exact_kernel(data):
    X, y, X_test, y_test = data
    found = predicted_errors(feature_moments(GAUSSIAN, X, X_test), y, y_test, n_directions=1e9, alpha=0.1)
    dual = np.linalg.solve(GAUSSIAN(X) + 0.1 * np.eye(N), y)
    assert found.test == pytest.approx(np.mean((GAUSSIAN(X_test, X) @ dual - y_test) ** 2), rel=1e-6)
    assert found.train == pytest.approx(np.mean((0.1 * dual) ** 2), rel=1e-6)
    np.testing.assert_allclose(found.effective_ridge, 0.1, rtol=1e-6)


def test_a_function_given_twice_counts_twice(data):
    # Two functions of one direction that are uncorrelated and alike are one function of twice as many directions.
    _, (one,) = moments_of("offset", data)
    twice = (one, one)
    few = predicted_errors(twice, data[1], data[3], n_directions=50, alpha=ALPHA)
    many = predicted_errors(
        (FeatureMoments(*(2 * part for part in one)),), data[1], data[3], n_directions=100, alpha=ALPHA
    )
    assert few.test == pytest.approx(many.test, rel=1e-9)
    assert few.train == pytest.approx(many.train, rel=1e-9)


def test_test_error_descends_twice(data):
    X, y, X_test, y_test = data
    moments = feature_moments(GAUSSIAN, X, X_test)
    errors = [
        predicted_errors(moments, y, y_test, n_directions=share * N / 2, alpha=1e-6).test
        for share in (0.05, 0.2, 1, 2, 10)
    ]
    assert errors[2] == max(errors)
    assert errors[2] > 10 * errors[0]
    assert errors[4] < errors[3] < errors[2]


def test_what_does_not_fit_names_the_rule(data):
    X, y, X_test, y_test = data
    moments = feature_moments(GAUSSIAN, X, X_test)
    given = {"n_directions": 5, "alpha": 1.0}
    with pytest.raises(ValueError, match="`moments` must have the shapes"):
        predicted_errors(moments, y[1:], y_test, **given)
    with pytest.raises(ValueError, match="`moments` must hold"):
        predicted_errors((), y, y_test, **given)
    with pytest.raises(ValueError, match="`alpha` must be greater than 0"):
        predicted_errors(moments, y, y_test, n_directions=5, alpha=0.0)
    with pytest.raises(ValueError, match="`n_directions` must be greater than 0"):
        predicted_errors(moments, y, y_test, n_directions=0, alpha=1.0)
    with pytest.raises(ValueError, match="`pairing` must be one of"):
        feature_moments(GAUSSIAN, X, X_test, pairing="single")
    with pytest.raises(ValueError, match="`X_test` must have the columns of X"):
        feature_moments(GAUSSIAN, X, X_test[:, 1:])
