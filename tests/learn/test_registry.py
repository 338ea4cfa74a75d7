"""Solvers as learners use them: against scikit-learn on the same features, and what is chosen when."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

import phimap as pm
from phimap.learn.registry import LOSSES, MEMBERS, choose
from phimap.learn.ridge.solver import RidgeSolver
from tests.support.learners import FIXED, GAUSSIAN, features_of

M = 300


def regression(dtype=np.float64, n=442):
    X, y = load_diabetes(return_X_y=True)
    return X[:n].astype(dtype), y[:n] - y.mean()


def classification(name, dtype=np.float64):
    X, y = {"cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}[name](return_X_y=True)
    return X[:600].astype(dtype), y[:600]


def features(model, X):
    """The features that the model's coefficients multiply."""
    return features_of(model, X)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-10), (np.float32, 1e-5)])
@pytest.mark.parametrize("form", ["cg", "dual", "primal"])
@pytest.mark.parametrize("n_targets", [1, 3])
def test_ridge_is_that_of_scikit_learn(dtype, tolerance, form, n_targets, request):
    if form == "primal":
        request.getfixturevalue("streamed")
    X, y = regression(dtype)
    Y = np.column_stack([y, X[:, 0] * y, np.abs(y)])[:, :n_targets]
    solver = "cg" if form == "cg" else "cholesky"
    model = pm.KernelRegressor(n_components=M, alpha=0.5, solver=solver, random_state=0, **GAUSSIAN).fit(X, Y)
    assert (model.solution_.form, model.solution_.status) == (form, "solved")
    Z = features(model, X).astype(np.float64)
    expected = Ridge(alpha=0.5, solver="svd").fit(Z, Y).predict(Z).reshape(len(Y), -1)
    found = Z @ model.solution_.coef + model.solution_.intercept
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


def test_conjugate_gradients_choose_alpha_by_held_out_rows(streamed):
    X, y = regression()
    model = pm.KernelRegressor(n_components=M, solver="cg", random_state=0, **GAUSSIAN).fit(X, y)
    solution = model.solution_
    assert (solution.criterion, solution.status, solution.form) == ("held-out", "solved", "cg")
    assert solution.alphas[0] < model.alpha_ < solution.alphas[-1]
    assert solution.scores.min() < 0.98 * solution.scores.max()
    assert 0 < solution.residual < 1e-11
    assert 3 < solution.n_passes < 30
    assert model.score(X, y) > 0.4


@pytest.mark.parametrize("name", ["cancer", "wine", "digits"])
@pytest.mark.parametrize("alpha", [1.0, 0.1])
def test_logistic_is_that_of_scikit_learn(name, alpha):
    X, y = classification(name)
    model = pm.KernelClassifier(n_components=M, loss="logistic", alpha=alpha, random_state=0, **GAUSSIAN).fit(X, y)
    assert model.solution_.status == "solved"
    Z = features(model, X)
    expected = LogisticRegression(C=1 / alpha, tol=1e-9, max_iter=5000).fit(Z, y).predict_proba(Z)
    found = model.predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), found)
    np.testing.assert_array_equal(model.predict(X), model.classes_[found.argmax(axis=1)])


@pytest.mark.parametrize("name", ["cancer", "digits"])
def test_squared_hinge_is_that_of_scikit_learn(name):
    X, y = classification(name)
    model = pm.KernelClassifier(n_components=M, loss="squared_hinge", alpha=1.0, random_state=0, **GAUSSIAN).fit(X, y)
    assert model.solution_.status == "solved"
    Z = features(model, X)
    # LinearSVC penalises its intercept, as the coefficient of a constant input: hardly, where that is large.
    peer = LinearSVC(C=1.0, tol=1e-10, max_iter=50_000, intercept_scaling=300.0, dual=False).fit(Z, y)
    expected = peer.decision_function(Z)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_alpha_is_chosen_by_held_out_loss(loss):
    X, y = classification("cancer")
    model = pm.KernelClassifier(n_components=100, loss=loss, random_state=0, **GAUSSIAN).fit(X[:400], y[:400])
    solution = model.solution_
    assert solution.criterion == "held-out"
    assert model.alpha_ in solution.alphas
    # Neither end of what was tried.
    assert solution.alphas[0] > model.alpha_ > solution.alphas[-1]
    assert model.score(X[400:], y[400:]) > 0.95


