"""NNGP and NTK against a dynamic program over covariances, a finite wide network, and their known facts."""

import math

import numpy as np
import pytest
from scipy import special

from phimap.kernels import NNGP, NTK, LeakyReLU, kappa0, kappa1
from tests.support.oracles import ntk_dynamic_program

EPS = np.finfo(np.float64).eps
FALSE_ALARM = 1e-6
GRID = np.linspace(-1, 1, 2001)


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_recursion_of_the_paper(depth):
    sigma = tangent = GRID
    for _ in range(depth):
        tangent = tangent * kappa0(sigma) + kappa1(sigma)
        sigma = kappa1(sigma)
    np.testing.assert_allclose(NNGP(depth).kappa(GRID), sigma, atol=8 * depth * EPS)
    # kappa0 of a cosine near 1 has half of the digits only; the kernel itself keeps the angle.
    np.testing.assert_allclose(NTK(depth).kappa(GRID), tangent, atol=depth**2 * math.sqrt(2 * EPS))
    np.testing.assert_allclose(NTK(depth).kappa(GRID[:1900]), tangent[:1900], atol=64 * depth**2 * EPS)


@pytest.mark.parametrize("slope", [0.0, 0.5, -1.0])
def test_small_angles_keep_their_digits(slope):
    # All layers keep an angle t but for O(t^2), and each takes K to K (1 - 2 f t / pi) + 1 - O(t^2).
    fold = 0.5 * (1 - slope) ** 2 / (1 + slope**2)
    angles = np.logspace(-8, -6, 50)
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    fallen = 4.0 - NTK(depth=3, activation=LeakyReLU(slope))(rows, rows[:1] * [[1.0, 0.0]])[:, 0]
    np.testing.assert_allclose(fallen, (1 + 2 + 3) * 2 * fold * angles / math.pi, rtol=1e-5, atol=16 * EPS)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_dynamic_program_over_covariances(depth):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 4)) * np.array([0.1, 1.0, 1.0, 3.0, 0.0])[:, None]
    X[2] = X[1] + 0.01 * X[2]
    expected = np.array([[ntk_dynamic_program(x, y, depth) for y in X] for x in X])
    # Quadrature to 1e-13 relative to |x||y| in each layer; near-parallel rows lose 1 / angle = 100 of it.
    norms = np.linalg.norm(X, axis=1)
    assert (np.abs(NTK(depth)(X) - expected) <= 1e-9 * np.outer(norms, norms)).all()
    assert (NTK(depth)(X)[4] == 0).all()


def gradient_kernel_draws(X, depth, width, draws, gain=2.0**0.5):
    """Gradient inner products (draws, n, n) of finite ReLU networks with standard normal weights.

    The network is ``v . h_L`` with ``h_l = gain / sqrt(width) relu(W_l h_(l-1))``, and the gradient is taken with
    respect to all W_l and v. Its kernel is the sum over layers of (products of activations) * (products of
    backward signals).
    """
    rng = np.random.default_rng(0)
    found = []
    for _ in range(draws):
        weights = [rng.normal(size=(width, X.shape[1]))]
        weights += [rng.normal(size=(width, width)) for _ in range(depth - 1)]
        inputs, slopes, h = [], [], X
        for W in weights:
            inputs.append(h)
            z = h @ W.T
            slopes.append((z > 0) * (gain / math.sqrt(width)))
            h = np.maximum(z, 0) * (gain / math.sqrt(width))
        kernel = h @ h.T
        signal = np.broadcast_to(rng.normal(size=width), h.shape)
        for W, entered, slope in zip(weights[::-1], inputs[::-1], slopes[::-1], strict=True):
            signal = signal * slope
            kernel = kernel + (signal @ signal.T) * (entered @ entered.T)
            signal = signal @ W
        found.append(kernel)
    return np.array(found)


def largest_score(kernel, draws, X):
    """Largest |z| of the entries' means over draws, a finite-width bias of O(1 / width) allowed for."""
    i, j = np.triu_indices(len(X))
    values = draws[:, i, j]
    error = np.abs(values.mean(axis=0) - kernel(X)[i, j])
    norms = np.linalg.norm(X, axis=1)
    bias = 4.0 * kernel.depth**2 / 256 * (norms[i] * norms[j])
    return (np.maximum(error - bias, 0.0) / (values.std(axis=0, ddof=1) / math.sqrt(len(draws)))).max()


@pytest.mark.parametrize("depth", [1, 2])
def test_gradients_of_a_wide_network(depth):
    X = np.random.default_rng(1).normal(size=(4, 3))
    draws = gradient_kernel_draws(X, depth, width=256, draws=120)
    # 10 entries, Student's t with 119 degrees of freedom, Bonferroni: false alarm below 1e-6.
    bound = -special.stdtrit(119, FALSE_ALARM / 20)
    assert largest_score(NTK(depth), draws, X) < bound
    # Mutants: another depth, and a network whose weights have the wrong variance.
    assert largest_score(NTK(depth + 1), draws, X) > bound
    wrong = gradient_kernel_draws(X, depth, width=256, draws=120, gain=1.2)
    assert largest_score(NTK(depth), wrong, X) > bound


@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_facts(depth):
    values = NTK(depth).kappa(GRID)
    assert NTK(depth).kappa(1.0) == depth + 1
    # The Taylor coefficients are non-negative: increasing on [0, 1]. Near -1, K falls like -sqrt(1 + a) first.
    assert (np.diff(values[GRID >= 0]) > 0).all()
    assert values[1] < values[0]
    assert (np.diff(values[np.argmin(values) :]) > 0).all()
    # [Z21] states this bound for L >= 2, but K_2(-1) = kappa1(0) = 1 / pi < 3 / 9.
    if depth >= 3:
        assert values.min() >= (depth + 1) / 9
    X = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_allclose(NTK(depth).diag(X), (depth + 1) * (X * X).sum(axis=1), rtol=8 * EPS)
    np.testing.assert_allclose(NNGP(depth).diag(X), (X * X).sum(axis=1), rtol=8 * EPS)


def test_polynomials_of_degree_eight_fit_depth_three():
    values = NTK(3).kappa(GRID)

    def relative_error(degree):
        fit = np.polynomial.Chebyshev.fit(GRID, values, degree)
        return np.linalg.norm(fit(GRID) - values) / np.linalg.norm(values)

    # K is like a square root at 1, so that coefficients fall like j^(-2) and what follows degree p has a root mean
    # square of the order p^(-3/2) / sqrt(3): 0.026.
    assert relative_error(8) < 8**-1.5 / math.sqrt(3)
    assert relative_error(1) > 0.1


def test_close_rows_keep_their_digits():
    # K_1(cos t) = (2 cos t (pi - t) + sin t) / pi: with arccos, 2 sqrt(2 eps) / pi of it would be lost.
    t = np.logspace(-12, -3, 30)
    values = NTK(1)(np.array([[1.0, 0.0]]), np.column_stack([np.cos(t), np.sin(t)]))[0]
    np.testing.assert_allclose(values, (2 * np.cos(t) * (math.pi - t) + np.sin(t)) / math.pi, rtol=0, atol=16 * EPS)


@pytest.mark.parametrize("kernel", [NNGP, NTK])
def test_bad_depth(kernel):
    with pytest.raises(ValueError, match="`depth` must be at least 1, got 0"):
        kernel(0)(np.eye(2))
    with pytest.raises(TypeError, match="`depth` must be an integer"):
        kernel(1.5).kappa(0.0)
