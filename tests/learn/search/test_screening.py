"""Screening of many columns: what it finds, how often it is wrong, and what a learner makes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import phimap as pm
from phimap.learn.search.metric import inverse_root, with_all_columns
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.screening import screened


def sample_of(X, y):
    Y = y[:, None] if y.ndim == 1 else y
    return SearchSample(X, Y, np.ones(len(X)))


def many(rng, n=400, d=1000):
    X = rng.standard_normal((n, d)).astype(np.float32)
    return X, np.sin(2 * X[:, 7]) + X[:, 3] ** 2 - X[:, 500] + 0.2 * rng.standard_normal(n)


def test_columns_that_matter_are_found(rng):
    """Mutant: a test for linear dependence alone, which misses the square."""
    X, y = many(rng)
    assert {3, 7, 500} <= {*screened(sample_of(X, y))}
    assert len(screened(sample_of(X, y))) <= 5
    # Outliers among the targets change a few ranks only.
    y[:3] = 1e6
    assert {3, 7, 500} <= {*screened(sample_of(X, y))}


def test_p_values_equal_those_of_a_regression(rng):
    """The columns chosen are those of an F test by least squares, with ties and constant columns."""
    X = rng.integers(0, 3, (300, 80)).astype(float)
    X[:, 5] = 1.0
    y = X[:, 0] - X[:, 1] * 0.4 + rng.standard_normal(300)
    ranks = stats.rankdata(y) - 150.5
    values = []
    for column in X.T:
        u = (2 * stats.rankdata(column) - 301) / 300
        design = np.stack([u**0, u, u**2, u**3], axis=1)
        coefs, _, rank, _ = np.linalg.lstsq(design, ranks, rcond=1e-4)
        left, terms = np.square(ranks - design @ coefs).sum(), rank - 1
        total = np.square(ranks).sum()
        ratio = (total - left) / max(terms, 1) / (left / (299 - terms))
        values.append(stats.f.sf(ratio, terms, 299 - terms) if terms else 1.0)
    chosen = stats.false_discovery_control(values, method="bh") <= 0.01
    assert chosen[0]
    assert not chosen[5]
    np.testing.assert_array_equal(screened(sample_of(X, y)), np.flatnonzero(chosen))


def test_targets_that_depend_on_nothing_choose_no_column(rng):
    """Of 200 draws about 2 choose a column; more than 9 have a probability of 5e-5. Mutant: a bound for each test."""
    found = [
        screened(sample_of(rng.standard_normal((100, 64)), rng.standard_t(2, (100, 1)))) is not None for _ in range(200)
    ]
    assert sum(found) <= 9


def test_few_columns_and_dependence_on_most_of_them_are_left_alone(rng):
    X, _ = many(rng)
    assert screened(sample_of(X[:100, :31], X[:100, 7])) is None
    # Four rows a column suffice for gradients; of 267 training rows there are fewer for each of 100 columns.
    assert screened(sample_of(X[:, :60], X[:, 7])) is None
    assert screened(sample_of(X[:, :100], X[:, 7])) is not None
    assert screened(sample_of(np.repeat(X[:, 7:8], 400, axis=1), X[:, 7])) is None


def test_samples_of_columns_keep_groups(rng):
    X, y = rng.standard_normal((40, 6)), rng.standard_normal(40)
    parts = np.array([0, 0, 1, 2, 2, 3])
    some = replace(sample_of(X, y), parts=parts, learns_metric=False).of_columns(np.array([2, 3, 4]))
    np.testing.assert_array_equal(some.parts, [0, 1, 1])
    np.testing.assert_array_equal(some.X, X[:, 2:5])
    assert some.learns_metric


@pytest.mark.parametrize("root", [None, np.array([2.0, 3.0]), np.array([[1.0, 2.0], [0.5, 1.0]])], ids=["1", "d", "dk"])
def test_columns_left_out_have_no_weight(root):
    whole = with_all_columns(root, np.array([1, 3]), 4)
    assert not whole[[0, 2]].any()
    np.testing.assert_array_equal(whole[[1, 3]], np.ones(2) if root is None else root)
    assert inverse_root(np.square(whole) if whole.ndim == 1 else whole @ whole.T) is None


@pytest.mark.usefixtures("brief_search")
def test_a_learner_finds_one_column_among_thousands(rng, tmp_path):
    """Without screening R2 was .03, since no metric is learned on more than 2,000 columns."""
    X = rng.standard_normal((800, 2020)).astype(np.float32)
    y = np.sin(2 * X[:, 7]) + X[:, 7] + 0.1 * rng.standard_normal(800)
    # Trees would find the column as well, and take long with so many.
    model = pm.KernelRegressor(effort="fast", trees=None, random_state=0).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.9
    assert np.argmax(model.metric_ if model.metric_.ndim == 1 else np.diag(model.metric_)) == 7
    pm.save(model, tmp_path / "model.phimap")
    np.testing.assert_array_equal(pm.load(tmp_path / "model.phimap").predict(X), model.predict(X))


@pytest.mark.usefixtures("brief_search")
def test_a_classifier_finds_the_columns_of_its_classes(rng):
    X = rng.standard_normal((900, 300)).astype(np.float32)
    y = (X[:, 5] > 0.5).astype(int) + (X[:, 9] > 0)
    model = pm.KernelClassifier(effort="fast", trees=None, random_state=0).fit(X[:500], y[:500])
    # Without screening .86.
    assert model.score(X[500:], y[500:]) > 0.95
