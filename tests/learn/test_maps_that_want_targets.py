"""Learners give a map that wants targets those of its sample."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import phimap as pm
from phimap.features import ReweightedFeatures
from tests.learn.problems import problem
from tests.support.learners import FIXED


class Noted(ReweightedFeatures):
    """A map that keeps what `fit` was given."""

    def fit(self, X, y=None):
        self.given_ = X, y
        return super().fit(X, y)


def noted(**parameters) -> Noted:
    return Noted(pm.kernels.Gaussian(2.0), 32, random_state=0, **parameters)


def test_targets_are_those_of_the_rows_of_the_sample():
    X, y = problem(3000)
    model = pm.KernelRegressor(noted(), alpha=0.1, standardize=None, random_state=0, **FIXED).fit(X, y)
    rows, targets = model.feature_map_.given_
    assert len(rows) == 2000
    places = {row.tobytes(): place for place, row in enumerate(X)}
    of_rows = y[[places[row.tobytes()] for row in np.ascontiguousarray(rows)]]
    assert targets.shape == (2000, 1)
    # In the units in which the learner solves, which are no business of the map: in order and in proportion.
    assert np.corrcoef(targets[:, 0], of_rows)[0, 1] > 1 - 1e-12


def test_labels_come_as_numbers_a_column_each():
    X, y = problem(400)
    labels = np.array(["low", "mid", "high"])[np.digitize(y, [-0.5, 0.5])]
    model = pm.KernelClassifier(noted(), alpha=0.1, random_state=0, **FIXED).fit(X, labels)
    targets = model.feature_map_.given_[1]
    assert targets.shape == (400, 3)
    assert set(np.unique(targets)) == {0.0, 1.0}


@pytest.mark.parametrize("method", ["least-squares", "kitchen-sinks"])
def test_maps_that_want_none_get_none(method):
    X, y = problem(200)
    model = pm.KernelRegressor(noted(method=method), alpha=0.1, random_state=0, **FIXED).fit(X, y)
    assert (model.feature_map_.given_[1] is None) == (method == "least-squares")


def test_partial_fits_and_files_go_on(tmp_path):
    X, y = problem(600)
    phi = pm.ReweightedFeatures(pm.kernels.Gaussian(2.0), 64, random_state=0)
    model = pm.KernelRegressor(phi, alpha=0.1, random_state=0, **FIXED)
    parts = clone(model).partial_fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    assert parts.score(X, y) > 0.8
    pm.save(parts, tmp_path / "model")
    np.testing.assert_array_equal(pm.load(tmp_path / "model").predict(X), parts.predict(X))


@pytest.mark.parametrize(
    "phi", [pm.LeverageFeatures(scores="surrogate"), pm.CompressedFeatures(pm.ReweightedFeatures(n_components=128))]
)
def test_every_map_that_wants_targets_serves_a_learner(phi):
    X, y = problem(500)
    model = pm.KernelRegressor(clone(phi).set_params(n_components=64), alpha=0.1, random_state=0, **FIXED)
    assert model.fit(X, y).score(X, y) > 0.5
