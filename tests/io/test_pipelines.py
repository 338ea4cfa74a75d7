"""Pipelines in model files: the same bits after loading, and other steps refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import phimap as pm
from phimap.io.encoding import TRANSFORMERS
from tests.support.learners import GAUSSIAN


def problem() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).standard_normal((120, 4)) * [1, 10, 0.1, 3] + 2
    return X, np.sin(X[:, 0]) + X[:, 3]


@pytest.mark.parametrize("scaler", TRANSFORMERS.values(), ids=lambda cls: cls.__name__)
def test_loaded_pipelines_predict_the_same_bits(tmp_path, scaler):
    X, y = problem()
    model = Pipeline([("scale", scaler()), ("learn", pm.KernelRegressor(n_components=32, random_state=0, **GAUSSIAN))])
    pm.save(model.fit(X, y), tmp_path / "p.phimap")
    loaded = pm.load(tmp_path / "p.phimap")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert list(loaded.named_steps) == ["scale", "learn"]
    assert repr(loaded) == repr(model)


def test_maps_between_and_steps_that_pass_on(tmp_path):
    X, y = problem()
    features = pm.FourierFeatures(pm.kernels.Gaussian(3.0), 32, random_state=0)
    learner = pm.KernelRegressor(features, random_state=0)
    model = Pipeline([("scale", StandardScaler()), ("none", "passthrough"), ("inner", make_pipeline(learner))])
    with pytest.raises(TypeError, match="step 'inner' of the pipeline is Pipeline"):
        pm.save(model.fit(X, y), tmp_path / "p.phimap")
    model = Pipeline([("scale", StandardScaler()), ("none", "passthrough"), ("map", features)]).fit(X)
    pm.save(model, tmp_path / "p.phimap")
    np.testing.assert_array_equal(pm.load(tmp_path / "p.phimap").transform(X), model.transform(X))


@pytest.mark.parametrize("step", [FunctionTransformer(np.log1p), OneHotEncoder()], ids=["function", "other"])
def test_other_steps_are_refused_by_name(tmp_path, step):
    X, y = problem()
    model = Pipeline([("before", step), ("learn", pm.KernelRegressor(n_components=8, **GAUSSIAN))])
    message = rf"step 'before' of the pipeline is {type(step).__name__}.*StandardScaler.*joblib"
    with pytest.raises(TypeError, match=message):
        pm.save(model.fit(np.abs(X), y), tmp_path / "p.phimap")
    assert not list(tmp_path.iterdir())


def test_unfitted_pipelines_are_refused(tmp_path):
    with pytest.raises(NotFittedError):
        pm.save(make_pipeline(StandardScaler(), pm.KernelRegressor()), tmp_path / "p.phimap")
