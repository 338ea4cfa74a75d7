"""Weights and far targets in models that are solved in passes over the rows."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from tests.support.learners import GAUSSIAN


def problem(rng):
    X = rng.standard_normal((240, 4))
    return X, np.sin(2 * X[:, 0]) + X[:, 1], rng.integers(0, 4, 240).astype(float)


def outputs(model, X):
    return model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)


@pytest.mark.parametrize(
    "model",
    [
        pm.KernelRegressor(
            n_components=48, alpha=0.1, length_scale=2.0, solver="cg", random_state=0, kernel="gaussian", metric=None
        ),
        pm.KernelClassifier(
            n_components=48,
            alpha=0.1,
            length_scale=2.0,
            loss="logistic",
            random_state=0,
            kernel="gaussian",
            metric=None,
        ),
        pm.KernelClassifier(
            n_components=48,
            alpha=0.1,
            length_scale=2.0,
            loss="squared_hinge",
            random_state=0,
            kernel="gaussian",
            metric=None,
        ),
    ],
    ids=["cg", "logistic", "squared_hinge"],
)
def test_weights_are_repeated_rows(model, rng):
    """Mutant: weights that are forgotten."""
    X, y, weights = problem(rng)
    y = y if isinstance(model, pm.KernelRegressor) else y > 0
    times = weights.astype(int)
    weighted = outputs(model.fit(X, y, sample_weight=weights), X).copy()
    repeated = outputs(model.fit(np.repeat(X, times, axis=0), np.repeat(y, times)), X).copy()
    plain = outputs(model.fit(X, y), X)
    # Both stop at the solver's tolerance, from other sums.
    slack = (1e-8 if isinstance(model, pm.KernelRegressor) else 1e-2) * np.abs(repeated).max()
    assert np.abs(weighted - repeated).max() < slack
    assert np.abs(plain - repeated).max() > 3 * slack


def test_class_weights_are_weights_of_rows(rng):
    X, y, _ = problem(rng)
    # The scales of the columns and the width see the weights of rows and not those of classes.
    fixed = {"standardize": False, "length_scale": 2.0}
    model = pm.KernelClassifier(n_components=48, alpha=0.1, loss="logistic", random_state=0, **{**GAUSSIAN, **fixed})
    by_row = model.fit(X, y > 0, sample_weight=np.where(y > 0, 5.0, 1.0)).decision_function(X).copy()
    by_class = model.set_params(class_weight={True: 5.0}).fit(X, y > 0).decision_function(X)
    np.testing.assert_allclose(by_class, by_row, atol=1e-6 * np.abs(by_row).max())


def test_far_targets_keep_their_digits(rng):
    X, y, _ = problem(rng)
    X = X.astype(np.float32)
    model = pm.KernelRegressor(n_components=128, alpha=0.1, solver="cg", random_state=0, **GAUSSIAN)
    near = model.fit(X, y).predict(X)
    far = model.fit(X, y + 1.7e9).predict(X)
    np.testing.assert_allclose(far - 1.7e9, near, atol=1e-3 * np.abs(near).max())
