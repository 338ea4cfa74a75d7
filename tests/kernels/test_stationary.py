"""Gaussian, Laplacian, Cauchy, Matern and exponential-power kernels against slow formulas and scikit-learn."""

import math

import numpy as np
import pytest
from scipy import sparse, special
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as reference
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from phimap.kernels import Cauchy, ExponentialPower, Gaussian, GaussianLaw, Laplacian, Matern
from phimap.kernels.geometry import squared_distances

EPS = np.finfo(np.float64).eps
SCALES = np.array([0.5, 2.0, 1.0])
# Both sides form distances of 3 coordinates, of at most about 100, and exponentials of them.
ROUNDING = 2**10 * EPS


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    return rng.normal(size=(20, 3)), rng.normal(size=(15, 3))


def loop(function, X, Y):
    return np.array([[function(x, y) for y in Y] for x in X])


def test_gaussian(pair):
    def slow(x, y):
        return math.exp(-sum(((a - b) / s) ** 2 for a, b, s in zip(x, y, SCALES, strict=True)) / 2)

    np.testing.assert_allclose(Gaussian(SCALES)(*pair), loop(slow, *pair), atol=ROUNDING)
    np.testing.assert_allclose(Gaussian(1.5)(*pair), rbf_kernel(*pair, gamma=1 / (2 * 1.5**2)), atol=ROUNDING)
    np.testing.assert_allclose(Gaussian(SCALES)(*pair), reference.RBF(SCALES)(*pair), atol=ROUNDING)


def test_laplacian(pair):
    def slow(x, y):
        return math.exp(-sum(abs(a - b) / s for a, b, s in zip(x, y, SCALES, strict=True)))

    np.testing.assert_allclose(Laplacian(SCALES)(*pair), loop(slow, *pair), atol=ROUNDING)
    np.testing.assert_allclose(Laplacian(1.5)(*pair), laplacian_kernel(*pair, gamma=1 / 1.5), atol=ROUNDING)
    csr = [sparse.csr_array(part) for part in pair]
    np.testing.assert_allclose(Laplacian(SCALES)(*csr), loop(slow, *pair), atol=ROUNDING)


def test_cauchy(pair):
    def slow(x, y):
        return 1 / math.prod(1 + ((a - b) / s) ** 2 for a, b, s in zip(x, y, SCALES, strict=True))

    np.testing.assert_allclose(Cauchy(SCALES)(*pair), loop(slow, *pair), atol=ROUNDING)
    # Columns that are zero in one tile, in the other, and in both.
    X, Y = (part.copy() for part in pair)
    X[:, 0] = Y[:, 1] = 0
    X[:, 2] = Y[:, 2] = 0
    csr = [sparse.csr_array(part) for part in (X, Y)]
    np.testing.assert_allclose(Cauchy(SCALES)(*csr), loop(slow, X, Y), atol=ROUNDING)
    # Far apart the product overflows, and the kernel is 0.
    assert Cauchy()(np.zeros((1, 40)), np.full((1, 40), 1e9))[0, 0] == 0


@pytest.mark.parametrize("nu", [0.1, 0.5, 0.9, 1.0, 1.5, 1.7, 2.0, 2.5, 3.5, 4.2, 12.0, 30.5])
def test_matern(nu, pair):
    def slow(x, y):
        r = math.sqrt(2 * nu * sum(((a - b) / s) ** 2 for a, b, s in zip(x, y, SCALES, strict=True)))
        return 2 ** (1 - nu) / math.gamma(nu) * r**nu * special.kv(nu, r)

    # The oracle's Bessel function is relatively accurate to about 10 nu eps.
    np.testing.assert_allclose(Matern(nu, SCALES)(*pair), loop(slow, *pair), atol=(1 + nu) * ROUNDING)
    expected = reference.Matern(SCALES, nu=nu)(*pair)
    np.testing.assert_allclose(Matern(nu, SCALES)(*pair), expected, atol=(1 + nu) * ROUNDING)


@pytest.mark.parametrize("nu", [0.01, 0.5, 1.0, 1.2, 2.5, 60.0, 300.3])
def test_matern_at_any_distance(nu):
    points = np.concatenate([[0.0], np.logspace(-300, 3, 600)])[:, None]
    values = Matern(nu)(points, np.zeros((1, 1)))[:, 0]
    assert values[0] == 1.0
    assert (values >= 0).all()
    assert (np.diff(values) <= ROUNDING).all()
    assert values[1] > 1.0 - 1e-5
    assert values[-1] < EPS


def test_matern_tends_to_gaussian(pair):
    np.testing.assert_array_equal(Matern(np.inf, 1.5)(*pair), Gaussian(1.5)(*pair))
    # log k = -tau^2/2 + O(tau^4 / nu): the difference of the kernels, at most 0.54 / nu, halves with 1 / nu.
    gaps = [np.abs(Matern(nu, 1.5)(*pair) - Gaussian(1.5)(*pair)).max() for nu in (400.0, 800.0)]
    assert gaps[0] < 1 / 400
    assert gaps[1] / gaps[0] == pytest.approx(0.5, abs=0.01)
    assert isinstance(Matern(np.inf).spectral_law(3), GaussianLaw)


