"""NNGP and NTK of other activations: integrals in the plane, published closed forms, and wide networks."""

import math

import numpy as np
import pytest
from scipy import special

from phimap.kernels import NNGP, NTK, ArcCosine, LeakyReLU

EPS = np.finfo(np.float64).eps
# Activations and their derivatives.
SMOOTH = {
    "cos": (np.cos, lambda t: -np.sin(t)),
    "erf": (special.erf, lambda t: 2 / math.sqrt(math.pi) * np.exp(-t * t)),
    "gelu": (
        lambda t: t * special.ndtr(t),
        lambda t: special.ndtr(t) + t * np.exp(-t * t / 2) / math.sqrt(2 * math.pi),
    ),
    "sin": (np.sin, np.cos),
    "softplus": (lambda t: np.log1p(np.exp(t)), special.expit),
}
KINKED = {
    "abs": (np.abs, np.sign),
    "leaky-relu": (lambda t: np.where(t > 0, t, 0.01 * t), lambda t: np.where(t > 0, 1.0, 0.01)),
    "relu": (lambda t: np.maximum(t, 0), lambda t: np.heaviside(t, 0)),
}
FUNCTIONS = SMOOTH | KINKED
PAIR = np.array([[0.6, -0.3, 0.1], [0.2, 0.9, 0.5]])


def recursion(X, depth, moments):
    """Sigma_L and K_L of two rows, from ``moments(covariance)``: both duals of a 2 x 2 covariance times the gain."""
    sigma = tangent = X @ X.T
    for _ in range(depth):
        entries = [[moments(sigma[np.ix_([i, j], [i, j])]) for j in (0, 1)] for i in (0, 1)]
        sigma, slope = np.moveaxis(np.array(entries), -1, 0)
        tangent = tangent * slope + sigma
    return sigma, tangent


