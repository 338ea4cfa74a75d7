"""Sample weights and class weights: rows that are repeated, scikit-learn's ridge, and what is refused."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.utils.class_weight import compute_class_weight

import phimap as pm
from phimap.learn.weights import LEAST_WEIGHT, MOST_WEIGHT
from tests.learn.problems import problem
from tests.support.learners import FIXED, GAUSSIAN

N, M = 300, 48
TOLERANCE = {np.float64: 1e-10, np.float32: 1e-5}
MAPS = {
    "dense": pm.FourierFeatures(pm.kernels.Gaussian(1.5), M, random_state=0),
    "signs": pm.TernaryFeatures("relu", M, sparsity=0.3, tau=1.0, packed=True, random_state=0),
    "bits": pm.TernaryFeatures("step", M, sparsity=0.3, packed=True, random_state=0),
    "codes": pm.QuantizedFeatures(
        pm.FourierFeatures(n_components=M, random_state=0), bits=4, packed=True, random_state=0
    ),
}


def close(found, expected, dtype=np.float64) -> None:
    """Equal to the tolerance of the dtype, of the largest value expected."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[dtype] * np.abs(expected).max())


@pytest.fixture(params=["primal", "dual"])
def form(request, monkeypatch) -> str:
    """Both forms of ridge regression for the same few rows."""
    if request.param == "primal":
        monkeypatch.setattr("phimap.learn.ridge.solver.LEAVE_ONE_OUT_ROWS", 0)
    return request.param


@pytest.fixture
def weights(rng) -> np.ndarray:
    """Whole numbers, zeros among them."""
    return rng.integers(0, 5, N).astype(float)


def inputs_of(X: np.ndarray, kind: str):
    if kind == "tensor":
        return pytest.importorskip("torch").tensor(X)
    return sparse.csr_matrix(X) if kind == "csr" else X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "csr", "tensor", "signs", "bits", "codes"])
def test_weights_are_repeated_rows(form, kind, dtype, weights):
    X, y = problem(N, dtype=dtype)
    Y = np.stack([y, 3 * y**2 + 1], axis=1)
    model = pm.KernelRegressor(clone(MAPS.get(kind, MAPS["dense"])), alpha=1.0, standardize="columns", **FIXED)
    if kind in MAPS and kind != "dense":
        # A bit of theirs would turn where a scale is rounded otherwise.
        model.set_params(standardize=False)
    again = np.repeat(np.arange(N), weights.astype(int))
    weighted = clone(model).fit(inputs_of(X, kind), Y, sample_weight=weights)
    repeated = clone(model).fit(inputs_of(X[again], kind), Y[again])
    assert weighted.solution_.form == repeated.solution_.form == form
    close(weighted.scaling_.factor, repeated.scaling_.factor, dtype)
    close(weighted.predict(inputs_of(X, kind)), repeated.predict(inputs_of(X, kind)), dtype)
    ignoring = clone(model).fit(inputs_of(X, kind), Y).predict(inputs_of(X, kind))
    assert np.abs(ignoring - repeated.predict(inputs_of(X, kind))).max() > 1e-2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weighted_fit_is_ridge_on_the_features(form, dtype, rng):
    X, y = problem(N, dtype=dtype)
    Y, weights = np.stack([y, 3 * y**2 + 1], axis=1), rng.exponential(size=N)
    model = pm.KernelRegressor(n_components=M, alpha=0.7, random_state=0, **GAUSSIAN).fit(X, Y, weights)
    Z = model.feature_map_.transform(((X - model.scaling_.shift) * model.scaling_.factor).astype(dtype))
    oracle = Ridge(alpha=0.7, solver="svd").fit(Z.astype(np.float64), Y, sample_weight=weights)
    close(model.predict(X), oracle.predict(Z.astype(np.float64)), dtype)
    mean = np.average(X.astype(np.float64), axis=0, weights=weights)
    close(model.scaling_.shift, mean)
    deviations = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
    close(1 / model.scaling_.factor, deviations)


