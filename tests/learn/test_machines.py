"""No machine changes a model: fits on simulated machines with other numbers of cores and other free memories."""

from __future__ import annotations

import hashlib
import itertools
import sys

import numpy as np
import pandas as pd
import pytest

import phimap as pm
from tests.learn.corrections.test_learners import N_ROWS, SETTINGS, ripples
from tests.learn.test_average import steps
from tests.support.learners import GAUSSIAN

GB = 2**30
MACHINES = list(itertools.product((1, 8, 64), (2 * GB, 8 * GB, 64 * GB)))
# For fits that take seconds: few threads for the memory, and many.
EXTREMES = [MACHINES[0], MACHINES[6]]
FEW_MACHINES = [MACHINES[0], MACHINES[4], MACHINES[6]]


@pytest.fixture
def on_machines(monkeypatch):
    """Run a function on every machine, with `n_jobs` given or the number of cores found; digests of the results."""

    def run(outputs, machines=FEW_MACHINES, budgets=(None, "1GB")):
        found = {budget: set() for budget in budgets}
        for budget, (cores, free) in itertools.product(budgets, machines):
            monkeypatch.setattr("phimap._free_memory.free_memory", lambda free=free: free)
            monkeypatch.setattr(sys.modules["phimap.config"], "_available_cores", lambda cores=cores: cores)
            with pm.config(**({} if budget is None else {"memory": budget})):
                values = np.ascontiguousarray(outputs(None if budget is None else cores))
            found[budget].add(hashlib.sha256(values.tobytes()).hexdigest())
        return [len(digests) for digests in found.values()]

    return run


def rows(n, d=4):
    X = np.random.default_rng(0).standard_normal((n, d)).astype(np.float32)
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]


@pytest.mark.parametrize(
    ("settings", "machines"),
    [
        ({}, MACHINES),
        ({"solver": "cg"}, FEW_MACHINES),
        ({"loss": "huber"}, FEW_MACHINES),
        ({"n_components": 1000}, FEW_MACHINES),
    ],
    ids=str,
)
def test_regressions_are_the_same_on_all_machines(on_machines, settings, machines):
    X, y = rows(400)
    params = {"n_components": 64, "random_state": 0, **GAUSSIAN, **settings}

    def outputs(n_jobs):
        return pm.KernelRegressor(n_jobs=n_jobs, **params).fit(X, y).predict(X)

    assert on_machines(outputs, machines) == [1, 1]


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
def test_classifications_are_the_same_on_all_machines(on_machines, loss):
    X, y = rows(400)
    labels = np.digitize(y, [-0.5, 0.5])
    params = {"n_components": 64, "random_state": 0, "loss": loss, **GAUSSIAN}
    assert on_machines(lambda n_jobs: pm.KernelClassifier(n_jobs=n_jobs, **params).fit(X, labels).predict_proba(X)) == [
        1,
        1,
    ]


def test_a_search_on_a_frame_is_the_same_on_all_machines(on_machines):
    # As few rows as still have a second rung, whose maps are wider.
    X, y = rows(400)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(level=np.where(X[:, 3] > 0, "u", "v"))

    def outputs(n_jobs):
        model = pm.KernelRegressor(effort="fast", random_state=0, n_jobs=n_jobs).fit(frame, y)
        return np.append(model.predict(frame), model.alpha_)

    assert on_machines(outputs, EXTREMES) == [1, 1]


# Trees follow the choice of the kernel, whichever it is.
@pytest.mark.usefixtures("brief_search")
def test_trees_and_intervals_are_the_same_on_all_machines(on_machines):
    X, y = steps(np.random.default_rng(0), 900)

    def outputs(n_jobs):
        model = pm.KernelRegressor(effort="fast", random_state=0, n_jobs=n_jobs).fit(X, y)
        assert model.trees_ is not None
        return np.column_stack([model.predict(X), model.predict_interval(X)])

    assert on_machines(outputs, EXTREMES, (None,)) == [1]


def test_corrections_are_learned_on_all_machines_or_on_none(on_machines):
    """Mutant: `_serve` counts the matrices of all threads, so that with 64 threads or 2 GB there are no corrections."""
    X, y = ripples(np.random.default_rng(0))
    X, y = X[:N_ROWS], y[:N_ROWS]

    def outputs(n_jobs):
        model = pm.KernelRegressor(**SETTINGS, n_jobs=n_jobs).fit(X, y)
        assert model.corrections_ is not None
        return model.predict(X[:500])

    assert on_machines(outputs, EXTREMES, ("1GB",)) == [1]


def test_doubly_stochastic_fits_are_the_same_on_all_machines(on_machines):
    X, y = rows(600)
    params = {"n_components": 1500, "n_epochs": 2, "random_state": 0}

    def outputs(n_jobs):
        return pm.DoublyStochasticRegressor(n_jobs=n_jobs, **params).fit(X, y).predict(X)

    assert on_machines(outputs) == [1, 1]


def test_regions_of_images_are_the_same_on_all_machines(on_machines):
    """Failed before: 8 or 64 threads cut images into smaller regions, whose sums are rounded otherwise."""
    images = np.random.default_rng(0).random((2, 24, 24, 3))
    features = pm.CNTKSketch(3, n_components=128, random_state=0).fit(images)
    small = [(cores, free) for cores in (1, 8, 64) for free in (2**25, 2**28, 2 * GB)]

    def outputs(n_jobs):
        return features.set_params(n_jobs=n_jobs).transform(images)

    assert on_machines(outputs, small, (None, "64MB")) == [1, 1]


def test_large_tiles_run_on_as_many_threads_as_memory_holds(monkeypatch):
    images = np.random.default_rng(0).random((6, 24, 24, 3))
    features = pm.CNTKSketch(3, n_components=128, random_state=0).fit(images)
    counts = []

    def run_tasks(task, items, n_jobs):
        counts.append(n_jobs)
        return [task(item) for item in items]

    monkeypatch.setattr("phimap.random_map.run_tasks", run_tasks)
    monkeypatch.setattr("phimap.random_map._LARGE_TILE", 0)
    for free in (64 * GB, 2**29, 2**24):
        monkeypatch.setattr("phimap._free_memory.free_memory", lambda free=free: free)
        features.set_params(n_jobs=64).transform(images)
    assert counts[0] == 64 > counts[1] > counts[2] == 1
