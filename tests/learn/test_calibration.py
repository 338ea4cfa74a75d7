"""Probabilities of classes: the most likely ones, of rows that the model has not seen, for every loss."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import TunedThresholdClassifierCV

import phimap as pm
from phimap.learn.calibration import Calibration, _objective
from phimap.learn.registry import LOSSES
from phimap.learn.solver import HeldOutScores
from phimap.records import equal_records
from tests.support.learners import GAUSSIAN


def held_out_scores(n_classes: int, n: int, noise: float = 0.5, low: float = 0.0) -> HeldOutScores:
    """Scores around what they were to be, and less certain of the label the larger the noise."""
    rng = np.random.default_rng(n_classes)
    labels = rng.integers(n_classes, size=n)
    if n_classes == 2:
        targets, low = np.where(labels == 1, 1.0, -1.0)[:, None], -1.0
    else:
        targets = np.where(np.eye(n_classes)[labels] > 0, 1.0, low)
    shrunk = 0.6 * targets + 0.4 * (1 + low) / 2
    return HeldOutScores(shrunk + noise * (1 - low) * rng.standard_normal(targets.shape), targets)


def log_loss(calibration: Calibration, held_out: HeldOutScores) -> np.ndarray:
    """Minus the logarithms of the probabilities of the labels (r,)."""
    logarithms = calibration.log_probabilities(held_out.predictions)
    targets = held_out.targets
    labels = (targets[:, 0] > 0).astype(int) if targets.shape[1] == 1 else targets.argmax(axis=1)
    return -logarithms[np.arange(len(labels)), labels]


def weighted(held_out: HeldOutScores, weights: np.ndarray) -> HeldOutScores:
    return replace(held_out, weights=weights)


@pytest.mark.parametrize(("n_classes", "low"), [(2, -1.0), (5, 0.0), (5, -1.0)])
@pytest.mark.parametrize("with_weights", [False, True])
def test_parameters_are_the_most_likely(n_classes, low, with_weights):
    """A search without gradients, by a formula written anew, ends at the same place."""
    held_out = held_out_scores(n_classes, 300, low=low)
    weights = np.random.default_rng(1).exponential(size=300) if with_weights else np.ones(300)
    found = Calibration.of(weighted(held_out, weights) if with_weights else held_out)
    assert found.low == low

    def objective(point: np.ndarray) -> float:
        u = (held_out.predictions - low) / (1 - low)
        u, wanted = (np.hstack([1 - v, v]) if n_classes == 2 else v for v in (u, (held_out.targets - low) / (1 - low)))
        p = np.log1p(np.exp(u / np.exp(point[1]))) ** np.exp(point[0])
        likelihood = (wanted * np.log(p / p.sum(axis=1, keepdims=True))).sum(axis=1)
        prior = -0.5 * ((point[0] - 1.2) ** 2 + (point[1] + 2.0) ** 2)
        return -(weights / weights.mean()) @ likelihood - prior

    best = minimize(objective, [0.0, -1.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10})
    np.testing.assert_allclose(np.log([found.power, found.width]), best.x, atol=1e-3)


def test_gradient_is_that_of_the_objective():
    shares = np.random.default_rng(0).normal(0.3, 3.0, (50, 4))
    labels, weights = np.arange(50) % 4, np.linspace(0.5, 1.5, 50)
    for point in (np.array([1.2, -2.0]), np.array([-1.0, -3.0])):
        _, gradient = _objective(point, shares, labels, weights)
        for i, step in enumerate(1e-6 * np.eye(2)):
            high, low = (_objective(point + s * step, shares, labels, weights)[0] for s in (1, -1))
            assert gradient[i] == pytest.approx((high - low) / 2e-6, rel=1e-5)


def test_weights_are_repeated_rows_and_multiples():
    held_out = held_out_scores(3, 2000)
    once = Calibration.of(held_out)
    assert equal_records(Calibration.of(weighted(held_out, np.full(2000, 4.0))), once)
    # Rows that are mistaken count more.
    counts = np.where(held_out.predictions.argmax(axis=1) == held_out.targets.argmax(axis=1), 1, 3)
    again = np.repeat(np.arange(2000), counts)
    repeated = Calibration.of(HeldOutScores(held_out.predictions[again], held_out.targets[again]))
    counted = Calibration.of(weighted(held_out, counts.astype(float)))
    one, two, three = (np.exp(part.log_probabilities(held_out.predictions)) for part in (repeated, counted, once))
    # But for the prior, which counts as much beside 2,000 rows as beside 4,000.
    np.testing.assert_allclose(two, one, atol=0.02)
    assert np.abs(three - one).max() > 0.1


def test_a_softmax_with_a_temperature_is_a_limit():
    scores = np.random.default_rng(0).standard_normal((20, 5))
    width = 1e6
    # The slope of log softplus at 0 is 1 / (2 log 2).
    wide = Calibration(0.0, 3.0 * width * 2 * np.log(2), width)
    np.testing.assert_allclose(wide.log_probabilities(scores), log_softmax(3.0 * scores, axis=1), atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_outputs", [1, 7])
def test_probabilities_are_finite_sum_to_one_and_keep_the_order(dtype, n_outputs):
    scores = np.random.default_rng(0).standard_normal((200, n_outputs)).astype(dtype)
    scores[:50] *= 1e4
    calibration = Calibration(-1.0 if n_outputs == 1 else 0.0, 5.0, 0.05)
    logarithms = calibration.log_probabilities(scores)
    assert logarithms.dtype == dtype
    assert np.isfinite(logarithms).all()
    np.testing.assert_allclose(np.exp(logarithms).sum(axis=1), 1.0, atol=1e-5 if dtype == np.float32 else 1e-12)
    wanted = (scores[:, 0] > 0).astype(int) if n_outputs == 1 else scores.argmax(axis=1)
    np.testing.assert_array_equal(logarithms.argmax(axis=1), wanted)


@pytest.mark.parametrize("n", [1, 2, 10])
def test_few_rows_told_apart_leave_doubt(n):
    """Without the prior the likelihood has no maximum."""
    targets = np.where(np.arange(n) % 2, 1.0, -1.0)[:, None]
    calibration = Calibration.of(HeldOutScores(targets, targets))
    assert 0.01 < calibration.width < 1
    assert np.exp(calibration.log_probabilities(np.zeros((1, 1))))[0] == pytest.approx(0.5)
    assert (log_loss(calibration, HeldOutScores(targets, targets)) > 1e-4).all()


def expected_calibration_error(probabilities: np.ndarray, y: np.ndarray) -> float:
    top, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    bins = np.minimum((15 * top).astype(int), 14)
    return sum(abs((right - top)[bins == k].sum()) for k in range(15)) / len(y)


def test_probabilities_are_those_of_new_rows():
    """Labels drawn with known probabilities; mutant: scores of the training rows.

    The cross entropy of 3,000 new rows is compared with that of the calibration to these rows themselves. In 20 seeds
    it is 0.01 more in the mean and 0.04 at the most; that of the mutant 0.15 in the mean and 0.065 at the least.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3400, 5))
    truth = 1 / (1 + np.exp(-2 * np.sin(2 * X[:, 0]) - X[:, 1]))
    y = (rng.random(len(X)) < truth).astype(int)
    model = pm.KernelClassifier(n_components=300, alpha=0.01, random_state=0, **GAUSSIAN).fit(X[:400], y[:400])
    truths = np.stack([1 - truth, truth], axis=1)[400:]

    def cross_entropy(calibration: Calibration) -> float:
        scores = model.decision_function(X[400:])[:, None]
        return -float((truths * calibration.log_probabilities(scores)).sum(axis=1).mean())

    def of_rows(rows: slice) -> Calibration:
        return Calibration.of(
            HeldOutScores(model.decision_function(X[rows])[:, None], np.where(y[rows] == 1, 1.0, -1.0)[:, None])
        )

    best = cross_entropy(of_rows(slice(400, None)))
    assert model.calibration_ is not None
    assert cross_entropy(model.calibration_) < best + 0.05
    assert cross_entropy(of_rows(slice(400))) > best + 0.05


