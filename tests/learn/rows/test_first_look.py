"""A first pass before anybody knows what the targets are."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.records import equal_records

MOST = 20


def looked(learner, X, y):
    """The look of a regressor at rows in two batches."""
    look = learner._first_look(MOST)
    for part in (slice(0, 70), slice(70, None)):
        look.update(learner._number_rows(X[part], reset=look.moments is None), y[part])
    return look


@pytest.fixture
def rows(rng):
    return rng.standard_normal((150, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "targets"),
    [
        (pm.KernelRegressor, lambda n: np.arange(n) / 7),
        (pm.KernelRegressor, lambda n: np.arange(n) % 4),
        (pm.KernelClassifier, lambda n: np.arange(n) % 4),
        (pm.KernelClassifier, lambda n: np.array(["a", "b", "c"])[np.arange(n) % 3]),
        (pm.KernelClassifier, lambda n: np.arange(n) % 2 == 0),
    ],
)
def test_a_model_is_that_of_a_first_pass_of_its_own(rows, kind, targets):
    y = targets(len(rows))
    settings = {"n_components": 32, "metric": None, "random_state": 0}
    batches = [(rows[:70], y[:70]), (rows[70:], y[70:])]
    first_pass = looked(pm.KernelRegressor("gaussian", **settings), rows, y).told(labels=kind is pm.KernelClassifier)
    seen = kind("gaussian", **settings)._fit_seen(batches, first_pass)
    alone = kind("gaussian", **settings).fit_batches(batches)
    assert np.array_equal(seen.coef_, alone.coef_)
    assert np.array_equal(seen.predict(rows), alone.predict(rows))
    assert equal_records(seen._sample, alone._sample)
    assert [stage.name for stage in alone.stages_] == ["scales", *(stage.name for stage in seen.stages_)]


@pytest.mark.parametrize(
    ("targets", "labels", "numbers"),
    [
        (lambda n: np.arange(n), False, True),
        (lambda n: np.arange(n).astype(str), False, False),
        (lambda n: np.arange(n) % 3, True, True),
        (lambda n: np.where(np.arange(n) == 100, np.nan, 1.0), False, False),
        (lambda n: np.where(np.arange(n) == 100, 1e200, 1.0), False, False),
    ],
)
def test_targets_that_a_learner_refuses_are_left_to_it(rows, targets, labels, numbers):
    y = targets(len(rows))
    learner = pm.KernelRegressor("gaussian", 32, random_state=0)
    assert (looked(learner, rows, y).told(labels=True) is not None) == labels
    assert (looked(learner, rows, y).told(labels=False) is not None) == numbers