@pytest.mark.parametrize("field", ["gram", "cross", "sum_z", "sum_y", "weight"])
def test_a_sum_without_weights_is_seen(streamed, field, rng):
    X, y = problem(N)
    weights = rng.exponential(size=N)
    model = pm.KernelRegressor(n_components=M, alpha=0.7, random_state=0, **GAUSSIAN).fit(X, y, weights)
    solver, rows = model.solver_, (X - model.scaling_.shift) * model.scaling_.factor
    Z = model.feature_map_.transform(rows)
    plain = type(model.statistics_).empty(M, 1)
    plain.update(Z, y[:, None])
    oracle = Ridge(alpha=0.7).fit(Z, y, sample_weight=weights).predict(Z)

    def error(statistics) -> float:
        try:
            solution = type(solver)(statistics).finish(0.7, None, 0, 1)
        except np.linalg.LinAlgError:
            return np.inf
        return np.abs((Z @ solution.coef + solution.intercept)[:, 0] - oracle).max()

    assert error(solver.statistics) < 1e-10
    assert error(replace(solver.statistics, **{field: getattr(plain, field)})) > 1e-3


def test_batches_and_merged_models_keep_weights(form, weights):
    X, y = problem(N)
    weights[:40] = 1
    model = pm.KernelRegressor(
        n_components=M, alpha=0.5, length_scale=2.0, standardize=False, random_state=0, kernel="gaussian", metric=None
    )
    expected = clone(model).fit(X, y, weights).predict(X)
    # The first rows have none, the second none that counts.
    batches = [(X[:40], y[:40]), (X[40:60], y[40:60], np.zeros(20)), (X[60:], y[60:], weights[60:])]
    absent = weights.copy()
    absent[40:60] = 0
    close(clone(model).fit_batches(batches).predict(X), clone(model).fit(X, y, absent).predict(X))
    first = clone(model).partial_fit(X[:40], y[:40])
    one, two = copy.deepcopy(first), copy.deepcopy(first)
    one.partial_fit(X[40:150], y[40:150], sample_weight=weights[40:150])
    two.partial_fit(X[150:], y[150:], sample_weight=weights[150:])
    close(one.merge(two, shared=first).predict(X), expected)
    assert one.statistics_.weight == weights.sum()
    assert one.n_samples_seen_ == np.count_nonzero(weights)


def test_weights_of_one_change_no_bit(form):
    X, y = problem(N)
    model = pm.KernelRegressor(n_components=M, random_state=0, **GAUSSIAN)
    plain = clone(model).fit(X, y).coef_
    np.testing.assert_array_equal(clone(model).fit(X, y, np.ones(N)).coef_, plain)


def test_a_common_factor_scales_alpha(form, rng):
    X, y = problem(N)
    weights = rng.exponential(size=N)
    model = pm.KernelRegressor(n_components=M, random_state=0, **GAUSSIAN)
    one, other = (clone(model).fit(X, y, factor * weights) for factor in (1.0, 1024.0))
    assert other.alpha_ == pytest.approx(1024 * one.alpha_, rel=1e-6)
    np.testing.assert_allclose(other.predict(X), one.predict(X), atol=1e-6)


def test_chosen_alpha_follows_the_weights(form):
    X, y = problem(N)
    noise = np.random.default_rng(0).standard_normal(N)
    y, noisy = y + 3 * noise * (np.arange(N) % 2), np.arange(N) % 2 == 1
    model = pm.KernelRegressor(n_components=200, random_state=0, **GAUSSIAN)
    few, many = (clone(model).fit(X, y, np.where(noisy, w, 1.0)) for w in (1e-6, 1.0))
    assert few.alpha_ < many.alpha_ / 10


def test_automatic_width_is_that_of_repeated_rows(weights):
    X, y = problem(N)
    first, second = np.triu_indices(N, 1)
    distances = np.linalg.norm(X[first] - X[second], axis=1)
    expected = np.median(np.repeat(distances, (weights[first] * weights[second]).astype(int)))
    model = pm.KernelRegressor(n_components=8, alpha=1.0, standardize=False, random_state=0, **GAUSSIAN)
    found = clone(model).fit(X, y, weights).kernel_.length_scale
    assert found == pytest.approx(expected, rel=1e-12)
    assert found != pytest.approx(clone(model).fit(X, y).kernel_.length_scale, rel=1e-4)


