"""Targets that float32 cannot hold: far from zero beside their range, or at the ends of the format."""

from __future__ import annotations

import copy
import re
from datetime import date

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.metrics import r2_score

import phimap as pm
from phimap.learn.targets.base import TargetUnits
from tests.support.learners import GAUSSIAN

N = 500


@pytest.fixture(params=["primal", "dual"])
def form(request, monkeypatch) -> str:
    if request.param == "primal":
        monkeypatch.setattr("phimap.learn.ridge.solver.LEAVE_ONE_OUT_ROWS", 0)
    return request.param


def seconds(n: int = N) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in float32, and minutes of one day in Unix seconds."""
    X = np.random.default_rng(0).uniform(-2, 2, (n, 2)).astype(np.float32)
    return X, 1.7e9 + 72 * (np.sin(X[:, 0].astype(float)) + X[:, 1])


def test_unix_seconds_keep_their_digits(form):
    X, y = seconds()
    model = pm.KernelRegressor(n_components=256, random_state=0, **GAUSSIAN).fit(X, y)
    predicted = model.predict(X)
    assert model.solution_.form == form
    assert predicted.dtype == np.float64
    assert model.score(X, y) > 0.995
    assert np.unique(predicted).size == N
    # In float32 a step at this offset is 128 seconds, more than the deviation.
    assert r2_score(y, predicted.astype(np.float32)) < 0.9
    near = pm.KernelRegressor(n_components=256, random_state=0, **GAUSSIAN).fit(X, y - 1.7e9)
    np.testing.assert_allclose(predicted - 1.7e9, near.predict(X), atol=0.1)
    assert model.coef_ @ np.ones(256) == pytest.approx(near.coef_ @ np.ones(256), rel=1e-3)
    assert model.constant_ == pytest.approx(1.7e9, rel=1e-3)


def test_offset_of_real_data(form):
    X, y = load_diabetes(return_X_y=True)
    X = X.astype(np.float32)
    model = pm.KernelRegressor(n_components=256, random_state=0, **GAUSSIAN)
    plain = clone(model).fit(X[:300], y[:300]).score(X[300:], y[300:])
    shifted = clone(model).fit(X[:300], y[:300] + 2e9)
    assert shifted.score(X[300:], y[300:] + 2e9) == pytest.approx(plain, abs=5e-3)


@pytest.mark.parametrize("size", [1e37, 1e39, 1e100, 1e-40, 1e-100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_size_of_the_targets_does_not_matter(form, size, dtype):
    X, y = seconds()
    X, y = X.astype(dtype), y - 1.7e9
    model = pm.KernelRegressor(n_components=128, random_state=0, **GAUSSIAN)
    predicted = clone(model).fit(X, size * y).predict(X)
    assert predicted.dtype == np.float64
    assert np.isfinite(predicted).all()
    np.testing.assert_allclose(predicted / size, clone(model).fit(X, y).predict(X), atol=0.2)


def test_several_targets_have_units_of_their_own(form):
    X, y = seconds()
    Y = np.stack([y - 1.7e9, 1e30 * (y - 1.7e9), y], axis=1)
    model = pm.KernelRegressor(n_components=128, random_state=0, **GAUSSIAN).fit(X, Y)
    assert (r2_score(Y / [1, 1e30, 1], model.predict(X) / [1, 1e30, 1], multioutput="raw_values") > 0.99).all()


def test_targets_beyond_squares_are_refused():
    X, y = seconds()
    for bad in (1e151, -1e300):
        with pytest.raises(ValueError, match=r"`y` must lie within 1e\+150 of 0.*got .*Rescale y") as raised:
            pm.KernelRegressor(n_components=8, **GAUSSIAN).fit(X, np.r_[y[:-1], bad])
        assert "\n" not in str(raised.value)


def test_later_rows_stay_near_the_first():
    X, y = seconds()
    model = pm.KernelRegressor(n_components=16, random_state=0, **GAUSSIAN).partial_fit(X, y)
    with pytest.raises(ValueError, match=r"`y` must be of the order of the first rows' targets, got .* Fit on all"):
        copy.deepcopy(model).partial_fit(X, 1e37 * y)
    near = pm.KernelRegressor(n_components=16, random_state=0, **GAUSSIAN).partial_fit(X, y - 1.7e9)
    with pytest.raises(ValueError, match=r"scaling, feature map and targets"):
        near.merge(model)
    model.partial_fit(X, y + 5)
    assert np.isfinite(model.predict(X)).all()


def test_parts_share_the_units_of_the_first(form):
    X, y = seconds()
    first = pm.KernelRegressor(n_components=32, alpha=0.1, random_state=0, **GAUSSIAN).partial_fit(X[:200], y[:200])
    one, two = copy.deepcopy(first), copy.deepcopy(first)
    one.partial_fit(X[200:400], y[200:400])
    two.partial_fit(X[400:], y[400:])
    whole = copy.deepcopy(first).partial_fit(X[200:], y[200:])
    np.testing.assert_allclose(one.merge(two, shared=first).predict(X), whole.predict(X), rtol=0, atol=1e-2)


def test_saved_models_predict_the_same_bits(tmp_path):
    X, y = seconds()
    model = pm.KernelRegressor(n_components=32, random_state=0, **GAUSSIAN).fit(X, y)
    pm.save(model, tmp_path / "m.phimap")
    np.testing.assert_array_equal(pm.load(tmp_path / "m.phimap").predict(X), model.predict(X))


def test_ordinary_targets_are_taken_as_they_are():
    for low, high in ((-1.0, 1.0), (1960, 2020), (0, 1e19), (0.0, 0.0)):
        assert TargetUnits.of_range(np.array([low]), np.array([high])).plain
    units = TargetUnits.of_range(np.array([7.0, -1.0]), np.array([7.0, 1.0]))
    np.testing.assert_array_equal(units.shift, [7.0, 0.0])
    assert units.exponent == 0


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e150])
def test_units_are_finite_and_exact(size):
    y = size * np.array([[1.0], [0.0], [-1.0]])
    units = TargetUnits.of_range(y.min(axis=0), y.max(axis=0))
    scaled = units.apply(y)
    assert 0.5 <= np.abs(scaled).max() <= 1
    np.testing.assert_array_equal(np.ldexp(scaled, units.exponent), y)


@pytest.mark.parametrize(
    ("targets", "shown"),
    [
        (["1.5", "2", "x", "4"], "'x' at row 2"),
        (["$1,500", "$2", "$7", "$4"], r"'\$1,500' at row 0"),
        ([1, 2.5, "x", 4], "'x' at row 2"),
        (pd.date_range("2020-01-01", periods=4), "'2020-01-01"),
        (pd.to_timedelta([1, 2, 3, 4], unit="h"), "at row 0"),
        ([date(2020, 1, 1)] * 4, "'2020-01-01' at row 0"),
    ],
)
def test_text_and_times_are_no_amounts(targets, shown):
    X = np.arange(8.0).reshape(4, 2)
    with pytest.raises(
        ValueError, match=f"^`y` must hold numbers, got .*{shown}.*Convert it.*, or use KernelClassifier[^\n]*$"
    ):
        pm.KernelRegressor("gaussian", n_components=8).fit(X, targets)


@pytest.mark.parametrize(
    ("cells", "amount"),
    [
        (["389.851,26 €", "611.256,07 €", "5 €", "17,50 €"], 389851.26),
        (["€ 1 250,5", "€ 80,25", "€ 3", "€ 9"], 1250.5),
        (["$1,500", "$2", "$7.25", "$4"], 1500.0),
        (["-1,234.5 kg", "2 kg", "7.25 kg", "4 kg"], -1234.5),
        # A recipe that keeps digits would keep that of the unit, and the sign of a label.
        (["40 m2", "2 m2", "7.25 m2", "4 m2"], None),
        (["A-12", "2", "3", "4"], None),
    ],
)
def test_the_recipe_for_amounts_reads_the_cell_that_is_quoted(cells, amount):
    with pytest.raises(ValueError, match=r"^`y` must hold numbers") as error:
        pm.KernelRegressor("gaussian", n_components=8).fit(np.arange(8.0).reshape(4, 2), cells)
    assert repr(cells[0]) in str(error.value)
    recipe = re.search(r"Convert it by (pd\.to_numeric.*), or use", str(error.value))
    assert (recipe is None) == (amount is None)
    if recipe is not None:
        found = eval(recipe[1], {"pd": pd, "y": pd.Series(cells)})
        assert found[0] == amount
