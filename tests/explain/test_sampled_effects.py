"""Effects of models without an exact form, against the decomposition over all levels."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

import phimap as pm
from phimap.explain.forms.base import FormEffects
from phimap.explain.sampled_effects import sampled_shares
from phimap.explain.subject import subject_of
from tests.explain.models import data, fitted

#: Probability that a test fails although the estimates are unbiased.
FALSE_ALARM = 1e-4
P, Q, SEEDS = 4, 3, 64


def table(rng, n_outputs=2):
    """Values (q, ..., q, t) of a function of p players at all levels, with a large mean."""
    return 5.0 + rng.standard_normal((Q,) * P + (n_outputs,))


def decomposition(values):
    """Effects of single players (p, q, t) and of pairs (p, p, q, q, t), by their definition."""
    mean, axes = values.mean(axis=tuple(range(P))), range(P)
    first = np.stack([values.mean(axis=tuple(a for a in axes if a != j)) - mean for j in axes])
    second = np.zeros((P, P, Q, Q, values.shape[-1]))
    for j in axes:
        for k in range(j + 1, P):
            both = values.mean(axis=tuple(a for a in axes if a not in (j, k)))
            second[j, k] = both - mean - first[j][:, None] - first[k]
    return first, second


def variances(values):
    """Variances of the effects of players (p,) and of pairs (p, p), summed over the outputs."""
    first, second = decomposition(values)
    return np.square(first).mean(axis=1).sum(axis=1), np.square(second).mean(axis=(2, 3)).sum(axis=2)


@pytest.mark.parametrize("with_forms", [True, False])
def test_variances_are_unbiased_and_standard_errors_are_right(with_forms, monkeypatch):
    """One t statistic for each player and pair; mutants: the product of all choices, or the form without the rest."""
    rng = np.random.default_rng(0)
    form, rest = table(rng), table(rng)
    form = form if with_forms else np.zeros_like(form)
    wanted = np.concatenate([part.ravel() for part in variances(form + rest)])
    whole = (form + rest).reshape(-1, 2).var(axis=0).sum()
    # Shares are ratios, which are biased: here the total variance is a known number.
    monkeypatch.setattr("phimap.explain.sampled_effects._Choices.variance", lambda self, outputs: whole)
    found, errors = [], []
    for seed in range(SEEDS):
        chosen = np.random.default_rng(seed).integers(Q, size=(600, P))
        forms = FormEffects(*decomposition(form), form[tuple(chosen.T)]) if with_forms else None
        shares = sampled_shares(forms, chosen, rest[tuple(chosen.T)] - 4.9, Q)
        found.append(whole * np.concatenate([shares.first, shares.second.ravel()]))
        errors.append(whole * np.concatenate([shares.first_errors, shares.second_errors.ravel()]))
    found, errors = np.stack(found), np.stack(errors)
    used = wanted > 0
    assert not found[:, ~used].any()
    spread = found.std(axis=0, ddof=1)[used]
    limit = student.ppf(1 - FALSE_ALARM / (2 * used.sum()), SEEDS - 1)

    def statistic(expected):
        return np.abs((found.mean(axis=0)[used] - expected) * np.sqrt(SEEDS) / spread).max()

    assert statistic(wanted[used]) < limit
    alone = np.concatenate([part.ravel() for part in variances(rest if with_forms else 1.1 * rest)])
    assert statistic(alone[used]) > limit
    # A standard error from 16 groups has a relative standard deviation of about 0.2, its mean over 64 seeds of 0.03.
    ratios = np.sqrt(np.square(errors).mean(axis=0))[used] / spread
    assert ratios.min() > 0.75
    assert ratios.max() < 1.5


def test_any_model_has_effects_that_say_that_they_are_sampled():
    X, y = data(4)
    model = pm.KernelRegressor("ntk", 64, metric=None, corrections=None, random_state=0).fit(X, y)
    found = pm.explain.effects(model, X)
    exact = pm.explain.effects(fitted("gaussian landmarks", X, y), X)
    assert exact.exact
    assert exact.first_errors is None
    assert not found.exact
    assert found.first_errors.shape == (4,)
    assert found.second_errors.shape == (4, 4)
    assert found.first.argmax() == exact.first.argmax()
    assert 0 < found.first_errors.max() < 0.05
    np.testing.assert_array_equal(found.second, found.second.T)


def test_sampling_an_exact_part_gives_the_same_effects(monkeypatch):
    """The forms of a model are called parts without a form, one half of them or all."""
    X, y = data(4)
    model = fitted("sum landmarks", X, y)
    wanted = pm.explain.effects(model, X)
    subject = subject_of(model, X)

    def outputs(forms):
        return lambda rows: sum(form.outputs(rows) for form in forms)

    kept, left = subject.forms[:1], subject.forms[1:]
    for split in (
        replace(subject, forms=kept, rest=outputs(left)),
        replace(subject, forms=(), outputs=outputs(subject.forms)),
    ):
        monkeypatch.setattr(sys.modules["phimap.explain.effects"], "subject_of", lambda model, X, split=split: split)
        found = pm.explain.effects(model, X)
        assert not found.exact
        # The total variance of exact effects has an error of about 2 %.
        assert np.abs(found.first - wanted.first).max() < 6 * found.first_errors.max() + 0.08 * wanted.first.max()
        assert np.abs(found.second - wanted.second).max() < 6 * found.second_errors.max() + 0.08 * wanted.second.max()


def test_columns_of_a_frame_of_any_estimator():
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.standard_normal(200), "town": rng.choice(["Ulm", "Bonn", "Kiel"], 200)})
    encoder = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    model = make_pipeline(encoder, LinearRegression()).fit(frame, 2 * frame["size"] + (frame["town"] == "Ulm"))
    found = pm.explain.effects(model, frame)
    assert found.feature_names == ["size", "town"]
    assert found.first.sum() == pytest.approx(1.0, abs=6 * found.first_errors.sum() + 1e-9)
    # A linear model has no effects of pairs.
    assert abs(found.second[0, 1]) < 6 * found.second_errors[0, 1] + 1e-9


def test_rows_are_needed_for_sampled_parts():
    X, y = data(4)
    model = pm.KernelRegressor("ntk", 64, metric=None, corrections=None, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="`X` must be given for a model that is not a sum of exact forms"):
        pm.explain.effects(model)


def test_effects_of_too_many_pairs_are_refused():
    X, y = data(40)
    model = fitted("gaussian phases", X, y)
    with pm.config(memory="1MB"), pytest.raises(ValueError, match="over the budget of 1"):
        pm.explain.effects(model, X)
