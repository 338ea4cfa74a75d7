"""The estimators stay thin: parameters, a fitted model, and a training state."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import phimap as pm
from tests.support.learners import GAUSSIAN

LEARNERS = {
    "regressor": pm.KernelRegressor(n_components=16, random_state=0, **GAUSSIAN),
    "classifier": pm.KernelClassifier(n_components=16, random_state=0, **GAUSSIAN),
    "passes": pm.KernelRegressor(n_components=16, solver="cg", random_state=0, **GAUSSIAN),
    "stochastic regressor": pm.DoublyStochasticRegressor(n_components=16, n_epochs=1, random_state=0),
    "stochastic classifier": pm.DoublyStochasticClassifier(n_components=16, n_epochs=1, random_state=0),
}
#: What a fit stores beside the parameters.
STORED = {"_fitted", "_state", "stages_", "_preconditioner", "losses_"}
#: Public names that DESIGN gives to two families.
TWICE = {"Gaussian"}


def own(cls):
    """The classes of this package in the order of resolution."""
    return [base for base in cls.__mro__ if base.__module__.startswith("phimap.")]


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
def test_a_learner_is_two_classes_without_hooks(learner):
    cls = type(learner)
    assert len(own(cls)) == 2
    assert len(cls.__mro__) <= 9
    base = own(cls)[1]
    assert not inspect.isabstract(base)
    # What the base uses of a derived class are values: the kind of targets, and the losses.
    program = inspect.getsource(base)
    derived = {name for name, value in vars(cls).items() if inspect.isfunction(value) and name not in vars(base)}
    assert not [name for name in derived if re.search(rf"self\.{name}\(", program)]


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
def test_a_fit_stores_a_model_and_a_state(learner):
    X = np.random.default_rng(0).standard_normal((120, 3))
    y = X[:, 0] > 0 if hasattr(learner, "decision_function") else X[:, 0]
    learner = clone(learner)
    before = set(vars(learner))
    learner.fit(X, y)
    assert before == set(learner.get_params())
    assert set(vars(learner)) - before <= STORED


def test_a_class_name_occurs_once():
    names = Counter()
    for path in Path(pm.__file__).parent.rglob("*.py"):
        names.update(re.findall(r"^class ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert {name for name, count in names.items() if count > 1} <= TWICE
