"""Rows far outside of the training rows: told once, and drawn back to the mean by stationary kernels."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import phimap as pm
from phimap.learn.extrapolation import OutsideWarning
from phimap.learn.rows.scaling import ColumnMoments, ColumnRange
from phimap.learn.rows.summary import RowSummary
from tests.support.learners import features_of

ROOT = Path(__file__).parents[2]
FAR = np.array([[40.0, 0.0], [0.1, 0.1], [-3e9, 1e5]])


@pytest.fixture
def rows(rng):
    X = rng.uniform(-1, 1, (600, 2))
    return X, 5 + np.sin(3 * X[:, 0]) * X[:, 1]


def unfitted(kernel="gaussian", **settings):
    width = {"length_scale": 0.7} if kernel == "gaussian" else {}
    return pm.KernelRegressor(kernel, 64, metric=None, random_state=0, **width, **settings)


def features_alone(model, X):
    """What the coefficients give without drawing back: the mutant."""
    return features_of(model, X) @ model.coef_ + model.constant_


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_stationary_kernels_go_back_to_the_mean(rows, solver, loss):
    """Issue 18, row 13. Mutant: the features alone, which oscillate as far out as within the data."""
    X, y = rows
    model = unfitted(solver=solver, loss=loss).fit(X, y)
    with pytest.warns(OutsideWarning, match=r"67 % of the rows \(2 of 3\) .* in column '0', which was -0\.9"):
        found = model.predict(FAR)
    np.testing.assert_allclose(found[[0, 2]], y.mean(), atol=0.05)
    mutant = features_alone(model, FAR)
    np.testing.assert_allclose(mutant[1], found[1])
    assert np.abs(mutant - y.mean())[[0, 2]].min() > 0.05


def test_targets_far_from_0_go_back_to_their_mean(rows):
    X, y = rows
    model = unfitted().fit(X.astype(np.float32), y + 1.7e9)
    with pytest.warns(OutsideWarning):
        found = model.predict(FAR.astype(np.float32))
    np.testing.assert_allclose(found[0] - 1.7e9, y.mean(), atol=0.05)


def test_one_warning_a_call_that_names_the_caller(rows):
    X, y = rows
    model = unfitted().fit(X, y)
    many = np.tile(FAR, (4000, 1))
    for call in (model.predict, lambda X: model.predict(X, return_std=True)):
        with pytest.warns(OutsideWarning) as told:
            call(many)
        assert [(warning.filename, warning.message.n_far) for warning in told] == [(__file__, 8000)]


def test_rows_near_the_range_are_left_alone(rows):
    X, y = rows
    model = unfitted().fit(X, y)
    near = np.array([[1.05, 0.0], [0.0, -1.9], [0.5, 0.5]])
    found = model.predict(near)
    np.testing.assert_allclose(found, features_alone(model, near))


def test_the_way_back_has_no_step(rows):
    """Mutant: all or nothing where the kernel falls below a half."""
    X, y = rows
    model = unfitted().fit(X, y)
    line = np.column_stack([np.linspace(1, 8, 4001), np.zeros(4001)])
    with pytest.warns(OutsideWarning):
        found = model.predict(line)
    alone = features_alone(model, line)
    assert np.abs(np.diff(found)).max() < 2 * np.abs(np.diff(alone)).max()
    assert abs(found[-1] - y.mean()) < 0.02
    mutant = np.where(np.arange(4001) < np.flatnonzero(np.abs(found - alone) > 1e-9)[0], alone, y.mean())
    assert np.abs(np.diff(mutant)).max() > 2 * np.abs(np.diff(alone)).max()


@pytest.mark.parametrize("kernel", ["polynomial", "ntk"])
def test_other_kernels_grow_and_say_so(rows, kernel):
    X, y = rows
    model = unfitted(kernel).fit(pd.DataFrame(X, columns=["area", "rooms"]), y)
    expected = "1e\\+06 in column 'rooms', which was -0.99.*: their predictions are extrapolated"
    far = pd.DataFrame([[0.0, 1e6]], columns=["area", "rooms"])
    with pytest.warns(OutsideWarning, match=expected):
        found = model.predict(far)
    np.testing.assert_allclose(found, features_alone(model, far))


def test_additive_kernels_tell_of_one_far_column(rng):
    """Seven eighths of such a kernel know nothing of the column."""
    X = rng.uniform(-1, 1, (600, 8))
    model = pm.KernelRegressor(pm.kernels.Additive(pm.kernels.Gaussian(), 1), 64, random_state=0).fit(X, X[:, 0])
    with pytest.warns(OutsideWarning):
        model.predict(np.eye(8)[:1] * 1e4)


def test_classes_far_outside_are_those_of_the_mean(rng):
    X = rng.uniform(-1, 1, (600, 2))
    y = np.where(X[:, 0] > 0.5, "few", "many")
    for loss in ("squared", "logistic"):
        model = pm.KernelClassifier("gaussian", 64, loss=loss, random_state=0, metric=None).fit(X, y)
        for call in (model.decision_function, model.predict_proba):
            with pytest.warns(OutsideWarning):
                call([[1e6, 0.0]])
        with pytest.warns(OutsideWarning):
            assert model.predict([[1e6, 0.0], [-1e6, 1e6]]).tolist() == ["many"] * 2


def test_added_rows_widen_the_range(rows):
    X, y = rows
    model = unfitted().partial_fit(X, y)
    other = unfitted().partial_fit(X, y)
    with pytest.warns(OutsideWarning):
        model.predict([[40.0, 0.0]])
    model.partial_fit([[40.0, 0.0], [39.0, 1.0]], [1.0, 2.0])
    other._state.origin = "elsewhere"
    other.merge(model)
    for one in (model, other):
        one.predict([[40.0, 0.0]])


def test_csr_rows_are_not_looked_at(rows):
    X, y = rows
    unfitted().fit(sparse.csr_matrix(X), y).predict(sparse.csr_matrix([[40.0, 0.0]]))


def test_a_saved_model_knows_the_range_and_one_without_it_loads(rows, tmp_path):
    X, y = rows
    model = unfitted().fit(X, y)
    pm.save(model, tmp_path / "m.phimap")
    with pytest.warns(OutsideWarning):
        expected = model.predict(FAR)
    with pytest.warns(OutsideWarning):
        np.testing.assert_array_equal(pm.load(tmp_path / "m.phimap").predict(FAR), expected)
    mapped = replace(model._fitted.map, range=None)
    model._fitted = replace(model._fitted, map=mapped)
    pm.save(model, tmp_path / "old.phimap")
    old = pm.load(tmp_path / "old.phimap")
    np.testing.assert_allclose(old.predict(FAR), features_alone(old, FAR))


def test_threads_change_no_bit(rows):
    X, y = rows
    many = np.random.default_rng(0).standard_normal((9000, 2)) * 20
    found = []
    for n_jobs in (1, 2):
        with pytest.warns(OutsideWarning):
            found.append(unfitted(n_jobs=n_jobs).fit(X, y).predict(many))
    np.testing.assert_array_equal(*found)


def test_blocks_of_dask_are_drawn_back(rows):
    da = pytest.importorskip("dask.array")
    X, y = rows
    model = unfitted().fit(X, y)
    with pytest.warns(OutsideWarning):
        expected = model.predict(FAR)
    with pytest.warns(OutsideWarning):
        # In this thread, because a cluster that another test has left without workers would wait for ever.
        found = model.predict(da.from_array(FAR, chunks=(2, 2))).compute(scheduler="synchronous")
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("columns", [1, 7, 400, 2000])
def test_the_ends_are_those_of_the_columns(rng, columns):
    X = rng.standard_normal((113, columns))
    for rows in (X, X[:1], np.asfortranarray(X)):
        kept = ColumnRange()
        kept.update(rows[: len(rows) // 2])
        kept.update(rows[len(rows) // 2 :])
        np.testing.assert_array_equal([kept.low, kept.high], [rows.min(axis=0), rows.max(axis=0)])


def settled(X):
    """The range of rows, settled by themselves."""
    moments, kept = ColumnMoments.empty(X.shape[1]), ColumnRange()
    moments.update(X)
    kept.update(X)
    return kept.settled(moments, X)


def test_rare_values_widen_a_range_more(rng):
    """A column that is mostly 0: its range says little. Mutant: the same share of the range for all columns."""
    X = np.column_stack([rng.uniform(0, 16, 2000), np.zeros(2000)])
    X[:3, 1] = 1.0
    kept = settled(X)
    far = kept.out_of_range(np.array([[24.5, 0.0], [8.0, 5.0], [8.0, 1e4]]))
    assert far.tolist() == [0, 2]
    mutant = settled(X)
    mutant.margin = 0.5 * (mutant.high - mutant.low)
    assert mutant.out_of_range(np.array([[8.0, 5.0]])).tolist() == [0]


def test_the_first_pass_merges_ranges(rng):
    X, y = rng.standard_normal((50, 3)), np.zeros(50)
    parts = [RowSummary.start(first, seed=0, labels=False) for first in (0, 20)]
    parts[0].update(X[:20], y[:20], None)
    parts[1].update(X[20:], y[20:], None)
    parts[0].merge(parts[1])
    np.testing.assert_array_equal(parts[0].columns.high, X.max(axis=0))


@pytest.fixture
def script(monkeypatch):
    """The script that measures the rule on real tables."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import far_rows

    yield far_rows
    sys.modules.pop("far_rows")