def integrals(function, derivative, order=120):
    """Both duals by the tensor rule of Gauss and Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    weights = weights / weights.sum()
    gain = 1 / (weights @ function(nodes) ** 2)

    def moments(covariance):
        (p, c), (_, q) = covariance
        u, rest = math.sqrt(p) * nodes, math.sqrt(max(q - c * c / p, 0))
        v = c / math.sqrt(p) * nodes[:, None] + rest * nodes
        return tuple(gain * (weights @ (f(u)[:, None] * f(v)) @ weights) for f in (function, derivative))

    return moments


def published_erf(covariance):
    """Williams (1997), Equation 11, and its derivative; E erf(z)^2 = 2 / pi arcsin(2 / 3)."""
    (p, c), (_, q) = covariance
    gain = math.pi / 2 / math.asin(2 / 3)
    dual = 2 / math.pi * math.asin(2 * c / math.sqrt((1 + 2 * p) * (1 + 2 * q)))
    return gain * dual, gain * 4 / math.pi / math.sqrt((1 + 2 * p) * (1 + 2 * q) - 4 * c * c)


def published_gelu(covariance):
    """Tsuchida, Pearce, van der Heide, Roosta, Gallagher (2021), as the library neural-tangents writes it."""

    def dual(p, c, q):
        product, above = p * q, (1 + p) * (1 + q)
        below = above - c * c
        angle = math.asin(c / math.sqrt(above))
        value = (c * c * (2 + p + q) / above + product - c * c) / math.sqrt(below) + c * angle
        slope = (1 / below + (1 - product) / above + 1) * c / math.sqrt(below) + angle
        return c / 4 + value / (2 * math.pi), 1 / 4 + slope / (2 * math.pi)

    (p, c), (_, q) = covariance
    gain = 1 / dual(1.0, 1.0, 1.0)[0]
    return tuple(gain * part for part in dual(p, c, q))


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("name", SMOOTH)
def test_recursion_over_integrals_in_the_plane(name, depth):
    sigma, tangent = recursion(PAIR, depth, integrals(*SMOOTH[name]))
    # The rule errs most where variances are largest, on the diagonal of cosines: 1e-11 of the kernel.
    np.testing.assert_allclose(NNGP(depth, name)(PAIR), sigma, rtol=1e-9)
    np.testing.assert_allclose(NTK(depth, name)(PAIR), tangent, rtol=1e-9)
    assert np.abs(NTK(depth + 1, name)(PAIR) / tangent - 1).max() > 1e-3


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize(("name", "published"), [("erf", published_erf), ("gelu", published_gelu)])
def test_published_closed_forms(name, published, depth):
    X = np.random.default_rng(0).normal(size=(12, 4)) * np.geomspace(0.01, 4, 12)[:, None]
    for i in range(len(X)):
        pair = X[[i, (5 * i + 1) % 12]]
        sigma, tangent = recursion(pair, depth, published)
        np.testing.assert_allclose(NNGP(depth, name)(pair), sigma, rtol=1e-9)
        np.testing.assert_allclose(NTK(depth, name)(pair), tangent, rtol=1e-9)


def network_kernel(X, depth, name, width, draws):
    """Mean gradient inner products (n, n) of networks ``v . h_L``, ``h_l = (c / width)^(1/2) sigma(W_l h_(l-1))``."""
    function, derivative = FUNCTIONS[name]
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    gain = math.sqrt(weights.sum() / (weights @ function(nodes) ** 2) / width)
    # In float32: conversions of the matrices would take as long as their draws.
    gain, X = np.float32(gain), X.astype(np.float32)
    rng, total = np.random.default_rng(0), np.zeros((len(X), len(X)))
    for _ in range(draws):
        matrices, inputs, slopes, h = [], [], [], X
        for _ in range(depth):
            matrices.append(rng.standard_normal((h.shape[1], width), dtype=np.float32))
            inputs.append(h)
            projected = h @ matrices[-1]
            slopes.append(gain * derivative(projected))
            h = gain * function(projected)
        total += h @ h.T
        signal = rng.standard_normal(width, dtype=np.float32) * slopes[-1]
        for layer in range(depth - 1, -1, -1):
            total += (signal @ signal.T) * (inputs[layer] @ inputs[layer].T)
            if layer:
                signal = (signal @ matrices[layer].T) * slopes[layer - 1]
    return total / draws


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_networks(name, depth):
    # The mean of 40 networks of width 400 has a standard deviation of (some depth / 16,000)^(1/2), about 2 %.
    found, exact = network_kernel(PAIR, depth, name, 400, 40), NTK(depth, name)(PAIR)
    scale = np.sqrt(np.multiply.outer(exact.diagonal(), exact.diagonal()))
    assert (np.abs(found - exact) / scale).max() < 0.08
    # Mutants: the kernel of another depth, and that without the derivative's factor.
    for other in (NTK(depth + 1, name), NNGP(depth, name)):
        assert (np.abs(other(PAIR) - exact) / scale).max() > 0.08


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("name", ["erf", "gelu"])
def test_gradients_of_very_wide_networks(name, depth):
    X = np.concatenate([PAIR, -0.5 * PAIR[:1], 2 * PAIR[1:]])
    found, exact = network_kernel(X, depth, name, 1024, 160), NTK(depth, name)(X)
    assert np.linalg.norm(found - exact) < 0.02 * np.linalg.norm(exact)
    scale = np.sqrt(np.multiply.outer(exact.diagonal(), exact.diagonal()))
    assert (np.abs(found - exact) / scale).max() < 0.02


@pytest.mark.parametrize("kernel", [NNGP, NTK])
@pytest.mark.parametrize("depth", [1, 3])
def test_leaky_units_interpolate_the_linear_the_rectified_and_the_folded(kernel, depth):
    X = np.random.default_rng(1).normal(size=(8, 3))
    X[3] = 0
    X[4], X[5] = X[6], -X[6]
    products = X @ X.T
    linear = products if kernel is NNGP else (depth + 1) * products
    np.testing.assert_allclose(kernel(depth, LeakyReLU(1.0))(X), linear, atol=64 * EPS)
    np.testing.assert_array_equal(kernel(depth, LeakyReLU(0.0))(X), kernel(depth)(X))
    np.testing.assert_array_equal(kernel(depth, LeakyReLU(-1.0))(X), kernel(depth, "abs")(X))
    np.testing.assert_array_equal(kernel(depth, LeakyReLU())(X), kernel(depth, "leaky-relu")(X))
    K = kernel(depth, "abs")(X)
    # The units do not tell x from -x, and the tangent kernel takes its sign from x in the first layer's weights alone.
    np.testing.assert_allclose(NNGP(depth, "abs")(X)[5], NNGP(depth, "abs")(X)[6], atol=64 * EPS * K.max())
    norms = np.square(X).sum(axis=1)
    np.testing.assert_allclose(K.diagonal(), norms * (1 if kernel is NNGP else depth + 1), rtol=16 * EPS)


@pytest.mark.parametrize("slope", [-1.0, -0.3, 0.01, 0.5, 3.0])
def test_homogeneous_units_by_their_definition(slope):
    # In the plane the duals are averages over the angle of w, whose squared length has the mean 2.
    t, theta = np.linspace(0, math.pi, 7), (np.arange(200_000) + 0.5) * (2 * math.pi / 200_000)
    unit = LeakyReLU(slope)
    rows = np.column_stack([np.cos(t), np.sin(t)])
    outputs = np.array([unit(np.cos(theta - angle)) for angle in t])
    slopes = np.array([np.where(np.cos(theta - angle) > 0, 1.0, slope) for angle in t])
    gain = 2 / (1 + slope**2)
    sigma, derivative = 2 * gain * (outputs @ outputs[0]) / theta.size, gain * (slopes @ slopes[0]) / theta.size
    np.testing.assert_allclose(NNGP(1, unit)(rows, rows[:1])[:, 0], sigma, atol=1e-8)
    # Midpoints misplace a jump by half of their distance.
    np.testing.assert_allclose(NTK(1, unit)(rows, rows[:1])[:, 0], np.cos(t) * derivative + sigma, atol=1e-4)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_callables_are_the_named_activations(name):
    X = np.random.default_rng(2).normal(size=(20, 3))
    X /= np.linalg.norm(X, axis=1)[:, None] * np.linspace(0.7, 2, 20)[:, None]
    X[1] = 0
    for depth in (1, 3):
        exact, found = NTK(depth, name)(X), NTK(depth, FUNCTIONS[name][0])(X)
        # What follows 256 terms of a kink's derivative is of its root, an 18th, at its most: on the diagonal.
        bound = 1e-11 if name in SMOOTH else 2e-3 * depth
        assert np.abs(found - exact).max() < bound * np.abs(exact).max()
        difference = np.abs(NNGP(depth, name)(X) - NNGP(depth, FUNCTIONS[name][0])(X)).max()
        assert difference < (1e-12 if name in SMOOTH else 1e-3)


@pytest.mark.parametrize("name", [*FUNCTIONS, "sign", "step"])
def test_layers_keep_unit_norms(name):
    X = np.eye(3)
    np.testing.assert_allclose(NNGP(3, name).diag(X), 1, rtol=64 * EPS)


def test_constant_pieces():
    for depth in (1, 2):
        X = np.random.default_rng(3).normal(size=(6, 3))
        np.testing.assert_allclose(NNGP(depth, "step")(X), ArcCosine(0, depth)(X), atol=1e-7)
    for name in ("step", "sign"):
        with pytest.raises(ValueError, match=f"`activation` must have a derivative for a tangent kernel, got '{name}'"):
            NTK(1, name)(X)
    for jump in (np.sign, lambda t: np.heaviside(t, 0), lambda t: t + np.floor(t)):
        with pytest.raises(ValueError, match="one that jumps or is too steep for rows of norm"):
            NTK(1, jump)(X)


@pytest.mark.parametrize(
    ("activation", "error", "message"),
    [
        ("tanh", ValueError, "`activation` must be one of 'abs'"),
        (3, TypeError, "`activation` must be a name or a callable, got int"),
        (np.zeros_like, ValueError, "`activation` must have a positive second moment"),
        (LeakyReLU("a"), TypeError, "`slope` must be a"),
    ],
)
@pytest.mark.parametrize("kernel", [NNGP, NTK])
def test_bad_activations(kernel, activation, error, message):
    with pytest.raises(error, match=message):
        kernel(2, activation)(np.eye(2))
