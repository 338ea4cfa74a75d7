"""Partial dependence and permutation importance of scikit-learn on all learners."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import partial_dependence, permutation_importance

import phimap as pm

LEARNERS = {
    "regressor": lambda: pm.KernelRegressor("gaussian", 64, metric=None, alpha=0.1, random_state=0),
    "huber": lambda: pm.KernelRegressor("gaussian", 64, metric=None, alpha=1.0, loss="huber", random_state=0),
    "classifier": lambda: pm.KernelClassifier("gaussian", 64, metric=None, alpha=0.1, random_state=0),
    "logistic": lambda: pm.KernelClassifier("gaussian", 64, metric=None, alpha=0.1, loss="logistic", random_state=0),
    "stochastic regressor": lambda: pm.DoublyStochasticRegressor(n_components=64, random_state=0),
    "stochastic classifier": lambda: pm.DoublyStochasticClassifier(n_components=64, random_state=0),
}


def table(name):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((200, 3)), columns=["strong", "weak", "noise"])
    y = 2 * frame["strong"] + 0.3 * frame["weak"]
    return frame, (y > 0).astype(int) if "class" in name or name == "logistic" else y


@pytest.mark.parametrize("name", LEARNERS)
def test_permutation_importance_finds_the_strong_column(name):
    frame, y = table(name)
    model = LEARNERS[name]().fit(frame, y)
    found = permutation_importance(model, frame, y, n_repeats=3, random_state=0)
    assert found.importances_mean.argmax() == 0
    assert found.importances_mean[0] > 5 * abs(found.importances_mean[2])


@pytest.mark.parametrize("name", LEARNERS)
def test_partial_dependence_rises_along_the_strong_column(name):
    frame, y = table(name)
    model = LEARNERS[name]().fit(frame, y)
    average = partial_dependence(model, frame, ["strong"], grid_resolution=5)["average"][0]
    # Scores of classes level off at both ends.
    assert average[-1] - average[0] > 0.9 * np.ptp(average)


def test_partial_dependence_on_a_category_of_an_encoded_frame():
    frame, y = table("regressor")
    frame["town"] = np.where(frame["noise"] > 0, "Ulm", "Bonn")
    model = LEARNERS["regressor"]().fit(frame, y + (frame["town"] == "Ulm"))
    average = partial_dependence(model, frame, ["town"], categorical_features=["town"])["average"][0]
    assert average[1] - average[0] == pytest.approx(1.0, abs=0.4)
