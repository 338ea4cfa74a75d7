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
from phimap.learn.search.effort import EFFORTS, trial_bytes
from phimap.learn.search.families import (
    KernelFamily,
    default_families,
    landmarks,
    partners,
    radial,
    random_features,
)
from phimap.learn.search.kernel import KernelSpec
from phimap.learn.search.log import TrialEntry, TrialLog
from phimap.learn.search.rung import KernelCandidate, Rung
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.search import _improved, _refined, search
from phimap.learn.search.trial import TrialResult
from phimap.learn.search.width import most_components
from phimap.ops import numpy_ops


def few_of_many(n_rows, rng, d=12):
    """Rows (n, d) of which two columns matter, in a product."""
    X = rng.uniform(-1, 1, (n_rows, d))
    return X, np.sin(3 * X[:, 2]) * np.cos(2 * X[:, 7]) + 0.05 * rng.standard_normal(n_rows)


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


def test_tempering_brings_back_what_a_sharp_metric_hides(rng):
    X = rng.standard_normal((2500, 10))
    y = X[:, 0] + 0.3 * np.sin(2 * X[:, 3]) * X[:, 5]
    sample = SearchSample(X, y[:, None], np.ones(len(y)))
    rung = Rung(sample, 256, 0, 1, TrialLog())
    # A metric with almost all weight on the first column, like one learned from a linear fit.
    roots = (np.array([1.0, *[1e-2] * 9]) * np.sqrt(10),) * len(sample.folds())
    sharp = rung.best_width(
        replace(KernelCandidate.start(radial(1.5, ()), rung), metric="diagonal", roots=roots), (0, 1)
    )
    followed, tempered = rung.refine_metric(sharp, 8), rung.tempered(sharp, 8)
    assert tempered.error < 0.7 * min(sharp.error, followed.error)
    assert set(np.argsort(tempered.roots[0])[-3:]) == {0, 3, 5}


def test_a_metric_is_tempered_up_to_a_thousand_rows(rng, monkeypatch):
    tempered = []
    monkeypatch.setattr(Rung, "tempered", lambda rung, one, rounds: tempered.append(rung.sample.n_rows) or one)
    X, y = few_of_many(1100, rng)
    for n_rows in (900, 1100):
        sample = SearchSample(X[:n_rows], y[:n_rows, None], np.ones(n_rows))
        effort = replace(EFFORTS["fast"], n_components=(64, 128), stages=4, steps=3, rounds=1)
        found = search([radial(1.5, ("diagonal",))], [sample], effort, seed=0, n_jobs=1, log=TrialLog())
        assert found.root is not None
    assert tempered == [900]


@pytest.mark.parametrize(("error", "expected"), [(0.303, "gaussian"), (0.31, "matern-5/2")])
def test_a_sibling_of_nearly_equal_error_is_tried_at_the_last_rung(rng, monkeypatch, error, expected):
    """Smoother kernels gain more from further rows: on kin40k the second best of a rung erred less in the end."""
    errors = {
        ("matern-3/2", 512): 0.4,
        ("matern-5/2", 512): 0.3,
        ("gaussian", 512): error,
        ("matern-3/2", 1024): 0.35,
        ("matern-5/2", 1024): 0.25,
        ("gaussian", 1024): 0.2,
    }

    def evaluate(rung, candidates):
        found = [errors.get((one.family.name, rung.n_components), 0.5) for one in candidates]
        log_trials(rung, candidates, found)
        return [replace(one, result=TrialResult(e, 6, [])) for one, e in zip(candidates, found, strict=True)]

    monkeypatch.setattr(Rung, "evaluate", evaluate)
    X = rng.standard_normal((8000, 2))
    families, sample = default_families((), 2), SearchSample(X, X[:, :1], np.ones(len(X)))
    found = search(families, [sample], EFFORTS["normal"], seed=0, n_jobs=1, log=TrialLog())
    assert found.family.name == expected


def test_only_the_best_candidate_tries_larger_length_scales(monkeypatch):
    """Mutants: no larger length scales for anybody, or for all."""
    asked = []

    def at_widths(rung, candidate, powers):
        asked.append((candidate.family.name, tuple(powers)))
        errors = [candidate.error * (0.9 if power in (-1, 1) else 1.1) for power in powers]
        return [
            replace(candidate, power=power, result=TrialResult(error, 6, []))
            for power, error in zip(powers, errors, strict=True)
        ]

    monkeypatch.setattr(Rung, "at_widths", at_widths)
    rung = Rung(SearchSample(np.zeros((8, 1)), np.zeros((8, 1)), np.ones(8)), 2, 0, 1, TrialLog())
    best, near, far = (
        replace(KernelCandidate.start(radial(nu, ()), rung), result=TrialResult(error, 6, []))
        for nu, error in ((0.5, 1.0), (1.5, 1.04), (2.5, 1.06))
    )
    improved = [_improved(one, [near, best, far], rung, EFFORTS["normal"]) for one in (best, near, far)]
    assert asked == [
        *(("matern-1/2", powers) for powers in ((-1, 1), (-2,))),
        *(("matern-3/2", powers) for powers in ((-1,), (-2,))),
    ]
    assert [one.power for one in improved] == [-1, -1, 0]


