"""Huber's loss: scikit-learn's solution on the same features, wild targets, weights, and what it does not keep."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import HuberRegressor, Ridge

import phimap as pm
from tests.support.learners import FIXED, GAUSSIAN, features_of

MAP = pm.FourierFeatures(pm.kernels.Gaussian(2.0), 60, random_state=0)


def features(model, X):
    """The features that the model's coefficients multiply."""
    return features_of(model, X)


def problem(n=600, *, wild=0.06, seed=0):
    """A smooth function of three columns with normal noise; a share of the targets has that of a Cauchy law."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.standard_normal(n)
    y[: int(wild * n)] += 20 * rng.standard_cauchy(int(wild * n))
    return X, y


def check_against_scikit_learn(model, X, y):
    solution, Z = model.solution_, features(model, X)
    assert (solution.form, solution.status) == ("quasi-newton", "solved")
    peer = HuberRegressor(alpha=solution.alpha / solution.scale[0], tol=1e-9, max_iter=20_000).fit(Z, y)
    expected = peer.predict(Z)
    np.testing.assert_allclose(solution.scale, peer.scale_, rtol=1e-3)
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-3 * expected.std())


@pytest.mark.parametrize("alpha", [1e-4, 1.0, 100.0])
def test_linear_features_give_the_solution_of_scikit_learn(alpha):
    """A polynomial of degree 1: the columns themselves and a constant."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((800, 5))
    y = X @ rng.standard_normal(5) + 3 + 0.3 * rng.standard_normal(800)
    y[:50] += 20 * rng.standard_cauchy(50)
    linear = pm.DotProductFeatures(pm.kernels.Polynomial(1), 6, random_state=0)
    model = pm.KernelRegressor(linear, loss="huber", alpha=alpha, random_state=0, **FIXED).fit(X, y)
    check_against_scikit_learn(model, X, y)


def test_kernel_features_give_the_solution_of_scikit_learn():
    X, y = problem()
    check_against_scikit_learn(
        pm.KernelRegressor(MAP, loss="huber", alpha=3.0, random_state=0, **FIXED).fit(X, y), X, y
    )


def test_a_sample_and_all_rows_find_one_solution(monkeypatch):
    X, y = problem()
    model = pm.KernelRegressor(MAP, loss="huber", alpha=1.0, random_state=0, **FIXED)
    expected = clone(model).fit(X, y)
    monkeypatch.setattr("phimap.learn.losses.preparation._MOST_ROWS", 300)
    found = clone(model).fit(X, y)
    np.testing.assert_allclose(found.predict(X), expected.predict(X), atol=1e-3)
    np.testing.assert_allclose(found.solution_.scale, expected.solution_.scale, rtol=2e-3)


