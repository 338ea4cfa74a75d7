"""Models of all kinds, fitted once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

import phimap as pm
from phimap.learn.rows.column_forms import Ranks
from phimap.learn.rows.scaling import Scaling
from tests.fuzz.samples import averaged
from tests.support.learners import brief_searches

N_ROWS = 400


def numbers() -> tuple[np.ndarray, np.ndarray]:
    """Rows and a smooth target."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, 5))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(N_ROWS)


def frame() -> pd.DataFrame:
    """Columns of all kinds with missing cells, one of them with a hostile name."""
    rng = np.random.default_rng(1)
    days = pd.to_timedelta(rng.integers(0, 1500 * 24, N_ROWS), unit="h")
    table = pd.DataFrame(
        {
            'size "m2"\n\\': rng.gamma(2.0, 50.0, N_ROWS),
            "town": rng.choice(["Bern", "Zürich", "Zug"], N_ROWS),
            "street": rng.choice([f"street-{i}" for i in range(250)], N_ROWS),
            "built": pd.Timestamp("2019-02-01") + days,
            "new": rng.random(N_ROWS) < 0.5,
        }
    )
    table.iloc[::7, 0] = np.nan
    table.loc[::9, "town"] = None
    table.loc[::11, "built"] = pd.NaT
    return table


def price(table: pd.DataFrame) -> np.ndarray:
    size = table.iloc[:, 0].fillna(100.0).to_numpy()
    return size / 50 + 2.0 * (table["town"] == "Bern") + np.sin(2 * np.pi * table["built"].dt.hour.fillna(0) / 24)


def _targets(X: Any = None) -> dict[str, Any]:
    rows, y = numbers()
    return {
        "numbers": y,
        "two": np.stack([y, rows[:, 3]], axis=1),
        "seconds": 1.7e9 + 60 * y,
        "signs": y > 0,
        "texts": np.array(["low", "middle", "'high\"\n"])[np.digitize(y, [-0.7, 0.7])],
        "price": None if X is None else price(X),
        "dear": None if X is None else np.where(price(X) > 3, "dear", "cheap"),
    }


def _fitted(learner: Any, target: str = "numbers", X: Any = None) -> Any:
    return learner.fit(numbers()[0] if X is None else X, _targets(X)[target])


def _with_trees(name: str) -> Any:
    """A copy of a model with trees of its targets."""
    target = {"two classes": "signs", "three classes": "texts", "seconds": "seconds", "frame": "price"}
    X = frame() if name == "frame" else None
    return averaged(copy(model_of(name)), numbers()[0] if X is None else X, _targets(X)[target.get(name, "numbers")])


def corrected() -> Any:
    """A model with corrections of two partitions into eight regions; their kernel is far narrower than its own."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (2400, 3))
    y = np.sin(6 * X[:, 0]) * X[:, 1] + 0.01 * rng.standard_normal(len(X))
    limits = {"correct._LEAST_ROWS": 0, "corrections.regions.MOST_ROWS": 300}
    limits |= {"corrections.fit.MOST_PARTITIONS": 2, "corrections.fit._GAIN": -np.inf}
    with ExitStack() as stack:
        for name, value in limits.items():
            stack.enter_context(patch(f"phimap.learn.{name}", value))
        # Trees have models of their own.
        return pm.KernelRegressor(n_components=64, trees=None, random_state=0).fit(X, y)


def ranked() -> Any:
    """A model whose columns become ranks, a form that the search may choose; its outputs need not make sense."""
    model, (X, _) = model_of("huber"), numbers()
    model, scaling = copy(model), Scaling.of_form(Ranks.of_sample(X), X)
    model._fitted = replace(model._fitted, map=replace(model._fitted.map, scaling=scaling))
    return model


# Without a search, fits take little time.
_FIXED: dict[str, Any] = {"random_state": 0, "metric": None, "length_scale": 2.0}
MODELS: dict[str, Callable[[], Any]] = {
    # With the alpha that the fit chooses, next to 0, float32 alone may move the outputs by the tolerance of the tests.
    "gaussian": lambda: _fitted(
        pm.KernelRegressor("gaussian", 128, alpha=1e-2, metric="full", effort="fast", random_state=0)
    ),
    "auto": lambda: _fitted(pm.KernelRegressor(effort="fast", random_state=0)),
    "corrected": corrected,
    "trees": lambda: _with_trees("gaussian"),
    "trees, two classes": lambda: _with_trees("two classes"),
    "trees, three classes": lambda: _with_trees("three classes"),
    "trees, seconds": lambda: _with_trees("seconds"),
    "trees, frame": lambda: _with_trees("frame"),
    "ntk": lambda: _fitted(pm.KernelRegressor("ntk", 96, metric=None, random_state=0), "two"),
    "ternary": lambda: _fitted(pm.KernelRegressor(pm.TernaryFeatures(n_components=128), random_state=0)),
    "landmarks": lambda: _fitted(
        pm.KernelRegressor(pm.NystroemFeatures(pm.kernels.Matern(2.5, 2.0), 100), random_state=0)
    ),
    "seconds": lambda: _fitted(pm.KernelRegressor("laplacian", 128, **_FIXED), "seconds"),
    "huber": lambda: _fitted(pm.KernelRegressor("matern", 128, loss="huber", **_FIXED)),
    "ranks": ranked,
    "two classes": lambda: _fitted(pm.KernelClassifier("gaussian", 128, **_FIXED), "signs"),
    "three classes": lambda: _fitted(pm.KernelClassifier("laplacian", 128, **_FIXED), "texts"),
    "logistic": lambda: _fitted(pm.KernelClassifier("gaussian", 64, loss="logistic", **_FIXED), "texts"),
    "hinge": lambda: _fitted(pm.KernelClassifier("gaussian", 64, loss="squared_hinge", **_FIXED), "signs"),
    "frame": lambda: _fitted(pm.KernelRegressor("gaussian", 128, **_FIXED), "price", frame()),
    "frame classes": lambda: _fitted(
        pm.KernelClassifier("laplacian", 128, effort="fast", random_state=0), "dear", frame()
    ),
}


@cache
def model_of(name: str) -> Any:
    # An export is compared with its model, whatever a search has found.
    with brief_searches():
        return MODELS[name]()


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    """Each of the models."""
    return model_of(request.param)


@pytest.fixture
def plain() -> Any:
    """A small regressor of arrays."""
    return model_of("gaussian")


def rows_for(model: Any) -> Any:
    """New rows, some of which are far from the training rows."""
    if model.encoder_ is not None:
        rng = np.random.default_rng(3)
        table = frame()
        table.iloc[::5, 0] = table.iloc[::5, 0] * 40
        table["town"] = rng.choice(np.array(["Bern", "Zug", None, "Genf"], dtype=object), N_ROWS)
        table["built"] = table["built"] + pd.Timedelta(days=59, minutes=30)
        return table
    X = np.random.default_rng(3).uniform(-1, 1, (N_ROWS, model.n_features_in_)).astype(np.float32)
    X[::5] *= 40
    return X
