"""The remainder of rectified units in closed form."""

import numpy as np
import pytest

from phimap.features.random_layers.rectified import RectifiedRemainderRecord, rectified_remainder
from phimap.kernels import ArcCosine
from phimap.kernels.zonal import zonal_rule
from phimap.projections.dense import DenseRecord
from tests.support.records import apply


@pytest.mark.parametrize("degrees", [(0,), (1,), (0, 1), (0, 1, 2), (2,), (0, 3)])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_exact_powers_and_directions_around_a_circle_give_the_kernel(order, degrees):
    """The mean over all directions of the plane, where sums over equally spaced ones are integrals."""
    angles = (np.arange(2000) + 0.5) * np.pi / 1000
    directions = DenseRecord(2**0.5 * np.stack([np.cos(angles), np.sin(angles)]))
    powers, polynomial, scale = rectified_remainder(order, 2, degrees)
    turns = np.linspace(0, np.pi, 7)
    X = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    Z = apply(RectifiedRemainderRecord(directions, order, polynomial, scale * 2000**-0.5), X)
    exact = sum(c * (X @ X.T) ** j for j, c in powers.items())
    np.testing.assert_allclose(exact + Z @ Z.T, ArcCosine(order)(X), atol=3e-3)
    if 1 in powers:
        assert np.abs(exact - powers[1] * X @ X.T + Z @ Z.T - ArcCosine(order)(X)).max() > 0.1


@pytest.mark.parametrize("n_features", [2, 5, 30])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_remainder_of_a_unit_has_no_degree_0_or_1(order, n_features):
    g, weights = zonal_rule(n_features)
    powers, polynomial, scale = rectified_remainder(order, n_features, (0, 1))
    unit = scale * (np.sign(g) * g**order + g**order)
    f = scale * (np.sign(g) * g**order + np.polyval(polynomial[::-1], g))
    for power in (0, 1):
        assert abs((weights * f * g**power).sum()) < 1e-5
        # The coefficient of the unit, squared, is what is carried exactly.
        np.testing.assert_allclose((weights * unit * g**power).sum() ** 2, powers[power], atol=1e-4)
