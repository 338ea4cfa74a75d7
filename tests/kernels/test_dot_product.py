"""Polynomial kernels against a loop and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import polynomial_kernel

from phimap.kernels import Polynomial

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
