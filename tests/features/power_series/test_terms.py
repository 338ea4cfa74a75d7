"""Exact parts of a power series, and its remainder."""

import numpy as np
import pytest

from phimap.features.power_series.terms import MonomialsRecord, RemainderRecord
from tests.support.records import apply
from tests.support.statistics import is_mean

EPS = np.finfo(np.float64).eps


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
