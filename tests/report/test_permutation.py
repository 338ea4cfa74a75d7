"""Permutation importance on held-out rows, and what the report says of columns."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.inspection import permutation_importance

import phimap as pm
from phimap.report import permutation_importances
from tests.support.learners import GAUSSIAN

N = 600


@pytest.fixture(scope="module")
def problem():
    """Targets that depend on the second column most, on the first less, and not on the third."""
    X = np.random.default_rng(0).standard_normal((N, 3))
    return X, X[:, 0] + 3 * X[:, 1]


def learner(kind):
    return kind(n_components=64, random_state=0, **GAUSSIAN)


@pytest.mark.parametrize("labels", [False, True], ids=["numbers", "labels"])
def test_rises_are_those_of_scikit_learn(problem, labels):
    X, y = problem
    y = np.where(y > 0, "high", "low") if labels else y
    model = learner(pm.KernelClassifier if labels else pm.KernelRegressor).fit(X[:300], y[:300])
    found = permutation_importances(model, [(X[300:400], y[300:400]), (X[400:], y[400:])], np.arange(3))
    scoring = "accuracy" if labels else "neg_root_mean_squared_error"
    theirs = permutation_importance(model, X[300:], y[300:], scoring=scoring, n_repeats=20, random_state=0)
    # Both are means over random shuffles, of which sklearn gives the deviation.
    noise = 5 * theirs.importances_std * np.sqrt(1 / 3 + 1 / 20) + 0.02 * theirs.importances_mean.max()
    assert (np.abs(found.rises - theirs.importances_mean) <= noise).all()
    assert found.rises.argmax() == 1
    assert found.n_rows == 300


def test_columns_of_one_origin_are_shuffled_together(problem):
    """A shuffle moves whole rows of these columns. Mutant: one of them alone is shuffled."""
    X, y = problem
    twice = np.column_stack([X, X[:, 1]])
    model = learner(pm.KernelRegressor).fit(twice[:300], y[:300])
    rows, targets = twice[300:], y[300:]
    found = permutation_importances(model, [(rows, targets)], np.array([0, 1, 2, 1])).rises

    def rise(columns):
        errors, rng = [], np.random.default_rng(0)
        for order in (rng.permutation(300) for _ in range(3)):
            shuffled = rows.copy()
            shuffled[:, columns] = rows[order][:, columns]
            errors.append(np.sqrt(np.mean((model.predict(shuffled) - targets) ** 2)))
        return np.mean(errors) - np.sqrt(np.mean((model.predict(rows) - targets) ** 2))

    assert found.shape == (3,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found[1] == pytest.approx(rise([1, 3]), rel=1e-6)
        assert found[1] != pytest.approx(rise([1]), rel=1e-2)


def test_too_few_rows_and_too_many_columns_have_none(problem):
    X, y = problem
    model = learner(pm.KernelRegressor).fit(X, y)
    assert permutation_importances(model, [(X[:19], y[:19])], np.arange(3)) is None
    assert permutation_importances(model, [], np.arange(3)) is None
    wide = np.zeros((50, 5000))
    assert permutation_importances(model, [(wide, np.zeros(50))], np.arange(5000)) is None
