"""Poisson, gamma and Tweedie deviances: scikit-learn's solutions on the same features, domains, scores and files."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import GammaRegressor, PoissonRegressor, TweedieRegressor
from sklearn.metrics import d2_tweedie_score

import phimap as pm
from tests.support.learners import FIXED, GAUSSIAN, features_of

MAP = pm.FourierFeatures(pm.kernels.Gaussian(2.0), 60, random_state=0)
PEERS = {
    "poisson": (1.0, PoissonRegressor),
    "gamma": (2.0, GammaRegressor),
    "tweedie": (1.5, lambda **params: TweedieRegressor(power=1.5, link="log", **params)),
}


def problem(loss, n=600, seed=0):
    """Targets whose mean is the exponential of a smooth function of three columns."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    mean = np.exp(1 + np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2])
    draws = {
        "poisson": lambda: rng.poisson(mean).astype(float),
        "gamma": lambda: rng.gamma(2.0, mean / 2),
        "tweedie": lambda: rng.poisson(mean / 2) * rng.gamma(2.0, 1.0, n),
    }
    return X, draws[loss]()


def regressor(loss, **params):
    return pm.KernelRegressor(MAP, **{"loss": loss, "random_state": 0, **params, **FIXED})


@pytest.mark.parametrize("loss", PEERS)
@pytest.mark.parametrize("alpha", [1e-2, 1.0, 100.0])
def test_means_are_those_of_scikit_learn_on_the_same_features(loss, alpha, rng):
    X, y = problem(loss)
    weights = rng.uniform(0.5, 2.0, len(y))
    model = regressor(loss, alpha=alpha).fit(X, y, sample_weight=weights)
    assert (model.solution_.form, model.solution_.status) == ("quasi-newton", "solved")
    Z, power = features_of(model, X), PEERS[loss][0]
    peer = PEERS[loss][1](alpha=alpha / weights.sum(), solver="newton-cholesky", tol=1e-10)
    peer.fit(Z, y, sample_weight=weights)
    np.testing.assert_allclose(model.predict(X), peer.predict(Z), rtol=1e-4)
    assert model.score(X, y, weights) == pytest.approx(
        d2_tweedie_score(y, peer.predict(Z), power=power, sample_weight=weights), abs=1e-6
    )


@pytest.mark.parametrize("loss", PEERS)
def test_a_chosen_alpha_predicts_new_rows(loss):
    X, y = problem(loss, 1500)
    model = regressor(loss).fit(X, y)
    assert model.solution_.criterion == "held-out"
    new, true = problem(loss, 1500, seed=5)
    least = {score: regressor(loss, alpha=score).fit(X, y).score(new, true) for score in (0.1, 1.0, 10.0)}
    assert model.score(new, true) > max(least.values()) - 0.01


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_the_unit_of_gamma_targets_does_not_matter(factor):
    X, y = problem("gamma")
    plain, other = regressor("gamma").fit(X, y), regressor("gamma").fit(X, factor * y)
    assert other.alpha_ == pytest.approx(plain.alpha_)
    np.testing.assert_allclose(other.predict(X) / factor, plain.predict(X), rtol=1e-3)


@pytest.mark.parametrize("factor", [1e-4, 1e4])
def test_alphas_follow_the_size_of_counts(factor):
    """The curvature of Poisson's deviance is the mean, so that the path over alpha begins elsewhere."""
    X, y = problem("tweedie")
    plain = regressor("poisson").fit(X, y)
    other = regressor("poisson").fit(X, factor * y)
    assert other.alpha_ / factor == pytest.approx(plain.alpha_, rel=1e-6)
    np.testing.assert_allclose(other.predict(X) / factor, plain.predict(X), rtol=2e-2)


def test_tweedie_of_powers_1_and_2_is_poisson_and_gamma():
    X, y = problem("gamma")
    for power, loss in ((1.0, "poisson"), (2.0, "gamma")):
        found = regressor("tweedie", power=power, alpha=1.0).fit(X, y).predict(X)
        np.testing.assert_array_equal(found, regressor(loss, alpha=1.0).fit(X, y).predict(X))


