"""Dot-product kernels against loops, scikit-learn and their own power series."""

import math

import numpy as np
import pytest
from sklearn.metrics.pairwise import polynomial_kernel

from phimap.kernels import Exponential, Polynomial, Taylor

EPS = np.finfo(np.float64).eps


@pytest.mark.parametrize("degree", [1, 2, 5])
@pytest.mark.parametrize("gamma", [None, 0.7])
@pytest.mark.parametrize("coef0", [0, 1.5])
def test_polynomial(degree, gamma, coef0):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(8, 4)), rng.normal(size=(6, 4))
    kernel = Polynomial(degree, gamma, coef0)
    factor = 0.25 if gamma is None else gamma
    slow = [[(factor * sum(a * b for a, b in zip(x, y, strict=True)) + coef0) ** degree for y in Y] for x in X]
    largest = (factor * np.linalg.norm(X, axis=1).max() * np.linalg.norm(Y, axis=1).max() + coef0) ** degree
    # Each of the degree factors errs by (d + 2) eps of the largest.
    np.testing.assert_allclose(kernel(X, Y), slow, rtol=0, atol=degree * 6 * EPS * largest)
    reference = polynomial_kernel(X, Y, degree=degree, gamma=gamma, coef0=coef0)
    np.testing.assert_allclose(kernel(X, Y), reference, rtol=0, atol=degree * 6 * EPS * largest)


def test_taylor_coefficients():
    kernel = Polynomial(degree=3, coef0=2.0)
    np.testing.assert_allclose(kernel.taylor_coefficients(4, 2), [8, 6, 1.5, 0.125, 0], rtol=4 * EPS)
    np.testing.assert_allclose(kernel.taylor_coefficients(1, 2), [8, 6], rtol=4 * EPS)
    homogeneous = Polynomial(degree=2, gamma=3.0, coef0=0.0)
    np.testing.assert_array_equal(homogeneous.taylor_coefficients(3, 2), [0, 0, 9, 0])


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"degree": 0}, ValueError, "`degree` must be at least 1, got 0"),
        ({"degree": 2.0}, TypeError, "`degree` must be an integer"),
        ({"gamma": 0.0}, ValueError, "`gamma` must be greater than 0.0, got 0.0"),
        ({"gamma": "scale"}, TypeError, "`gamma` must be a number, got 'scale'"),
        ({"coef0": -1.0}, ValueError, "`coef0` must be at least 0.0, got -1.0"),
    ],
)
def test_bad_parameters(parameters, error, message):
    for call in (lambda k: k(np.eye(2)), lambda k: k.diag(np.eye(2)), lambda k: k.taylor_coefficients(2, 2)):
        with pytest.raises(error, match=message):
            call(Polynomial(**parameters))


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    return rng.normal(size=(8, 4)), rng.normal(size=(6, 4))


def test_exponential(pair):
    slow = [[math.exp(sum(a * b for a, b in zip(x, y, strict=True)) / 2.25) for y in pair[1]] for x in pair[0]]
    # The exponent, at most 10 here, errs by (d + 2) eps of itself.
    np.testing.assert_allclose(Exponential(1.5)(*pair), slow, rtol=10 * 6 * EPS)


def test_exponential_is_its_series(pair):
    coefficients = Exponential(2.0).taylor_coefficients(60, 4)
    np.testing.assert_allclose(coefficients[:4], [1, 1 / 4, 1 / 32, 1 / 384], rtol=4 * EPS)
    # Terms of the series are at most exp(|x| |y| / 4), some 50 here; the tail beyond degree 60 is far below.
    np.testing.assert_allclose(Taylor(coefficients)(*pair), Exponential(2.0)(*pair), atol=50 * 60 * EPS)


def test_exponential_beyond_the_range_is_refused():
    with pytest.raises(ValueError, match="exceeds the range of float64"):
        Exponential(0.1)(np.full((2, 1), 3.0))
    with pytest.raises(ValueError, match="exceeds the range of float32"):
        Exponential(0.1)(np.full((2, 1), 1.0, dtype=np.float32))
    for value, error in ((0.0, ValueError), (-1.0, ValueError), ([1.0, 2.0], TypeError)):
        for call in (lambda k: k(np.eye(2)), lambda k: k.diag(np.eye(2)), lambda k: k.taylor_coefficients(2, 2)):
            with pytest.raises(error, match="`length_scale` must be"):
                call(Exponential(value))


@pytest.mark.parametrize("homogeneous", [False, True])
def test_taylor(pair, homogeneous):
    given = [0.5, 2.0, 0.0, 1.5]

    def slow(x, y):
        norms = math.hypot(*x) * math.hypot(*y) if homogeneous else 1.0
        t = sum(a * b for a, b in zip(x, y, strict=True)) / norms
        return norms * sum(c * t**j for j, c in enumerate(given))

    kernel = Taylor(given, homogeneous)
    largest = np.linalg.norm(pair[0], axis=1).max() * np.linalg.norm(pair[1], axis=1).max()
    bound = 4 * largest if homogeneous else 0.5 + 2 * largest + 1.5 * largest**3
    expected = np.array([[slow(x, y) for y in pair[1]] for x in pair[0]])
    np.testing.assert_allclose(kernel(*pair), expected, atol=4 * 10 * EPS * bound)
    X = np.vstack([pair[0], np.zeros(4)])
    np.testing.assert_allclose(kernel.diag(X)[:-1], [slow(x, x) for x in pair[0]], rtol=40 * EPS)
    assert (kernel(X)[-1] == (0.0 if homogeneous else 0.5)).all()
    np.testing.assert_array_equal(kernel.taylor_coefficients(5, 4), [*given, 0, 0])
    np.testing.assert_array_equal(kernel.taylor_coefficients(1, 4), given[:2])


def test_taylor_forms_differ_by_the_norms(pair):
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in pair]
    plain, homogeneous = Taylor([1, 2, 3]), Taylor([1, 2, 3], homogeneous=True)
    np.testing.assert_allclose(plain(*unit), homogeneous(*unit), atol=6 * 40 * EPS)
    np.testing.assert_allclose(homogeneous(3 * pair[0], pair[1]), 3 * homogeneous(*pair), rtol=40 * EPS, atol=EPS)


@pytest.mark.parametrize(
    ("coefficients", "error", "message"),
    [
        ([], ValueError, r"non-empty list of numbers, got shape \(0,\)"),
        (1.0, ValueError, r"non-empty list of numbers, got shape \(\)"),
        ([[1.0]], ValueError, r"got shape \(1, 1\)"),
        ([1.0, -0.5], ValueError, "not negative, got -0.5 for degree 1"),
        ([1.0, 0.0, np.nan], ValueError, "finite and not negative, got nan for degree 2"),
        ([np.inf], ValueError, "got inf for degree 0"),
        (["a"], TypeError, "`coefficients` must be numbers"),
        (None, TypeError, "`coefficients` must be numbers"),
    ],
)
def test_bad_coefficients(coefficients, error, message):
    for call in (lambda k: k(np.eye(2)), lambda k: k.diag(np.eye(2)), lambda k: k.taylor_coefficients(2, 2)):
        with pytest.raises(error, match=message):
            call(Taylor(coefficients))
