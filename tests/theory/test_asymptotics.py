"""Limits of the risk and of its parts: against Mei and Montanari's formulas, finite equivalents, and drawn features."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.theory import (
    asymptotic_classification_error,
    asymptotic_errors,
    covariate_moments,
    gaussian_covariates,
    predicted_errors,
)

SIGNAL, NOISE = 1.0, 0.3


def mei_montanari(activation, psi_1, psi_2, alpha):
    """The risk of Theorem 2 of Mei and Montanari (2019), from their two coupled equations and three polynomials."""
    ((_, mu1, mu_star),) = covariate_moments(activation, 1.0)
    zeta2, p1, p2 = (mu1 / mu_star) ** 2, psi_2 / psi_1, 1 / psi_1  # their psi_1 = s / d and psi_2 = n / d
    penalty = alpha / p2 / mu_star**2
    xi = 1j * (p1 * p2 * penalty) ** 0.5
    nu1 = nu2 = 0j
    # Far from the real axis the map contracts: its fixed point is followed from there.
    for factor in np.geomspace(1e4, 1.0, 60):
        at = xi * factor
        for _ in range(2000):
            old = nu1, nu2
            one = p1 / (-at - nu2 - zeta2 * nu2 / (1 - zeta2 * nu1 * nu2))
            nu1 = (nu1 + one) / 2
            two = p2 / (-at - nu1 - zeta2 * nu1 / (1 - zeta2 * nu1 * nu2))
            nu2 = (nu2 + two) / 2
            if abs(nu1 - old[0]) + abs(nu2 - old[1]) < 1e-14 * (abs(nu1) + abs(nu2)):
                break
    chi = (nu1 * nu2).real
    z2, z4, z6 = zeta2, zeta2**2, zeta2**3
    e0 = (
        -(chi**5) * z6
        + 3 * chi**4 * z4
        + (p1 * p2 - p2 - p1 + 1) * chi**3 * z6
        - 2 * chi**3 * z4
        - 3 * chi**3 * z2
        + (p1 + p2 - 3 * p1 * p2 + 1) * chi**2 * z4
        + 2 * chi**2 * z2
        + chi**2
        + 3 * p1 * p2 * chi * z2
        - p1 * p2
    )
    e1 = p2 * chi**3 * z4 - p2 * chi**2 * z2 + p1 * p2 * chi * z2 - p1 * p2
    e2 = (
        chi**5 * z6
        - 3 * chi**4 * z4
        + (p1 - 1) * chi**3 * z6
        + 2 * chi**3 * z4
        + 3 * chi**3 * z2
        + (-p1 - 1) * chi**2 * z4
        - 2 * chi**2 * z2
        - chi**2
    )
    return SIGNAL * e1 / e0 + NOISE * e2 / e0


@pytest.mark.parametrize("activation", ["relu", "erf"])
@pytest.mark.parametrize(("psi_1", "psi_2"), [(0.5, 0.3), (0.5, 1.0), (0.5, 4.0), (2.0, 0.7), (2.0, 3.0)])
@pytest.mark.parametrize("alpha", [1e-2, 1.0])
def test_risks_are_those_of_mei_and_montanari(activation, psi_1, psi_2, alpha):
    found = asymptotic_errors(activation, psi_1, psi_2, alpha=alpha, signal=SIGNAL, noise=NOISE)
    assert found.test == pytest.approx(mei_montanari(activation, psi_1, psi_2, alpha), rel=1e-6)
    # Mutant: without the variance over directions.
    assert found.test - found.initialization != pytest.approx(mei_montanari(activation, psi_1, psi_2, alpha), rel=1e-3)


@pytest.mark.parametrize("psi_2", [0.5, 1.0, 2.0])
def test_the_limit_of_finite_equivalents(psi_2):
    """One draw of 800 rows of 400 columns: its fluctuations are a few percent."""
    rng, n, d = np.random.default_rng(0), 800, 400
    X, X_test = rng.standard_normal((n, d)), rng.standard_normal((3000, d))
    beta = rng.standard_normal(d)
    beta *= (SIGNAL / (beta @ beta)) ** 0.5
    y = X @ beta + NOISE**0.5 * rng.standard_normal(n)
    moments = gaussian_covariates("relu", X / d**0.5, X_test / d**0.5)
    finite = predicted_errors(moments, y, X_test @ beta, n_directions=psi_2 * n, alpha=0.05)
    limit = asymptotic_errors("relu", d / n, psi_2, alpha=0.05, signal=SIGNAL, noise=NOISE)
    assert limit.effective_ridge == pytest.approx(finite.effective_ridge[0], rel=0.02)
    assert limit.test == pytest.approx(finite.test, rel=0.1)


@pytest.mark.parametrize("psi_2", [0.5, 1.5])
def test_parts_of_the_variance_by_simulation(psi_2):
    """Drawn features: each part from the draws that it is defined by; mutant: initialization and sampling exchanged."""
    n, d, alpha, n_rows, n_directions = 120, 60, 0.1, 24, 24
    s, rng = round(psi_2 * n), np.random.default_rng(1)
    beta = rng.standard_normal(d)
    beta *= (SIGNAL / (beta @ beta)) ** 0.5
    X_test = rng.standard_normal((400, d))
    target, by_rows, noise, initialization = X_test @ beta, [], [], []
    for _ in range(n_rows):
        X, predictions = rng.standard_normal((n, d)), []
        for _ in range(n_directions):
            W = rng.standard_normal((d, s)) / d**0.5
            Z, Z_test = (np.maximum(rows @ W, 0) / s**0.5 for rows in (X, X_test))
            smoother = Z_test @ np.linalg.solve(Z.T @ Z + alpha * np.eye(s), Z.T)
            predictions.append(smoother @ (X @ beta))
            noise.append(NOISE * np.square(smoother).sum(axis=1).mean())
        initialization.append(np.var(predictions, axis=0, ddof=1).mean())
        by_rows.append(np.mean(predictions, axis=0))
    found = asymptotic_errors("relu", d / n, psi_2, alpha=alpha, signal=SIGNAL, noise=NOISE)
    within = np.mean(initialization)
    sampling = np.var(by_rows, axis=0, ddof=1).mean() - within / n_directions
    bias = np.square(np.mean(by_rows, axis=0) - target).mean() - np.var(by_rows, axis=0, ddof=1).mean() / n_rows
    # Finite sizes leave terms of order 1 / n and 1 / d, of a few percent of the whole.
    tolerance = 0.08 * found.test
    assert np.mean(noise) == pytest.approx(found.noise, abs=tolerance)
    assert within == pytest.approx(found.initialization, abs=tolerance)
    assert sampling == pytest.approx(found.sampling, abs=tolerance)
    assert bias == pytest.approx(found.bias, abs=tolerance)
    assert abs(sampling - found.initialization) > tolerance


def test_variance_peaks_at_as_many_features_as_rows():
    errors = {p: asymptotic_errors("relu", 0.5, p, alpha=1e-6, noise=0.1) for p in (0.3, 0.9, 1.0, 1.1, 3.0, 1e6)}
    for part in ("noise", "initialization"):
        values = [getattr(one, part) for one in errors.values()]
        assert np.argmax(values) == 2
    # With infinitely many features the kernel is exact: directions add nothing, and the ridge is alpha.
    assert errors[1e6].initialization < 1e-4
    assert errors[1e6].effective_ridge == pytest.approx(1e-6, rel=0.6)


def test_a_closer_kernel_may_predict_worse():
    """Proposition 1 of the survey: more features err less in the kernel, and the prediction errs more.

    Mutants: a ridge parameter without a peak at one feature a row, and kernel estimates not divided by s.
    """
    rng, n, d = np.random.default_rng(0), 200, 100
    X, X_test, beta = rng.standard_normal((n, d)), rng.standard_normal((500, d)), rng.standard_normal(d) / d**0.5
    y = X @ beta + 0.3 * rng.standard_normal(n)
    K = np.mean([features(X, seed, 4000)[0] @ features(X, seed, 4000)[0].T for seed in range(10)], axis=0)

    def growth(alpha=1e-3, divided=True):
        """Errors with 200 features over those with 40: of the kernel, of the prediction, and as predicted."""
        found = np.zeros((2, 3))
        for place, s in enumerate((40, 200)):
            for seed in range(100, 110):
                Z, Z_test = features(X, seed, s, X_test)
                coef = Z.T @ np.linalg.solve(Z @ Z.T + alpha * np.eye(n), y)
                found[place, 0] += np.linalg.norm((1 if divided else s) * Z @ Z.T - K) / 10
                found[place, 1] += np.square(Z_test @ coef - X_test @ beta).mean() / 10
            found[place, 2] = asymptotic_errors("relu", d / n, s / n, alpha=alpha, noise=0.09).test
        return found[1] / found[0]

    kernel, *risks = growth()
    assert kernel < 0.6
    assert min(risks) > 2
    assert max(growth(alpha=1.0)[1:]) < 1
    assert growth(divided=False)[0] > 1


def features(X, seed, s, X_test=None):
    W = np.random.default_rng(seed).standard_normal((X.shape[1], s)) / X.shape[1] ** 0.5
    return np.maximum(X @ W, 0) / s**0.5, None if X_test is None else np.maximum(X_test @ W, 0) / s**0.5


def test_what_does_not_fit_names_the_rule():
    with pytest.raises(ValueError, match="`activation` must be one function with a linear part, got 'abs'"):
        asymptotic_errors("abs", 1.0, 1.0, alpha=1.0)
    with pytest.raises(ValueError, match="`psi_2` must be greater than 0"):
        asymptotic_errors("relu", 1.0, 0.0, alpha=1.0)
    with pytest.raises(ValueError, match="`noise` must be at least 0"):
        asymptotic_errors("relu", 1.0, 1.0, alpha=1.0, noise=-1.0)


def drawn_classification_errors(psi_1, psi_2, alpha, flips, seed, n=400, n_test=1000):
    """Shares of wrong signs for several shares of `flips`, of one draw: rows, directions and labels of its own."""
    rng = np.random.default_rng(seed)
    d, s = round(psi_1 * n), round(psi_2 * n)
    rows, W = rng.standard_normal((n + n_test, d)), rng.standard_normal((d, s)) / d**0.5
    labels = np.sign(rows[:, 0])
    y = np.stack([labels[:n] * rng.choice([1, -1], n, p=[1 - share, share]) for share in flips], axis=1)
    Z = np.maximum(rows @ W, 0) / s**0.5
    if s < n:
        scores = Z[n:] @ np.linalg.solve(Z[:n].T @ Z[:n] + alpha * np.eye(s), Z[:n].T @ y)
    else:
        scores = Z[n:] @ (Z[:n].T @ np.linalg.solve(Z[:n] @ Z[:n].T + alpha * np.eye(n), y))
    return np.mean(np.sign(scores) != labels[n:, None], axis=0)


@pytest.mark.parametrize(("psi_1", "psi_2"), [(0.5, 0.3), (0.5, 3.0), (2.0, 0.7)])
def test_classification_errors_are_those_of_draws(psi_1, psi_2):
    """Means of 60 draws, whose standard error is .002 to .003; mutants: labels without their nonlinear part, and scores
    without their variance over draws."""
    alpha, flips = 0.05, (0.0, 0.2)
    shares = np.mean([drawn_classification_errors(psi_1, psi_2, alpha, flips, seed) for seed in range(60)], axis=0)
    for share, found in zip(flips, shares, strict=True):
        limit = asymptotic_classification_error("relu", psi_1, psi_2, alpha=alpha, flips=share)
        assert found == pytest.approx(limit, abs=0.01)
        signal = (1 - 2 * share) ** 2 * 2 / np.pi
        linear = asymptotic_errors("relu", psi_1, psi_2, alpha=alpha, signal=signal)
        overlap = signal**0.5 - linear.bias**0.5
        for square in (linear.test + 2 * signal**0.5 * overlap - signal, overlap**2 * (1 + 1e-9)):
            assert np.arccos(overlap / square**0.5) / np.pi != pytest.approx(found, abs=0.01)


def test_classification_errors_fall_with_rows_and_rise_with_flips():
    errors = [asymptotic_classification_error("erf", psi_1, 5.0, alpha=1.0) for psi_1 in (0.01, 0.1, 1.0, 10.0)]
    assert errors == sorted(errors)
    assert errors[0] < 0.06
    # A hundred columns a row: hardly better than a guess.
    assert 0.4 < asymptotic_classification_error("erf", 100.0, 5.0, alpha=1.0, flips=0.2) < 0.5
    with pytest.raises(ValueError, match=r"`flips` must be below 0.5, got 0.5"):
        asymptotic_classification_error("erf", 1.0, 1.0, alpha=1.0, flips=0.5)
    with pytest.raises(ValueError, match="`activation` must be one function with a linear part"):
        asymptotic_classification_error("abs", 1.0, 1.0, alpha=1.0)
