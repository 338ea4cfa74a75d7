"""Fits of spectral mixtures: the likelihood and its gradient, the starts, what is recovered."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from phimap.config import config
from phimap.kernels import Gaussian, SpectralMixture
from phimap.kernels.spectral_mixture import starts
from phimap.kernels.spectral_mixture.likelihood import Likelihood, Shape, evidence, held_out_error
from phimap.kernels.spectral_mixture.starts import EmpiricalSpectrum, waves
from tests.support.memory import traced

FREQUENCIES = np.array([2.0, 5.0])


def problem(n, seed, noise=0.1):
    """Rows on a line and targets of a Gaussian process with two frequencies, n of them with noise, n without."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 20, (2 * n, 1))
    kernel = SpectralMixture([1.0, 1.0], FREQUENCIES[:, None], [[0.1], [0.15]])
    f = np.linalg.cholesky(kernel(X) + 1e-8 * np.eye(2 * n)) @ rng.standard_normal(2 * n)
    return kernel, X[:n], f[:n] + noise * rng.standard_normal(n), X[n:], f[n:]


def error_of(kernel, X, y, Z, f):
    """Least root mean square error of kernel ridge regression over regularisations."""
    fits = (kernel(Z, X) @ np.linalg.solve(kernel(X) + alpha * np.eye(len(X)), y) for alpha in (1e-3, 1e-2, 1e-1))
    return min(np.sqrt(np.square(fit - f).mean()) for fit in fits)


@pytest.fixture(scope="module")
def recovered():
    kernel, X, y, Z, f = problem(240, 0)
    settings = {"n_mixtures": 2, "n_components": 64, "n_steps": 30, "n_restarts": 2}
    return SpectralMixture.fitted(X, y, **settings, random_state=0), settings, (kernel, X, y, Z, f)


def pieces(rng, n=40, q=3, s=4, d=2, t=2):
    X, Y, weights = rng.normal(size=(n, d)), rng.normal(size=(n, t)), rng.integers(1, 4, n).astype(float)
    vector = np.concatenate([rng.normal(size=q + q * d), 0.3 * rng.normal(size=q * d), [-1.0]])
    return X, Y, weights, rng.standard_normal((q, s, d)), vector


@pytest.mark.parametrize("held_out", [False, True])
def test_the_slope_is_the_limit_of_differences(held_out, rng):
    X, Y, weights, draws, vector = pieces(rng)
    loss = Likelihood(X, Y, weights, draws, held_out)
    slope = loss(vector)[1]
    step = 1e-5
    moves = step * np.eye(vector.size)
    expected = np.array([(loss(vector + e)[0] - loss(vector - e)[0]) / (2 * step) for e in moves])
    np.testing.assert_allclose(slope, expected, atol=1e-8)
    # A mutant: the slope of the other objective.
    assert np.abs(Likelihood(X, Y, weights, draws, not held_out)(vector)[1] - expected).max() > 1e-3


def test_the_evidence_is_that_of_the_dense_covariance(rng):
    X, Y, weights, draws, vector = pieces(rng)
    logs, means, log_scales, log_noise = Shape(3, 2).split(vector)
    W = (means[:, None] + draws * np.exp(log_scales)[:, None]).reshape(-1, 2)
    amplitudes = np.repeat(np.exp(logs) / draws.shape[1], draws.shape[1])
    # Rows of weight w are w rows.
    rows, targets = np.repeat(X, weights.astype(int), axis=0), np.repeat(Y, weights.astype(int), axis=0)
    gram = np.einsum("s,nms->nm", amplitudes, np.cos((rows[:, None] - rows) @ W.T))
    covariance = gram + np.exp(log_noise) * np.eye(len(rows))
    quadratic = sum(y @ np.linalg.solve(covariance, y) for y in targets.T) / 2
    expected = (quadratic + np.linalg.slogdet(covariance)[1]) / targets.size
    assert Likelihood(X, Y, weights, draws, False)(vector)[0] == pytest.approx(expected, rel=1e-10)
    # A mutant: weights that are not seen.
    assert Likelihood(X, Y, np.ones(len(X)), draws, False)(vector)[0] != pytest.approx(expected, rel=1e-2)


def test_the_held_out_loss_is_that_of_ridge_regression(rng):
    from sklearn.linear_model import Ridge

    Z, Y = rng.normal(size=(50, 6)), rng.normal(size=(50, 2))
    fit = Ridge(0.7, fit_intercept=False).fit(Z[:30], Y[:30])
    expected = np.log(np.square(fit.predict(Z[30:]) - Y[30:]).mean()) / 2
    assert held_out_error((Z[:30], Y[:30]), (Z[30:], Y[30:]), 0.7, 20.0)[0] == pytest.approx(expected)
    assert evidence(Z, Y, 0.7, 50.0)[0] != pytest.approx(expected, rel=1e-2)


