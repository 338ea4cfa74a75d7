"""Least squares with bounded coefficients: the conditions of its minimum, and the features that it weighs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear

import phimap as pm
from phimap.features.data_dependent.bounded import bounded_coefficients


def problem(n=80, m=12, t=2):
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((n, m))
    return columns, columns @ rng.standard_normal((m, t)) + rng.standard_normal((n, t))


def test_minimum_of_a_box():
    """The gradient is 0 inside the box and points outwards on its faces; mutant: clipped least squares."""
    columns, targets = problem()
    found = bounded_coefficients(columns, targets, 0.5)
    free = np.linalg.lstsq(columns, targets, rcond=None)[0]

    def is_minimum(coefs):
        slopes = columns.T @ (columns @ coefs - targets) / len(columns)
        on_face = np.abs(coefs) > 0.5 - 1e-9
        return np.abs(slopes[~on_face]).max() < 1e-3 and (slopes * np.sign(coefs))[on_face].max() < 1e-3

    assert np.abs(found).max() <= 0.5
    assert (np.abs(found) == 0.5).any()
    assert is_minimum(found)
    assert not is_minimum(np.clip(free, -0.5, 0.5))
    for target, one in zip(targets.T, found.T, strict=True):
        np.testing.assert_allclose(one, lsq_linear(columns, target, (-0.5, 0.5), tol=1e-14).x, atol=1e-3)
    np.testing.assert_allclose(bounded_coefficients(columns, targets, 100.0), free, atol=1e-3)


@pytest.mark.parametrize("radius", [0.5, 4.0])
def test_kitchen_sinks_have_the_bound_of_their_source(radius):
    X = np.random.default_rng(1).standard_normal((300, 3))
    y = np.sin(2 * X[:, 0])
    options = {"method": "kitchen-sinks", "projection": "gaussian", "pool": 1, "random_state": 0}
    phi = pm.ReweightedFeatures(pm.kernels.Gaussian(), 80, radius=radius, **options).fit(X, y)
    W = phi.kernel_.frequencies
    columns = np.hstack([np.cos(X @ W.T), np.sin(X @ W.T)])
    coefs = lsq_linear(columns, (y - y.mean()) / y.std(), (-radius / 40, radius / 40), tol=1e-12).x.reshape(2, 40)
    expected = np.linalg.norm(coefs, axis=0)
    np.testing.assert_allclose(phi.kernel_.weights, expected / expected.sum(), atol=2e-3)