def test_small_errors_give_the_ridge_regression_of_this_alpha():
    """Errors of one size have this size as their scale, and so none is large."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 3))
    few = clone(MAP).set_params(n_components=8)
    model = pm.KernelRegressor(few, alpha=0.5, random_state=0, **FIXED)
    smooth = model.fit(X, np.sin(3 * X[:, 0])).predict(X)
    y = smooth + rng.choice([-0.5, 0.5], 2000)
    model.set_params(loss="huber").fit(X, y)
    assert np.abs(y - model.predict(X)).max() < 1.35 * model.solution_.scale[0]
    expected = Ridge(alpha=0.5).fit(features(model, X), y).predict(features(model, X))
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-3)


@pytest.mark.parametrize(("value", "dtype"), [(1e9, np.float32), (-1e140, np.float64)])
def test_one_wild_target_changes_little(value, dtype):
    X, y = problem(2500, wild=0)
    X = X.astype(dtype)
    model = pm.KernelRegressor(n_components=128, loss="huber", random_state=0, **GAUSSIAN)
    clean = clone(model).fit(X[:2000], y[:2000]).score(X[2000:], y[2000:])
    y[17] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.fit(X[:2000], y[:2000])
    assert clean > 0.9
    assert found.score(X[2000:], y[2000:]) == pytest.approx(clean, abs=5e-3)
    assert found.predict(X).dtype == dtype
    # The scale is that of the errors of new rows.
    assert found.solution_.criterion == "held-out"
    assert 0.5 < found.solution_.scale[0] / 0.2 < 1.1


def test_the_search_is_not_blinded():
    X, y = problem(500, wild=0)
    X = np.column_stack([X, np.random.default_rng(1).uniform(-1, 1, (500, 4))])
    y[:3] = 1e9
    model = pm.KernelRegressor("gaussian", 64, loss="huber", alpha=0.1, effort="fast", random_state=0).fit(X, y)
    assert model.search_.errors.min() < 0.7
    assert model.relevances_[:3].sum() > 0.7


def test_weights_are_repeated_rows(rng):
    X, y = problem(300)
    weights = rng.integers(0, 4, len(y))
    model = pm.KernelRegressor(MAP, loss="huber", alpha=0.5, standardize=None, random_state=0, **FIXED)
    found = clone(model).fit(X, y, sample_weight=weights)
    expected = clone(model).fit(X.repeat(weights, axis=0), y.repeat(weights))
    np.testing.assert_allclose(found.predict(X), expected.predict(X), atol=1e-3)
    np.testing.assert_allclose(found.solution_.scale, expected.solution_.scale, rtol=2e-3)


@pytest.mark.parametrize("alpha", ["auto", 1.0])
def test_units_of_the_targets_do_not_matter(alpha):
    X, y = problem()
    model = pm.KernelRegressor(MAP, loss="huber", alpha=alpha, random_state=0, **FIXED)
    plain = clone(model).fit(X, y)
    for factor, shift in ((1e-30, 0.0), (1e30, 0.0), (1.0, 1e7)):
        other = clone(model).fit(X, factor * y + shift)
        assert other.alpha_ == pytest.approx(plain.alpha_)
        np.testing.assert_allclose((other.predict(X) - shift) / factor, plain.predict(X), atol=2e-3)
        np.testing.assert_allclose(other.solution_.scale / factor, plain.solution_.scale, rtol=2e-3)


def test_targets_have_scales_of_their_own():
    X, y = problem()
    Y = np.column_stack([y, 1e4 * problem(seed=5)[1]])
    model = pm.KernelRegressor(MAP, loss="huber", alpha=1.0, random_state=0, **FIXED)
    both = clone(model).fit(X, Y)
    for k in range(2):
        alone = clone(model).fit(X, Y[:, k])
        np.testing.assert_allclose(both.solution_.scale[k], alone.solution_.scale[0], rtol=2e-3)
        np.testing.assert_allclose(both.predict(X)[:, k], alone.predict(X), atol=2e-3 * np.abs(alone.predict(X)).max())


@pytest.mark.parametrize("alpha", ["auto", 1.0])
def test_threads_and_memory_change_nothing_that_matters(alpha):
    X, y = problem()
    one, two, tight = (
        pm.KernelRegressor(MAP, loss="huber", alpha=alpha, random_state=0, **more, **FIXED).fit(X, y)
        for more in ({"n_jobs": 1}, {"n_jobs": 2}, {"memory": "2MB"})
    )
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_allclose(tight.predict(X), one.predict(X), atol=0.1)


@pytest.mark.parametrize("alpha", ["auto", 1.0])
@pytest.mark.parametrize("n", [2, 3, 21])
@pytest.mark.parametrize("target", ["numbers", "constant", "exact"])
def test_few_rows_and_targets_without_noise_give_finite_numbers(alpha, n, target):
    X = np.random.default_rng(0).standard_normal((n, 3))
    y = {"numbers": np.arange(n, dtype=float), "constant": np.full(n, 7.0), "exact": 2 * X[:, 0]}[target]
    model = pm.KernelRegressor(n_components=20, loss="huber", alpha=alpha, random_state=0, **GAUSSIAN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        predicted = model.fit(X, y).predict(X)
    assert np.isfinite(predicted).all()
    assert np.isfinite(model.solution_.scale).all()
    if target == "constant":
        np.testing.assert_allclose(predicted, 7.0)


def test_saved_models_predict_the_same_bits_and_add_no_rows(tmp_path):
    X, y = problem()
    model = pm.KernelRegressor(MAP, loss="huber", alpha=1.0, random_state=0, **FIXED).fit(X, y)
    pm.save(model, tmp_path / "m.phimap")
    loaded = pm.load(tmp_path / "m.phimap")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.solution_.scale, model.solution_.scale)
    with pytest.raises(ValueError, match=r"rows cannot be added .* huber loss, .* use the squared loss"):
        loaded.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"`return_std` needs .* another loss .* Use loss='squared'"):
        loaded.predict(X, return_std=True)


def test_batches_give_the_model_of_the_whole():
    X, y = problem()
    model = pm.KernelRegressor(MAP, loss="huber", alpha=1.0, random_state=0, **FIXED)
    found = clone(model).fit_batches([(X[:250], y[:250]), (X[250:], y[250:])]).predict(X)
    np.testing.assert_allclose(found, clone(model).fit(X, y).predict(X), atol=1e-3)


def test_other_losses_are_refused():
    with pytest.raises(ValueError, match=r"`loss` must be one of .*'squared'.*'huber'.*got 'absolute'"):
        pm.KernelRegressor(loss="absolute", **GAUSSIAN).fit(*problem(30))
    with pytest.raises(ValueError, match=r"`loss` must be one of .*'logistic'.*got 'huber'"):
        pm.KernelClassifier(loss="huber", **GAUSSIAN).fit(np.eye(4), [0, 1, 0, 1])


@pytest.mark.parametrize("offset", [0.0, 1.7e9])
def test_targets_without_noise_are_fitted_like_by_ridge(rng, offset):
    """Beside a scale of nearly 0 every row is an outlier at first, so that a search from zero stays there."""
    X = rng.standard_normal((1500, 2))
    y = offset + 72 * (np.sin(X[:, 0]) + X[:, 1])
    settings = {"n_components": 128, "length_scale": 2.0, "metric": None, "random_state": 0}
    model = pm.KernelRegressor("gaussian", loss="huber", **settings).fit(X, y)
    assert model.score(X, y) > 0.99999
