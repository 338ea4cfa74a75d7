"""Rows far outside of the range of the training rows: told once, and drawn back to the mean by stationary kernels."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import phimap as pm
from phimap.learn.outside import OutsideWarning

NAMES = ["area", "rooms"]


@pytest.fixture
def rows(rng):
    X = rng.uniform(-1, 1, (600, 2))
    return X, 5 + np.sin(3 * X[:, 0]) * X[:, 1]


def unfitted(**settings):
    return pm.KernelRegressor("gaussian", 64, length_scale=0.7, metric=None, random_state=0, **settings)


FAR = np.array([[40.0, 0.0], [0.1, 0.1], [-3e9, 1e5]])


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_stationary_kernels_go_back_to_the_mean(rows, solver, loss):
    """Mutant: the features alone, which oscillate as far out as within the data."""
    X, y = rows
    model = unfitted(solver=solver, loss=loss).fit(X, y)
    with pytest.warns(OutsideWarning, match="2 of 3 rows") as told:
        found = model.predict(FAR)
    assert len(told) == 1
    np.testing.assert_allclose(found[[0, 2]], model.solution_.centre[0])
    np.testing.assert_allclose(model.solution_.centre[0], y.mean(), atol=0.05)
    mutant = model._features()(FAR).to_host() @ model.coef_ + model.intercept_
    np.testing.assert_allclose(mutant[1], found[1])
    assert np.abs(mutant - found)[[0, 2]].min() > 0.01


def test_rows_near_the_range_are_left_alone(rows):
    X, y = rows
    model = unfitted().fit(X, y)
    near = np.array([[1.05, 0.0], [0.0, -1.1]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.predict(near)
    np.testing.assert_allclose(found, model._features()(near).to_host() @ model.coef_ + model.intercept_)


def test_the_way_back_has_no_step(rows):
    X, y = rows
    model = unfitted().fit(X, y)
    line = np.column_stack([np.linspace(1, 8, 4001), np.zeros(4001)])
    with pytest.warns(OutsideWarning):
        found = model.predict(line)
    assert np.abs(np.diff(found)).max() < 0.02
    assert abs(found[-1] - y.mean()) < 0.02


def test_other_kernels_grow_and_say_so(rows):
    X, y = rows
    model = pm.KernelRegressor("polynomial", 64, random_state=0).fit(pd.DataFrame(X, columns=NAMES), y)
    expected = "with 1e\\+06 in column 'rooms', which was -0.99.* to 0.99.*: their predictions are extrapolated"
    with pytest.warns(OutsideWarning, match=expected):
        model.predict(pd.DataFrame([[0.0, 1e6]], columns=NAMES))


def test_classes_far_outside_are_those_of_the_mean(rng):
    X = rng.uniform(-1, 1, (600, 2))
    y = np.where(X[:, 0] > 0.5, "few", "many")
    model = pm.KernelClassifier("gaussian", 64, random_state=0, metric=None).fit(X, y)
    with pytest.warns(OutsideWarning):
        assert model.predict([[1e6, 0.0]]) == ["many"]


def test_added_rows_widen_the_range(rows):
    X, y = rows
    model = unfitted().partial_fit(X, y)
    other = unfitted().partial_fit(X, y)
    with pytest.warns(OutsideWarning):
        model.predict([[40.0, 0.0]])
    model.partial_fit([[40.0, 0.0], [39.0, 1.0]], [1.0, 2.0])
    other._origin = "elsewhere"
    other.merge(model)
    for one in (model, other):
        with warnings.catch_warnings():
            warnings.simplefilter("error", OutsideWarning)
            one.predict([[40.0, 0.0]])


def test_csr_rows_are_not_looked_at(rows):
    X, y = rows
    model = unfitted().fit(sparse.csr_matrix(X), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OutsideWarning)
        model.predict(sparse.csr_matrix([[40.0, 0.0]]))


def test_a_saved_model_knows_the_range(rows, tmp_path):
    X, y = rows
    model = unfitted().fit(X, y)
    pm.save(model, tmp_path / "m.phimap")
    with pytest.warns(OutsideWarning):
        np.testing.assert_array_equal(pm.load(tmp_path / "m.phimap").predict(FAR), model.predict(FAR))
