"""Expansions of kernels of unit rows, against integrals over the sphere and against the kernels themselves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import eval_gegenbauer

from phimap.kernels import NNGP, NTK, ArcCosine
from phimap.kernels.zonal import (
    power_series,
    powers_to_zonal,
    zonal_coefficients,
    zonal_functions,
    zonal_polynomials,
    zonal_rule,
)

KERNELS = [ArcCosine(0), ArcCosine(0, 2), ArcCosine(1), ArcCosine(2), ArcCosine(2, 2), NNGP(2), NTK(1), NTK(4)]
INSIDE = np.array([-0.8, -0.3, 0.0, 0.4, 0.8])


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_power_series_are_the_kernels(kernel):
    powers = power_series(kernel, 256)
    assert (powers > -1e-12).all()
    # The powers beyond count less than 0.8^256.
    values = kernel.kappa(INSIDE)
    np.testing.assert_allclose(np.polyval(powers[::-1], INSIDE), values, atol=1e-12 * kernel.kappa(1.0))
    other = NTK(2) if isinstance(kernel, NTK) else ArcCosine(1, 3)
    assert np.abs(np.polyval(power_series(other, 256)[::-1], INSIDE) - values).max() > 1e-3


@pytest.mark.parametrize("n_features", [2, 3, 8, 9, 40, 700])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_expansions_are_the_kernels(kernel, n_features):
    b = zonal_coefficients(kernel, n_features)
    assert (b >= 0).all()
    values = sum(c * P for c, P in zip(b, zonal_functions(INSIDE, n_features, len(b) - 1), strict=True))
    # On circles and spheres the functions P_k fall slowly with k, and of many inputs few degrees are kept.
    tolerance = {2: 4e-3, 3: 4e-4, 700: 3e-3}.get(n_features, 1e-6)
    np.testing.assert_allclose(values, kernel.kappa(INSIDE), atol=tolerance * kernel.kappa(1.0))
    assert np.abs(values - b[1] * INSIDE - kernel.kappa(INSIDE)).max() > 1e-2


@pytest.mark.parametrize("n_features", [3, 5, 12])
def test_functions_are_gegenbauers(n_features):
    alpha = n_features / 2 - 1
    for k, values in enumerate(zonal_functions(INSIDE, n_features, 7)):
        np.testing.assert_allclose(
            values, eval_gegenbauer(k, alpha, INSIDE) / eval_gegenbauer(k, alpha, 1.0), atol=1e-13
        )


@pytest.mark.parametrize("n_features", [2, 3, 7, 100])
def test_polynomials_are_orthonormal(n_features):
    nodes, weights = zonal_rule(n_features)
    p = np.array(list(zonal_polynomials(nodes, n_features, 6)))
    np.testing.assert_allclose((p * weights) @ p.T, np.eye(7), atol=1e-6)
    np.testing.assert_allclose(p[1], nodes)


def test_one_dimension_has_two_functions():
    b = zonal_coefficients(NTK(1), 1)
    np.testing.assert_allclose(b.sum(), 2.0)
    np.testing.assert_allclose(b[0] - b[1], NTK(1).kappa(-1.0), atol=1e-12)
    np.testing.assert_allclose(powers_to_zonal(np.array([1.0, 2.0, 4.0, 8.0]), 1)[:2], [5.0, 10.0])


@pytest.mark.parametrize("n_features", [2, 3, 9])
def test_powers_become_expansions(n_features):
    powers = np.array([0.5, 0.0, 2.0, 1.0, 0.3])
    b = powers_to_zonal(powers, n_features)
    values = sum(c * P for c, P in zip(b, zonal_functions(INSIDE, n_features, 4), strict=True))
    np.testing.assert_allclose(values, np.polyval(powers[::-1], INSIDE), atol=1e-14)