def test_smoother_kernels_are_tried_at_smaller_length_scales(monkeypatch):
    asked = []

    def at_widths(rung, candidate, powers):
        asked.append((candidate.family.name, tuple(powers)))
        return [replace(candidate, power=power, result=TrialResult(2.0, 6, [])) for power in powers]

    monkeypatch.setattr(Rung, "at_widths", at_widths)
    rung = Rung(SearchSample(np.zeros((8, 1)), np.zeros((8, 1)), np.ones(8)), 2, 0, 1, TrialLog())
    smooth = default_families((), 2)[1]
    candidate = replace(KernelCandidate.start(smooth, rung), power=3, result=TrialResult(1.0, 6, []))
    assert len(rung.with_siblings(candidate)) == 3
    assert asked == [("matern-5/2", (3, 2)), ("matern-1/2", (3, 4))]


@pytest.mark.parametrize(("error", "expected"), [(0.31, 3), (0.32, 1)])
def test_an_additive_kernel_chooses_its_width_only_near_the_best(rng, monkeypatch, error, expected):
    def evaluate(rung, candidates):
        found = [error if one.family.is_additive else 0.3 for one in candidates]
        log_trials(rung, candidates, found)
        return [replace(one, result=TrialResult(e, 6, [])) for one, e in zip(candidates, found, strict=True)]

    monkeypatch.setattr(Rung, "evaluate", evaluate)
    X, log = rng.standard_normal((3000, 6)), TrialLog()
    sample = SearchSample(X, X[:, :1], np.ones(len(X)))
    search(default_families((), 6), [sample], EFFORTS["normal"], seed=0, n_jobs=1, log=log)
    assert sum(entry.kernel == "additive" for entry in log.entries) == expected


@pytest.mark.parametrize(("n_rows", "error", "expected"), [(8000, 0.3, True), (5000, 0.3, False), (8000, 0.1, False)])
def test_random_features_are_tried_if_rows_remain_and_targets_are_noisy(rng, monkeypatch, n_rows, error, expected):
    tried = []

    def evaluate(rung, candidates):
        tried.extend(one for one in candidates if one.family.features is random_features)
        log_trials(rung, candidates, [error] * len(candidates))
        return [replace(one, result=TrialResult(error, 6, [])) for one in candidates]

    monkeypatch.setattr(Rung, "evaluate", evaluate)
    X = rng.standard_normal((n_rows, 2))
    sample = SearchSample(X, X[:, :1], np.ones(len(X)))
    found = search([radial(1.5, ())], [sample], EFFORTS["normal"], seed=0, n_jobs=1, log=TrialLog())
    assert bool(tried) == (found.family.features is random_features) == expected


def log_trials(rung, candidates, errors):
    for one, error in zip(candidates, errors, strict=True):
        size = rung.n_components, rung.sample.n_rows
        rung.log.entries.append(TrialEntry(one.family.name, "none", 0, 1.0, *size, error))


def test_a_rival_far_behind_is_tried_at_its_first_widths_alone(rng):
    X, y = few_of_many(600, rng)
    rung = Rung(SearchSample(X, y[:, None], np.ones(len(y))), 100, 0, 1, TrialLog())
    start = KernelCandidate.start(radial(1.5, ()), rung)
    best = rung.best_width(start, (0,))
    assert best.power != 0
    n_before = len(rung.log.entries)
    far = rung.rival_width(start, (0,), 0.5 * best.error)
    assert (far.power, len(rung.log.entries)) == (0, n_before + 1)
    near = rung.rival_width(start, (0,), best.error)
    assert near.power == best.power
    # The median distance of rows is computed once for each kernel and metric.
    assert len(rung.medians) == 1


def test_the_additive_start_has_many_landmarks_if_other_kernels_explain_nothing(rng):
    X = rng.standard_normal((2100, 18))
    y = np.sin(2 * X[:, 4]) * X[:, 11] + 0.1 * rng.standard_normal(len(X))
    sample = SearchSample(X, y[:, None], np.ones(len(y)))
    smooth, additive = radial(1.5, ("diagonal",)), default_families(("diagonal",), 18)[-1]

    log = TrialLog()
    chosen = search([smooth, additive], [sample], EFFORTS["fast"], seed=0, n_jobs=1, log=log)
    assert min(entry.error for entry in log.entries if entry.metric == "none" and entry.kernel != "additive") > 0.8
    assert set(np.argsort(chosen.root)[-2:]) == {4, 11}
    of_additive = [entry for entry in log.entries if entry.kernel == "additive"]
    widest = max(entry.n_components for entry in of_additive)
    assert widest > max(EFFORTS["fast"].n_components)
    assert min(entry.error for entry in of_additive if entry.n_components == widest) < 0.8


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


