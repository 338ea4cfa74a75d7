"""What learners choose by themselves, against what they could have chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV

import phimap as pm
from phimap.learn.search.effort import EFFORTS
from phimap.learn.search.families import (
    KernelFamily,
    default_families,
    landmarks,
    partners,
    radial,
)
from phimap.learn.search.kernel import KernelSpec
from phimap.learn.search.log import TrialLog
from phimap.learn.search.rung import KernelCandidate, Rung
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.search import search
from phimap.learn.search.width import most_components
from phimap.ops import numpy_ops
from tests.support.learners import few_of_many


def relative_error(model, X, y):
    return float(np.sqrt(1 - model.score(X, y)))


def test_a_metric_finds_the_columns_that_matter(rng):
    X, y = few_of_many(1500, rng)
    learned = pm.KernelRegressor("matern", 256, effort="fast", random_state=0).fit(X[:1200], y[:1200])
    plain = pm.KernelRegressor("matern", 256, metric=None, effort="fast", random_state=0).fit(X[:1200], y[:1200])
    assert relative_error(learned, X[1200:], y[1200:]) < 0.5 * relative_error(plain, X[1200:], y[1200:])
    assert learned.relevances_.sum() == pytest.approx(1.0)
    assert set(np.argsort(learned.relevances_)[-2:]) == {2, 7}
    assert learned.relevances_[[2, 7]].sum() > 0.8
    np.testing.assert_array_equal(plain.metric_, np.ones(12))


def test_a_sum_of_kernels_serves_targets_of_two_scales(rng):
    X = rng.uniform(-1, 1, (2400, 2))
    y = X @ np.array([3.0, 2.0]) + 0.3 * np.sin(25 * X[:, 0])
    rung = Rung(SearchSample(X, y[:, None], np.ones(len(y))), 100, 0, 1, TrialLog())
    narrow = rung.best_width(KernelCandidate.start(radial(1.5, ()), rung), (-2, -1))
    best = rung.best_combination(narrow, partners())
    assert best.error < 0.9 * narrow.error
    assert best.family.name.startswith("matern-3/2 + ")
    kernel = best.family.make(None)
    assert kernel.is_stationary
    assert len(kernel.terms()) == 2
    # A kernel without a width has no partners.
    network = replace(narrow, family=KernelFamily("ntk", lambda _: pm.kernels.NTK(1), False, (), landmarks))
    assert rung.best_combination(network, partners()) is network


def test_only_a_thorough_search_combines_kernels(rng):
    X = rng.uniform(-1, 1, (300, 2))
    sample = SearchSample(X, np.sin(3 * X[:, :1]) + X[:, 1:], np.ones(len(X)))

    def tried(combines):
        log = TrialLog()
        effort = replace(EFFORTS["fast"], n_components=(32,), n_rows=(300,), combines=combines)
        search(default_families((), 2), [sample], effort, seed=0, n_jobs=1, log=log)
        return "".join(entry.kernel for entry in log.entries)

    assert " + " in tried(True)
    assert " * " in tried(True)
    assert " + " not in tried(False)
    assert EFFORTS["thorough"].combines


@pytest.mark.usefixtures("brief_search")
def test_a_full_metric_of_many_columns_is_of_low_rank(rng, tmp_path):
    d = 505
    X = rng.standard_normal((600, d))
    X[:, 3] *= 4
    settings = {"metric": "full", "effort": "fast", "standardize": False, "random_state": 0}
    model = pm.KernelRegressor("matern", 64, **settings).fit(X, X[:, 3] * (1 + X[:, 3]))
    assert "full" in model.search_.metrics
    assert model.metric_.shape == (d, d)
    assert model.scaling_.root.shape == (d, 100)
    assert np.argmax(model.relevances_) == 3
    pm.save(model, tmp_path / "wide.phimap")
    np.testing.assert_array_equal(pm.load(tmp_path / "wide.phimap").predict(X), model.predict(X))


def test_the_default_beats_boosting_where_few_columns_matter(rng):
    X, y = few_of_many(2500, rng)
    model = pm.KernelRegressor(n_components=256, effort="fast", random_state=0).fit(X[:2000], y[:2000])
    boosting = HistGradientBoostingRegressor(random_state=0).fit(X[:2000], y[:2000])
    assert relative_error(model, X[2000:], y[2000:]) < relative_error(boosting, X[2000:], y[2000:])


def test_nothing_is_found_in_noise(rng):
    X, y = rng.standard_normal((3000, 5)), rng.standard_normal(3000)
    model = pm.KernelRegressor(n_components=256, effort="fast", random_state=0).fit(X[:2000], y[:2000])
    mean = np.square(y[2000:] - y[:2000].mean()).mean()
    assert np.square(y[2000:] - model.predict(X[2000:])).mean() < 1.02 * mean


def test_a_linear_target_costs_hardly_more_than_linear_regression(rng):
    X = rng.standard_normal((3000, 5))
    y = X @ rng.standard_normal(5) + 0.5 * rng.standard_normal(3000)
    model = pm.KernelRegressor(n_components=256, effort="fast", random_state=0).fit(X[:2000], y[:2000])
    linear = RidgeCV().fit(X[:2000], y[:2000])
    assert np.sqrt(1 - model.score(X[2000:], y[2000:])) < 1.02 * np.sqrt(1 - linear.score(X[2000:], y[2000:]))


@pytest.mark.usefixtures("brief_search")
def test_the_search_is_logged_and_same_for_any_number_of_threads(rng, monkeypatch):
    # Tiles of 64 rows: more than there are threads, in trials of few rows as well.
    monkeypatch.setattr(numpy_ops.NumpyOps, "least_tile_rows", 64)
    monkeypatch.setattr(numpy_ops.NumpyOps, "tile_bytes", 1)
    X, y = few_of_many(1100, rng, d=8)
    one, other = (
        pm.KernelRegressor(n_components=64, effort="fast", random_state=0, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    log = one.search_
    np.testing.assert_array_equal(log.errors, other.search_.errors)
    assert {"laplacian", "matern-3/2", "ntk", "additive"} <= set(log.kernels)
    assert {"none", "diagonal", "full"} == set(log.metrics)
    sizes = {len(getattr(log, name)) for name in ("kernels", "metrics", "rounds", "length_scales", "errors")}
    assert len(sizes) == 1


def test_a_fixed_kernel_is_not_searched(rng):
    X, y = few_of_many(200, rng)
    for parameters in ({"kernel": pm.kernels.Gaussian(2.0)}, {"kernel": "ntk", "metric": None}):
        model = pm.KernelRegressor(n_components=64, random_state=0, **parameters).fit(X, y)
        assert model.search_ is None
    model = pm.KernelRegressor(pm.kernels.Gaussian(2.0), 64, metric="diagonal", effort="fast", random_state=0).fit(X, y)
    assert model.search_ is not None
    assert model.kernel_.length_scale == 2.0
    assert model.relevances_[[2, 7]].sum() > 2 / 12


@pytest.mark.parametrize("metric", ["diagonal", "full"])
def test_searched_models_are_saved_and_go_on(metric, rng, tmp_path):
    X, y = few_of_many(600, rng)
    model = pm.KernelRegressor("gaussian", 64, metric=metric, effort="fast", random_state=0).fit(X[:500], y[:500])
    pm.save(model, tmp_path / "model.phimap", statistics=True)
    again = pm.load(tmp_path / "model.phimap")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.metric_, model.metric_)
    np.testing.assert_array_equal(again.search_.errors, model.search_.errors)
    again.partial_fit(X[500:], y[500:])
    assert again.n_samples_seen_ == 600


@pytest.mark.usefixtures("brief_search")
def test_batches_and_rows_in_memory_find_the_same(rng):
    X, y = few_of_many(1200, rng, d=8)
    batches = [(X[:700], y[:700]), (X[700:], y[700:])]
    model = pm.KernelRegressor("gaussian", 64, effort="fast", random_state=0)
    one = model.fit(X, y).metric_
    np.testing.assert_allclose(model.fit_batches(batches).metric_, one, rtol=1e-6)


@pytest.mark.usefixtures("brief_search")
def test_classes_find_a_metric_too(rng):
    X, score = few_of_many(1200, rng)
    y = np.digitize(score, [-0.4, 0.4])
    model = pm.KernelClassifier("gaussian", 128, effort="fast", random_state=0).fit(X, y)
    assert model.relevances_[[2, 7]].sum() > 0.6
    logistic = pm.KernelClassifier("gaussian", 128, effort="fast", loss="logistic", random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.metric_, logistic.metric_)


def test_sparse_rows_search_a_width_and_weights_of_columns(rng):
    X, y = few_of_many(400, rng)
    rows = sparse.csr_matrix(np.where(np.abs(X) > 0.3, X, 0))
    model = pm.KernelRegressor(n_components=64, effort="fast", random_state=0).fit(rows, y)
    assert isinstance(model.kernel_, pm.kernels.Gaussian)
    assert model.metric_.ndim == 1
    assert np.isfinite(model.predict(rows)).all()


def test_images_get_a_kernel_and_no_metric():
    X, y = load_digits(return_X_y=True)
    images = X.reshape(-1, 8, 8, 1)[:300]
    model = pm.KernelClassifier(n_components=128, standardize="global", effort="fast", random_state=0)
    model.fit(images, y[:300])
    np.testing.assert_array_equal(model.metric_, np.ones(64))
    assert model.score(images, y[:300]) > 0.9


def test_the_width_follows_the_need(rng):
    X = rng.standard_normal((3000, 2))
    model = pm.KernelRegressor("gaussian", length_scale=0.3, metric=None, standardize=False, random_state=0)
    easy = model.fit(X, X[:, 0] + 0.5 * rng.standard_normal(3000)).coef_.size
    waves = np.sin(4 * X[:, 0]) * np.sin(4 * X[:, 1])
    hard = model.fit(X, waves).coef_.size
    assert easy <= 1024
    assert hard >= 2 * easy
    # The byte budget bounds it.
    assert model.set_params(memory="8MB").fit(X, waves).coef_.size <= 512


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (("magic", "auto", "auto"), r"`kernel` must be one of 'arccosine' \(also 'arc-cosine', .*got 'magic'"),
        (("gaussian", "wide", "auto"), r"`length_scale` must be a positive number, 'auto' or 'median', got 'wide'"),
        (("gaussian", "auto", "round"), r"`metric` must be one of 'auto', 'diagonal', 'full', got 'round'"),
    ],
)
def test_impossible_parameters_are_errors(parameters, message):
    with pytest.raises(ValueError, match=message):
        KernelSpec.of(*parameters)


def test_a_specification_is_checked_however_it_is_made():
    with pytest.raises(TypeError, match=r"`kernel` must be a name, a Kernel or a feature map, got int"):
        KernelSpec(3, "auto", None)
    with pytest.raises(ValueError, match="`length_scale` must be greater than 0"):
        KernelSpec("gaussian", -1.0, None)
    assert KernelSpec.of("rbf", 2.0, None).ignored() is None
    assert "`length_scale`=2.0 is ignored" in str(KernelSpec.of("ntk", 2.0, None).ignored())


@pytest.mark.parametrize(("budget", "width"), [(2**20, 256), (5 * 2**24, 1024), (2**27, 2048), (2**32, 8192)])
def test_the_largest_width_follows_from_the_bytes_it_is_given(budget, width):
    assert most_components(budget) == width


def test_effort_is_one_of_three(rng):
    with pytest.raises(ValueError, match=r"`effort` must be one of 'fast', 'normal', 'thorough', got 'most'"):
        pm.KernelRegressor(effort="most").fit(rng.standard_normal((20, 2)), np.arange(20.0))


def heavy(n_rows, rng):
    """Log-normal rows (n, 3), and a target of their logarithms."""
    X = np.exp(4 * rng.standard_normal((n_rows, 3)))
    return X, np.sin(np.log(X[:, 0]) / 2) + 0.2 * np.log(X[:, 1]) + 0.1 * rng.standard_normal(n_rows)


@pytest.mark.usefixtures("brief_search")
def test_heavy_tails_take_another_form_where_it_pays(rng, tmp_path):
    X, y = heavy(1200, rng)
    models = [
        pm.KernelRegressor(n_components=256, effort="fast", standardize=kind, trees=None, random_state=0)
        for kind in ("auto", "columns")
    ]
    for model in models:
        model.fit(X[:800], y[:800])
    assert models[0].scaling_.form is not None
    assert models[1].scaling_.form is None
    errors = [relative_error(model, X[800:], y[800:]) for model in models]
    assert errors[0] < 0.7 * errors[1]
    pm.save(models[0], tmp_path / "model.phimap")
    np.testing.assert_array_equal(pm.load(tmp_path / "model.phimap").predict(X), models[0].predict(X))


@pytest.mark.usefixtures("brief_search")
def test_heavy_tails_stay_where_the_target_follows_them(rng):
    X = np.exp(1.5 * rng.standard_normal((900, 2)))
    y = X[:, 0] - X[:, 1] + 0.1 * rng.standard_normal(900)
    assert pm.KernelRegressor(n_components=256, effort="fast", random_state=0).fit(X, y).scaling_.squash is None


def test_a_wide_minimum_does_not_hide_a_narrow_one():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1160, 4))
    y = np.sin(2 * X[:, 2]) + 0.5 * X[:, 0] + 0.05 * rng.standard_normal(1160)
    model = pm.KernelRegressor("gaussian", metric="diagonal", effort="fast", random_state=0).fit(X[:160], y[:160])
    assert relative_error(model, X[160:], y[160:]) < 0.2