@pytest.mark.parametrize("exponent", [0.1, 0.7, 1.0, 1.4, 2.0])
def test_exponential_power(exponent, pair):
    def slow(x, y):
        r = math.sqrt(sum(((a - b) / s) ** 2 for a, b, s in zip(x, y, SCALES, strict=True)))
        return math.exp(-(r**exponent))

    kernel = ExponentialPower(exponent, SCALES)
    np.testing.assert_allclose(kernel(*pair), loop(slow, *pair), atol=ROUNDING)
    single = kernel.in_single_precision(*(part.astype(np.float32) for part in pair))
    np.testing.assert_allclose(single, loop(slow, *pair), atol=1e-5)
    assert (kernel.gradients(*pair, np.ones((15, 1))) is None) == (exponent < 1)


def test_exponential_power_of_known_exponents(pair):
    np.testing.assert_allclose(ExponentialPower(1.0, 1.5)(*pair), Matern(0.5, 1.5)(*pair), atol=ROUNDING)
    np.testing.assert_allclose(ExponentialPower(2.0, 1.5)(*pair), Gaussian(1.5 / 2**0.5)(*pair), atol=ROUNDING)
    assert isinstance(ExponentialPower(2.0).spectral_law(3), GaussianLaw)


@pytest.mark.parametrize(("exponent", "error"), [(0.0, ValueError), (2.1, ValueError), (None, TypeError)])
def test_bad_exponent(exponent, error, pair):
    for call in (lambda k: k(*pair), lambda k: k.spectral_law(3)):
        with pytest.raises(error, match="`exponent` must be"):
            call(ExponentialPower(exponent))


def test_distances_keep_their_digits_far_from_the_origin():
    rng = np.random.default_rng(0)
    X = 1e8 + np.round(rng.normal(size=(60, 4)) * 2**20) / 2**20
    X[1] = X[0]
    X[2] = X[0] + 2.0**-20
    X[40:] += 1e4
    expected = cdist(X, X, "sqeuclidean")
    for left, right in ((X, X), (sparse.csr_array(X), sparse.csr_array(X))):
        squared = squared_distances(left, right)
        assert squared[0, 1] == 0.0
        np.testing.assert_allclose(squared, expected, rtol=2**10 * (4 + 4) * EPS)
    scaled = squared_distances(X, X[::2], np.array([1.0, 2.0, 3.0, 4.0]))
    expected = cdist(X, X[::2], "sqeuclidean", w=np.array([1.0, 4.0, 9.0, 16.0]))
    np.testing.assert_allclose(scaled, expected, rtol=2**10 * (4 + 4) * EPS)


@pytest.mark.parametrize("kernel", [Gaussian, Laplacian, Cauchy, Matern, ExponentialPower])
@pytest.mark.parametrize(
    ("length_scale", "error", "message"),
    [
        (0.0, ValueError, "`length_scale` must be greater than 0.0, got 0.0"),
        (-1, ValueError, "`length_scale` must be greater than 0.0, got -1"),
        (np.nan, ValueError, "`length_scale` must be finite"),
        ([1.0, 2.0], ValueError, r"one number for each of the 3 features, got shape \(2,\)"),
        ([1.0, 0.0, 1.0], ValueError, "positive and finite, got 0.0 for feature 1"),
        ("wide", TypeError, "`length_scale` must be a number, got 'wide'"),
        (np.array(["a", "b", "c"]), TypeError, "`length_scale` must be numeric"),
        (None, TypeError, "`length_scale` must be a number"),
    ],
)
def test_bad_length_scale(kernel, length_scale, error, message, pair):
    for call in (lambda k: k(*pair), lambda k: k.diag(pair[0]), lambda k: k.spectral_law(3)):
        with pytest.raises(error, match=message):
            call(kernel(length_scale=length_scale))


@pytest.mark.parametrize(("nu", "error"), [(0.0, ValueError), (-np.inf, ValueError), ("a", TypeError)])
def test_bad_nu(nu, error, pair):
    for call in (lambda k: k(*pair), lambda k: k.spectral_law(3)):
        with pytest.raises(error, match="`nu` must be"):
            call(Matern(nu))


@pytest.mark.parametrize(("kernel", "peer"), [(Gaussian, rbf_kernel), (Laplacian, laplacian_kernel)])
def test_gamma_is_scikit_learns(kernel, peer):
    X = np.random.default_rng(0).standard_normal((6, 3))
    np.testing.assert_allclose(kernel(gamma=0.3)(X), peer(X, gamma=0.3), rtol=1e-12)
    with pytest.raises(ValueError, match=r"`gamma` takes the place of `length_scale`"):
        kernel(2.0, gamma=0.3)(X)
    with pytest.raises(ValueError, match=r"`gamma` must be greater than 0"):
        kernel(gamma=-1.0)(X)
