"""Learners with corrections."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import phimap as pm

SETTINGS = {"n_components": 64, "effort": "fast", "metric": None, "trees": None, "random_state": 0}
N_ROWS = 8192


def ripples(rng, n=N_ROWS + 2000):
    """Rows (n, 2), and more waves than 64 features can follow."""
    X = rng.uniform(-1, 1, (n, 2)).astype(np.float32)
    return X, np.sin(20 * X[:, 0]) * np.cos(20 * X[:, 1]) + 0.2 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def data():
    return ripples(np.random.default_rng(0))


@pytest.fixture(scope="module")
def corrected(data):
    X, y = data
    return pm.KernelRegressor(**SETTINGS).fit(X[:N_ROWS], y[:N_ROWS])


def test_corrections_follow_what_the_features_cannot(data, corrected):
    X, y = data
    plain = pm.KernelRegressor(**SETTINGS, corrections=None).fit(X[:N_ROWS], y[:N_ROWS])
    assert plain.corrections_ is None
    errors = [np.sqrt(np.mean((m.predict(X[N_ROWS:]) - y[N_ROWS:]) ** 2)) for m in (plain, corrected)]
    # Noise alone is 0.2.
    assert errors[0] > 0.4
    assert errors[1] < 0.24
    np.testing.assert_array_equal(plain.coef_, corrected.coef_)


@pytest.mark.filterwarnings("ignore:.*far outside of the training rows")
def test_standard_deviations_are_of_the_corrected_errors(data, corrected):
    X, y = data
    mean, std = corrected.predict(X[N_ROWS:], return_std=True)
    inside = np.abs(mean - y[N_ROWS:]) < 1.2816 * std
    assert 0.75 < inside.mean() < 0.85
    # Features and regions know nothing far away, whatever the corrections were worth here.
    far = corrected.predict(X[:20] + 100, return_std=True)[1]
    assert far.min() > 0.95 * y.std()
    assert np.median(std) < 0.5 * y.std()


def test_a_file_keeps_them_and_more_rows_take_them_away(data, corrected, tmp_path):
    X, y = data
    pm.save(corrected, tmp_path / "model.phimap", statistics=True)
    loaded = pm.load(tmp_path / "model.phimap")
    np.testing.assert_array_equal(loaded.predict(X[:100]), corrected.predict(X[:100]))
    loaded.partial_fit(X[N_ROWS:], y[N_ROWS:])
    assert loaded.corrections_ is None


@pytest.mark.parametrize("root", [None, np.array([2.0, 1.0]), np.diag([2.0, 1.0])], ids=["none", "diagonal", "full"])
def test_every_form_of_root_is_saved(root, corrected, data, tmp_path):
    parts = replace(corrected.corrections_, root=root)
    model = clone(corrected)
    model.__dict__ |= corrected.__dict__ | {"_fitted": replace(corrected._fitted, corrections=parts)}
    pm.save(model, tmp_path / "model.phimap")
    X = data[0][:50]
    np.testing.assert_array_equal(pm.load(tmp_path / "model.phimap").predict(X), model.predict(X))


def test_batches_give_the_same(data, corrected):
    X, y = data
    batches = [(X[start : start + 1024], y[start : start + 1024]) for start in range(0, N_ROWS, 1024)]
    streamed = pm.KernelRegressor(**SETTINGS).fit_batches(batches)
    np.testing.assert_allclose(streamed.predict(X[N_ROWS:]), corrected.predict(X[N_ROWS:]), atol=2e-3)


def test_targets_far_from_zero(data, corrected):
    X, y = data
    moved = pm.KernelRegressor(**SETTINGS).fit(X[:N_ROWS], 1e9 + y[:N_ROWS])
    assert moved.corrections_ is not None
    # The targets are rounded to 1e-7, and the search may take another path.
    errors = [
        np.sqrt(np.mean((model.predict(X[N_ROWS:]) - shift - y[N_ROWS:]) ** 2))
        for model, shift in ((moved, 1e9), (corrected, 0))
    ]
    assert errors[0] < 1.03 * errors[1]


def test_classes_and_their_probabilities(data):
    X, y = data
    labels = np.digitize(y, [-0.3, 0.3])
    model = pm.KernelClassifier(**SETTINGS).fit(X[:N_ROWS], labels[:N_ROWS])
    plain = pm.KernelClassifier(**SETTINGS, corrections=None).fit(X[:N_ROWS], labels[:N_ROWS])
    assert model.corrections_ is not None
    assert model.score(X[N_ROWS:], labels[N_ROWS:]) > plain.score(X[N_ROWS:], labels[N_ROWS:]) + 0.05
    sure = model.predict_proba(X[N_ROWS:]).max(axis=1)
    right = model.predict(X[N_ROWS:]) == labels[N_ROWS:]
    # The standard error of the difference is about 0.01.
    assert abs(sure.mean() - right.mean()) < 0.04


def test_a_smooth_target_needs_none(rng):
    X = rng.uniform(-1, 1, (N_ROWS, 2)).astype(np.float32)
    y = X[:, 0] + X[:, 1] ** 2 + 0.1 * rng.standard_normal(N_ROWS)
    assert pm.KernelRegressor(**SETTINGS).fit(X, y).corrections_ is None


def test_what_they_may_be_is_checked(rng):
    with pytest.raises(ValueError, match="`corrections` must be one of 'auto', None, got 'always'"):
        pm.KernelRegressor(corrections="always").fit(rng.standard_normal((30, 2)), np.arange(30.0))


def test_without_memory_for_rows_left_out_there_are_no_intervals(data, monkeypatch):
    """The corrections are the same. Mutant: intervals from rows that the corrections have seen."""
    X, y = data
    model = pm.KernelRegressor(**SETTINGS).fit(X[:N_ROWS], y[:N_ROWS])
    assert model.conformal_ is not None
    monkeypatch.setattr("phimap.learn.correct.left_out_memory", lambda n_left_out: 2**60)
    other = pm.KernelRegressor(**SETTINGS).fit(X[:N_ROWS], y[:N_ROWS])
    assert other.conformal_ is None
    # The order in which a region is factorised, and with it the rounding, depends on the rows that may be left out.
    np.testing.assert_allclose(other.predict(X[N_ROWS:]), model.predict(X[N_ROWS:]), rtol=1e-3, atol=1e-4)


def test_a_small_budget_leaves_no_room_for_them(data):
    X, y = data
    model = pm.KernelRegressor(**SETTINGS, memory="100MB").fit(X[:N_ROWS], y[:N_ROWS])
    assert model.corrections_ is None
