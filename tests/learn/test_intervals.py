"""Conformal intervals and sets of classes: their coverage, their formulas, and what a model file keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta

import phimap as pm
from phimap.learn.conformal import Conformal, CoverageWarning, ErrorScale, class_scores
from tests.support.learners import GAUSSIAN

COVERAGES = (0.8, 0.9, 0.95)
SMALL = {"n_components": 128, "random_state": 0, **GAUSSIAN}


def wavy(rng, n=6000):
    """Rows (n, 2) whose noise is five times as large on one side as on the other."""
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.sin(4 * X[:, 0]) + np.where(X[:, 1] > 0, 0.5, 0.1) * rng.standard_t(3, n)


def within(bounds, y):
    return (bounds[..., 0] <= y) & (y <= bounds[..., 1])


def limits(coverage, n_conformal, n_new):
    """Range of the share of new rows within intervals that holds for all but one in ten thousand draws."""
    k = np.ceil(coverage * (n_conformal + 1))
    low, high = beta.ppf([5e-5, 1 - 5e-5], k, n_conformal + 1 - k)
    spare = 4 * np.sqrt(coverage * (1 - coverage) / n_new)
    return low - spare, high + spare


@pytest.mark.parametrize(
    ("settings", "n_train"),
    [({}, 3000), ({}, 1500), ({"alpha": 1e-2}, 3000), ({"loss": "huber"}, 3000), ({"solver": "cg"}, 3000)],
    ids=["primal", "dual", "given alpha", "huber", "cg"],
)
def test_intervals_hold_their_share(rng, settings, n_train):
    X, y = wavy(rng)
    model = pm.KernelRegressor(**SMALL, **settings).fit(X[:n_train], y[:n_train])
    for coverage in COVERAGES:
        bounds = model.predict_interval(X[n_train:], coverage)
        low, high = limits(coverage, n_train // 10, len(X) - n_train)
        assert low < within(bounds, y[n_train:]).mean() < high


def test_intervals_are_wide_where_errors_are_large(rng):
    X, y = wavy(rng)
    model = pm.KernelRegressor(**SMALL).fit(X[:4000], y[:4000])
    widths = np.diff(model.predict_interval(X[4000:], 0.9), axis=1)[:, 0]
    noisy = X[4000:, 1] > 0
    assert widths[noisy].mean() > 2 * widths[~noisy].mean()
    # Each side has its share.
    inside = within(model.predict_interval(X[4000:], 0.9), y[4000:])
    assert abs(inside[noisy].mean() - inside[~noisy].mean()) < 0.08


@pytest.mark.usefixtures("brief_search")
def test_conformal_rows_take_no_part_in_the_search(rng):
    X, y = wavy(rng, 3000)
    model = pm.KernelRegressor("gaussian", 64, effort="fast", random_state=0).fit(X, y)
    sample = model._state.sample
    order = np.argsort(sample.keys)
    errors = model.search_.errors
    for part, same in ((order[300:600], True), (order[:300], False)):
        # The targets of the sample identify the rows.
        moved = np.where(np.isin(y, sample.y[part]), y + 0.3, y)
        other = pm.KernelRegressor("gaussian", 64, effort="fast", random_state=0).fit(X, moved)
        assert np.array_equal(other.search_.errors, errors) == same


def test_intervals_follow_the_units_of_the_target(rng):
    X, y = wavy(rng, 800)
    expected = pm.KernelRegressor(**SMALL).fit(X, y).predict_interval(X[:50])
    for scale, shift in ((1e-80, 0.0), (1e80, 0.0), (1.0, 1e7)):
        found = pm.KernelRegressor(**SMALL).fit(X, scale * y + shift).predict_interval(X[:50])
        np.testing.assert_allclose((found - shift) / scale, expected, rtol=1e-4, atol=1e-6)


def test_several_targets_have_intervals_of_their_own(rng):
    X, y = wavy(rng)
    Y = np.stack([y, 10 * rng.standard_normal(len(y))], axis=1)
    model = pm.KernelRegressor(**SMALL).fit(X[:3000], Y[:3000])
    bounds = model.predict_interval(X[3000:], 0.9)
    assert bounds.shape == (3000, 2, 2)
    low, high = limits(0.9, 300, 3000)
    for share in within(bounds, Y[3000:]).mean(axis=0):
        assert low < share < high
    column = pm.KernelRegressor(**SMALL).fit(X[:3000], Y[:3000, :1])
    assert column.predict_interval(X[:7]).shape == (7, 2)


def test_a_file_gives_the_same_intervals_without_statistics(rng, tmp_path):
    X, y = wavy(rng, 2500)
    regressor = pm.KernelRegressor(**SMALL).fit(X, y)
    classifier = pm.KernelClassifier(**SMALL).fit(X, y > 0)
    for model, name in ((regressor, "predict_interval"), (classifier, "predict_set")):
        pm.save(model, tmp_path / "m.phimap")
        loaded = pm.load(tmp_path / "m.phimap")
        assert not hasattr(loaded, "solver_")
        np.testing.assert_array_equal(getattr(loaded, name)(X), getattr(model, name)(X))
        # A model of an earlier version has no scores.
        loaded._fitted = replace(loaded._fitted, conformal=None)
        with pytest.raises(ValueError, match="Fit it again"):
            getattr(loaded, name)(X)


def test_more_rows_give_new_intervals(rng):
    X, y = wavy(rng)
    model = pm.KernelRegressor(**SMALL).partial_fit(X[:2000], y[:2000]).partial_fit(X[2000:4000], y[2000:4000])
    low, high = limits(0.9, 400, 2000)
    assert low < within(model.predict_interval(X[4000:], 0.9), y[4000:]).mean() < high


def test_collections_have_lazy_intervals(rng):
    array = pytest.importorskip("dask.array")
    X, y = wavy(rng, 2000)
    model = pm.KernelRegressor(**SMALL).fit(X, y)
    found = model.predict_interval(array.from_array(X, chunks=(700, 2)), 0.8)
    np.testing.assert_allclose(found.compute(), model.predict_interval(X, 0.8), rtol=1e-6)


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
def test_sets_hold_the_class(rng, loss):
    X = rng.uniform(-1, 1, (6000, 2))
    scores = 3 * np.stack([np.sin(3 * X[:, 0]), np.cos(3 * X[:, 1]), np.zeros(6000)], axis=1)
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    model = pm.KernelClassifier(loss=loss, **SMALL).fit(X[:3000], y[:3000])
    accuracy, sizes = model.score(X[3000:], y[3000:]), []
    for coverage in (0.8, 0.9, 0.97):
        found = model.predict_set(X[3000:], coverage)
        low, high = limits(coverage, 300, 3000)
        assert low < found[np.arange(3000), y[3000:]].mean() < max(high, accuracy + 0.01)
        assert found.any(axis=1).all()
        sizes.append(found.sum(axis=1).mean())
    assert sizes == sorted(sizes)
    # The sets are the most probable classes.
    probabilities = model.predict_proba(X[3000:])
    assert np.where(found, probabilities, 1).min(axis=1).min() >= 0
    assert (np.where(found, probabilities, 1).min(axis=1) >= np.where(found, 0, probabilities).max(axis=1)).all()


@pytest.mark.parametrize(("coverage", "error"), [(0.0, ValueError), (1.0, ValueError), ("most", TypeError)])
def test_a_coverage_is_a_share(rng, coverage, error):
    X, y = wavy(rng, 200)
    model = pm.KernelRegressor(**SMALL).fit(X, y)
    with pytest.raises(error, match="`coverage`"):
        model.predict_interval(X, coverage)


def test_few_rows_have_infinite_intervals_where_no_quantile_is_known(rng):
    X, y = wavy(rng, 12)
    model = pm.KernelRegressor("gaussian", 8, metric=None, length_scale="median", alpha=0.1, random_state=0).fit(X, y)
    most = r"`coverage` must be at most 0\.923 for finite bounds, got 0\.95: .* Ask for less"
    with pytest.warns(CoverageWarning, match=most) as told:
        assert np.isinf(model.predict_interval(X, 0.95)).all()
    assert told[0].filename == __file__
    assert np.isfinite(model.predict_interval(X, 0.923)).all()


def test_a_classifier_without_intervals_names_its_methods(rng):
    X, _ = wavy(rng, 60)
    model = pm.KernelClassifier(**SMALL).fit(X, X[:, 0] > 0)
    assert not hasattr(model, "predict_interval")
    with pytest.raises(AttributeError, match=r"on KernelClassifier\. Use predict_set .* or predict_proba"):
        _ = model.predict_interval
    with pytest.raises(TypeError, match=r"takes `X` alone, got return_std=True\. Use predict_proba"):
        model.predict(X, return_std=True)


def test_few_rows_have_sets_of_all_classes_where_no_quantile_is_known(rng):
    X, _ = wavy(rng, 40)
    model = pm.KernelClassifier(**SMALL).fit(X, X[:, 0] > 0)
    with pytest.warns(CoverageWarning, match=r"`coverage` must be at most 0\.9756 for sets that leave out a class"):
        assert model.predict_set(X, 0.99).all()
    assert not model.predict_set(X, 0.97).all()


@pytest.mark.parametrize("n", [1, 9, 19, 99, 360, 1024])
def test_the_largest_coverage_is_reached(rng, n):
    found = Conformal.of_scores(rng.exponential(size=(n, 1)), None)
    assert found.reaches(found.most_coverage)
    assert not found.reaches(found.most_coverage + 1.01e-4)


# The parts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [9, 99, 100])
def test_the_threshold_is_the_conformal_quantile(rng, n):
    scores = rng.exponential(size=(n, 2))
    found = Conformal.of_scores(scores, None)
    for coverage in (0.1, 0.5, 0.9):
        k = int(np.ceil(coverage * (n + 1) - 1e-9))
        np.testing.assert_array_equal(found.threshold(coverage), np.sort(scores, axis=0)[k - 1])
    assert np.isinf(found.threshold(1 - 0.5 / (n + 1))).all()


def test_many_scores_are_thinned_without_smaller_thresholds(rng):
    scores = rng.exponential(size=(5000, 1))
    found = Conformal.of_scores(scores, None)
    assert found.scores.shape == (1024, 1)
    for coverage in rng.uniform(0.01, 0.999, 50):
        exact = np.sort(scores[:, 0])[int(np.ceil(coverage * 5001)) - 1]
        assert exact <= found.threshold(coverage)[0] <= np.sort(scores[:, 0])[int(np.ceil(coverage * 5001)) + 4]


def test_weights_count_like_repeated_scores(rng):
    scores, weights = rng.exponential(size=(50, 1)), rng.integers(1, 4, 50).astype(float)
    weighted = Conformal.of_scores(scores, weights)
    repeated = Conformal.of_scores(np.repeat(scores, weights.astype(int), axis=0), None)
    for coverage in (0.3, 0.6, 0.9):
        # The new row counts with the mean weight, in place of weight 1.
        assert weighted.threshold(coverage) == pytest.approx(repeated.threshold(coverage), rel=0.2)
    np.testing.assert_allclose(weighted.levels[-1], 50 / 51)


def test_class_scores_are_sums_of_more_probable_classes(rng):
    probabilities = rng.dirichlet(np.ones(4), 30)
    probabilities[0] = [0.4, 0.2, 0.2, 0.2]
    expected = [[row[row > one].sum() for one in row] for row in probabilities]
    np.testing.assert_allclose(class_scores(probabilities), expected, atol=1e-12)


def test_the_scale_follows_the_size_of_errors(rng):
    Z = rng.standard_normal((700, 3))
    errors = np.exp(Z[:, :1]) * rng.standard_normal((700, 1))
    scale = ErrorScale.of_errors(Z, errors, None)
    found = np.log(scale.of_outputs(Z @ scale.coef))
    assert np.corrcoef(found[:, 0], Z[:, 0])[0, 1] > 0.95
    assert found.min() >= scale.bounds[0, 0] - 1e-9
    assert ErrorScale.of_errors(Z, np.zeros((700, 1)), None) is None
