"""Scorers of scikit-learn that choose the loss and the share of the trees."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

import phimap as pm
from phimap.learn.average import _N_SHARES, _share_of_least_error
from phimap.learn.criterion import Criterion
from phimap.learn.solver import HeldOutScores
from phimap.learn.targets.base import TargetUnits
from phimap.learn.targets.classes import Classes
from phimap.learn.targets.numbers import Numbers

LABELS = Classes(np.array(["no", "yes"]))


def scores_of_labels(rng, n=200, classes=2):
    """Held-out scores of labels that are right in most rows, and the labels."""
    places = rng.integers(classes, size=n)
    Y = np.where(places == 1, 1.0, -1.0)[:, None] if classes == 2 else np.eye(classes)[places]
    return HeldOutScores(Y + rng.standard_normal(Y.shape), Y, rng.uniform(0.5, 2, n)), places


def test_errors_of_numbers_are_those_of_scikit_learn(rng):
    """In the units of the targets, and with the weights of the rows."""
    y = rng.lognormal(size=(100, 1))
    predicted, weights = y * rng.lognormal(0, 0.3, (100, 1)), rng.uniform(0.5, 2, 100)
    units = TargetUnits(np.array([3.0]), np.array([-5]))
    held_out = HeldOutScores(units.apply(predicted), units.apply(y), weights)

    def error(scoring):
        return Criterion(scoring, Numbers(1, True, units=units)).error(held_out)

    expected = metrics.mean_absolute_error(y, predicted, sample_weight=weights)
    assert error("neg_mean_absolute_error") == pytest.approx(expected)
    assert error("r2") == pytest.approx(1 - metrics.r2_score(y, predicted, sample_weight=weights))
    # Predictions below 0 have no logarithm, so the smallest target takes the place of all that are smaller.
    for least, expected in ((0.0, np.maximum(predicted, y.min())), (10.0, np.maximum(predicted - 10, y.min()))):
        low = HeldOutScores(predicted - least, y, weights)
        found = Criterion("neg_root_mean_squared_log_error", Numbers(1, True)).error(low)
        assert found == pytest.approx(metrics.root_mean_squared_log_error(y, expected, sample_weight=weights))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_errors_of_classes_are_those_of_scikit_learn(rng, loss):
    held_out, places = scores_of_labels(rng)
    weights, scores = held_out.weights, held_out.predictions[:, 0]
    area = metrics.roc_auc_score(places, scores, sample_weight=weights)
    share = metrics.accuracy_score(places, scores > 0, sample_weight=weights)
    found = [Criterion(name, LABELS).error(held_out, loss=loss) for name in ("roc_auc", "accuracy")]
    np.testing.assert_allclose(found, [1 - area, 1 - share], rtol=1e-12)


def test_errors_of_many_classes(rng):
    held_out, places = scores_of_labels(rng, classes=3)
    found = Criterion("balanced_accuracy", Classes(np.array([1, 5, 9]))).error(held_out)
    right = metrics.balanced_accuracy_score(places, held_out.predictions.argmax(axis=1), sample_weight=held_out.weights)
    assert found == pytest.approx(1 - right)


def test_the_share_of_trees_has_the_best_score(rng):
    """The trees order the rows without error, but all their scores are positive, so that their log loss is large."""
    held_out, places = scores_of_labels(rng)
    towards = held_out.predictions - (0.2 * held_out.targets + 5)

    def area(share):
        scores = (held_out.predictions - share * towards)[:, 0]
        return metrics.roc_auc_score(places, scores, sample_weight=held_out.weights)

    best = max(map(area, np.arange(_N_SHARES + 1) / _N_SHARES))
    found, by_log_loss = (
        _share_of_least_error(held_out, towards, 0.5, Criterion.of(one, LABELS)) for one in ("roc_auc", None)
    )
    assert area(found) == best > area(by_log_loss)


def test_losses_are_compared_by_the_scorer(rng, brief_search):
    """With accuracy, the errors of the losses are shares of the held-out rows."""
    X = rng.standard_normal((400, 3))
    y = np.where(X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(400) > 0, "yes", "no")
    model = pm.KernelClassifier(scoring="accuracy", random_state=0).fit(X, y)
    counts = model.search_.log_losses * 400
    np.testing.assert_allclose(counts, np.rint(counts), atol=1e-6)
    assert len(counts) > 1
    assert pm.KernelClassifier(**model.get_params()).scoring == "accuracy"


@pytest.mark.parametrize(
    ("learner", "scoring", "says"),
    [
        (pm.KernelRegressor, "accuracy", "scikit-learn scorer of numbers, got 'accuracy'"),
        (pm.KernelRegressor, "rand_score", "scikit-learn scorer of numbers, got 'rand_score'"),
        (pm.KernelClassifier, "r2", "scikit-learn scorer of classes, got 'r2'"),
        (pm.KernelClassifier, "positive_likelihood_ratio", "scorer of classes"),
        (pm.KernelClassifier, metrics.accuracy_score, "name of a scikit-learn scorer"),
    ],
)
def test_refusals(rng, learner, scoring, says):
    X = rng.standard_normal((40, 2))
    with pytest.raises(ValueError, match=says):
        learner(scoring=scoring).fit(X, (X[:, 0] > 0).astype(int))


def test_scorers_are_for_the_squared_loss_of_numbers(rng):
    X = rng.standard_normal((40, 2))
    with pytest.raises(ValueError, match="`scoring` must be None with loss='huber'"):
        pm.KernelRegressor(scoring="r2", loss="huber").fit(X, X[:, 0])


def test_a_scorer_that_fails_is_named(rng):
    """The scorer f1 takes labels 0 and 1 alone."""
    held_out, _ = scores_of_labels(rng)
    with pytest.raises(ValueError, match="got 'f1', which fails: pos_label=1"):
        Criterion("f1", LABELS).error(held_out)
