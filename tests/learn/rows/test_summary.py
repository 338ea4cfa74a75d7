"""A summary of rows that is begun before the kind of the targets is known."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.records import equal_records

MOST = 20


def summary_of(learner, X, y):
    """A summary of rows in two batches."""
    summary = learner.new_summary()
    summary.most_labels = MOST
    for part in (slice(0, 70), slice(70, None)):
        summary.update(X[part], y[part])
    return summary


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
def test_a_model_of_a_summary_is_that_of_its_own_first_pass(rows, kind, targets):
    y = targets(len(rows))
    settings = {"n_components": 32, "metric": None, "random_state": 0}
    batches = [(rows[:70], y[:70]), (rows[70:], y[70:])]
    summary = summary_of(pm.KernelRegressor("gaussian", **settings), rows, y)
    seen = kind("gaussian", **settings).fit_batches(batches, summary=summary)
    alone = kind("gaussian", **settings).fit_batches(batches)
    assert np.array_equal(seen.coef_, alone.coef_)
    assert np.array_equal(seen.predict(rows), alone.predict(rows))
    assert equal_records(seen._state.sample, alone._state.sample)
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
def test_a_summary_serves_the_targets_that_a_learner_takes(rows, targets, labels, numbers):
    y = targets(len(rows))
    learner = pm.KernelRegressor("gaussian", 32, random_state=0)
    assert (summary_of(learner, rows, y).for_targets(labels=True) is not None) == labels
    assert (summary_of(learner, rows, y).for_targets(labels=False) is not None) == numbers