def test_digits_are_calibrated():
    """897 rows, a calibration error of 0.03 at the most; mutant: the softmax of the scores as they are."""
    X, y = load_digits(return_X_y=True)
    model = pm.KernelClassifier(n_components=512, standardize="global", random_state=0, **GAUSSIAN).fit(
        X[:900], y[:900]
    )
    assert expected_calibration_error(model.predict_proba(X[900:]), y[900:]) < 0.03
    mutant = np.exp(log_softmax(model.decision_function(X[900:]), axis=1))
    assert expected_calibration_error(mutant, y[900:]) > 0.3


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("alpha", [0.3, "auto"])
@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_every_loss_has_probabilities(loss, alpha, load):
    X, y = load(return_X_y=True)
    X = X.astype(np.float32)
    model = pm.KernelClassifier(n_components=64, loss=loss, alpha=alpha, random_state=0, **GAUSSIAN).fit(X[::2], y[::2])
    found = model.predict_proba(X)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), found)
    np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(X))
    assert (model.calibration_ is None) == (loss == "logistic")


@pytest.mark.parametrize("more", [{"loss": "squared_hinge"}, {"solver": "cg"}])
def test_solutions_in_passes_are_calibrated_at_an_alpha_that_is_given(more, streamed):
    """As well as at the same alpha where it is chosen, on rows of more than one batch."""
    X, y = load_digits(return_X_y=True)
    batches = [(X[:500], y[:500]), (X[500:900], y[500:900])]
    model = pm.KernelClassifier(n_components=256, standardize="global", random_state=0, **more, **GAUSSIAN)
    chosen = model.fit_batches(batches).predict_proba(X[900:])
    given = model.set_params(alpha=model.alpha_).fit_batches(batches).predict_proba(X[900:])
    assert model.solution_.criterion == "given"
    assert expected_calibration_error(given, y[900:]) < 0.03
    np.testing.assert_allclose(given, chosen, atol=0.1)
    assert np.abs(given - chosen).mean() < 0.005


