"""Exact parts of a power series, its remainder, and the allocation of features."""

import numpy as np
import pytest

from phimap.features.power_series.allocation import _Allocator, best_allocation
from phimap.features.power_series.draw import draw_terms
from phimap.features.power_series.moments import Moments
from phimap.features.power_series.terms import MonomialsRecord, RemainderRecord
from phimap.ops.numpy_ops import NumpyOps
from phimap.random_map import MapRecord
from tests.support.statistics import is_mean

EPS = np.finfo(np.float64).eps
OPS = NumpyOps(np.dtype(np.float64))


def apply(record: MapRecord, X: np.ndarray) -> np.ndarray:
    out = np.empty((len(X), record.n_components))
    record.bind(OPS).apply(OPS, X, out)
    return out


def orthonormal(rng: np.random.Generator, d: int, k: int) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((d, k)))[0]


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize("k", [None, 1, 3])
def test_monomials_are_the_power(degree, k, rng):
    X = rng.standard_normal((6, 5))
    basis = None if k is None else orthonormal(rng, 5, k)
    projected = X if basis is None else X @ basis
    Z = apply(MonomialsRecord.of(5, basis, degree), X)
    expected = (projected @ projected.T) ** degree
    np.testing.assert_allclose(Z @ Z.T, expected, atol=100 * EPS * np.abs(expected).max())


@pytest.mark.parametrize("degree", [1, 2])
def test_remainder_is_what_leading_directions_leave(degree, rng):
    """False-alarm rate 1e-6; the mutant is the whole power."""
    X, basis = rng.standard_normal((4, 6)), orthonormal(rng, 6, 2)
    draws = (RemainderRecord.draw(basis, degree, 8, np.random.default_rng(seed)) for seed in range(500))
    estimates = [Z @ Z.T for Z in (apply(record, X) for record in draws)]
    whole, leading = (X @ X.T) ** degree, (X @ basis @ basis.T @ X.T) ** degree
    assert is_mean(estimates, whole - leading)
    assert not is_mean(estimates, whole)


def test_remainder_of_all_directions_is_zero(rng):
    record = RemainderRecord.draw(orthonormal(rng, 5, 5), 2, 8, rng)
    assert np.abs(apply(record, rng.standard_normal((4, 5)))).max() < 1e-13


def test_factors_are_the_series_around_the_position(rng):
    """The split is an identity at every row, not only at those that the moments are from."""
    coefficients = np.array([0.5, 1.0, 0.0, 0.3, 0.2])
    moments = Moments.of_rows(rng.standard_normal((20, 4)) + 1)[1]
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
    for candidates in ([Moments.unknown(d)], Moments.of_rows(rng.standard_normal((40, d)))):
        allocation = best_allocation(coefficients, candidates, n_components, "polysketch", (0, 1))
        terms = draw_terms(allocation, "polysketch", rng)
        assert sum(term.n_components for term in terms) == n_components


def test_degrees_asked_for_are_exact_where_they_are_a_small_part():
    coefficients, moments = np.ones(4), [Moments.unknown(10)]
    allocation = best_allocation(coefficients, moments, 44, "polysketch", (0, 1))
    assert [option.width for option in allocation.options] == [1, 10, 0, 0]
    assert [piece.degree for piece in allocation.pieces] == [2, 3]
    # Below d + 2 there is no room for the linear term.
    allocation = best_allocation(coefficients, moments, 11, "polysketch", (0, 1))
    assert [option.width for option in allocation.options] == [1, 0, 0, 0]


def test_moments_of_few_and_of_equal_rows():
    for rows in (np.ones((1, 3)), np.zeros((5, 3)), np.ones((5, 3))):
        for moments in Moments.of_rows(rows):
            allocation = best_allocation(np.ones(3), [moments], 50, "polysketch", (0, 1))
            assert np.isfinite(allocation.predicted_error())
