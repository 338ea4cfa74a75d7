"""Exact Shapley values against brute force over all subsets, for every kind of model, and the axioms."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import phimap as pm
from phimap.explain import shapley
from phimap.explain.forms import base
from phimap.kernels import Additive, Gaussian, Matern
from tests.explain.models import MAPS, brute_force, brute_force_pairs, data, fitted, function_of
from tests.fuzz.samples import averaged

#: Largest difference from brute force, in units of the range of the outputs.
TOLERANCE = 1e-8


def check(found, wanted, function, rows):
    wanted = wanted if found.values.ndim == 3 else wanted[..., 0]
    spread = np.ptp(function(rows)) + np.abs(wanted).max()
    assert np.abs(found.values - wanted).max() < TOLERANCE * spread


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("d", [3, 6])
def test_every_form_equals_brute_force(name, d):
    X, y = data(d, targets=2 if name == "gaussian landmarks" else 1)
    model = fitted(name, X, y)
    found = pm.explain.shapley_values(model, X[:3], X[50:57])
    wanted = brute_force(function_of(model), X[:3], X[50:57], [np.array([j]) for j in range(d)])
    assert found.exact
    assert found.standard_errors is None
    check(found, wanted, function_of(model), X)


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("shift", [0.0, 1e9])
def test_trees_of_numbers_equal_brute_force(targets, shift):
    """A target far from zero has units of its own, which the trees share."""
    X, y = data(5, targets=targets)
    model = averaged(fitted("gaussian phases", X, y + shift), X, y + shift)
    rows, background, columns = X[:3], X[50:57], [np.array([j]) for j in range(5)]
    found = pm.explain.shapley_values(model, rows, background)

    def function(mixed):
        return function_of(model)(mixed) - shift

    wanted = brute_force(function, rows, background, columns)
    assert found.exact
    check(found, wanted, function, X) if not shift else np.testing.assert_allclose(
        found.values.reshape(wanted.shape), wanted, atol=1e-6
    )
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model.predict(rows), rtol=1e-9, atol=1e-9)
    pairs = pm.explain.interactions(model, rows[:1], background)
    wanted = brute_force_pairs(function, rows[0], background, 0, 3) / 2
    np.testing.assert_allclose(pairs.values[0, 0, 3].ravel(), wanted.ravel(), atol=1e-6 if shift else 1e-10)


def test_trees_of_labels_are_sampled():
    X, y = data(3)
    model = pm.KernelClassifier("gaussian", 32, metric=None, random_state=0).fit(X, y > 0)
    model = averaged(model, X, y > 0)
    found = pm.explain.shapley_values(model, X[:2], X[50:60])
    wanted = brute_force(lambda rows: model.decision_function(rows)[:, None], X[:2], X[50:60], [[0], [1], [2]])
    assert not found.exact
    assert np.abs(found.values - wanted[..., 0]).max() < 6 * found.standard_errors.max() + 1e-12
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model.decision_function(X[:2]))


def test_products_with_matern_kernels():
    """One Matern kernel is a mixture of product kernels; two have too many summands, and are sampled."""
    X, y = data(4)
    for kernel, is_exact in (
        (Additive(Gaussian(2.0), 2) * Matern(2.5, 5.0), True),
        (Additive(Gaussian(2.0), 2) * Matern(2.5, 5.0) * Matern(1.5, 9.0), False),
    ):
        features = pm.NystroemFeatures(kernel, 40, random_state=0)
        model = pm.KernelRegressor(features, metric=None, corrections=None, alpha=1e-3, random_state=0).fit(X, y)
        found = pm.explain.shapley_values(model, X[:1], X[50:53])
        wanted = brute_force(function_of(model), X[:1], X[50:53], [np.array([j]) for j in range(4)])
        assert found.exact == is_exact
        if is_exact:
            check(found, wanted, function_of(model), X)


@pytest.mark.parametrize("seed", range(20))
def test_twenty_models_of_ten_columns_equal_brute_force(seed):
    name = list(MAPS)[seed % len(MAPS)]
    X, y = data(10, seed=seed)
    model = fitted(name, X, y)
    found = pm.explain.shapley_values(model, X[:1], X[50:53])
    wanted = brute_force(function_of(model), X[:1], X[50:53], [np.array([j]) for j in range(10)])
    check(found, wanted, function_of(model), X)


@pytest.mark.usefixtures("brief_search")
@pytest.mark.parametrize("metric", ["full", "diagonal"])
def test_metrics_are_exact(metric):
    X = data(5, n=400)[0]
    y = np.sin(2 * (X[:, 0] + X[:, 1]) * (metric == "full") + X[:, 2])
    model = pm.KernelRegressor("gaussian", 64, metric=metric, corrections=None, effort="fast", random_state=0)
    model.fit(X, y)
    found = pm.explain.shapley_values(model, X[:2], X[50:55])
    wanted = brute_force(function_of(model), X[:2], X[50:55], [np.array([j]) for j in range(5)])
    assert found.exact
    assert model.metric_.ndim == (2 if metric == "full" else 1)
    check(found, wanted, function_of(model), X)


@pytest.mark.parametrize("classes", [2, 3])
def test_classifiers_are_explained_on_scores(classes):
    X, y = data(4)
    labels = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    model = pm.KernelClassifier(MAPS["gaussian phases"](), metric=None, random_state=0).fit(X, labels)
    found = pm.explain.shapley_values(model, X[:3], X[50:57])
    scores = model.decision_function(X[:3])
    assert found.values.shape == ((3, 4) if classes == 2 else (3, 4, 3))
    assert found.output_names == (None if classes == 2 else ["0", "1", "2"])
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, scores, atol=1e-10)


def test_doubly_stochastic_learners_are_exact():
    X, y = data(4)
    model = pm.DoublyStochasticRegressor(n_components=128, random_state=0).fit(X, y)
    found = pm.explain.shapley_values(model, X[:2], X[50:55])
    wanted = brute_force(function_of(model), X[:2], X[50:55], [np.array([j]) for j in range(4)])
    assert found.exact
    check(found, wanted, function_of(model), X)


@pytest.mark.parametrize(
    "name", ["gaussian landmarks", "matern 3/2 landmarks", "gaussian phases", "additive 2 landmarks"]
)
def test_a_dummy_column_gets_nothing_and_equal_columns_the_same(name):
    X, y = data(5)
    X[:, 3] = X[:, 1]
    X[:, 4] = 2.0
    model = fitted(name, X, y)
    found = pm.explain.shapley_values(model, X[:4], X[60:80])
    assert np.abs(found.values[:, 4]).max() <= 1e-12
    if name != "gaussian phases":
        # Random frequencies differ between the two columns; kernels do not.
        np.testing.assert_allclose(found.values[:, 1], found.values[:, 3], rtol=0, atol=1e-10)
    moved = X.copy()
    moved[:, 4] = 7.0
    assert np.abs(pm.explain.shapley_values(model, X[:4], X[60:80]).values[:, 4]).max() <= 1e-12


def test_the_tests_reject_mutants(monkeypatch):
    X, y = data(6)
    model = fitted("gaussian landmarks", X, y)
    wanted = brute_force(function_of(model), X[:2], X[50:57], [np.array([j]) for j in range(6)])
    phases = fitted("gaussian phases", X, y)
    wanted_phases = brute_force(function_of(phases), X[:2], X[50:57], [np.array([j]) for j in range(6)])

    def too_few_nodes(n_others, **named):
        return base.coalition_rule(n_others - 2, **named)

    def shifted(n_others, **named):
        nodes, weights = base.coalition_rule(n_others, **named)
        return 0.99 * nodes, weights

    for mutant in (too_few_nodes, shifted):
        for module in ("products", "phases"):
            monkeypatch.setattr(f"phimap.explain.forms.{module}.coalition_rule", mutant)
        for one, right in ((model, wanted), (phases, wanted_phases)):
            found = pm.explain.shapley_values(one, X[:2], X[50:57])
            with pytest.raises(AssertionError):
                check(found, right, function_of(one), X)


def test_float32_is_additive():
    X, y = data(8, n=400)
    X = X.astype(np.float32)
    for name in MAPS:
        model = fitted(name, X, y.astype(np.float32), alpha=1e-1)
        found = pm.explain.shapley_values(model, X[:20], X[60:90])
        predicted = model.predict(X[:20])
        error = np.abs(found.values.sum(axis=1) + found.base_values - predicted).max()
        assert error < 1e-5 * np.ptp(predicted), name
        exact = model.predict(X[:20].astype(np.float64))
        error = np.abs(found.values.sum(axis=1) + found.base_values - exact).max()
        assert error < 1e-6 * np.ptp(predicted), name


def test_threads_change_no_bit():
    X, y = data(7)
    for name in MAPS:
        model = fitted(name, X, y)
        one, four = (
            pm.explain.shapley_values(model.set_params(n_jobs=jobs), X[:11], X[50:60]).values for jobs in (1, 4)
        )
        assert np.array_equal(one, four), name


def test_a_small_budget_gives_the_same_values():
    X, y = data(7)
    model = fitted("gaussian phases", X, y)
    wanted = pm.explain.shapley_values(model, X[:5], X[50:90]).values
    with pm.config(memory="200KB"):
        found = pm.explain.shapley_values(model, X[:5], X[50:90]).values
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def mixed_table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": rng.standard_normal(n),
            "town": rng.choice(["Ulm", "Bonn", "Kiel"], n),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "note": rng.choice(["red door", "blue door", "blue roof", "old red roof"], n),
        }
    )
    frame.loc[::17, "size"] = np.nan
    y = frame["size"].fillna(0.5) + (frame["town"] == "Ulm") + 0.1 * rng.standard_normal(n)
    return frame, y.to_numpy()


def test_columns_of_a_frame_are_players():
    frame, y = mixed_table()
    model = pm.KernelRegressor("gaussian", 64, metric=None, corrections=None, random_state=0).fit(frame, y)
    found = pm.explain.shapley_values(model, frame[:4], frame[50:60])
    assert found.feature_names == ["size", "town", "day", "note"]
    assert found.values.shape == found.data.shape == (4, 4)
    encoder = model.encoder_
    groups = [np.flatnonzero(encoder.groups_ == j) for j in range(4)]
    rows = [np.asarray(encoder.transform(part), dtype=np.float64) for part in (frame[:4], frame[50:60])]
    with pm.config(memory="1GB"):
        wanted = brute_force(lambda X: shapley.subject_of(model, frame).outputs(X), *rows, groups)
    np.testing.assert_allclose(found.values, wanted[..., 0], rtol=0, atol=1e-8)


def test_other_models_are_sampled_within_their_standard_error():
    X, y = data(6)
    model = pm.KernelRegressor("ntk", 64, metric=None, corrections=None, random_state=0).fit(X, y)
    found = pm.explain.shapley_values(model, X[:8], X[50:])
    wanted = brute_force(function_of(model), X[:8], X[50:], [np.array([j]) for j in range(6)])[..., 0]
    assert not found.exact
    assert found.standard_errors is not None
    z = (found.values - wanted) / found.standard_errors
    # 48 standardised errors, of variances that are themselves estimated from 70 pairs of permutations.
    assert np.abs(z).max() < 6
    assert 0.6 < np.sqrt(np.mean(z**2)) < 1.5
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model.predict(X[:8]), atol=1e-6)


def test_any_estimator_and_frames_are_sampled():
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame, y = mixed_table()
    frame = frame[["size", "town"]].fillna(0.0)
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough"), LinearRegression()
    ).fit(frame, y)
    found = pm.explain.shapley_values(model, frame[:5], frame[50:70])
    slope = model[-1].coef_[-1]
    wanted = slope * (frame["size"][:5] - frame["size"][50:70].mean())
    np.testing.assert_allclose(found.values[:, 0], wanted, atol=1e-10)
    assert not found.exact


def test_far_rows_are_sampled_and_add_up_to_the_prediction():
    X, y = data(3)
    model = fitted("gaussian phases", X, y)
    rows = X[:3].copy()
    rows[0] = 100.0
    found = pm.explain.shapley_values(model, rows, X[50:60])
    assert not found.exact
    assert not found.standard_errors[1:].any()
    with pytest.warns(pm.learn.OutsideWarning if hasattr(pm.learn, "OutsideWarning") else UserWarning):
        predicted = model.predict(rows)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, predicted, atol=1e-9)


@pytest.mark.parametrize("name", MAPS)
def test_interactions_equal_brute_force_and_sum_to_the_values(name):
    X, y = data(5)
    model = fitted(name, X, y)
    found = pm.explain.interactions(model, X[:2], X[50:55])
    values = pm.explain.shapley_values(model, X[:2], X[50:55]).values
    np.testing.assert_allclose(found.values.sum(axis=2), values, rtol=0, atol=1e-10)
    for j, k in ((0, 1), (1, 2), (3, 4)):
        wanted = brute_force_pairs(function_of(model), X[0], X[50:55], j, k)[0]
        assert abs(2 * found.values[0, j, k] - wanted) < TOLERANCE * np.ptp(y)
        assert found.values[0, j, k] == pytest.approx(found.values[0, k, j], abs=1e-12)
    assert len(found.largest(3)) == 3


def test_effects_find_the_interaction_and_add_up():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 4))
    y = 2 * X[:, 0] + X[:, 1] * X[:, 2]
    for kernel in ("gaussian", pm.NystroemFeatures(Gaussian(3.0), 300, random_state=0)):
        model = pm.KernelRegressor(kernel, metric=None, corrections=None, random_state=0).fit(X, y)
        for found in (pm.explain.effects(model, X), pm.explain.effects(model)):
            assert found.first[0] > 0.6
            assert found.largest(1)[0][:2] == ("column 1", "column 2")
            assert found.largest(1)[0][2] > 0.1
            assert found.first.sum() + found.second.sum() / 2 == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize(
    "name",
    [
        "gaussian landmarks",
        "gaussian phases",
        "additive 2 landmarks",
        "additive 3 landmarks",
        "additive product landmarks",
        "two additive landmarks",
        "additive squared landmarks",
    ],
)
def test_effects_equal_the_decomposition_over_all_levels(name):
    X, y = data(3)
    model = fitted(name, X, y)
    subject = shapley.subject_of(model, X)
    levels, players = X[:4], subject.players
    chosen = np.array(np.meshgrid(*[np.arange(4)] * 3, indexing="ij")).reshape(3, -1).T
    parts = [form.effects(levels, players, chosen) for form in subject.forms]
    table = sum(part.sampled for part in parts)[:, 0].reshape(4, 4, 4)
    rows = np.stack([X[:4][chosen[:, j], j] for j in range(3)], axis=1)
    np.testing.assert_allclose(table.ravel() + subject.intercept, model.predict(rows), atol=1e-9)
    mean = table.mean()
    first = [table.mean(axis=tuple(set(range(3)) - {j})) - mean for j in range(3)]
    for j in range(3):
        np.testing.assert_allclose(sum(part.first for part in parts)[j, :, 0], first[j], atol=1e-9)
    second = table.mean(axis=2) - mean - first[0][:, None] - first[1]
    np.testing.assert_allclose(sum(part.second for part in parts)[0, 1, :, :, 0], second, atol=1e-9)


@pytest.mark.parametrize("d", [4, 5])
def test_sampled_interactions_agree_with_brute_force_within_their_standard_error(d):
    X, y = data(d)
    model = pm.KernelRegressor("ntk", 64, metric=None, corrections=None, random_state=0).fit(X, y)
    function, pairs = function_of(model), list(combinations(range(d), 2))
    rows, background, places = X[:2], X[50:80], (slice(None), *np.array(pairs).T)
    found = [pm.explain.interactions(model, rows, background, random_state=seed) for seed in range(16)]
    values = np.stack([one.values for one in found])
    assert not found[0].exact
    # Sixteen seeds give 15 degrees of freedom; the largest of 20 such statistics exceeds 6 once in 1,000 times.
    error = values.std(axis=0, ddof=1)
    claimed = np.sqrt(np.mean([np.square(one.standard_errors) for one in found], axis=0))
    assert 0.8 < np.mean(error[places]) / np.mean(claimed[places]) < 1.25
    halves = [[brute_force_pairs(function, row, background, j, k)[0] / 2 for j, k in pairs] for row in rows]
    bias = np.abs(values.mean(axis=0)[places] - halves) / (error[places] / 4)
    assert bias.max() < 6
    mutant = np.abs(1.1 * values.mean(axis=0)[places] - halves) / (error[places] / 4)
    assert mutant.max() > 6
    columns = brute_force(function, rows, background, [np.array([j]) for j in range(d)])[..., 0]
    sums = values.sum(axis=3)
    assert (np.abs(sums.mean(axis=0) - columns) / (sums.std(axis=0, ddof=1) / 4)).max() < 6
    for one in found:
        total = one.values.sum(axis=(1, 2)) + one.base_values
        np.testing.assert_allclose(total, model.predict(rows), atol=1e-6)
        np.testing.assert_array_equal(one.values, one.values.transpose(0, 2, 1))


def test_sampled_interactions_of_two_columns_have_no_error():
    X, y = data(2)
    model = pm.KernelRegressor("ntk", 64, metric=None, corrections=None, random_state=0).fit(X, y)
    found = pm.explain.interactions(model, X[:2], X[50:])
    wanted = [brute_force_pairs(function_of(model), row, X[50:], 0, 1)[0] / 2 for row in X[:2]]
    np.testing.assert_allclose(found.values[:, 0, 1], wanted, rtol=0, atol=1e-9)
    assert found.standard_errors.max() < 1e-9


def test_parts_without_a_form_are_sampled_in_interactions():
    X, y = data(4, n=300)
    model = pm.KernelRegressor(MAPS["gaussian phases"](), metric=None, random_state=0).fit(X, y)
    rows = X[:3].copy()
    rows[0] = 100.0
    found = pm.explain.interactions(model, rows, X[50:60])
    values = pm.explain.shapley_values(model, rows, X[50:60])
    assert not found.exact
    with pytest.warns(pm.learn.OutsideWarning if hasattr(pm.learn, "OutsideWarning") else UserWarning):
        predicted = model.predict(rows)
    np.testing.assert_allclose(found.values.sum(axis=(1, 2)) + found.base_values, predicted, atol=1e-9)
    assert values.base_values == found.base_values


def test_one_column_of_any_estimator():
    from sklearn.linear_model import LinearRegression

    X, y = data(3)
    model = LinearRegression().fit(X[:, :1], y)
    for explain in (pm.explain.shapley_values, pm.explain.interactions):
        found = explain(model, X[:2, :1], X[50:60, :1])
        np.testing.assert_allclose(found.values.ravel() + found.base_values, model.predict(X[:2, :1]), atol=1e-12)


def test_to_shap():
    shap = pytest.importorskip("shap")
    X, y = data(4)
    found = pm.explain.shapley_values(fitted("gaussian phases", X, y), X[:5], X[50:60]).to_shap()
    assert isinstance(found, shap.Explanation)
    assert found.values.shape == (5, 4)
    assert found.base_values.shape == (5,)


@pytest.mark.usefixtures("brief_search")
@pytest.mark.parametrize(
    "kind",
    [pm.KernelRegressor, pm.KernelClassifier, pm.DoublyStochasticRegressor, pm.DoublyStochasticClassifier],
    ids=lambda kind: kind.__name__,
)
def test_no_learner_looks_linear_in_the_columns(kind):
    """By this rule shap takes a model for a linear one. Mutant: scikit-learn's ridge regression."""

    def is_linear(model):
        return hasattr(model, "coef_") and hasattr(model, "intercept_")

    X, y = data(3)
    y = (y > np.median(y)).astype(int) if "Classifier" in kind.__name__ else y
    model = kind("gaussian", n_components=32, random_state=0).fit(X, y)
    assert is_linear(Ridge().fit(X, y))
    assert not is_linear(model)
    assert np.isfinite(model.constant_)


def test_shap_explains_the_function_of_a_model_and_refuses_the_model():
    shap = pytest.importorskip("shap")
    X, y = data(3)
    model = fitted("gaussian phases", X, y)
    with pytest.raises(TypeError, match="not callable"):
        shap.Explainer(model, X)
    theirs = shap.Explainer(model.predict, X[:50])(X[:3])
    ours = pm.explain.shapley_values(model, X[:3], X[:50])
    np.testing.assert_allclose(theirs.values, ours.values, atol=1e-6)
