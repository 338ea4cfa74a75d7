"""Learners on packed features: the same model as on dense ones."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.learn.ridge.statistics import RidgeStatistics
from tests.support.learners import FIXED

KINDS = {
    "ternary": pm.TernaryFeatures("relu", 200, sparsity=0.2, random_state=0),
    "signs": pm.TernaryFeatures("sign", 200, sparsity=0.2, random_state=0),
    "steps": pm.TernaryFeatures("step", 200, sparsity=0.2, levels=3, random_state=0),
    "four bits": pm.QuantizedFeatures(pm.FourierFeatures(n_components=200), bits=4, random_state=0),
}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def data(n, d=6):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)


@EVERY_KIND
def test_statistics_of_packed_rows(kind):
    X, y = data(333)
    phi = KINDS[kind].set_params(packed=True).fit(X)
    Z = phi.transform(X)
    packed, dense = RidgeStatistics.empty(200, 1), RidgeStatistics.empty(200, 1)
    packed.update(Z, y[:, None], n_jobs=2)
    packed.update(Z[:50], y[:50, None], sign=-1)
    dense.update(Z.to_dense()[50:], y[50:, None])
    every = np.arange(200)
    np.testing.assert_allclose(packed.gram.entries(every, every), dense.gram.entries(every, every), atol=1e-10)
    for name in ("cross", "sum_z", "sum_y", "sum_yy"):
        np.testing.assert_allclose(getattr(packed, name), getattr(dense, name), atol=1e-10)


@EVERY_KIND
@pytest.mark.parametrize("alpha", [0.5, "auto"])
@pytest.mark.parametrize("n", [150, 2400], ids=["dual", "primal"])
def test_model_is_that_of_dense_features(kind, n, alpha):
    X, y = data(n)
    packed, dense = (
        pm.KernelRegressor(KINDS[kind].set_params(packed=kept), alpha=alpha, random_state=0, **FIXED).fit(X, y)
        for kept in (True, False)
    )
    assert packed.solution_.form == ("dual" if n == 150 else "primal")
    # A minimum is found to the root of the rounding.
    np.testing.assert_allclose(packed.predict(X), dense.predict(X), atol=1e-8 if alpha != "auto" else 1e-4)


def test_choice_of_alpha_on_held_out_rows_in_dual_form(monkeypatch):
    monkeypatch.setattr("phimap.learn.ridge.solve.LEAVE_ONE_OUT_ROWS", 100)
    X, y = data(900)
    phi = pm.TernaryFeatures("relu", 1000, sparsity=0.2, random_state=0)
    packed, dense = (
        pm.KernelRegressor(phi.set_params(packed=kept), random_state=0, **FIXED).fit(X, y) for kept in (True, False)
    )
    assert packed.solution_.criterion == "held-out"
    assert packed.alpha_ == pytest.approx(dense.alpha_, rel=1e-3)
    np.testing.assert_allclose(packed.predict(X[:100]), dense.predict(X[:100]), atol=1e-3)


def test_rows_added_later_and_files(tmp_path):
    X, y = data(500)
    phi = pm.TernaryFeatures("relu", 100, sparsity=0.2, packed=True, random_state=0)
    model = (
        pm.KernelRegressor(phi, alpha=1.0, random_state=0, **FIXED).fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    )
    again = pm.KernelRegressor(phi, alpha=1.0, random_state=0, **FIXED).partial_fit(X[:300], y[:300])
    again.partial_fit(X[300:], y[300:])
    np.testing.assert_allclose(model.predict(X), again.predict(X), atol=1e-8)
    pm.save(model, tmp_path / "model.phimap")
    np.testing.assert_array_equal(pm.load(tmp_path / "model.phimap").predict(X), model.predict(X))