@pytest.mark.parametrize("kernel", ["gaussian", "ntk"])
def test_held_out_digits_are_near(script, kernel):
    found = script.measured("digits", 1200, kernel, None, n_components=128, metric=None)
    assert found["far"] == 0.0
    assert found["score"] == found["score without"]
    # A Gaussian model returns to the mean far away. Without its range, it would continue its slopes.
    assert kernel != "gaussian" or found["reach"] < 0.01 < found["reach without"]


@pytest.mark.skipif("PHIMAP_DATA" not in os.environ, reason="needs the folder that PHIMAP_DATA names")
@pytest.mark.parametrize("kernel", ["gaussian", "ntk", "polynomial"])
@pytest.mark.parametrize("name", ["mnist", "pol", "cpu_act", "keggdirected"])
def test_held_out_rows_of_real_tables_are_near(script, name, kernel):
    """Less than 1 % are told of, and scores change by less than 0.1 %. Mutant: ranges that are not widened."""
    settings = {"n_components": 128, "metric": None, "length_scale": "median"} if kernel == "gaussian" else {}
    found = script.measured(name, 2000, kernel, Path(os.environ["PHIMAP_DATA"]), **{"metric": None, **settings})
    assert found["far"] < 0.01
    assert abs(found["score"] - found["score without"]) < 1e-3
    if kernel == "gaussian":
        assert found["reach"] < 0.01 < found["reach without"]


def test_ordinary_rows_warn_of_nothing(rng):
    """Normal, lognormal and uniform columns, half of which are 0 but for a few rows; warnings are errors here."""
    columns = [rng.standard_normal(4000), rng.lognormal(size=4000), rng.uniform(size=4000)]
    X = np.column_stack([*columns, *(column * (rng.uniform(size=4000) < 0.01) for column in columns)])
    y = X[:, 0] + rng.standard_normal(4000)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OutsideWarning)
        for kernel in ("gaussian", "ntk", "polynomial"):
            unfitted(kernel).fit(X[:2000], y[:2000]).predict(X[2000:])
