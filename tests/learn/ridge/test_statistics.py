"""Sums over rows, against the same sums formed at once in float64."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.learn.blocks.blocks import FeatureRows, feature_block
from phimap.learn.ridge.statistics import RidgeStatistics

# More than one block of columns, the last one short.
WIDTH = 530
FIELDS = ("cross", "sum_z", "sum_y", "sum_yy")


def rows(n: int, rng: np.random.Generator, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    Z = rng.standard_normal((n, WIDTH)) + 0.3
    return Z.astype(dtype), rng.standard_normal((n, 2)) - 1.0


def sums(*batches: tuple[np.ndarray, np.ndarray], n_jobs: int | None = None) -> RidgeStatistics:
    statistics = RidgeStatistics.empty(WIDTH, 2)
    for Z, Y in batches:
        statistics.update(Z, Y, n_jobs)
    return statistics


def assert_same(found: RidgeStatistics, expected: RidgeStatistics, eps: float) -> None:
    """Equal to rounding at `eps` of sums of n products, each bounded by the squares of the rows."""
    assert found.n == expected.n
    largest = max(expected.gram.diagonal().max(), expected.sum_yy.max())
    atol = 2 * eps * expected.n * largest
    np.testing.assert_allclose(found.gram.to_dense(), expected.gram.to_dense(), rtol=0, atol=atol)
    for name in FIELDS:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_are_the_products_of_all_rows(dtype, rng):
    Z, Y = rows(90, rng, dtype)
    found = sums((Z[:40], Y[:40]), (Z[40:], Y[40:]))
    wide = Z.astype(np.float64)
    eps = np.finfo(dtype).eps
    assert (found.n, found.eps) == (90, eps)
    # Rounding of a sum of 90 products, each bounded by the product of two columns' norms.
    atol = eps * 90 * (wide**2).sum(axis=0).max()
    np.testing.assert_allclose(found.gram.to_dense(), wide.T @ wide, rtol=0, atol=atol)
    np.testing.assert_allclose(found.cross, wide.T @ Y, rtol=0, atol=atol)
    centred, deviations = wide - wide.mean(axis=0), Y - Y.mean(axis=0)
    np.testing.assert_allclose(found.centred_gram().to_dense(), centred.T @ centred, rtol=0, atol=atol)
    np.testing.assert_allclose(found.centred_cross(), centred.T @ deviations, rtol=0, atol=atol)
    np.testing.assert_allclose(found.centred_squares(), (deviations**2).sum(axis=0), rtol=90 * eps)


def test_parts_add_up_and_are_taken_away(rng):
    first, second = rows(50, rng), rows(30, rng)
    whole, part = sums(first, second), sums(first)
    eps = np.finfo(np.float64).eps
    kept = part.gram.data.copy()
    assert_same(part.merge(sums(second)), whole, eps)
    np.testing.assert_array_equal(part.gram.data, kept)
    assert_same(whole.without(FeatureRows(feature_block(second[0]), *second[1:])), part, eps * 80 / 50)
    assert_same(sums(first, second), whole, 0.0)


def test_coarsest_precision_is_remembered(rng):
    single, double = sums(rows(20, rng, np.float32)), sums(rows(20, rng))
    assert single.merge(double).eps == double.merge(single).eps == np.finfo(np.float32).eps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_number_of_threads_changes_no_bit(dtype, rng):
    batch = rows(200, rng, dtype)
    assert_same(sums(batch, n_jobs=1), sums(batch, n_jobs=2), 0.0)


@pytest.mark.parametrize("order", ["C", "F"])
def test_layout_of_the_rows_does_not_matter(order, rng):
    Z, Y = rows(40, rng)
    assert_same(sums((np.asarray(Z, order=order), Y)), sums((Z, Y)), np.finfo(np.float64).eps)
    assert_same(sums((np.repeat(Z, 2, axis=1)[:, ::2], Y)), sums((Z, Y)), np.finfo(np.float64).eps)


def test_subset_is_the_statistics_of_its_columns(rng):
    Z, Y = rows(40, rng)
    columns = np.concatenate([[517, 3], np.arange(100, 110)])
    found = sums((Z, Y)).subset(columns)
    expected = RidgeStatistics.empty(columns.size, 2)
    expected.update(Z[:, columns], Y)
    assert_same(found, expected, np.finfo(np.float64).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_in_the_targets_costs_no_precision(dtype, rng):
    Z, Y = rows(80, rng, dtype)
    offset = 2.0**20
    wide, deviations = Z.astype(np.float64), Y - Y.mean(axis=0)
    expected = (wide - wide.mean(axis=0)).T @ deviations
    # The deviations are rounded as ever; the offset enters in float64 alone.
    atol = (
        80
        * np.linalg.norm(wide, axis=0).max()
        * (np.finfo(dtype).eps * np.linalg.norm(deviations) + 4 * np.finfo(np.float64).eps * offset * np.sqrt(80))
    )
    np.testing.assert_allclose(sums((Z, Y + offset)).centred_cross(), expected, rtol=0, atol=atol)
    if dtype is np.float32:
        # What a product with the raw targets in float32 gives is beyond the tolerance.
        raw = (Z.T @ (Y + offset).astype(dtype)).astype(np.float64)
        raw -= np.outer(wide.sum(axis=0), (Y + offset).mean(axis=0))
        assert np.abs(raw - expected).max() > atol


def test_no_rows_change_nothing(rng):
    batch = rows(20, rng)
    assert_same(sums(batch, (batch[0][:0], batch[1][:0])), sums(batch), 0.0)


def test_merging_other_features_is_an_error():
    with pytest.raises(ValueError, match=r"`other` must have features and targets \(4, 1\), got \(4, 2\)"):
        RidgeStatistics.empty(4, 1).merge(RidgeStatistics.empty(4, 2))


def test_single_precision_batches_are_summed_in_double(rng):
    # Whole numbers whose batch sums are exact in float32; their total passes 2**24, beyond which float32 is not.
    Z = rng.integers(-40, 41, size=(64, WIDTH)).astype(np.float32)
    Z[:, 0] = 511
    Y = np.zeros((64, 1))
    statistics = RidgeStatistics.empty(WIDTH, 1)
    for _ in range(3):
        statistics.update(Z, Y)
    assert statistics.gram.entries(np.array([0]), np.array([0]))[0, 0] == 3 * 64 * 511**2 > 2**24
    whole = Z.astype(np.float64)
    np.testing.assert_array_equal(statistics.gram.to_dense(), 3 * (whole.T @ whole))
    np.testing.assert_array_equal(statistics.sum_z, 3 * whole.sum(axis=0))
    statistics.update(Z, Y, sign=-1)
    np.testing.assert_array_equal(statistics.gram.to_dense(), 2 * (whole.T @ whole))
    assert statistics.n == 128