def test_a_small_budget_runs_fewer_trials_at_once():
    effort = EFFORTS["normal"]
    trial = trial_bytes(max(effort.n_components))
    assert [effort.threads(budget, 8) for budget in (trial // 2, 3 * trial + 1, 100 * trial)] == [1, 3, 8]
    assert [effort.within(budget).widest for budget in (2**20, 2**27, 2**30)] == [256, 1024, 2048]


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


@pytest.mark.parametrize("noisy", [True, False])
def test_the_third_rung_follows_where_the_error_still_falls(noisy, rng):
    """Noise is the same on all rungs. Without noise, every rung has a far smaller error than the one before."""
    X, y = few_of_many(3000, rng)
    y = y if noisy else np.sin(3 * X[:, 2] * X[:, 7]) + X[:, 1] ** 2
    log = pm.KernelRegressor("matern", 64, metric="diagonal", random_state=0).fit(X, y).search_
    rungs = {(256, 2500), (512, 2700), (1024, 2700)}
    assert set(zip(log.n_components, log.n_rows, strict=True)) == (rungs - {(1024, 2700)} if noisy else rungs)
    assert len(log.errors) <= 25
    last = log.errors[log.n_components == log.n_components.max()].min()
    assert last <= 1.02 * log.errors.min()


@pytest.mark.parametrize(
    ("factors", "doubled", "widest", "expected", "errors"),
    [
        ((0.96, 0.9), 0.8, 2048, [(1024, 10), (2048, 1)], [0.96, 0.96 * 0.8, 0.96 * 0.8 * 0.9]),
        # A metric that gains less than 1 % is not taken.
        ((0.96, 0.995), 0.8, 2048, [(1024, 10), (2048, 1)], [0.96, 0.96 * 0.8, 0.96 * 0.8]),
        ((0.98, 0.9), 0.8, 2048, [(1024, 10)], [0.98, None, 0.98]),
        ((0.96, 0.9), 0.95, 2048, [(1024, 10)], [0.96, 0.96 * 0.95, 0.96 * 0.95]),
        ((0.96, 0.9), 0.8, 1024, [(1024, 10)], [0.96, None, 0.96]),
    ],
)
def test_a_metric_is_refined_with_more_features_where_both_lower_the_error(
    factors, doubled, widest, expected, errors, monkeypatch
):
    """`factors` are those of the errors by a refinement with 1,024 and with 2,048 features.

    `errors` are those with 1,024 and with 2,048 features, and that of the result.
    """

    def times(one, factor):
        return replace(one, result=TrialResult(one.error * factor, 6, []))

    rounds = []
    monkeypatch.setattr(Rung, "evaluate", lambda rung, ones: [times(one, doubled) for one in ones])
    monkeypatch.setattr(
        Rung,
        "refine_metric",
        lambda rung, one, most: (
            rounds.append((rung.n_components, most)) or times(one, factors[rung.n_components > 1024])
        ),
    )
    rung = Rung(SearchSample(np.zeros((8, 1)), np.zeros((8, 1)), np.ones(8)), 1024, 0, 1, TrialLog())
    one = replace(KernelCandidate.start(radial(0.5, ()), rung), result=TrialResult(1.0, 6, []))
    found, of_widths = _refined(one, rung, replace(EFFORTS["normal"], widest=widest))
    assert rounds == expected
    assert [of_widths.get(1024), of_widths.get(2048), found.error] == pytest.approx(errors)


@pytest.mark.parametrize("n_rows", [800, 3000])
def test_of_length_scales_that_err_alike_the_smaller_is_taken(n_rows, rng):
    """Noise and a linear target: all large length scales have nearly the same error, and no third rung follows."""
    X = rng.standard_normal((n_rows, 4))
    y = X.sum(axis=1) + 2 * rng.standard_normal(n_rows)
    model = pm.KernelRegressor("matern", 64, metric=None, random_state=0).fit(X, y)
    log = model.search_
    best = np.flatnonzero(log.n_components[:-1] == log.n_components[-1])
    best = best[log.errors[best].argmin()]
    assert log.length_scales[-1] < log.length_scales[best]
    chosen = -1 if log.errors[-1] <= 1.005 * log.errors[best] else best
    assert model.kernel_.length_scale == pytest.approx(log.length_scales[chosen])


@pytest.mark.parametrize(("n_rows", "widths"), [(300, {256}), (600, {256, 512})])
def test_few_rows_have_two_rungs_unless_every_row_is_a_landmark(n_rows, widths, rng):
    log = pm.KernelRegressor("matern", 64, metric=None, random_state=0).fit(*few_of_many(n_rows, rng)).search_
    assert set(log.n_components) == widths
    assert set(log.n_rows) == {n_rows}


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