def test_rows_of_weight_zero_are_absent():
    X, y = problem(N)
    labels = np.digitize(y, [-0.5, 0.5])
    weights = (labels != 2).astype(float)
    model = pm.KernelClassifier(n_components=M, random_state=0, **GAUSSIAN)
    weighted, removed = clone(model).fit(X, labels, weights), clone(model).fit(X[labels != 2], labels[labels != 2])
    np.testing.assert_array_equal(weighted.classes_, [0, 1])
    np.testing.assert_array_equal(weighted.decision_function(X), removed.decision_function(X))


def test_score_is_weighted(rng):
    X, y = problem(N)
    model = pm.KernelRegressor(n_components=M, random_state=0, **GAUSSIAN).fit(X, y)
    weights = rng.integers(1, 4, N)
    again = np.repeat(np.arange(N), weights)
    assert model.score(X, y, sample_weight=weights) == pytest.approx(model.score(X[again], y[again]), rel=1e-12)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(N - 1), r"`sample_weight` must have shape \(300,\), one weight for each row, got \(299,\)"),
        (np.ones((N, 1)), r"`sample_weight` must have shape \(300,\).*got \(300, 1\)"),
        (np.full(N, -1.0), r"`sample_weight` must not be negative, got -1 at row 0"),
        (np.r_[np.ones(N - 1), np.nan], r"Input sample_weight contains NaN at row 299"),
        (np.r_[np.inf, np.ones(N - 1)], r"Input sample_weight contains infinity"),
        (np.zeros(N), r"`sample_weight` must not be zero at all rows"),
        (np.full(N, 1e200), r"`sample_weight` must be at most 1e\+15, got 1e\+200 at row 0. Divide"),
        (np.full(N, 1e-16), r"`sample_weight` must be 1e-15 or more on average, got 1e-16. Multiply"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    X, y = problem(N)
    model = pm.KernelRegressor(n_components=8, random_state=0, **GAUSSIAN)
    for train in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=message) as raised:
            train(X, y, sample_weight=weights)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("factor", [LEAST_WEIGHT, MOST_WEIGHT])
@pytest.mark.parametrize("size", [2.0**-60, 2.0**60])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_weights_change_nothing(form, factor, size, dtype):
    X, y = problem(N, dtype=dtype)
    model = pm.KernelRegressor(n_components=M, random_state=0, **GAUSSIAN).fit(X, size * y, np.full(N, factor))
    np.testing.assert_allclose(model.predict(X) / size, clone(model).fit(X, y).predict(X), atol=1e-2)


def test_weights_may_decay_to_nothing(form):
    X, y = problem(N)
    weights = np.exp(-2.0 * np.arange(N))
    weights[-1] = 5e-324
    model = pm.KernelRegressor(
        n_components=M, alpha=1.0, length_scale=2.0, random_state=0, kernel="gaussian", metric=None
    )
    model.fit_batches([(X[:200], y[:200], weights[:200]), (X[200:], y[200:], weights[200:])])
    head = clone(model).fit(X[:30], y[:30], weights[:30])
    np.testing.assert_allclose(model.predict(X), head.predict(X), rtol=0, atol=1e-9)


@pytest.fixture
def classes(rng) -> tuple[np.ndarray, np.ndarray]:
    """Three overlapping classes of unequal size."""
    y = rng.choice(["a", "b", "c"], N, p=[0.8, 0.15, 0.05])
    return rng.standard_normal((N, 2)) + np.searchsorted(["a", "b", "c"], y)[:, None], y


@pytest.mark.parametrize("class_weight", ["balanced", {"a": 0.5, "c": 7.0}])
@pytest.mark.parametrize("with_weights", [False, True])
def test_class_weights_are_sample_weights(form, classes, class_weight, with_weights, rng):
    X, y = classes
    given = rng.integers(1, 4, N).astype(float) if with_weights else np.ones(N)
    again = np.repeat(np.arange(N), given.astype(int))
    labels = np.unique(y)
    by_class = compute_class_weight(class_weight, classes=labels, y=y[again] if class_weight == "balanced" else labels)
    # Without scaling and width, which the weights of classes leave alone.
    model = pm.KernelClassifier(
        n_components=M, alpha=0.3, length_scale=2.0, standardize=False, random_state=0, kernel="gaussian", metric=None
    )
    expected = clone(model).fit(X, y, given * by_class[np.searchsorted(labels, y)]).decision_function(X)
    weighted = clone(model).set_params(class_weight=class_weight).fit(X, y, given)
    assert weighted.class_weight == class_weight
    close(weighted.decision_function(X), expected)
    assert np.abs(clone(model).fit(X, y, given).decision_function(X) - expected).max() > 1e-2


