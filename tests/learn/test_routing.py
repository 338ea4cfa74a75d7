"""Weights and groups through scikit-learn's pipelines and searches, by metadata routing."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import phimap as pm
from tests.support.learners import GAUSSIAN


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(params=[pm.KernelRegressor, pm.KernelClassifier])
def learner(request):
    model = request.param(n_components=16, random_state=0, **GAUSSIAN)
    return model.set_fit_request(sample_weight=True, groups=True).set_score_request(sample_weight=True)


@pytest.fixture
def data(rng):
    groups = np.repeat(np.arange(40), 5)
    X = rng.standard_normal((200, 3))
    y = (X[:, 0] + 0.5 * rng.standard_normal(40)[groups] > 0).astype(int)
    return X, y, {"sample_weight": rng.uniform(0.5, 2, 200), "groups": groups}


def test_a_pipeline_hands_them_to_the_learner(learner, data):
    X, y, given = data
    found = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), learner).fit(X, y, **given)
    alone = learner.fit(StandardScaler().fit_transform(X), y, **given)
    assert found[-1].alpha_ == alone.alpha_
    assert found[-1]._fitted.has_units
    # Mutant: without them the fit is another.
    assert alone.alpha_ != learner.fit(StandardScaler().fit_transform(X), y).alpha_


def test_a_search_and_a_cross_validation_cut_them_with_the_rows(learner, data, monkeypatch):
    X, y, given = data
    lengths = []
    fit = type(learner).fit

    def noted(self, X, y=None, sample_weight=None, groups=None):
        lengths.append((len(X), len(sample_weight), len(groups)))
        return fit(self, X, y, sample_weight, groups)

    monkeypatch.setattr(type(learner), "fit", noted)
    search = GridSearchCV(learner, {"n_components": [8, 16]}, cv=GroupKFold(4)).fit(X, y, **given)
    scores = cross_val_score(learner, X, y, cv=GroupKFold(4), params=given)
    assert lengths == [(150,) * 3] * 8 + [(200,) * 3] + [(150,) * 3] * 4
    assert search.best_score_ > 0
    assert scores.shape == (4,)
