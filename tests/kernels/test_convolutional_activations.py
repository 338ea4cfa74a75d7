"""The convolutional tangent kernel of other activations: plain loops over integrals in the plane, and wide networks."""

import itertools

import numpy as np
import pytest

from phimap.kernels import CNTK, NNGP, NTK, LeakyReLU
from tests.kernels.test_network_activations import FUNCTIONS, SMOOTH

ROOT = 64 * np.sqrt(np.finfo(np.float64).eps)
LEAKY = LeakyReLU(0.3)
UNITS = FUNCTIONS | {
    "steep": (lambda t: np.where(t > 0, t, 0.3 * t), lambda t: np.where(t > 0, 1.0, 0.3)),
}
HOMOGENEOUS = {"abs": "abs", "steep": LEAKY}


def images(n=3, shape=(3, 4, 2), seed=0):
    draws = np.random.default_rng(seed).normal(size=(n, *shape))
    if n > 1:
        # A corner of zeros so large that windows of it are zero.
        draws[1, :2, :3] = 0.0
    return draws


def smooth_moments(function, derivative):
    """Both duals times the gain of a pair of deviations and a correlation, by the tensor rule of Gauss and Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    gain = 1 / (weights @ function(nodes) ** 2)

    def moments(x, y, r):
        u, v = x * nodes, y * (r * nodes[:, None] + np.sqrt(max(1 - r * r, 0)) * nodes)
        return [gain * (weights @ (f(u)[:, None] * f(v)) @ weights) for f in (function, derivative)]

    return moments


def kinked_moments(function, derivative, n=4000):
    """The same of homogeneous units, by a mean over the angle of the Gaussians in the plane."""
    theta = (np.arange(n) + 0.5) * (2 * np.pi / n)
    gain = 1 / np.mean(2 * function(np.cos(theta)) ** 2)

    def moments(x, y, r):
        if x == 0 or y == 0:
            return 0.0, 0.0
        u, v = np.cos(theta), np.cos(theta - np.arccos(np.clip(r, -1, 1)))
        return gain * x * y * np.mean(2 * function(u) * function(v)), gain * np.mean(derivative(u) * derivative(v))

    return moments


def loops(y, z, depth, q, pooling, moments):
    """The definition, pixel pair by pixel pair; all covariances of the two images, of each with itself too."""
    height, width, _ = y.shape
    pixels = list(itertools.product(range(height), range(width)))
    shifts = list(itertools.product(range(-(q // 2), q // 2 + 1), repeat=2))
    places = [(i, p) for i in (0, 1) for p in pixels]

    def windows(G):
        found = {}
        for (i, p), (j, s) in G:
            moved = [((i, (p[0] + a, p[1] + b)), (j, (s[0] + a, s[1] + b))) for a, b in shifts]
            found[(i, p), (j, s)] = sum(G.get(pair, 0.0) for pair in moved)
        return found

    G = {((i, p), (j, s)): float((y, z)[i][p] @ (y, z)[j][s]) for (i, p), (j, s) in itertools.product(places, places)}
    P = dict.fromkeys(G, 0.0)
    for h in range(1, depth + 1):
        C, slopes = windows(G), {}
        for one, other in C:
            x, y_ = np.sqrt(C[one, one]), np.sqrt(C[other, other])
            r = C[one, other] / (x * y_) if x * y_ > 0 else 0.0
            value, slope = moments(x, y_, 1.0 if one == other and x > 0 else r)
            G[one, other], slopes[one, other] = value / q**2, slope / q**2
        P = {k: P[k] * slopes[k] + (G[k] if h < depth else 0.0) for k in G}
        P = windows(P) if h < depth else P
    chosen = [P[(0, p), (1, s)] for p in pixels for s in pixels if pooling == "gap" or p == s]
    return sum(chosen) / len(chosen)


@pytest.mark.parametrize(
    ("q", "depth", "pooling"), [(3, 2, "gap"), (3, 3, "flatten"), (1, 3, "gap"), (5, 4, "flatten")]
)
@pytest.mark.parametrize("name", SMOOTH)
def test_plain_loops_over_integrals(name, q, depth, pooling):
    X = 0.2 * images(2)
    kernel = CNTK(depth, q, pooling, activation=name)
    expected = loops(X[0], X[1], depth, q, pooling, smooth_moments(*SMOOTH[name]))
    assert kernel(X)[0, 1] == pytest.approx(expected, rel=1e-9, abs=1e-9 * kernel.diag(X).max())
    assert CNTK(depth, q, pooling)(X)[0, 1] != pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("pooling", ["gap", "flatten"])
@pytest.mark.parametrize("name", HOMOGENEOUS)
def test_plain_loops_over_angles(name, pooling):
    X = images(2)
    found = CNTK(3, 3, pooling, activation=HOMOGENEOUS[name])(X)[0, 1]
    # Midpoints misplace a jump of the slope by half of their distance, in each of the layers.
    assert found == pytest.approx(loops(X[0], X[1], 3, 3, pooling, kinked_moments(*UNITS[name])), rel=2e-3)
    assert CNTK(3, 3, pooling)(X)[0, 1] != pytest.approx(found, rel=0.01)


@pytest.mark.parametrize("name", [*SMOOTH, "abs", "leaky-relu"])
def test_callables_are_the_named_activations(name):
    X = 0.5 * images(3, (4, 3, 2))
    X[2] = 0
    exact, found = (CNTK(3, activation=unit)(X) for unit in (name, FUNCTIONS[name][0]))
    # What follows 256 terms of a kink's derivative is of its root, an 18th, at its most.
    bound = 1e-10 if name in SMOOTH else 5e-3
    assert np.abs(found - exact).max() < bound * np.abs(exact).max()


@pytest.mark.parametrize("activation", ["erf", "softplus", "abs", LEAKY])
def test_one_pixel_is_a_shifted_ntk(activation):
    """With q = 1 on one pixel the kernel of depth 2 is G_1 S_2, and K_1 = K_0 S_1 + G_1, K_2 = K_1 S_2 + G_2."""
    X = np.random.default_rng(1).normal(size=(4, 1, 1, 5))
    rows = X[:, 0, 0]
    first, second = NNGP(1, activation)(rows), NNGP(2, activation)(rows)
    slopes = (NTK(2, activation)(rows) - second) / NTK(1, activation)(rows)
    np.testing.assert_allclose(CNTK(2, 1, activation=activation)(X), first * slopes, rtol=ROOT, atol=1e-9)


@pytest.mark.parametrize("activation", ["erf", "gelu", "cos", "softplus", np.tanh, LEAKY])
@pytest.mark.parametrize("pooling", ["gap", "flatten"])
def test_structure(activation, pooling):
    X = images(19, (4, 3, 2))
    X[2] = 0
    kernel = CNTK(3, 3, pooling, activation=activation)
    K = kernel(X)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(np.diag(K), kernel.diag(X))
    np.testing.assert_array_equal(kernel(X[3:5], X[7:]), K[3:5, 7:])
    assert np.linalg.eigvalsh(K)[0] > -1e-12 * K.max()
    single = kernel(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, K, rtol=1e-4, atol=1e-5 * K.max())


@pytest.mark.parametrize("activation", ["erf", np.tanh, "abs"])
def test_tensors_give_the_same_kernel(activation):
    torch = pytest.importorskip("torch")
    X = images(4, (4, 3, 2))
    kernel = CNTK(3, activation=activation)
    K = kernel(torch.tensor(X), torch.tensor(X[:2]))
    assert isinstance(K, torch.Tensor)
    np.testing.assert_allclose(K.numpy(), kernel(X, X[:2]), rtol=ROOT)


def network_kernel(X, depth, q, function, derivative, width, draws):
    """Mean gradient inner products (n, n) in W_2, ..., W_L of networks of channels `width`, averaged over pixels.

    ``a_l(p) = (c / (q^2 width))^(1/2) sigma(sum_s W_ls a_(l-1)(p + s))``, and the mean of ``v . a_L`` over pixels.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    gain = np.sqrt(weights.sum() / (weights @ function(nodes) ** 2) / width) / q
    n, height, across, _ = X.shape
    radius, rng = q // 2, np.random.default_rng(0)
    total = np.zeros((n, n))

    def patches(a):
        padded = np.pad(a, [(0, 0), (radius, radius), (radius, radius), (0, 0)])
        parts = [padded[:, i : i + height, j : j + across] for i in range(q) for j in range(q)]
        return np.concatenate(parts, axis=-1)

    for _ in range(draws):
        a, entering, slopes, filters = X, [], [], []
        for _ in range(depth):
            entering.append(patches(a))
            filters.append(rng.standard_normal((entering[-1].shape[-1], width)))
            projected = entering[-1] @ filters[-1]
            slopes.append(gain * derivative(projected))
            a = gain * function(projected)
        signal = rng.standard_normal(width) * slopes[-1] / (height * across)
        for layer in range(depth - 1, 0, -1):
            gradients = np.einsum("nijp,nijk->npk", entering[layer], signal).reshape(n, -1)
            total += gradients @ gradients.T
            back = (signal @ filters[layer].T).reshape(n, height, across, q, q, -1)
            spread = np.zeros((n, height + 2 * radius, across + 2 * radius, back.shape[-1]))
            for i, j in itertools.product(range(q), range(q)):
                spread[:, i : i + height, j : j + across] += back[:, :, :, i, j]
            signal = spread[:, radius : radius + height, radius : radius + across] * slopes[layer - 1]
    return total / draws