def test_class_weights_in_parts(classes):
    X, y = classes
    model = pm.KernelClassifier(n_components=M, alpha=0.3, class_weight={"a": 0.1}, random_state=0, **GAUSSIAN)
    first = clone(model).partial_fit(X[:200], y[:200])
    whole, part = copy.deepcopy(first).partial_fit(X[200:], y[200:]), copy.deepcopy(first)
    other = copy.deepcopy(first).partial_fit(X[200:], y[200:])
    close(part.merge(other, shared=first).decision_function(X), whole.decision_function(X))
    unlike = copy.deepcopy(first)
    unlike._fitted = replace(unlike._fitted, targets=replace(unlike._fitted.targets, factors=None))
    with pytest.raises(ValueError, match="`other` must share this model's scaling, feature map and targets"):
        first.merge(unlike)
    balanced = clone(model).set_params(class_weight="balanced")
    with pytest.raises(ValueError, match=r"`class_weight` 'balanced' is not known before all rows are"):
        balanced.partial_fit(X, y)


def test_balanced_classes_are_found_more_often(classes):
    X, y = classes
    model = pm.KernelClassifier(n_components=M, random_state=0, **GAUSSIAN)
    plain, balanced = (
        np.mean(clone(model).set_params(class_weight=weight).fit(X, y).predict(X)[y == "c"] == "c")
        for weight in (None, "balanced")
    )
    assert balanced > plain + 0.1


def test_balanced_classes_count_repeated_rows(classes, rng):
    X, y = classes
    counts = rng.integers(0, 4, N)
    again = np.repeat(np.arange(N), counts)
    model = pm.KernelClassifier(
        n_components=M,
        alpha=0.1,
        class_weight="balanced",
        length_scale=2.0,
        random_state=0,
        kernel="gaussian",
        metric=None,
    )
    weighted, repeated = clone(model).fit(X, y, counts), clone(model).fit(X[again], y[again])
    close(weighted.decision_function(X), repeated.decision_function(X))
    # A row is left out with its whole weight, one of equal rows alone: of these the others know its label.
    assert weighted.calibration_.width > repeated.calibration_.width


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ("even", r"`class_weight` must be None, 'balanced' or a dict of weights by class, got 'even'"),
        (3.0, r"`class_weight` must be None, 'balanced' or a dict"),
        ({"a": -1.0}, r"`class_weight` must lie between 1e-15 and 1e\+15, got -1 for 'a'"),
        ({"b": 0.0}, r"`class_weight` must lie between .* got 0 for 'b'. Leave out the rows"),
        ({"c": np.nan}, r"`class_weight` must lie between .* got nan for 'c'"),
    ],
)
def test_bad_class_weights_are_refused(classes, class_weight, message):
    with pytest.raises(ValueError, match=message):
        pm.KernelClassifier(n_components=8, class_weight=class_weight, **GAUSSIAN).fit(*classes)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_saved_models_keep_weights(form, classes, class_weight, tmp_path, rng):
    X, y = classes
    weights = rng.exponential(size=N)
    model = pm.KernelClassifier(n_components=M, alpha=0.5, class_weight=class_weight, random_state=0, **GAUSSIAN)
    model.fit(X, y, weights)
    pm.save(model, tmp_path / "m.phimap", statistics=True)
    loaded = pm.load(tmp_path / "m.phimap")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    if class_weight is None:
        again = loaded.partial_fit(X[:50], y[:50], sample_weight=weights[:50]).decision_function(X)
        np.testing.assert_array_equal(
            again, model.partial_fit(X[:50], y[:50], sample_weight=weights[:50]).decision_function(X)
        )
