"""Training by parts: partial fits, merges and batches add up to one fit."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

import phimap as pm
from tests.learn.problems import problem
from tests.support.learners import FIXED, GAUSSIAN


def test_partial_fits_merges_and_batches_add_up(streamed):
    X, y = problem(900)
    whole = pm.KernelRegressor(n_components=60, alpha=0.2, random_state=0, **GAUSSIAN).fit(X, y)
    streamed_model = clone(whole).fit_batches([(X[:350], y[:350]), (X[350:], y[350:])])
    np.testing.assert_allclose(streamed_model.predict(X), whole.predict(X), atol=1e-9)

    first = clone(whole).partial_fit(X[:300], y[:300])
    copies = [copy.deepcopy(first) for _ in range(3)]
    for model, part in zip(copies, (slice(300, 500), slice(500, 600), slice(600, 900)), strict=True):
        model.partial_fit(X[part], y[part])
    merged = copies[0].merge(copies[1], shared=first).merge(copies[2], shared=first)
    assert merged.n_samples_seen_ == 900
    at_once = clone(whole).partial_fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    np.testing.assert_allclose(merged.predict(X), at_once.predict(X), atol=1e-9)
    # Each row was kept once, of those from which alpha is chosen.
    for kept in (merged._state.sample.X, merged._state.extreme.X):
        assert len(np.unique(kept, axis=0)) == len(kept)
    assert len(merged._state.sample.X) == 900


def test_rows_that_both_have_seen_are_noticed(streamed):
    X, y = problem(300)
    first = pm.KernelRegressor(n_components=20, random_state=0, **GAUSSIAN).partial_fit(X, y)
    one, two = copy.deepcopy(first).partial_fit(X, y), copy.deepcopy(first)
    with pytest.raises(ValueError, match=r"`shared` must be the model that both are copies of, got None"):
        one.merge(two)
    # The same map without a common beginning: nothing is shared.
    fixed = pm.KernelRegressor(
        pm.FourierFeatures(n_components=20, random_state=0), alpha=0.1, standardize=False, random_state=0, **FIXED
    )
    apart = clone(fixed).partial_fit(X[:200], y[:200]).merge(clone(fixed).partial_fit(X[200:], y[200:]))
    np.testing.assert_allclose(apart.predict(X), clone(fixed).partial_fit(X, y).predict(X), atol=1e-9)


def test_merging_different_maps_is_an_error(streamed):
    X, y = problem(300)
    one = pm.KernelRegressor(n_components=20, random_state=0, **GAUSSIAN).partial_fit(X, y)
    other = pm.KernelRegressor(n_components=20, random_state=1, **GAUSSIAN).partial_fit(X, y)
    with pytest.raises(ValueError, match=r"`other` must share"):
        one.merge(other)


def test_partial_fit_goes_on_after_a_dual_fit():
    X, y = problem(500)
    model = pm.KernelRegressor(n_components=80, alpha=0.2, random_state=0, **GAUSSIAN).fit(X[:300], y[:300])
    assert model.solution_.form == "dual"
    model.partial_fit(X[300:], y[300:])
    assert model.n_samples_seen_ == 500
    Z = model.feature_map_.transform((X - model.scaling_.shift) * model.scaling_.factor)
    np.testing.assert_allclose(model.predict(X), Ridge(alpha=0.2, solver="svd").fit(Z, y).predict(Z), atol=1e-8)


def test_conformal_scores_are_those_of_all_rows():
    X, y = problem(900)
    model = pm.KernelRegressor(n_components=40, random_state=0, **GAUSSIAN).fit(X[:600], y[:600])
    of_fewer_rows = model.conformal_.scores
    model.partial_fit(X[600:], y[600:])
    before_prediction = model.conformal_.scores
    model.predict_interval(X[:5])
    np.testing.assert_array_equal(before_prediction, model.conformal_.scores)
    assert before_prediction.shape != of_fewer_rows.shape or (before_prediction != of_fewer_rows).any()


def test_one_shot_iterators_are_refused():
    X, y = problem(50)
    with pytest.raises(TypeError, match=r"iterable more than once"):
        pm.KernelRegressor(n_components=8, **GAUSSIAN).fit_batches(iter([(X, y)]))


def test_batches_are_pairs():
    X, y = problem(50)
    for batches in ((X, y), [(X,)], X):
        with pytest.raises(TypeError, match=r"`batches` must hold pairs \(X, y\)"):
            pm.KernelRegressor(n_components=8, **GAUSSIAN).fit_batches(batches)


@pytest.mark.parametrize("kernel", [pm.kernels.Gaussian(), pm.kernels.NTK()])
def test_fit_batches_gives_the_bits_of_fit_where_rows_are_cut_alike(kernel):
    """Issue 18, row 11, as the notes of `fit` say. Mutant: other cuts, which differ by rounding alone."""
    X, y = problem(18_000)
    model = pm.KernelRegressor(kernel, 16, metric=None, alpha=0.1, random_state=0)
    whole = clone(model).fit(X, y)
    sample, scaled = whole._state.sample, whole.scaling_
    expected = whole.predict(X)
    for height, same in ((16_384, True), (4_096, False)):
        batches = [(X[start : start + height], y[start : start + height]) for start in range(0, len(X), height)]
        found = clone(model).fit_batches(batches)
        np.testing.assert_array_equal(found._state.sample.keys, sample.keys)
        assert np.array_equal(found.predict(X), expected) is same
        np.testing.assert_allclose(found.scaling_.factor, scaled.factor, rtol=1e-12)
        np.testing.assert_allclose(found.predict(X), expected, rtol=0, atol=1e-9)
