"""Forms of columns: squashed tails are tested with the scaling; here are ranks."""

import numpy as np
import pytest

import phimap as pm
from phimap.learn.rows.column_forms import Ranks
from phimap.ops import ops_for

STEP = np.sqrt(12) / 128


def ranks_of(form, X):
    return form.bind(ops_for(X)).apply(ops_for(X), X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ranks_are_the_shares_of_smaller_rows(dtype, rng):
    X = np.exp(2 * rng.standard_normal((4000, 2))).astype(dtype)
    found = ranks_of(Ranks.of_sample(X), X)
    shares = X.argsort(axis=0).argsort(axis=0) / len(X)
    assert found.dtype == dtype
    assert np.abs(found - np.sqrt(12) * (shares - 0.5)).max() < STEP


def test_monotone_changes_of_a_column_hardly_change_its_ranks(rng):
    X = rng.standard_normal((3000, 1))
    moved = np.exp(5 * X)
    assert np.abs(ranks_of(Ranks.of_sample(X), X) - ranks_of(Ranks.of_sample(moved), moved)).max() < STEP


def test_equal_values_have_the_middle_of_their_ranks():
    X = np.repeat([0.0, 1.0, 2.0], [500, 250, 250])[:, None]
    found = ranks_of(Ranks.of_sample(X), np.array([[-9.0], [0.0], [1.0], [2.0], [1e30]]))[:, 0]
    np.testing.assert_allclose(found, np.sqrt(12) * np.array([-0.25, -0.25, 0.125, 0.375, 0.375]), atol=STEP)


@pytest.mark.parametrize("column", [np.full(50, 7.0), np.r_[np.zeros(49), 1e-45], 1e38 * np.arange(-3.0, 3.0)])
def test_constant_tiny_and_huge_columns_stay_finite(column):
    for dtype in (np.float32, np.float64):
        X = column.astype(dtype)[:, None]
        found = ranks_of(Ranks.of_sample(X), X)
        assert np.isfinite(found).all()
        assert (np.diff(found[:, 0]) >= 0).all()


def test_columns_that_are_no_amounts_stay_as_they_are(rng):
    X = rng.standard_normal((500, 3))
    found = ranks_of(Ranks.of_sample(X, np.array([True, False, True])), X)
    np.testing.assert_array_equal(found[:, 1], X[:, 1])
    assert np.abs(found[:, 0]).max() <= np.sqrt(3)


@pytest.mark.usefixtures("brief_search")
def test_ranks_are_taken_where_they_pay(rng, tmp_path):
    # The target is a smooth function of the ranks, which no single length scale resolves in the columns themselves.
    u = rng.random((1600, 3))
    X = np.sign(u - 0.5) * np.abs(u - 0.5) ** 9
    y = np.sin(9 * u[:, 0]) + np.cos(7 * u[:, 1]) + 0.1 * rng.standard_normal(1600)
    models = [
        pm.KernelRegressor(n_components=256, effort="fast", standardize=kind, trees=None, random_state=0).fit(
            X[:1200], y[:1200]
        )
        for kind in ("auto", "columns")
    ]
    assert models[0].scaling_.ranks is not None
    errors = [np.mean((model.predict(X[1200:]) - y[1200:]) ** 2) for model in models]
    assert errors[0] < 0.7 * errors[1]
    pm.save(models[0], tmp_path / "model.phimap")
    np.testing.assert_array_equal(pm.load(tmp_path / "model.phimap").predict(X), models[0].predict(X))
