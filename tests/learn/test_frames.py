"""Data frames and what comes in them: names of columns, mixtures of dense and sparse rows, labels that are missing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import phimap as pm
from tests.support.learners import GAUSSIAN


def frame(n: int = 60) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.standard_normal((n, 3)), columns=["area", "rooms", "age"])
    return X, X["area"].to_numpy() + X["rooms"].to_numpy() ** 2


def regressor() -> pm.KernelRegressor:
    return pm.KernelRegressor(n_components=16, random_state=0, **GAUSSIAN)


@pytest.mark.parametrize("kind", [lambda X: X, lambda X: pl.DataFrame(X.to_dict("list"))], ids=["pandas", "polars"])
def test_columns_are_known_by_their_names(kind):
    X, y = frame()
    model = regressor().fit(kind(X), y)
    assert list(model.feature_names_in_) == ["area", "rooms", "age"]
    turned = kind(X[["age", "rooms", "area"]])
    np.testing.assert_array_equal(model.predict(turned), model.predict(kind(X)))
    with pytest.raises(
        ValueError, match=r"got none named 'age' among 'floor', 'area', 'rooms'\. Rename a column, or add"
    ):
        model.predict(kind(X.rename(columns={"age": "floor"})))
    with pytest.raises(ValueError, match=r"got none named 'age' among 'area', 'rooms'\. Add it, NaN or empty where"):
        model.predict(kind(X.drop(columns="age")))
    again = regressor().fit(kind(X), y)
    np.testing.assert_array_equal(model.partial_fit(turned, y).coef_, again.partial_fit(kind(X), y).coef_)


def test_feature_maps_know_names_too():
    X, _ = frame()
    phi = pm.FourierFeatures(n_components=4, random_state=0).fit(X)
    with pytest.raises(ValueError, match="same order as they were in fit"):
        phi.transform(X[["age", "rooms", "area"]])


def test_names_survive_in_model_files(tmp_path):
    X, y = frame()
    pm.save(regressor().fit(X, y), tmp_path / "m.phimap")
    loaded = pm.load(tmp_path / "m.phimap")
    np.testing.assert_array_equal(loaded.predict(X[["age", "rooms", "area"]]), loaded.predict(X))


def test_another_fit_without_names_forgets_them():
    torch = pytest.importorskip("torch")
    X, y = frame()
    for rows in (X.to_numpy(), torch.tensor(X.to_numpy())):
        model = regressor().fit(X, y).fit(rows, y)
        assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
@pytest.mark.parametrize("kind", [lambda y: y, lambda y: pd.Series(y, dtype=object)], ids=["array", "series"])
def test_missing_labels_are_located(missing, kind):
    X, _ = frame()
    y = np.where(X["age"] > 0, "old", "new").astype(object)
    y[7] = missing
    with pytest.raises(ValueError, match=r"`y` must hold labels that are text or numbers, got .* at row 7\. Fill"):
        pm.KernelClassifier(n_components=16, **GAUSSIAN).fit(X, kind(y))


def mixed_rows(n: int = 400) -> tuple[np.ndarray, sparse.csr_matrix, np.ndarray]:
    """Dense and CSR forms of rows whose first column is far from zero."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, 4)) * (rng.random((n, 4)) < 0.5)
    X[:, 0] += 3
    return X, sparse.csr_matrix(X), X[:, 0] + np.sin(X[:, 1])


def test_a_model_of_dense_rows_predicts_sparse_ones():
    X, S, y = mixed_rows()
    model = regressor().fit(X, y)
    np.testing.assert_allclose(model.predict(S), model.predict(X), atol=1e-12)


@pytest.mark.parametrize("first", ["dense", "sparse"])
@pytest.mark.parametrize("batched", [False, True])
def test_later_batches_become_what_the_first_was(first, batched):
    X, S, y = mixed_rows()
    one, two = (X, S) if first == "dense" else (S, X)
    model, same = regressor(), regressor()
    if batched:
        model.fit_batches([(one[:200], y[:200]), (two[200:], y[200:])])
        same.fit_batches([(one[:200], y[:200]), (one[200:], y[200:])])
    else:
        model.partial_fit(one[:200], y[:200]).partial_fit(two[200:], y[200:])
        same.partial_fit(one[:200], y[:200]).partial_fit(one[200:], y[200:])
    np.testing.assert_allclose(model.predict(X), same.predict(X), atol=1e-9)