@pytest.mark.filterwarnings("ignore:.*far outside of the training rows")
def test_they_follow_the_solution(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    model = pm.KernelClassifier(n_components=64, random_state=0, **GAUSSIAN).partial_fit(X[:200], y[:200])
    first = model.predict_proba(X[400:])
    other = copy.deepcopy(model).partial_fit(X[200:400], y[200:400])
    assert other.calibration_ is None
    second = other.predict_proba(X[400:])
    assert np.abs(second - first).max() > 1e-3
    merged = copy.deepcopy(model).merge(other, shared=model)
    np.testing.assert_allclose(merged.predict_proba(X[400:]), second, atol=1e-6)
    batches = [(X[:150], y[:150]), (X[150:400], y[150:400])]
    one, two = (clone_of(model, n_jobs).fit_batches(batches) for n_jobs in (1, 2))
    assert equal_records(one.calibration_, two.calibration_)
    np.testing.assert_allclose(
        one.predict_proba(X), clone_of(model, 1).fit(X[:400], y[:400]).predict_proba(X), atol=1e-6
    )


def clone_of(model: pm.KernelClassifier, n_jobs: int) -> pm.KernelClassifier:
    return pm.KernelClassifier(**{**model.get_params(), "n_jobs": n_jobs})


@pytest.mark.filterwarnings("ignore:.*far outside of the training rows")
@pytest.mark.parametrize("statistics", [False, True])
def test_files_keep_the_calibration(statistics, tmp_path):
    X, y = load_digits(return_X_y=True)
    model = pm.KernelClassifier(n_components=64, random_state=0, **GAUSSIAN).fit(X[:300], y[:300])
    pm.save(model, tmp_path / "model", statistics=statistics)
    loaded = pm.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_without_a_calibration_the_error_has_the_remedy():
    X, y = load_breast_cancer(return_X_y=True)
    model = pm.KernelClassifier(n_components=64, random_state=0, **GAUSSIAN).fit(X, y)
    model._fitted = replace(model._fitted, calibration=None)
    with pytest.raises(ValueError, match=r"probabilities need scores of rows .* Fit it again with this version"):
        model.predict_proba(X)
    assert model.predict(X).shape == y.shape


@pytest.mark.filterwarnings("ignore:.*far outside of the training rows")
def test_classes_without_rows_and_few_rows_stay_finite():
    X = np.random.default_rng(0).standard_normal((8, 3))
    y = np.arange(8) % 3
    model = pm.KernelClassifier(n_components=16, random_state=0, **GAUSSIAN).partial_fit(X, y, classes=[0, 1, 2, 3])
    assert np.isfinite(model.predict_log_proba(100 * X)).all()
    separable = pm.KernelClassifier(n_components=16, random_state=0, **GAUSSIAN).fit(X, (X[:, 0] > 0).astype(int))
    assert (separable.predict_proba(X) > 0).all()


def test_weights_of_classes_shift_probabilities():
    X, y = load_breast_cancer(return_X_y=True)
    plain, shifted = (
        pm.KernelClassifier(n_components=64, class_weight=weight, random_state=0, **GAUSSIAN)
        .fit(X, y)
        .predict_proba(X)[:, 1]
        .mean()
        for weight in (None, {0: 20.0})
    )
    assert plain == pytest.approx(y.mean(), abs=0.03)
    assert shifted < plain - 0.02


def test_thresholds_are_tuned_by_a_scorer():
    """The threshold that scikit-learn tunes for rare positives finds more of them than the even threshold."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 3))
    y = (X[:, 0] + rng.standard_normal(1500) > 2.2).astype(int)
    model = pm.KernelClassifier(n_components=64, random_state=0, **GAUSSIAN)
    tuned = TunedThresholdClassifierCV(model, scoring="balanced_accuracy", cv=3, random_state=0).fit(X[:1000], y[:1000])
    assert tuned.best_threshold_ < 0.3
    even = model.fit(X[:1000], y[:1000])
    scores = [balanced_accuracy_score(y[1000:], one.predict(X[1000:])) for one in (tuned, even)]
    assert scores[0] > scores[1] + 0.1
    np.testing.assert_array_equal(tuned.predict(X), even.predict_proba(X)[:, 1] >= tuned.best_threshold_)