@pytest.mark.parametrize("name", ["erf", "gelu", "sin", "softplus", "leaky-relu"])
def test_gradients_of_networks(name):
    X = 0.7 * images(3, (3, 3, 2))
    found = network_kernel(X, 3, 3, *FUNCTIONS[name], 100, 20)
    exact = CNTK(3, activation=name)(X)
    scale = np.sqrt(np.multiply.outer(exact.diagonal(), exact.diagonal()))
    # The mean of 20 networks of width 100 has a standard deviation of a few (depth / 2,000)^(1/2), about 4 %.
    assert (np.abs(found - exact) / scale).max() < 0.1
    # Mutants: another depth, and the kernel of other units.
    for other in (CNTK(2, activation=name), CNTK(3, activation="abs")):
        assert (np.abs(other(X) - exact) / scale).max() > 0.1


def test_refusals():
    X = images()
    for name in ("step", "sign", np.sign):
        with pytest.raises(ValueError, match="`activation` must have a derivative"):
            CNTK(2, activation=name)(X)
    with pytest.raises(ValueError, match="`activation` must be one of 'abs'"):
        CNTK(2, activation="tanh")(X)
    with pytest.raises(TypeError, match="`activation` must be a name or a callable, got int"):
        CNTK(2, activation=3).diag(X)
