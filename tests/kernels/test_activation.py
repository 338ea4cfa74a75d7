"""Dual kernels of activations: closed forms and expansions against two-dimensional integrals and each other."""

import numpy as np
import pytest
from scipy import special

from phimap.kernels import ActivationKernel, ArcCosine
from phimap.kernels.hermite import hermite_moment, second_moment
from phimap.ops.activations import NAMES
from tests.support.oracles import relu_moment

EPS = np.finfo(np.float64).eps
FUNCTIONS = {
    "abs": np.abs,
    "cos": np.cos,
    "erf": special.erf,
    "gelu": lambda x: 0.5 * x * (1 + special.erf(x / np.sqrt(2))),
    "leaky-relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "relu": lambda x: np.maximum(x, 0),
    "sign": np.sign,
    "sin": np.sin,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "step": lambda x: np.heaviside(x, 0),
}
SMOOTH = ("cos", "erf", "gelu", "sin", "softplus")


def gauss_hermite(function, x, y, angle, order=120):
    """``E[f(u) f(v)]`` of standard deviations x, y at an angle, by the tensor rule of Gauss and Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    weights /= weights.sum()
    v = y * (np.cos(angle) * nodes[:, None] + np.sin(angle) * nodes)
    return weights @ (function(x * nodes)[:, None] * function(v)) @ weights


def plane(norm, angle):
    return np.array([[norm * np.cos(angle), norm * np.sin(angle)]])


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize(("x", "y"), [(0.1, 0.1), (1.0, 1.0), (0.3, 1.2), (0.0, 1.0)])
def test_smooth_activations_are_the_gaussian_integral(name, x, y):
    for angle in (0.0, 1e-3, 0.7, np.pi / 2, 2.5, np.pi):
        exact = gauss_hermite(FUNCTIONS[name], x, y, angle)
        value = ActivationKernel(name)(plane(x, 0.2), plane(y, 0.2 + angle))[0, 0]
        size = np.sqrt(gauss_hermite(FUNCTIONS[name], x, x, 0) * gauss_hermite(FUNCTIONS[name], y, y, 0))
        # Sums of 120 products by the rule, of up to 256 terms by the expansion.
        assert abs(value - exact) <= 256 * EPS * size + 4 * EPS**2
    diagonal = ActivationKernel(name).diag(plane(x, 0.2))[0]
    assert diagonal == pytest.approx(gauss_hermite(FUNCTIONS[name], x, x, 0), rel=256 * EPS, abs=4 * EPS**2)


@pytest.mark.parametrize("angle", [0.0, 0.4, 1.9, np.pi])
def test_activations_with_a_kink_are_integrals_over_an_angle(angle):
    x, y = 0.7, 2.0
    rows = plane(x, 0.0), plane(y, angle)
    same = np.array([[x * x, x * y * np.cos(angle)], [x * y * np.cos(angle), y * y]])
    flipped = same * np.array([[1, -1], [-1, 1]])
    step, relu = ([relu_moment(covariance, order) for covariance in (same, flipped)] for order in (0, 1))
    exact = {
        "step": step[0],
        "sign": 2 * (step[0] - step[1]),
        "relu": relu[0],
        "abs": 2 * (relu[0] + relu[1]),
        "leaky-relu": 1.0001 * relu[0] - 0.02 * relu[1],
    }
    for name, value in exact.items():
        # The oracle asks for 1e-13, and near angle 0 and pi a covariance holds the angle to a root of eps only.
        assert ActivationKernel(name)(*rows)[0, 0] == pytest.approx(
            value, abs=1e-12 + 4 * np.sqrt(EPS) * (angle in (0, np.pi))
        )


@pytest.mark.parametrize("order", [0, 1])
def test_step_and_relu_are_half_the_arc_cosine_kernel(order):
    X = np.random.default_rng(0).normal(size=(20, 4))
    kernel = ActivationKernel(("step", "relu")[order])
    np.testing.assert_allclose(2 * kernel(X), ArcCosine(order)(X), rtol=4 * EPS)


@pytest.mark.parametrize(
    ("name", "norms", "bound"),
    [
        *((name, (0.1, 0.5, 1.0), 1e-14) for name in ("erf", "gelu", "sin", "cos")),
        ("gelu", (0.1, 1.0, 3.0), 1e-14),
        ("gelu", (3.0, 10.0, 28.0), 6e-6),
        ("abs", (0.1, 1.0, 28.0), 4e-5),
        ("relu", (0.1, 1.0, 28.0), 4e-5),
        ("step", (0.1, 1.0, 28.0), 2e-2),
        ("sign", (0.1, 1.0, 28.0), 2e-2),
    ],
)
def test_expansion_errs_as_its_documentation_says(name, norms, bound):
    norms = np.array(norms)
    angle = np.linspace(0, np.pi, 301)
    for x in norms:
        for y in norms:
            exact = ActivationKernel(name)(plane(x, 0.0), np.vstack([plane(y, t) for t in angle]))[0]
            values = hermite_moment(FUNCTIONS[name], np.array([x]), np.full(301, y), angle[None])[0]
            size = np.sqrt(np.prod([ActivationKernel(name).diag(plane(norm, 0.0))[0] for norm in (x, y)]))
            assert np.abs(values - exact).max() <= bound * size


@pytest.mark.parametrize(
    ("function", "norm", "bound"),
    [
        (FUNCTIONS["softplus"], 3.0, 1e-14),
        (FUNCTIONS["softplus"], 28.0, 6e-6),
        (np.tanh, 1.0, 1e-14),
        (np.tanh, 28.0, 3e-3),
    ],
)
def test_expansion_without_a_closed_form_errs_as_its_documentation_says(function, norm, bound):
    # The trapezoidal rule in the plane, with steps that resolve tanh at this norm to rounding.
    nodes = np.linspace(-9, 9, 2001)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    size = second_moment(function, np.array([norm]))
    for angle in (0.0, 0.1, 0.4, 2.5, 3.1):
        v = norm * (np.cos(angle) * nodes[:, None] + np.sin(angle) * nodes)
        exact = weights @ (function(norm * nodes)[:, None] * function(v)) @ weights
        value = hermite_moment(function, np.array([norm]), np.array([norm]), np.array([[angle]]))
        assert abs(value - exact) <= bound * size


@pytest.mark.parametrize("function", [np.tanh, np.abs, np.sign, np.exp, lambda x: x**2 + x**3])
def test_expansion_has_the_exact_diagonal_and_obeys_cauchy_and_schwarz(function):
    norms = np.array([0.0, 0.2, 1.0, 2.5])
    diagonal = second_moment(function, norms)
    values = hermite_moment(function, norms[:, None], norms, np.zeros((4, 4)))
    np.testing.assert_allclose(np.diag(values), diagonal, rtol=2**10 * EPS)
    assert (np.abs(values) <= np.sqrt(np.multiply.outer(diagonal, diagonal)) * (1 + 2**10 * EPS)).all()


def test_polynomials_and_the_exponential_have_their_known_duals():
    X = 0.5 * np.random.default_rng(0).normal(size=(12, 3))
    products, squares = X @ X.T, np.square(X).sum(axis=1)
    expected = np.multiply.outer(squares, squares) + 2 * products**2
    np.testing.assert_allclose(ActivationKernel(np.square)(X), expected, atol=256 * EPS * expected.max())
    expected = np.exp(np.square(X[:, None] + X).sum(axis=2) / 2)
    np.testing.assert_allclose(ActivationKernel(np.exp)(X), expected, atol=256 * EPS * expected.max())


@pytest.mark.parametrize("name", NAMES)
def test_zero_rows_take_the_value_at_zero(name):
    X = np.array([[0.0, 0.0], [1.0, 0.5]])
    K = ActivationKernel(name)(X)
    at_zero = float(FUNCTIONS[name](np.zeros(1))[0])
    mean = np.polynomial.hermite_e.hermegauss(120)
    norm = np.linalg.norm(X[1])
    if at_zero:
        average = mean[1] @ FUNCTIONS[name](norm * mean[0]) / mean[1].sum()
        np.testing.assert_allclose(K[0], [at_zero**2, at_zero * average], rtol=256 * EPS)
    else:
        assert not K[0].any()


def test_long_rows_keep_their_digits():
    X = np.array([[1e150, 0.0], [1e150, 1e150], [0.0, 1e150]])
    # Far out erf is sign.
    np.testing.assert_allclose(ActivationKernel("erf")(X), ActivationKernel("sign")(X), atol=8 * EPS)
    np.testing.assert_allclose(ActivationKernel("sin")(X), 0.5 * np.eye(3), atol=8 * EPS)
    # Two rows of norm 1e6 at the angle 1e-7: 1 - (2 / pi) arccos of a number within 1e-12 of 1.
    angle, norm = 1e-7, 1e6
    exact = 2 / np.pi * np.arctan(2 * norm**2 / np.sqrt(1 + 4 * norm**2 + (2 * norm**2 * angle) ** 2))
    value = ActivationKernel("erf")(plane(norm, 0), plane(norm, angle))[0, 0]
    assert value == pytest.approx(exact, rel=8 * EPS)


@pytest.mark.parametrize(
    ("activation", "error", "message"),
    [
        ("tanh", ValueError, r"`activation` must be one of 'abs', 'cos'.*got 'tanh'"),
        (3, TypeError, "`activation` must be a name or a callable, got int"),
        (np.sum, ValueError, r"one real number for each.*got shape \(\)"),
        (lambda x: x[:, :1], ValueError, "one real number for each"),
        (lambda x: x + 1j, ValueError, "dtype complex128"),
        (lambda x: np.exp(x * x), ValueError, "exceeds the range of float64"),
    ],
)
def test_bad_activations(activation, error, message):
    for call in (lambda k: k(100 * np.eye(2)), lambda k: k.diag(100 * np.eye(2))):
        with pytest.raises(error, match=message):
            call(ActivationKernel(activation))
