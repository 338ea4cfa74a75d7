"""The rungs of a search: which candidates are tried, with which widths, and what is refined."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import phimap as pm
from phimap.learn.search.effort import EFFORTS, trial_bytes
from phimap.learn.search.families import (
    default_families,
    radial,
    random_features,
)
from phimap.learn.search.log import TrialEntry, TrialLog
from phimap.learn.search.rung import KernelCandidate, Rung
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.search import _improved, _refined, search
from phimap.learn.search.trial import TrialResult
from tests.support.learners import few_of_many


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


def test_a_small_budget_runs_fewer_trials_at_once():
    effort = EFFORTS["normal"]
    trial = trial_bytes(max(effort.n_components))
    assert [effort.threads(budget, 8) for budget in (trial // 2, 3 * trial + 1, 100 * trial)] == [1, 3, 8]
    assert [effort.within(budget).widest for budget in (2**20, 2**27, 2**30)] == [256, 1024, 2048]


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
