"""Alpha as chosen in passes over the rows, against the choice by factorisation, on real data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

import phimap as pm
from phimap.learn.fit import extreme_rows
from tests.support.learners import GAUSSIAN

LOADERS = {"diabetes": load_diabetes, "cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}


def split(name, dtype=np.float32):
    """Two thirds of the rows to fit, the others to test; classes are numbers."""
    X, y = LOADERS[name](return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    n = 2 * len(y) // 3
    return X[order[:n]].astype(dtype), y[order[:n]].astype(float), X[order[n:]].astype(dtype), y[order[n:]]


def error(model, X, y):
    return np.square(model.predict(X) - y).mean()


def models(X, y, **more):
    return (
        pm.KernelRegressor(n_components=256, solver=solver, random_state=0, **more, **GAUSSIAN).fit(X, y)
        for solver in ("cholesky", "cg")
    )


@pytest.mark.parametrize("name", ["diabetes", "cancer", "digits"])
def test_held_out_choice_is_as_good_as_by_factorisation(name, streamed):
    """Mutant: the choice by held-out rows alone, or an alpha off by a factor of ten."""
    X, y, X_test, y_test = split(name)
    peer, model = models(X, y)
    solution = model.solution_
    assert (peer.solution_.form, solution.form, solution.criterion) == ("primal", "cg", "held-out")
    assert solution.status == "solved"
    assert solution.n_passes <= 15
    assert error(model, X_test, y_test) < 1.01 * error(peer, X_test, y_test)
    # Both see one curve.
    assert np.interp(np.log(model.alpha_), np.log(peer.solution_.alphas), peer.solution_.scores) < (
        1.005 * peer.solution_.scores.min()
    )


@pytest.mark.parametrize("name", LOADERS)
def test_few_rows_use_leave_one_out(name):
    X, y, X_test, y_test = split(name)
    peer, model = models(X, y)
    assert (peer.solution_.form, model.solution_.form) == ("dual", "cg")
    assert model.solution_.criterion == "leave-one-out"
    assert model.alpha_ == peer.alpha_
    np.testing.assert_array_equal(model.solution_.scores, peer.solution_.scores)
    assert error(model, X_test, y_test) == pytest.approx(error(peer, X_test, y_test), rel=1e-3)


def test_extreme_rows_are_collected_in_one_pass(streamed, monkeypatch):
    X, y, _, _ = split("diabetes")
    collected = []

    def empty(*arguments):
        collected.append(extreme_rows(*arguments))
        return collected[-1]

    monkeypatch.setattr("phimap.learn.fit.extreme_rows", empty)
    peer, model = models(X, y)
    assert (peer.solution_.form, model.solution_.form) == ("primal", "cg")
    assert [rows.n_seen for rows in collected] == [len(y), len(y)]
    np.testing.assert_array_equal(collected[0].keys, collected[1].keys)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_choice_does_not_depend_on_threads_or_kept_features(dtype, streamed):
    X, y, X_test, _ = split("digits", dtype)
    one, two, tight = (
        pm.KernelRegressor(n_components=256, solver="cg", random_state=0, **more, **GAUSSIAN).fit(X, y)
        for more in ({"n_jobs": 1}, {"n_jobs": 2}, {"memory": "8MB"})
    )
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert tight.alpha_ == pytest.approx(one.alpha_, rel=1e-2)
    np.testing.assert_allclose(tight.predict(X_test), one.predict(X_test), atol=0.01)


def test_several_targets_and_weights(streamed, rng):
    """Weights and targets times constants change nothing; mutant: validation rows without their weights."""
    X, y, X_test, _ = split("diabetes", np.float64)
    Y, weights = np.column_stack([y, np.abs(y - 150)]), rng.integers(1, 4, len(y)).astype(float)
    model = pm.KernelRegressor(n_components=128, solver="cg", random_state=0, **GAUSSIAN)
    expected = model.fit(X, Y, sample_weight=weights).predict(X_test).copy()
    alpha = model.alpha_
    scaled = model.fit(X, 3 * Y, sample_weight=5 * weights).predict(X_test)
    assert model.alpha_ == pytest.approx(5 * alpha, rel=1e-3)
    np.testing.assert_allclose(scaled, 3 * expected, rtol=1e-4, atol=1e-3)
    model.fit(X, Y)
    assert model.alpha_ != pytest.approx(alpha, rel=1e-3)
