"""The map and the width that are chosen for what the user named."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.learn.search.kernel import choose_map
from tests.learn.problems import problem
from tests.support.learners import FIXED


def test_few_rows_are_fitted_with_the_exact_neural_tangent_kernel():
    X, y = problem(200)
    model = pm.KernelRegressor("ntk", n_components=300, alpha=0.1, standardize=False, random_state=0, **FIXED).fit(
        X[:150], y[:150]
    )
    assert model.coef_.shape == (300,)
    K, k = pm.kernels.NTK(1)(X[:150]), pm.kernels.NTK(1)(X[150:], X[:150])
    centring = np.eye(150) - 1 / 150
    dual = np.linalg.solve(centring @ K @ centring + 0.1 * np.eye(150), y[:150] - y[:150].mean())
    expected = y[:150].mean() + (k - K.mean(axis=0)) @ centring @ dual
    np.testing.assert_allclose(model.predict(X[150:]), expected, atol=1e-6)


@pytest.mark.parametrize("case", ["more rows than features", "more rows to come", "a map"])
def test_other_rows_are_fitted_with_features_of_the_neural_tangent_kernel(case):
    X, y = problem(200)
    kernel = pm.NTKFeatures(n_components=300, random_state=0) if case == "a map" else "ntk"
    model = pm.KernelRegressor(
        kernel, n_components=100 if case == "more rows than features" else 300, random_state=0, **FIXED
    )
    model = model.partial_fit(X, y) if case == "more rows to come" else model.fit(X, y)
    assert isinstance(model.feature_map_, pm.NTKFeatures)


def test_a_map_is_taken_as_it_is():
    phi = pm.FourierFeatures(n_components=7)
    assert choose_map(phi, 100, "auto", np.ones((3, 2)), random_state=0, n_jobs=None) is phi
    with pytest.raises(TypeError, match=r"`kernel` must be a name, a Kernel or a feature map, got int"):
        choose_map(3, 100, "auto", np.ones((3, 2)), random_state=0, n_jobs=None)
