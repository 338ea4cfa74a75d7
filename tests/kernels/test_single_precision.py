"""Kernel values of landmarks in float32."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm

KERNELS = [
    pm.kernels.Gaussian(2.0),
    pm.kernels.Gaussian(np.linspace(1, 3, 9)),
    pm.kernels.Laplacian(8.0),
    pm.kernels.Matern(0.5, 2.0),
    pm.kernels.Matern(1.5, 2.0),
    pm.kernels.Matern(2.5, np.linspace(1, 3, 9)),
    pm.kernels.Matern(np.inf, 2.0),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_values_are_those_of_float64_to_rounding(kernel, offset, rng):
    X = (rng.standard_normal((60, 9)) + offset).astype(np.float32)
    Y = X[:25].astype(np.float64)
    values = kernel.in_single_precision(X, Y)
    assert values.dtype == np.float32
    exact = kernel(X.astype(np.float64), Y)
    np.testing.assert_allclose(values, exact, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(np.diag(values[:25]), 1, rtol=1e-6)
    # A mutant: rows that are not centred lose their digits far from the origin.
    if offset:
        products = X @ X[:25].T
        squared = np.square(X).sum(axis=1)[:, None] + np.square(X[:25]).sum(axis=1) - 2 * products
        assert np.abs(squared - np.square(X[:, None].astype(float) - Y).sum(axis=2)).max() > 1


def test_other_kernels_and_many_columns_have_no_such_form(rng):
    X = rng.standard_normal((4, 9)).astype(np.float32)
    assert pm.kernels.NTK(1).in_single_precision(X, X) is None
    assert pm.kernels.Matern(0.8).in_single_precision(X, X) is None
    wide = rng.standard_normal((4, 200)).astype(np.float32)
    assert pm.kernels.Gaussian().in_single_precision(wide, wide) is None
    landmarks = pm.NystroemFeatures(pm.kernels.Gaussian(20.0), 3, random_state=0).fit(wide)
    assert landmarks.transform(wide).dtype == np.float32
