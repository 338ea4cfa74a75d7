"""Leverage scores from a weighted sample: exact from all items, unbiased samples, errors of the estimates."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.features.data_dependent.dictionaries import METHODS, Dictionary, Items
from tests.support.statistics import is_mean

KERNEL = pm.kernels.Gaussian(length_scale=1.5)


def clusters(n: int) -> np.ndarray:
    """Rows of a dense cluster, with one row in thirty of a wide one."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, 4)) * np.where(np.arange(n) % 30 == 0, 2.0, 0.5)[:, None]
    return rng.permutation(rows)


def items_of(X: np.ndarray) -> Items:
    return Items(KERNEL.diag(X)[:, None], lambda a, b: KERNEL(X[a], X[b]))


def test_all_items_give_the_exact_scores():
    X = clusters(60)
    everything = Dictionary(np.arange(60), np.ones(60))
    exact = pm.metrics.leverage_scores(KERNEL, 0.5, X)
    np.testing.assert_allclose(everything.scores(items_of(X), 0.5, np.arange(60)), exact, rtol=1e-9)
    # Items of two vectors: columns 2j and 2j + 1 of V belong to item j.
    V = np.random.default_rng(1).standard_normal((8, 40))
    columns = lambda places: V[:, (2 * places[:, None] + [0, 1]).ravel()]  # noqa: E731
    pairs = Items(np.square(V).sum(axis=0).reshape(20, 2), lambda a, b: columns(a).T @ columns(b))
    found = Dictionary(np.arange(20), np.ones(20)).scores(pairs, 3.0, np.array([4, 7]))
    leverage = np.diagonal(V.T @ np.linalg.inv(V @ V.T + 3.0 * np.eye(8)) @ V).reshape(20, 2).sum(axis=1)
    np.testing.assert_allclose(found, leverage[[4, 7]], rtol=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_samples_represent_every_item_once_in_the_mean(name):
    """Over seeds, false-alarm rate 1e-6; mutant: counts that leave out how often an item occurs."""
    X = clusters(150)
    items, weights, mutant = items_of(X), np.zeros((300, 150)), np.zeros((300, 150))
    for seed in range(300):
        found = METHODS[name](items, 4.0, 2.0, np.random.default_rng(seed))
        assert len(set(found.places.tolist())) == len(found.places)
        weights[seed, found.places] = 1 / found.counts
        mutant[seed, found.places] = 1
    # Rows of small score are rare in the samples, so that sums over groups of rows are compared.
    groups = np.argsort(KERNEL(X).sum(axis=1)).reshape(10, 15)
    assert is_mean(weights[:, groups].sum(axis=2), np.full(10, 15.0))
    assert not is_mean(mutant[:, groups].sum(axis=2), np.full(10, 15.0))


@pytest.mark.parametrize("name", METHODS)
def test_estimates_are_near_the_scores(name):
    """Within a factor of two; mutant: a sample that is not weighted."""
    X = clusters(1500)
    items, every, exact = items_of(X), np.arange(1500), pm.metrics.leverage_scores(KERNEL, 1.0, X)
    sample = METHODS[name](items, 1.0, 16.0, np.random.default_rng(0))
    assert len(sample.places) < 0.7 * 1500
    ratio = sample.scores(items, 1.0, every) / exact
    assert ratio.min() > 1 / 2
    assert ratio.max() < 2
    assert np.abs(ratio - 1).mean() < 0.2
    unweighted = Dictionary(sample.places, np.ones(len(sample.places))).scores(items, 1.0, every) / exact
    assert np.abs(unweighted - 1).mean() > 0.3


@pytest.fixture(scope="module")
def exact_sum():
    """Of the exact scores of two thousand rows."""
    return pm.metrics.leverage_scores(KERNEL, 20.0, clusters(2000)).sum()


@pytest.mark.parametrize("name", METHODS)
def test_the_metric_needs_no_matrix_of_all_rows(name, exact_sum):
    X = clusters(2000)
    with pm.config(memory="28MB"):
        with pytest.raises(MemoryError, match="a kernel matrix of order 2000"):
            pm.metrics.leverage_scores(KERNEL, 20.0, X)
        scores = pm.metrics.leverage_scores(KERNEL, 20.0, X, method=name)
    assert scores.sum() == pytest.approx(exact_sum, rel=0.25)
    of_matrix = pm.metrics.leverage_scores(KERNEL(X[:200]), 3.0, method=name)
    np.testing.assert_allclose(of_matrix, pm.metrics.leverage_scores(KERNEL, 3.0, X[:200], method=name), rtol=1e-6)


def test_zero_kernels_and_wrong_methods():
    for name in METHODS:
        assert not pm.metrics.leverage_scores(np.zeros((5, 5)), 1.0, method=name).any()
    with pytest.raises(ValueError, match="`method` must be one of"):
        pm.metrics.leverage_scores(np.eye(2), 1.0, method="offline")
    with pytest.raises(ValueError, match="`oversampling` must be at least 1"):
        pm.metrics.leverage_scores(np.eye(2), 1.0, method="online", oversampling=0.5)