@pytest.mark.parametrize("loss", LOSSES)
def test_solver_does_not_depend_on_threads_or_memory(loss):
    X, y = classification("wine")
    solver = "cg" if loss == "squared" else "auto"
    one, two, tight = (
        pm.KernelClassifier(
            n_components=64, loss=loss, solver=solver, alpha=0.1, random_state=0, **more, **GAUSSIAN
        ).fit(X, y)
        for more in ({"n_jobs": 1}, {"n_jobs": 2}, {"memory": "600KB"})
    )
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_allclose(tight.decision_function(X), one.decision_function(X), atol=2e-3)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("packed", [False, True])
def test_packed_features_and_streams_give_the_same_model(loss, packed):
    X, y = classification("cancer")
    feature_map = pm.TernaryFeatures("relu", 128, sparsity=0.2, packed=packed, random_state=0)
    solver = "cg" if loss == "squared" else "auto"
    model, other = (
        pm.KernelClassifier(feature_map, loss=loss, solver=solver, alpha=1.0, random_state=0, **FIXED) for _ in range(2)
    )
    model.fit(X, y)
    other.fit_batches([(X[:250], y[:250]), (X[250:], y[250:])])
    assert model.solution_.status == other.solution_.status == "solved"
    scores = model.decision_function(X)
    np.testing.assert_allclose(other.decision_function(X), scores, atol=1e-3 * np.abs(scores).max())
    dense = pm.KernelClassifier(feature_map.set_params(packed=False), loss=loss, solver=solver, alpha=1.0, **FIXED)
    found = dense.set_params(random_state=0).fit(X, y).decision_function(X)
    np.testing.assert_allclose(found, scores, atol=1e-3 * np.abs(scores).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_tensors_give_the_same_model(loss):
    torch = pytest.importorskip("torch")
    X, y = classification("wine")
    model = pm.KernelClassifier(n_components=64, loss=loss, solver="cg", alpha=1.0, random_state=0, **GAUSSIAN)
    expected = model.fit(X, y).decision_function(X)
    found = model.fit(torch.as_tensor(X), y).decision_function(X)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_saved_models_predict_the_same_bits(loss, tmp_path):
    X, y = classification("wine", np.float32)
    model = pm.KernelClassifier(n_components=64, loss=loss, solver="cg", alpha=1.0, random_state=0, **GAUSSIAN).fit(
        X, y
    )
    pm.save(model, tmp_path / "m.phimap", statistics=True)
    loaded = pm.load(tmp_path / "m.phimap")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.solution_.n_passes == model.solution_.n_passes
    with pytest.raises(ValueError, match=r"rows cannot be added .*fit_batches"):
        loaded.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"must have statistics to be merged"):
        loaded.merge(model)


def test_the_solver_is_chosen_by_the_memory(streamed):
    m, cholesky = 4096, MEMBERS["squared", "cholesky"]
    assert choose("squared", "auto", 10_000, m, RidgeSolver.memory(10_000, m)).member is cholesky
    assert choose("squared", "auto", 10_000, m, RidgeSolver.memory(10_000, m) - 1).member is MEMBERS["squared", "cg"]
    assert choose("squared", "cholesky", 10_000, m, 0).member is cholesky
    assert choose("squared", "auto", None, m, 0).member is cholesky
    X, y = load_digits(return_X_y=True)
    small = pm.KernelRegressor(n_components=1024, alpha=1.0, memory="15MB", random_state=0, **GAUSSIAN).fit(X, y)
    assert small.solution_.form == "cg"
    large = pm.KernelRegressor(n_components=1024, alpha=1.0, random_state=0, **GAUSSIAN).fit(X, y)
    assert large.solution_.form == "primal"
    np.testing.assert_allclose(small.predict(X), large.predict(X), rtol=1e-8, atol=1e-8)
    with pytest.raises(MemoryError, match="n_components"):
        small.set_params(solver="cholesky", memory="4MB").fit(X, y)


def test_bad_names_are_told():
    X, y = classification("wine")
    with pytest.raises(ValueError, match="solver"):
        pm.KernelClassifier(solver="lu", **GAUSSIAN).fit(X, y)
    with pytest.raises(ValueError, match="loss"):
        pm.KernelClassifier(loss="hinge", **GAUSSIAN).fit(X, y)


def test_passes_that_end_too_early_warn(monkeypatch):
    X, y = classification("cancer")
    monkeypatch.setattr("phimap.learn.losses.quasi_newton.PASSES", 4)
    model = pm.KernelClassifier(n_components=64, loss="logistic", alpha=1e-3, random_state=0, **GAUSSIAN)
    with pytest.warns(ConvergenceWarning, match=r"not reached in \d+ passes.*residual.*`alpha`"):
        model.fit(X, y)
    assert model.solution_.status == "stopped"
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("alpha", ["auto", 1.0])
@pytest.mark.parametrize("n", [2, 3, 7, 21])
def test_few_rows_give_finite_numbers(loss, alpha, n):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, 3)), np.arange(n) % 2
    model = pm.KernelClassifier(n_components=20, loss=loss, solver="cg", alpha=alpha, random_state=0, **GAUSSIAN).fit(
        X, y
    )
    assert np.isfinite(model.decision_function(X)).all()
    assert model.alpha_ > 0


@pytest.mark.parametrize("loss", LOSSES)
def test_constant_inputs_give_finite_numbers(loss):
    X, y = np.ones((30, 3)), np.arange(30) % 3
    model = pm.KernelClassifier(n_components=20, loss=loss, solver="cg", random_state=0, **GAUSSIAN).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
@pytest.mark.parametrize("n", [30, 77, 1000])
def test_equal_rows_predict_the_mean(solver, n):
    # The mean of n equal numbers is often off by a rounding, which must not be taken for something to fit.
    X, y = np.full((n, 3), 0.3), np.arange(n) % 7.0
    model = pm.KernelRegressor(n_components=20, solver=solver, random_state=0, **GAUSSIAN).fit(X, y)
    np.testing.assert_allclose(model.predict(X[:2]), y.mean(), rtol=1e-9)
    np.testing.assert_allclose(model.predict(X[:2] + 1), y.mean(), rtol=1e-2)