def test_several_targets_are_those_alone():
    X, y = problem("poisson")
    Y = np.column_stack([y, problem("tweedie", seed=3)[1]])
    both = regressor("poisson", alpha=1.0).fit(X, Y)
    assert both.predict(X).shape == (600, 2)
    for k in range(2):
        alone = regressor("poisson", alpha=1.0).fit(X, Y[:, k])
        np.testing.assert_allclose(both.predict(X)[:, k], alone.predict(X), rtol=1e-3)
    expected = np.mean([d2_tweedie_score(Y[:, k], both.predict(X)[:, k], power=1) for k in range(2)])
    assert both.score(X, Y) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("loss", "value", "rule"),
    [
        ("poisson", -1.0, "must be at least 0 for this loss, got -1 at row 7"),
        ("tweedie", -0.5, "must be at least 0 for this loss, got -0.5 at row 7"),
        ("gamma", 0.0, "must be positive for the gamma loss, got 0 at row 7"),
        ("poisson", 1e30, "must lie within .* got 1e\\+30 at row 7"),
    ],
)
def test_targets_outside_of_the_domain_are_refused_with_row_and_value(loss, value, rule):
    X, y = problem(loss, 50)
    y[7] = value
    with pytest.raises(ValueError, match=rule):
        regressor(loss).fit(X, y)
    with pytest.raises(ValueError, match=rule.replace("row 7", "row 2")):
        regressor(loss).fit_batches([(X[:5], y[:5] + 1), (X[5:], y[5:])])


def test_zeros_alone_are_refused():
    X, _ = problem("poisson", 50)
    with pytest.raises(ValueError, match="`y` must hold a number above 0, got zeros alone"):
        regressor("poisson").fit(X, np.zeros(50))


@pytest.mark.parametrize("power", [0.5, 3.0])
def test_other_powers_are_refused(power):
    with pytest.raises(ValueError, match=r"`power` must lie between 1 .* got"):
        regressor("tweedie", power=power).fit(*problem("gamma", 30))


@pytest.mark.parametrize("loss", PEERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_and_rare_events_give_finite_positive_means(loss, dtype):
    X = np.random.default_rng(0).standard_normal((200, 3)).astype(dtype)
    y = np.full(200, 1e-3) if loss == "gamma" else np.zeros(200)
    y[3] = 2.0
    model = pm.KernelRegressor(n_components=30, loss=loss, random_state=0, **GAUSSIAN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.fit(X, y).predict(X)
    assert found.dtype == dtype
    assert np.isfinite(found).all()
    assert (found > 0).all()
    # With its canonical link, the predictions of Poisson's deviance have the mean of the targets.
    assert found.mean() == pytest.approx(y.mean(), rel=0.2 if loss == "poisson" else 0.7)


def test_batches_threads_and_files_keep_the_model(tmp_path):
    X, y = problem("poisson")
    model = regressor("poisson", alpha=1.0, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(regressor("poisson", alpha=1.0, n_jobs=2).fit(X, y).coef_, model.coef_)
    batches = clone(model).fit_batches([(X[:250], y[:250]), (X[250:], y[250:])])
    np.testing.assert_allclose(batches.predict(X), model.predict(X), rtol=1e-4)
    pm.save(model, tmp_path / "m.phimap")
    loaded = pm.load(tmp_path / "m.phimap")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(ValueError, match=r"rows cannot be added .* poisson loss"):
        loaded.partial_fit(X, y)


def test_the_search_sees_counts(rng):
    X, y = problem("poisson", 800)
    X = np.column_stack([X, rng.uniform(-1, 1, (800, 3))])
    model = pm.KernelRegressor("gaussian", 64, loss="poisson", effort="fast", random_state=0).fit(X, y)
    assert model.relevances_[:3].sum() > 0.8
    assert model.corrections_ is None
