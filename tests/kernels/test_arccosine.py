"""Arc-cosine kernels against integrals, Monte Carlo, and arithmetic with more digits."""

import math

import numpy as np
import pytest
from scipy import special

from phimap.kernels import NNGP, ArcCosine, kappa0, kappa1, kappa2
from phimap.kernels.arccosine import next_angle
from tests.support.oracles import relu_moment

EPS = np.finfo(np.float64).eps
DUALS = {0: kappa0, 1: kappa1, 2: kappa2}
PEAKS = {0: 1.0, 1: 1.0, 2: 3.0}
ACTIVATIONS = {0: lambda t: (t > 0) * 1.0, 1: lambda t: np.maximum(t, 0), 2: lambda t: np.maximum(t, 0) ** 2}
FALSE_ALARM = 1e-6

every_order = pytest.mark.parametrize("order", [0, 1, 2])


@every_order
def test_kappa_is_a_gaussian_moment(order):
    cosines = np.linspace(-1, 1, 21)
    expected = [2 * relu_moment(np.array([[1.0, a], [a, 1.0]]), order) for a in cosines]
    # The oracle's quadrature is set to 1e-13, times 2 and the radial factor 8.
    np.testing.assert_allclose(DUALS[order](cosines), expected, atol=16e-13)


def test_kappa_in_the_words_of_the_papers():
    for a in (-0.9, -0.3, 0.0, 0.4, 0.99):
        t = math.acos(a)
        assert kappa0(a) == pytest.approx(1 - t / math.pi, abs=4 * EPS)
        assert kappa1(a) == pytest.approx((math.sqrt(1 - a * a) + a * (math.pi - t)) / math.pi, abs=8 * EPS)
        slow = (3 * math.sin(t) * math.cos(t) + (math.pi - t) * (1 + 2 * math.cos(t) ** 2)) / math.pi
        assert kappa2(a) == pytest.approx(slow, abs=16 * EPS)


@every_order
def test_kappa_at_the_ends_and_beyond(order):
    kappa = DUALS[order]
    np.testing.assert_array_equal(kappa([-1.5, -1.0, 1.0, 1.0 + 1e-9]), [0.0, 0.0, PEAKS[order], PEAKS[order]])
    assert isinstance(kappa(0.5), float)
    assert kappa(np.float32(0.5)).dtype == np.float32
    assert kappa(np.zeros((2, 3), dtype=np.float32)).dtype == np.float32
    assert kappa(np.zeros((2, 3), dtype=int)).dtype == np.float64
    grid = np.linspace(-1, 1, 10_001)
    assert (np.diff(kappa(grid)) > -4 * EPS * PEAKS[order]).all()


@pytest.mark.parametrize("order", [0, 2])
def test_angle_between_features(order):
    angle = np.linspace(0.05, math.pi, 500)
    cosine = DUALS[order](np.cos(angle)) / PEAKS[order]
    # arccos loses 1 / sin of its result, which is above 0.04 here.
    np.testing.assert_allclose(next_angle(order, angle), np.arccos(cosine), atol=16 * EPS / 0.04)
    # 1 - kappa2(cos t)/3 = 2 t^2/3 - O(t^4), 1 - kappa0(cos t) = t/pi.
    tiny = np.logspace(-12, -6, 50)
    first_term = {0: np.sqrt(2 * tiny / math.pi), 2: tiny * math.sqrt(4 / 3)}[order]
    np.testing.assert_allclose(next_angle(order, tiny), first_term, rtol=2e-6, atol=4 * EPS)
    assert next_angle(order, np.zeros(1))[0] == 0.0


