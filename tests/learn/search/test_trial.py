"""Trials: held-out errors of ridge regression on small maps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import phimap as pm
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.trial import run_trial


def sample_of(n_rows, rng, weights=None):
    X = rng.standard_normal((n_rows, 3))
    Y = np.stack([np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n_rows), X[:, 1]], axis=1)
    return SearchSample(X, Y, np.ones(n_rows) if weights is None else weights)


def feature_map():
    return pm.FourierFeatures(pm.kernels.Gaussian(2.0), 64, random_state=0)


@pytest.mark.parametrize("n_rows", [450, 2100])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_error_is_that_of_ridge_regression_at_its_best_alpha(n_rows, weighted, rng):
    weights = rng.integers(1, 4, n_rows).astype(float) if weighted else np.ones(n_rows)
    sample = sample_of(n_rows, rng, weights)
    folds = sample.folds()
    assert len(folds) == (3 if n_rows == 450 else 1)
    Z = feature_map().fit(sample.X).transform(sample.X)
    mean = np.average(sample.Y, axis=0, weights=weights)
    spread = np.average(np.square(sample.Y - mean).sum(axis=1), weights=weights)
    curve = []
    for alpha in np.geomspace(1e-4, 1e2, 60):
        total = held_out_weight = 0.0
        for training, held_out in folds:
            ridge = Ridge(alpha).fit(Z[training], sample.Y[training], weights[training])
            total += weights[held_out] @ np.square(ridge.predict(Z[held_out]) - sample.Y[held_out]).sum(axis=1)
            held_out_weight += weights[held_out].sum()
        curve.append(total / held_out_weight / spread)
    found = run_trial(feature_map, (None,) * len(folds), sample).error
    # The grid has half decades.
    assert min(curve) * (1 - 1e-6) <= found <= 1.05 * min(curve)
    # A mutant: the error on the training rows.
    training = folds[0][0]
    ridge = Ridge(1e-4).fit(Z[training], sample.Y[training])
    mutant = np.square(ridge.predict(Z[training]) - sample.Y[training]).sum(axis=1).mean() / spread
    assert mutant < min(curve) * (1 - 1e-6)


@pytest.mark.parametrize("n_rows", [2, 3, 7, 100, 1499, 1500, 9000])
def test_no_row_is_held_out_of_its_own_training_rows(n_rows, rng):
    folds = sample_of(n_rows, rng).folds()
    held_out = np.concatenate([part for _, part in folds])
    assert len(np.unique(held_out)) == len(held_out)
    assert n_rows >= 1500 or len(held_out) == n_rows
    for training, part in folds:
        assert len(training) + len(part) == n_rows
        assert not np.isin(training, part).any()


@pytest.mark.parametrize(
    ("n_rows", "held_out"), [(1499, [500, 500, 499]), (1500, [500]), (9000, [2250]), (30_000, [4096])]
)
def test_at_least_500_rows_are_held_out_in_all(n_rows, held_out, rng):
    assert [len(part) for _, part in sample_of(n_rows, rng).folds()] == held_out


def test_the_latest_rows_are_held_out_at_most_a_third(rng):
    sample = replace(sample_of(600, rng), places=np.arange(600), in_time=True)
    ((training, held_out),) = sample.folds()
    np.testing.assert_array_equal(held_out, np.arange(200))
    np.testing.assert_array_equal(training, np.arange(200, 600))


def test_a_root_is_a_step_before_the_map(rng):
    sample, root = sample_of(200, rng), np.array([0.5, 2.0, 1.0])
    scaled = SearchSample(sample.X * root, sample.Y, sample.weights)
    expected = run_trial(feature_map, (None,) * 3, scaled).error
    for form in (root, np.diag(root)):
        assert run_trial(feature_map, (form,) * 3, sample).error == pytest.approx(expected, rel=1e-9)
    assert run_trial(feature_map, (None,) * 3, sample).error != pytest.approx(expected, rel=1e-3)
