"""Losses over streams of which only a sample is in memory, and over input of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import phimap as pm
from tests.support.learners import GAUSSIAN, features_of

LOSSES = ["logistic", "squared_hinge"]


def digits(n=700):
    X, y = load_digits(n_class=5, return_X_y=True)
    return X[:n] / 16, y[:n]


def features(model, X):
    """The features that the model's coefficients multiply."""
    return features_of(model, X)


@pytest.mark.parametrize("most", [0, 150, 10_000])
def test_all_rows_are_fitted_whatever_the_sample(most, monkeypatch):
    """Mutant: the solution on a share of the rows."""
    monkeypatch.setattr("phimap.learn.losses.preparation._MOST_ROWS", most)
    X, y = digits()
    model = pm.KernelClassifier(n_components=150, loss="logistic", alpha=0.1, random_state=0, **GAUSSIAN).fit(X, y)
    assert model.solution_.status == "solved"
    Z = features(model, X)
    peer = LogisticRegression(C=10.0, tol=1e-9, max_iter=5000)
    found = model.predict_proba(X)
    np.testing.assert_allclose(found, peer.fit(Z, y).predict_proba(Z), atol=1e-3)
    assert np.abs(found - peer.fit(Z[:500], y[:500]).predict_proba(Z)).max() > 1e-2


@pytest.mark.parametrize("loss", LOSSES)
def test_alpha_is_chosen_on_a_sample(loss, monkeypatch):
    monkeypatch.setattr("phimap.learn.losses.preparation._MOST_ROWS", 300)
    X, y = digits()
    model = pm.KernelClassifier(n_components=100, loss=loss, random_state=0, **GAUSSIAN).fit(X, y)
    solution = model.solution_
    assert (solution.status, solution.criterion) == ("solved", "held-out")
    assert solution.alphas[0] > model.alpha_ > solution.alphas[-1]
    # The choice itself goes through the sample alone.
    assert solution.n_passes < 80


@pytest.mark.parametrize(("loss", "alpha"), [("logistic", 0.1), ("squared_hinge", 0.1), ("logistic", "auto")])
def test_sparse_rows_give_the_model_of_dense_ones(loss, alpha):
    X, y = digits(400)
    model = pm.KernelClassifier(n_components=64, loss=loss, alpha=alpha, standardize=False, random_state=0, **GAUSSIAN)
    dense = model.fit(X, y).decision_function(X)
    found = model.fit(sparse.csr_array(X), y).decision_function(sparse.csr_array(X))
    # Where alpha is chosen the tolerance is a hundred times as large.
    slack = 5e-2 if alpha == "auto" else 1e-3
    np.testing.assert_allclose(found, dense, atol=slack * np.abs(dense).max())


def test_equal_weights_change_nothing_but_the_scale_of_alpha():
    """Mutant: a penalty that does not follow the weights, by a factor of forty."""
    X, y = digits(250)
    model = pm.KernelClassifier(n_components=32, loss="logistic", random_state=0, **GAUSSIAN)
    plain = model.fit(X, y).decision_function(X)
    alpha = model.alpha_
    weighted = model.fit(X, y, sample_weight=np.full(len(y), 4.0)).decision_function(X)
    assert model.alpha_ == pytest.approx(4 * alpha, rel=1e-6)
    slack = 5e-2 * np.abs(plain).max()
    np.testing.assert_allclose(weighted, plain, atol=slack)
    mutant = model.set_params(alpha=alpha / 10).fit(X, y, sample_weight=np.full(len(y), 4.0)).decision_function(X)
    assert np.abs(mutant - plain).max() > 2 * slack


def test_a_path_of_one_seed_has_the_same_bits():
    X, y = digits(250)
    one, other = (
        pm.KernelClassifier(n_components=32, loss="logistic", random_state=0, n_jobs=n_jobs, **GAUSSIAN).fit(X, y).coef_
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one, other)
