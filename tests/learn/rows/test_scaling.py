"""Streamed moments: the same as those of all rows, without cancellation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import phimap as pm
from phimap.learn.rows.column_forms import Squash
from phimap.learn.rows.scaling import ColumnMoments, Scaling
from phimap.ops import ops_for

EPS = np.finfo(np.float64).eps


def moments(*batches):
    result = ColumnMoments.empty(batches[0].shape[1])
    for batch in batches:
        result.update(batch)
    return result


@pytest.mark.parametrize("cuts", [[], [1], [10, 11, 200], list(range(1, 300))])
def test_batches_add_up_to_the_whole(cuts, rng):
    X = rng.standard_normal((300, 4)) * [1, 10, 0.01, 1] + [0, 3, 0, -7]
    found = moments(*np.split(X, cuts))
    assert found.n == 300
    # Every merge rounds the mean and the sum once or twice.
    np.testing.assert_allclose(found.mean, X.mean(axis=0), rtol=0, atol=4 * 300 * EPS * np.abs(X).max())
    np.testing.assert_allclose(found.squared_deviations, 300 * X.var(axis=0), rtol=8 * 300 * EPS)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layouts_agree(layout, dtype, rng):
    X = (rng.standard_normal((200, 5)) * (rng.random((200, 5)) < 0.3)).astype(dtype)
    found = moments(layout(X[:70]), layout(X[70:]))
    # Squares of CSR entries are formed in their dtype; 200 of them are added.
    rtol = 200 * np.finfo(dtype).eps
    np.testing.assert_allclose(found.mean, X.mean(axis=0, dtype=float), rtol=0, atol=rtol)
    np.testing.assert_allclose(found.squared_deviations, 200 * X.astype(float).var(axis=0), rtol=rtol)
    assert found.sparse == sparse.issparse(layout(X))


def test_large_offset_does_not_cancel(rng):
    X = rng.standard_normal((1000, 3)) + 1e8
    found = moments(*np.split(X, 10))
    centred = X - 1e8
    # Means are known to the rounding of numbers near 1e8, that is to 1.5e-8, and spreads to twice that.
    np.testing.assert_allclose(found.squared_deviations, 1000 * centred.var(axis=0), rtol=8 * EPS * 1e8)
    naive = np.square(X).sum(axis=0) - 1000 * X.mean(axis=0) ** 2
    assert not np.allclose(naive, 1000 * centred.var(axis=0), rtol=8 * EPS * 1e8)
    assert found.constant_columns().size == 0


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e8 / 3, -1e-300])
def test_constant_columns_become_zero(value, rng):
    X = rng.standard_normal((90, 3))
    X[:, 1] = value
    found = moments(*np.split(X, 3))
    np.testing.assert_array_equal(found.constant_columns(), [1])
    scaling = found.scaling("columns")
    scaled = scaling.apply(ops_for(X), X)
    np.testing.assert_allclose(scaled[:, 1], 0, atol=8 * EPS * abs(value))
    np.testing.assert_allclose(scaled[:, [0, 2]].std(axis=0), 1, rtol=90 * EPS)
    np.testing.assert_allclose(scaled[:, [0, 2]].mean(axis=0), 0, atol=90 * EPS)


def test_one_factor_for_all_columns_leaves_their_ratios(rng):
    X = rng.standard_normal((300, 3)) * [1, 2, 4] + 5
    scaled = moments(X).scaling("global").apply(ops_for(X), X)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=300 * EPS)
    np.testing.assert_allclose(scaled.var(axis=0).mean(), 1, rtol=300 * EPS)
    ratios = scaled.std(axis=0) / X.std(axis=0)
    np.testing.assert_allclose(ratios, ratios[0], rtol=300 * EPS)


def test_no_scaling_is_the_identity(rng):
    X = rng.standard_normal((30, 3))
    np.testing.assert_array_equal(moments(X).scaling(False).apply(ops_for(X), X), X)


def test_sparse_rows_are_scaled_and_not_shifted(rng):
    X = sparse.csr_matrix(np.abs(rng.standard_normal((50, 3))) * [1, 2, 3])
    scaling = moments(X).scaling("columns")
    assert not scaling.shift.any()
    scaled = scaling.apply(ops_for(X), X)
    assert sparse.issparse(scaled)
    np.testing.assert_allclose(scaled.toarray().std(axis=0), 1, rtol=50 * EPS)


def test_nothing_seen_gives_the_identity():
    scaling = ColumnMoments.empty(3).scaling("columns")
    np.testing.assert_array_equal(scaling.shift, np.zeros(3))
    np.testing.assert_array_equal(scaling.factor, np.ones(3))


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_weights_are_repeated_rows(layout, rng):
    X = rng.standard_normal((200, 4)) * (rng.random((200, 4)) < 0.6) + [0, 3, 0, -7]
    weights = rng.integers(1, 5, 200)
    found, expected = ColumnMoments.empty(4), moments(np.repeat(X, weights, axis=0))
    for part in (slice(0, 30), slice(30, 200)):
        found.update(layout(X[part]), weights[part].astype(float))
    assert found.n == expected.n
    np.testing.assert_allclose(found.mean, expected.mean, rtol=0, atol=1e-13)
    np.testing.assert_allclose(found.squared_deviations, expected.squared_deviations, rtol=1e-12)
    # Weights that add up to less than one row.
    small = ColumnMoments.empty(4)
    small.update(layout(X), weights / 1e6)
    np.testing.assert_allclose(small.scaling("columns").factor, expected.scaling("columns").factor, rtol=1e-12)


def test_auto_scales_the_columns_of_dense_rows_alone(rng):
    X = rng.standard_normal((50, 3)) * [1, 10, 100]
    dense, rows = moments(X), moments(sparse.csr_matrix(X))
    np.testing.assert_array_equal(dense.scaling("auto").factor, dense.scaling("columns").factor)
    np.testing.assert_array_equal(rows.scaling("auto").factor, np.ones(3))
    assert not np.array_equal(rows.scaling("columns").factor, np.ones(3))


def test_squashing_is_linear_in_the_middle_and_logarithmic_in_the_tails(rng):
    X = rng.standard_normal((4000, 3))
    assert Squash.of_sample(X) is None
    X[0, 1] = 1e6
    squash = Squash.of_sample(X)
    assert squash is not None
    ops = ops_for(X)
    points = np.array([[0.1, 0.1, 0.1], [1e6, 1e6, 1e6]])
    near, far = squash.bind(ops).apply(ops, points)
    # Robust deviations of 4,000 normal numbers are known to 2 %.
    np.testing.assert_allclose(near, 0.1, atol=0.06)
    np.testing.assert_allclose(far, np.log(2e6), rtol=0.01)


def test_columns_of_few_values_are_squashed_by_their_deviation():
    X = np.zeros((1000, 2))
    X[:50, 0], X[:, 1], X[0, 1] = 1.0, np.arange(1000), 1e9
    squash = Squash.of_sample(X)
    assert squash is not None
    assert squash.factor[0] == pytest.approx(1 / X[:, 0].std())


def test_squashed_columns_are_standardised(rng):
    X = np.exp(3 * rng.standard_normal((2000, 2))).astype(np.float32)
    squash = Squash.of_sample(X)
    assert squash is not None
    scaled = Scaling.of_form(squash, X).bind(ops_for(X)).apply(ops_for(X), X)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(axis=0), 1, atol=1e-5)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_columns_whose_spread_float32_cannot_invert_are_refused_by_name():
    X = 1e-40 * np.random.default_rng(0).standard_normal((60, 3))
    model = pm.KernelRegressor("gaussian", n_components=16, random_state=0)
    with pytest.raises(ValueError, match=r"`X` is too near 0 for float32: .* Scale X, or pass float64"):
        model.fit(X.astype(np.float32), X[:, 0])
    assert np.isfinite(model.fit(X, X[:, 0]).predict(X)).all()
