"""Exact parts of a power series, what is left of it, and the plan."""

import numpy as np
import pytest

from phimap.features.power_series.moments import Moments, spaced_rows
from phimap.features.power_series.plan import _draw_rest, _Planner, draw_terms, make_plan, monomials
from phimap.features.power_series.terms import RestRecord
from phimap.ops import host
from phimap.random_map import MapRecord
from tests.support.statistics import is_mean

EPS = np.finfo(np.float64).eps
OPS = host()


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
    Z = apply(monomials(5, basis, degree), X)
    expected = (projected @ projected.T) ** degree
    np.testing.assert_allclose(Z @ Z.T, expected, atol=100 * EPS * np.abs(expected).max())


@pytest.mark.parametrize("degree", [1, 2])
def test_rest_is_what_leading_directions_leave(degree, rng):
    """False-alarm rate 1e-6; the mutant is the whole power."""
    X, basis = rng.standard_normal((4, 6)), orthonormal(rng, 6, 2)
    draws = (_draw_rest(basis, degree, 8, np.random.default_rng(seed)) for seed in range(500))
    estimates = [Z @ Z.T for Z in (apply(record, X) for record in draws)]
    whole, leading = (X @ X.T) ** degree, (X @ basis @ basis.T @ X.T) ** degree
    assert is_mean(estimates, whole - leading)
    assert not is_mean(estimates, whole)


def test_rest_of_all_directions_is_zero(rng):
    record: RestRecord = _draw_rest(orthonormal(rng, 5, 5), 2, 8, rng)
    assert np.abs(apply(record, rng.standard_normal((4, 5)))).max() < 1e-13


def test_factors_are_the_series_around_the_position(rng):
    """The split is an identity at every row, not only at those that the moments are from."""
    coefficients = np.array([0.5, 1.0, 0.0, 0.3, 0.2])
    moments = Moments.of_rows(rng.standard_normal((20, 4)) + 1)[1]
    planner = _Planner(coefficients, moments, "polysketch", ())
    X = 2 * rng.standard_normal((7, 4))
    positions = X @ moments.direction
    deviations = X - np.outer(positions, moments.direction)
    total = 0
    for degree in range(5):
        values = np.vander(positions, 5, increasing=True) @ planner._factors(degree)
        total = total + values @ values.T * (deviations @ deviations.T) ** degree
    expected = np.polynomial.polynomial.polyval(X @ X.T, coefficients)
    np.testing.assert_allclose(total, expected, rtol=1e-10)


@pytest.mark.parametrize("n_components", [1, 2, 3, 7, 20, 64, 1000])
@pytest.mark.parametrize("d", [1, 2, 30])
def test_every_width_is_filled(n_components, d, rng):
    coefficients = np.array([0.5, 1.0, 0.3, 0.0, 0.2])
    for candidates in ([Moments.unknown(d)], Moments.of_rows(rng.standard_normal((40, d)))):
        plan = make_plan(coefficients, candidates, n_components, "polysketch", (0, 1))
        terms = draw_terms(plan, "polysketch", rng)
        assert sum(term.n_components for term in terms) == n_components


def test_degrees_asked_for_are_exact_where_they_are_a_small_part():
    coefficients, moments = np.ones(4), [Moments.unknown(10)]
    plan = make_plan(coefficients, moments, 44, "polysketch", (0, 1))
    assert [option.width for option in plan.options] == [1, 10, 0, 0]
    assert [piece.degree for piece in plan.pieces] == [2, 3]
    # Below d + 2 there is no room for the linear term.
    plan = make_plan(coefficients, moments, 11, "polysketch", (0, 1))
    assert [option.width for option in plan.options] == [1, 0, 0, 0]


def test_moments_of_few_and_of_equal_rows():
    for rows in (np.ones((1, 3)), np.zeros((5, 3)), np.ones((5, 3))):
        for moments in Moments.of_rows(rows):
            plan = make_plan(np.ones(3), [moments], 50, "polysketch", (0, 1))
            assert np.isfinite(plan.error)


def test_spaced_rows():
    np.testing.assert_array_equal(spaced_rows(3), [0, 1, 2])
    np.testing.assert_array_equal(spaced_rows(9, 3), [0, 4, 8])
