"""Data frames and what comes in them: names of columns, mixtures of dense and sparse rows, labels that are missing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import phimap as pm


def frame(n: int = 60) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.standard_normal((n, 3)), columns=["area", "rooms", "age"])
    return X, X["area"].to_numpy() + X["rooms"].to_numpy() ** 2


def regressor() -> pm.KernelRegressor:
    return pm.KernelRegressor(n_components=16, random_state=0)


@pytest.mark.parametrize("kind", [lambda X: X, lambda X: pl.DataFrame(X.to_dict("list"))], ids=["pandas", "polars"])
def test_columns_are_known_by_their_names(kind):
    X, y = frame()
    model = regressor().fit(kind(X), y)
    assert list(model.feature_names_in_) == ["area", "rooms", "age"]
    with pytest.raises(ValueError, match="same order as they were in fit"):
        model.predict(kind(X[["age", "rooms", "area"]]))
    with pytest.raises(ValueError, match="unseen at fit time:\n- floor"):
        model.predict(kind(X.rename(columns={"age": "floor"})))
    with pytest.raises(ValueError, match="same order"):
        model.partial_fit(kind(X[["age", "rooms", "area"]]), y)


def test_feature_maps_know_names_too():
    X, _ = frame()
    phi = pm.FourierFeatures(n_components=4, random_state=0).fit(X)
    with pytest.raises(ValueError, match="same order as they were in fit"):
        phi.transform(X[["age", "rooms", "area"]])


def test_names_survive_in_model_files(tmp_path):
    X, y = frame()
    pm.save(regressor().fit(X, y), tmp_path / "m.phimap")
    loaded = pm.load(tmp_path / "m.phimap")
    with pytest.raises(ValueError, match="same order as they were in fit"):
        loaded.predict(X[["age", "rooms", "area"]])


def test_another_fit_without_names_forgets_them():
    torch = pytest.importorskip("torch")
    X, y = frame()
    for rows in (X.to_numpy(), torch.tensor(X.to_numpy())):
        model = regressor().fit(X, y).fit(rows, y)
        assert not hasattr(model, "feature_names_in_")