def test_the_frequencies_of_a_known_mixture_are_found(recovered):
    """To 5 %, with the error of the true kernel to 10 %, below the best Gaussian kernel's; mutant: shuffled targets."""
    found, settings, (true, X, y, Z, f) = recovered
    np.testing.assert_allclose(np.sort(np.abs(found.means[:, 0])), FREQUENCIES, rtol=0.05)
    error, best = error_of(found, X, y, Z, f), error_of(true, X, y, Z, f)
    assert error < 1.1 * best
    assert error < 0.9 * min(error_of(Gaussian(width), X, y, Z, f) for width in 2.0 ** np.arange(-4, 4))
    shuffled = np.random.default_rng(0).permutation(y)
    mutant = SpectralMixture.fitted(X, shuffled, **settings, random_state=0)
    assert np.abs(np.sort(np.abs(mutant.means[:, 0])) / FREQUENCIES - 1).max() > 0.05


def test_held_out_errors_find_them_too(recovered):
    """More coarsely, since they depend on the held-out rows."""
    _, settings, (_, X, y, *_) = recovered
    found = SpectralMixture.fitted(X, y, objective="held-out", **settings, random_state=0)
    np.testing.assert_allclose(np.sort(np.abs(found.means[:, 0])), FREQUENCIES, rtol=0.1)


def test_weak_waves_are_found_behind_strong_ones(monkeypatch):
    """A mutant: one round, in which what irregular rows spread of the strong waves hides the weak ones."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 20, (240, 1))
    rows = (X, 3 * np.sin(5 * X) + 0.6 * np.sin(2 * X), np.ones(240))

    def found():
        frequencies, powers = waves(*rows, EmpiricalSpectrum.of_rows(X).candidates(np.random.default_rng(0)))
        return [powers[np.abs(frequencies[:, 0] - one) < 0.3].sum() for one in FREQUENCIES]

    # Neighbours share an amplitude, so that the sum of their squares is less than its square.
    weak, strong = found()
    assert 0.05 < weak <= 0.4
    assert 1.0 < strong <= 9.5
    monkeypatch.setattr(starts, "_ROUNDS", 1)
    assert found()[0] == 0


SHORT = {"n_mixtures": 2, "n_components": 16, "n_steps": 3, "random_state": 5}


def equal(one, other):
    return all(np.array_equal(one.get_params()[name], other.get_params()[name]) for name in one.get_params())


def test_threads_change_no_bit_and_seeds_do(rng):
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    one = SpectralMixture.fitted(X, y, n_jobs=1, **SHORT)
    assert equal(one, SpectralMixture.fitted(X, y, n_jobs=3, **SHORT))
    assert not equal(one, SpectralMixture.fitted(X, y, **SHORT | {"random_state": 6}))


def test_rows_without_weight_are_left_out(rng):
    X, y = rng.normal(size=(60, 2)), rng.normal(size=(60, 3))
    weights = np.repeat([1.0, 0.0], 30)
    found = SpectralMixture.fitted(X, y, weights, **SHORT)
    assert equal(found, SpectralMixture.fitted(X[:30], y[:30], **SHORT))
    assert not equal(found, SpectralMixture.fitted(X, y, **SHORT))


def test_rows_and_targets_that_say_nothing_are_fitted(rng):
    X = rng.normal(size=(40, 3))
    X[:, 1] = 7.0
    for y in (np.sin(X[:, 0]), np.ones(40)):
        kernel = SpectralMixture.fitted(X, y, **SHORT)
        assert not kernel.means[:, 1].any()
        assert not kernel.scales[:, 1].any()
        assert np.isfinite(kernel(X)).all()
    assert np.isfinite(SpectralMixture.fitted(np.ones((9, 2)), np.arange(9.0), **SHORT)(np.eye(2))).all()


def test_the_byte_budget_bounds_rows(rng):
    X, y = rng.normal(size=(3000, 2)), rng.normal(size=3000)
    settings = SHORT | {"n_components": 64, "n_restarts": 1, "n_steps": 1, "n_jobs": 1}
    SpectralMixture.fitted(X[:100], y[:100], **settings)
    with config(memory="16MB"):
        peak = traced(lambda: SpectralMixture.fitted(X, y, **settings)).peak
    # The scratch of the spectrum is 16 MiB whatever the budget.
    assert peak < 48 * 2**20
    with config(memory="1KB"), pytest.raises(MemoryError, match="fits no rows in the byte budget of"):
        SpectralMixture.fitted(X, y, **settings)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n_mixtures": 0}, ValueError, "`n_mixtures` must be at least 1, got 0"),
        ({"objective": "best"}, ValueError, "`objective` must be one of 'marginal', 'held-out', got 'best'"),
        ({"X": sparse.csr_array(np.eye(9))}, ValueError, "`X` must be dense for a spectral mixture"),
        ({"y": np.ones(8)}, ValueError, "`y` must have 9 rows, as `X`"),
        ({"y": ["a"] * 9}, TypeError, "`y` must hold numbers"),
        ({"y": np.full(9, np.nan)}, ValueError, "y contains NaN at row 0"),
        ({"sample_weight": -np.ones(9)}, ValueError, "`sample_weight` must not be negative, got -1.0"),
        ({"X": np.ones((3, 1)), "y": np.ones(3)}, ValueError, "needs at least 8 rows, got 3"),
    ],
)
def test_bad_arguments_are_named(change, error, message):
    with pytest.raises(error, match=message):
        SpectralMixture.fitted(**{"X": np.eye(9), "y": np.arange(9.0)} | change)