def z_scores(kernel, order, mutant_factor=1.0):
    """Scores of the Monte Carlo estimate of kernel entries (k,), by independent directions."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 4)) * np.array([0.3, 1.0, 0.5, 2.0, 1.0, 1.0])[:, None]
    features = ACTIVATIONS[order](X @ (mutant_factor * rng.normal(size=(4, 400_000))))
    i, j = np.triu_indices(6)
    products = 2.0 * features[i] * features[j]
    spread = products.std(axis=1) / math.sqrt(products.shape[1])
    return np.abs(products.mean(axis=1) - kernel(X)[i, j]) / np.maximum(spread, EPS)


@every_order
def test_kernel_is_the_mean_of_random_features(order):
    # 21 entries, Bonferroni: false alarm below 1e-6 for exactly normal means.
    bound = special.ndtri(1 - FALSE_ALARM / (2 * 21))
    assert z_scores(ArcCosine(order), order).max() < bound
    if order:
        assert z_scores(ArcCosine(order), order, mutant_factor=1.02).max() > bound
    else:
        assert z_scores(ArcCosine(0, depth=2), 0).max() > bound


@every_order
def test_depth_is_composition(order):
    rng = np.random.default_rng(1)
    for x, y in rng.normal(size=(5, 2, 3)):
        covariance = np.array([[x @ x, x @ y], [x @ y, y @ y]])
        for depth in (1, 2, 3):
            entries = [covariance[np.ix_(p, p)] for p in ([0, 0], [0, 1], [1, 1])]
            xx, xy, yy = (2 * relu_moment(entry, order) for entry in entries)
            covariance = np.array([[xx, xy], [xy, yy]])
            value = ArcCosine(order, depth)(x[None], y[None])[0, 0]
            # Quadrature to 1e-13 in each of three layers, each magnifying relative errors by at most n^2.
            assert value == pytest.approx(xy, rel=1e-10)
            assert ArcCosine(order, depth).diag(x[None])[0] == pytest.approx(xx, rel=1e-10)


def test_order_one_is_nngp():
    X = np.random.default_rng(2).normal(size=(10, 4))
    np.testing.assert_array_equal(ArcCosine(1, depth=3)(X), NNGP(3)(X))


def test_zero_rows():
    X = np.array([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]])
    np.testing.assert_array_equal(ArcCosine(0)(X), [[0.5, 0.5, 0.5], [0.5, 1.0, 0.5], [0.5, 0.5, 0.5]])
    for depth in (1, 3):
        expected = ArcCosine(0, depth).kappa(0.0)
        assert ArcCosine(0, depth)(X, X)[0] == pytest.approx(expected, abs=4 * EPS)
        for order in (1, 2):
            values = ArcCosine(order, depth)(X)
            assert (values[[0, 2]] == 0).all()
            assert values[1, 1] > 0


def test_close_and_opposite_rows_keep_their_digits():
    # The angle between (1, 0) and (cos t, sin t) is t: arccos of their product would err by 1e-8.
    t = np.logspace(-12, -3, 30)
    circle = np.column_stack([np.cos(t), np.sin(t)])
    scale = np.array([[3.0], [1e-160]])
    values = ArcCosine(0)(scale * [[1.0, 0.0]], 1e100 * circle)
    np.testing.assert_allclose(values, np.tile(1 - t / math.pi, (2, 1)), rtol=0, atol=8 * EPS)
    opposite = ArcCosine(0)(scale * [[-1.0, 0.0]], circle)
    np.testing.assert_allclose(opposite, np.tile(t / math.pi, (2, 1)), rtol=0, atol=8 * EPS)
    parallel = np.outer(np.arange(1, 30), np.random.default_rng(3).normal(size=50))
    assert (ArcCosine(0, depth=4)(parallel) == 1.0).all()


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"order": 3}, ValueError, "`order` must be 0, 1 or 2, got 3"),
        ({"order": -1}, ValueError, "`order` must be at least 0"),
        ({"order": 1.0}, TypeError, "`order` must be an integer"),
        ({"depth": 0}, ValueError, "`depth` must be at least 1, got 0"),
        ({"depth": True}, TypeError, "`depth` must be an integer"),
    ],
)
def test_bad_parameters(parameters, error, message):
    for call in (lambda k: k(np.eye(2)), lambda k: k.diag(np.eye(2)), lambda k: k.kappa(0.0)):
        with pytest.raises(error, match=message):
            call(ArcCosine(**parameters))
