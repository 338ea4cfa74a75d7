"""The published construction of `CNTKSketch`."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.features.ntk.sketch_layers import relu_series, step_series
from phimap.features.ntk.sketch_sizes import LayeredSizes


def images(n=6, side=4, channels=2, seed=0):
    return np.random.default_rng(seed).standard_normal((n, side, side, channels))


def sums(values, q):
    """Sums over the windows of an array (h, w, h, w) along both pixels at once, zeros outside."""
    r = q // 2
    padded = np.pad(values, r)
    h, w = values.shape[:2]
    shifts = [(a, b) for a in range(q) for b in range(q)]
    return sum(padded[a : a + h, b : b + w, a : a + h, b : b + w] for a, b in shifts)


def norms_only(x, q, depth):
    """Squared lengths N_h of the patches of every layer (depth, h, w), by loops."""
    height, width, _ = x.shape
    r, found = q // 2, []
    squares = np.square(x).sum(axis=2)
    for h in range(depth):
        padded = np.pad(squares, r)
        squares = sum(padded[a : a + height, b : b + width] for a in range(q) for b in range(q)) / (
            1 if h == 0 else q**2
        )
        found.append(squares)
    return found


def oracle(X, depth, q, degree):
    """Kernel matrix of Definition 2 with Taylor polynomials in place of both duals."""
    relu, step = (np.polynomial.Polynomial(series) for series in (relu_series(degree), step_series(degree - 1)))
    K = np.empty((len(X), len(X)))
    for i, x in enumerate(X):
        for j, y in enumerate(X):
            roots = [np.sqrt(norms_only(one, q, depth)) for one in (x, y)]
            gamma, tangent = np.einsum("abk,cdk->abcd", x, y), np.zeros(1)
            for h in range(depth):
                scale = np.einsum("ab,cd->abcd", roots[0][h], roots[1][h])
                cosines = sums(gamma, q) / scale
                slopes, gamma = step(cosines) / q**2, relu(cosines) * scale / q**2
                tangent = tangent * slopes if h == depth - 1 else sums(tangent * slopes + gamma, q)
            K[i, j] = tangent.mean()
    return K


def error(K, X, seeds, **options):
    """Root mean square over seeds of the relative error."""
    squares = []
    for seed in range(seeds):
        Z = pm.CNTKSketch(3, construction="published", random_state=seed, **options).fit_transform(X)
        squares.append(np.linalg.norm(Z @ Z.T - K) ** 2 / np.linalg.norm(K) ** 2)
    return np.sqrt(np.mean(squares))


def test_the_oracle_tends_to_the_kernel():
    X = images(3)
    K = pm.kernels.CNTK(3, 3)(X)
    gaps = [np.linalg.norm(oracle(X, 3, 3, degree) - K) / np.linalg.norm(K) for degree in (2, 8, 80)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.02


def test_the_error_falls_like_one_over_the_root_of_the_widths():
    X = images()
    K = oracle(X, 3, 3, 4)
    widths = np.array([128, 512, 2048])
    errors = [error(K, X, 12, n_components=int(m), degree=4) for m in widths]
    # Twelve draws know a root to some 20 %, and the slope to some 0.1; no error falls at all if a width is forgotten.
    assert -0.8 < np.polyfit(np.log(widths), np.log(errors), 1)[0] < -0.35
    assert errors[-1] < 0.12


def test_widths_and_degrees_are_those_that_are_asked_for():
    X = images(2)
    options = {"phi_components": 20, "psi_components": 30, "relu_components": 40, "step_components": 50}
    record = pm.CNTKSketch(3, n_components=60, construction="published", degree=5, **options).fit(X).record_
    first, second, third = record.layers
    assert (record.entrance.n_components, first.relu.n_components, second.reduction.n_components) == (20, 20, 30)
    assert (first.relu.powers.n_components, second.step.powers.n_components) == (40, 50)
    assert (first.relu.powers.degree, second.step.powers.degree, third.relu) == (4, 5, None)
    assert (second.reduction.n_features, third.reduction.n_features) == (9 * 20, 9 * 50)
    assert record.projection.shape == (30, 60)


def test_a_bound_sets_the_widths():
    phi = pm.CNTKSketch(2, construction="published", epsilon=0.9, delta=0.9)
    sizes, plain = LayeredSizes.of_bound(2, 0.9, 0.9, n_pixels=16), LayeredSizes.of_bound(2, 0.9, 0.9)
    assert sizes.phi > plain.phi
    assert sizes.relu_degree == plain.relu_degree == 2 * int(np.ceil(8 / 0.9 ** (4 / 3))) + 2
    assert phi.output_width(32) == sizes.output == 1
    assert phi._published_options().sizes(16) == sizes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"construction": "printed"}, r"`construction` must be one of"),
        ({"phi_components": 8}, r"`phi_components` is of construction='published' alone, got 8"),
        ({"construction": "published", "epsilon": 0.5}, r"`epsilon` and `delta` must be given together"),
        ({"construction": "published", "hidden_components": 8}, r"`hidden_components` is of construction='improved'"),
        ({"construction": "published", "pooling": "flatten"}, r"`pooling` must be 'gap'"),
        ({"construction": "published", "degree": 1}, r"`degree` must be"),
    ],
)
def test_bad_parameters_name_the_remedy(options, message):
    with pytest.raises(ValueError, match=message):
        pm.CNTKSketch(2, n_components=16, **options).fit(images(2))


def test_zero_images_give_zero_and_scale_comes_out():
    X = images(3)
    X[1] = 0
    phi = pm.CNTKSketch(3, n_components=64, construction="published", degree=3, random_state=0).fit(X)
    Z = phi.transform(X)
    assert np.isfinite(Z).all()
    assert not Z[1].any()
    np.testing.assert_allclose(phi.transform(3 * X), 3 * Z, rtol=1e-10)
