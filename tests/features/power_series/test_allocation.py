"""The allocation of features to the terms of a power series, and the terms drawn by it."""

import numpy as np
import pytest

from phimap.features.power_series.allocation import _Allocator, best_allocation
from phimap.features.power_series.draw import draw_terms
from phimap.features.power_series.moments import RowMoments


def test_factors_are_the_series_around_the_position(rng):
    """The split is an identity at every row, not only at those that the moments are from."""
    coefficients = np.array([0.5, 1.0, 0.0, 0.3, 0.2])
    moments = RowMoments.of_rows(rng.standard_normal((20, 4)) + 1)[1]
    allocator = _Allocator(coefficients, moments, "polysketch", ())
    X = 2 * rng.standard_normal((7, 4))
    positions = X @ moments.direction
    orthogonal = X - np.outer(positions, moments.direction)
    total = 0
    for degree in range(5):
        values = np.vander(positions, 5, increasing=True) @ allocator._factors(degree)
        total = total + values @ values.T * (orthogonal @ orthogonal.T) ** degree
    expected = np.polynomial.polynomial.polyval(X @ X.T, coefficients)
    np.testing.assert_allclose(total, expected, rtol=1e-10)


@pytest.mark.parametrize("n_components", [1, 2, 3, 7, 20, 64, 1000])
@pytest.mark.parametrize("d", [1, 2, 30])
def test_every_width_is_filled(n_components, d, rng):
    coefficients = np.array([0.5, 1.0, 0.3, 0.0, 0.2])
    for candidates in ([RowMoments.unknown(d)], RowMoments.of_rows(rng.standard_normal((40, d)))):
        allocation = best_allocation(coefficients, candidates, n_components, "polysketch", (0, 1))
        terms = draw_terms(allocation, "polysketch", rng)
        assert sum(term.n_components for term in terms) == n_components


def test_degrees_asked_for_are_exact_where_they_are_a_small_part():
    coefficients, moments = np.ones(4), [RowMoments.unknown(10)]
    allocation = best_allocation(coefficients, moments, 44, "polysketch", (0, 1))
    assert [option.width for option in allocation.options] == [1, 10, 0, 0]
    assert [piece.degree for piece in allocation.pieces] == [2, 3]
    # Below d + 2 there is no room for the linear term.
    allocation = best_allocation(coefficients, moments, 11, "polysketch", (0, 1))
    assert [option.width for option in allocation.options] == [1, 0, 0, 0]


def test_moments_of_few_and_of_equal_rows():
    for rows in (np.ones((1, 3)), np.zeros((5, 3)), np.ones((5, 3))):
        for moments in RowMoments.of_rows(rows):
            allocation = best_allocation(np.ones(3), [moments], 50, "polysketch", (0, 1))
            assert np.isfinite(allocation.predicted_error())
