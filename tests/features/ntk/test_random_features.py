"""Features of the neural tangent kernel: their parts put together by hand, widths, and the error on real data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

import phimap as pm
from phimap.features.ntk.layers import NTKLayer, NTKRecord, TensorProduct
from phimap.features.random_layers.rectified import RectifiedRecord
from phimap.kernels import NNGP, NTK
from phimap.kernels.spectral import StandardGaussianLaw
from phimap.sketches import TensorSketch, TensorSRHT
from tests.support.records import apply
from tests.support.statistics import is_mean, is_slope, kernel_estimates

SKETCHES = [TensorSRHT(24), TensorSketch(24)]


def draw_layer(seed: int, d: int, width: int = 24) -> NTKLayer:
    """A layer whose product is not sketched."""
    rng, law = np.random.default_rng(seed), StandardGaussianLaw(d)
    relu = RectifiedRecord.draw(1, law, width, "gaussian", rng)
    step = RectifiedRecord.draw(0, law, width, "gaussian", rng)
    return NTKLayer(relu, step, TensorProduct((width, d)))


def test_explicit_products_estimate_the_kernel(rng):
    """False-alarm rate 1e-6; mutants: the kernel of another depth, and the part of the derivative left out."""
    X = rng.standard_normal((5, 4))
    samples = kernel_estimates(lambda seed: apply(NTKRecord((draw_layer(seed, 4),), None), X), 500)
    assert is_mean(samples, NTK(depth=1)(X))
    assert not is_mean(samples, NTK(depth=2)(X))
    assert not is_mean(samples, NNGP(depth=1)(X))


@pytest.mark.parametrize("sketch", SKETCHES, ids=repr)
def test_sketched_products_have_the_mean_of_explicit_ones(sketch, rng):
    """False-alarm rate 1e-6; mutants: the steps of another draw, and a missing factor."""
    X = rng.standard_normal((5, 4))
    layer = draw_layer(0, 4)
    exact = apply(NTKRecord((layer,), None), X)

    def sketched(seed: int) -> np.ndarray:
        product = sketch.sample_product((24, 4), np.random.default_rng(seed))
        return apply(NTKRecord((replace(layer, product=product),), None), X)

    samples = kernel_estimates(sketched, 600)
    assert is_mean(samples, exact @ exact.T)
    other = apply(NTKRecord((replace(layer, step=draw_layer(1, 4).step),), None), X)
    assert not is_mean(samples, other @ other.T)
    assert not is_mean(0.9 * samples, exact @ exact.T)


def test_layers_follow_the_recursion(rng):
    X = rng.standard_normal((6, 4))
    first = draw_layer(0, 4, width=6)
    rng_second, law = np.random.default_rng(1), StandardGaussianLaw(6)
    second = NTKLayer(
        RectifiedRecord.draw(1, law, 6, "gaussian", rng_second),
        RectifiedRecord.draw(0, law, 5, "gaussian", rng_second),
        TensorProduct((5, 6 + 6 * 4)),
    )

    def rectified(record: RectifiedRecord, V: np.ndarray) -> np.ndarray:
        projected = V @ record.projection.to_dense().T
        return record.scale * (projected > 0) * projected**record.order

    norms = np.linalg.norm(X, axis=1, keepdims=True)
    phi = X / norms
    tangent = phi @ phi.T
    for layer in (first, second):
        derivative = rectified(layer.step, phi)
        phi = rectified(layer.relu, phi)
        tangent = tangent * (derivative @ derivative.T) + phi @ phi.T
    Z = apply(NTKRecord((first, second), None), X)
    np.testing.assert_allclose(Z @ Z.T, tangent * norms * norms.T, rtol=1e-12)


@pytest.mark.parametrize("depth", [1, 3])
def test_all_rectified_features_are_those_of_the_nngp_kernel(depth, rng):
    """False-alarm rate 1e-6 at depth 1, where they are unbiased; mutant: the tangent kernel."""
    X = rng.standard_normal((6, 4))
    phi = pm.NTKFeatures(depth, 64, relu_components=64, random_state=0).fit(X)
    assert phi.kernel_(X) == pytest.approx(NNGP(depth=depth)(X))
    assert isinstance(phi.kernel_, NNGP)
    assert all(layer.step is None and layer.product is None for layer in phi.record_.layers)
    assert [layer.n_components for layer in phi.record_.layers] == [256] * (depth - 1) + [64]
    if depth == 1:
        samples = kernel_estimates(lambda seed: phi.set_params(random_state=seed).fit_transform(X), 100)
        assert is_mean(samples, phi.kernel_(X))
        assert not is_mean(samples, NTK(depth=1)(X))


@pytest.mark.parametrize("sketch", ["tensorsrht", "countsketch"])
def test_widths_are_those_asked_for(sketch, rng):
    X = rng.standard_normal((6, 4))
    options = {"relu_components": 20, "step_components": 37, "hidden_components": 24, "sketch": sketch}
    phi = pm.NTKFeatures(2, 50, random_state=0, **options).fit(X)
    assert phi.transform(X).shape == (6, 50)

    def widths(layer: NTKLayer) -> tuple[int, int, int]:
        return layer.relu.n_components, layer.step.n_components, layer.product.n_components

    assert [widths(layer) for layer in phi.record_.layers] == [(24, 37, 24), (20, 37, 30)]
    assert phi.record_.layers[1].relu.n_features == 24


def test_one_component_is_unbiased(rng):
    """False-alarm rate 1e-6; mutants: only the rectified part, and half the kernel."""
    X = rng.standard_normal((3, 4))
    phi = pm.NTKFeatures(1, 1, exact_degrees=())
    samples = kernel_estimates(lambda seed: phi.set_params(random_state=seed).fit_transform(X), 800)
    assert is_mean(samples, NTK(depth=1)(X))
    assert not is_mean(samples, NNGP(depth=1)(X))
    assert not is_mean(samples / 2, NTK(depth=1)(X))


@pytest.fixture(scope="module")
def digits():
    """Rows of real data of norm 1."""
    X = load_digits().data[:400]
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.mark.parametrize("sketch", ["tensorsrht", "countsketch"])
def test_error_on_digits_is_the_published_one(sketch, digits):
    """Published on unit rows of images at width 8192: up to 0.048; at half the width the root of two times that."""
    bound = 0.048 * np.sqrt(2)
    phi = pm.NTKFeatures(1, 4096, sketch=sketch, exact_degrees=(), random_state=0).fit(digits)
    assert pm.metrics.relative_error(phi, digits) < bound
    K, Z = phi.kernel_(digits), phi.transform(digits)
    # Mutants: the sketched part left out, and its features not scaled.
    without = Z[:, :2048]
    assert np.linalg.norm(K - without @ without.T) > 5 * bound * np.linalg.norm(K)
    doubled = np.hstack([without, np.sqrt(2) * Z[:, 2048:]])
    assert np.linalg.norm(K - doubled @ doubled.T) > 5 * bound * np.linalg.norm(K)


def test_error_falls_as_the_root_of_the_width(digits):
    """False-alarm rate 1e-6; mutant: the kernel of a deeper network, towards which it stops falling."""
    X = digits[:20]
    widths = np.repeat(2 ** np.arange(6, 12), 12)
    features = [
        pm.NTKFeatures(1, int(m), exact_degrees=(), random_state=i).fit_transform(X) for i, m in enumerate(widths)
    ]

    def log_errors(K: np.ndarray) -> np.ndarray:
        return np.log([np.linalg.norm(Z @ Z.T - K) for Z in features])

    assert is_slope(np.log(widths), log_errors(NTK(depth=1)(X)), -0.5)
    assert not is_slope(np.log(widths), log_errors(NTK(depth=2)(X)), -0.5)


@pytest.mark.parametrize("sampling", ["gaussian", "leverage"])
@pytest.mark.parametrize("depth", [10, 20])
def test_deep_maps_keep_their_norms(depth, sampling, digits):
    """The log of a squared norm varies by about 5 depth / 512 over draws: half to twice is beyond four deviations."""
    X = np.vstack([digits[:50], np.zeros(64)]).astype(np.float32)
    phi = pm.NTKFeatures(depth, 512, sampling=sampling, projection="gaussian", random_state=0).fit(X)
    Z = phi.transform(X)
    squares = (Z.astype(np.float64) ** 2).sum(axis=1)
    assert squares[-1] == 0
    assert (0.3 * (depth + 1) < squares[:-1]).all()
    assert (squares[:-1] < 3 * (depth + 1)).all()
    assert pm.metrics.relative_error(phi, X) < 1


@pytest.mark.parametrize("exact_degrees", [(), (0, 1)])
@pytest.mark.parametrize("d", [1, 40])
@pytest.mark.parametrize("n_components", [1, 2, 3, 41])
def test_few_components_and_any_number_of_inputs(d, n_components, exact_degrees, rng):
    X = np.vstack([rng.standard_normal((4, d)), np.zeros(d)])
    Z = pm.NTKFeatures(3, n_components, exact_degrees=exact_degrees, random_state=0).fit_transform(X)
    assert Z.shape == (5, n_components)
    assert np.isfinite(Z).all()
    assert Z[:4].any()
    assert not Z[4].any()


@pytest.mark.parametrize("depth", [1, 3, 10, 20])
@pytest.mark.parametrize("columns", [2, 64])
def test_exact_degrees_err_least(columns, depth, digits):
    """Measured: 0.06 to 0.26 of the published map's error; without moments of the data 0.2 to 0.8 for many columns."""
    X = digits[:100, 20:22] if columns == 2 else digits[:100]

    def error(**options) -> float:
        return pm.metrics.relative_error(pm.NTKFeatures(depth, 512, random_state=0, **options).fit(X), X)

    published = error(exact_degrees=())
    assert error() < 0.4 * published
    if columns > 2:
        assert error(adaptive=False) < published


def test_one_input_has_only_its_sign(rng):
    """At d = 1 the kernel has two values, which a constant and a linear term give."""
    X = rng.standard_normal((20, 1))
    phi = pm.NTKFeatures(3, 8, random_state=0).fit(X)
    assert pm.metrics.relative_error(phi, X) < 1e-4


@pytest.mark.parametrize("depth", [1, 20])
def test_linear_term_is_exact(depth, digits):
    phi = pm.NTKFeatures(depth, 512, adaptive=False, random_state=0).fit(digits)
    constant, linear = phi.record_.terms[:2]
    assert constant.orthogonal is None
    assert constant.n_components == 1
    assert (linear.orthogonal.degree, linear.orthogonal.n_components, linear.orthogonal.basis) == (1, 64, None)
    Z = phi.transform(3 * digits) / 3
    np.testing.assert_allclose(Z[:, 1:65], linear.polynomials[0, 0] * digits, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "option",
    [
        {"sketch": "countsketch"},
        {"sampling": "leverage"},
        {"relu_components": 20},
        {"hidden_components": 30},
        {"step_components": 20},
        {"projection": "orthogonal"},
    ],
    ids=lambda option: next(iter(option)),
)
def test_what_only_the_layers_have_asks_for_them(option, digits):
    layers = pm.NTKFeatures(2, 64, random_state=0, **option).fit_transform(digits)
    published = pm.NTKFeatures(2, 64, exact_degrees=(), random_state=0, **option).fit_transform(digits)
    np.testing.assert_array_equal(layers, published)
    with pytest.raises(ValueError, match=r"`exact_degrees` must be \(\) where .* Use exact_degrees=\(\)"):
        pm.NTKFeatures(2, 64, exact_degrees=(0,), **option).fit(digits)


def test_layers_serve_where_the_series_has_no_room(digits):
    assert isinstance(pm.NTKFeatures(1, 2, random_state=0).fit(np.eye(64)).record_, NTKRecord)
    assert not isinstance(pm.NTKFeatures(1, 64, random_state=0).fit(digits).record_, NTKRecord)


@pytest.mark.parametrize("rows", [1, 16, 100])
def test_a_short_first_batch_serves_later_rows(rows):
    """Few rows lie in a space of their own, of which the moments must not be led to think that all others do too."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 400)) + 0.5
    phi = pm.NTKFeatures(1, 1024, random_state=0)
    published = pm.NTKFeatures(1, 1024, exact_degrees=(), random_state=0).fit(X)
    assert pm.metrics.relative_error(phi.fit(X[:rows]), X[200:]) < pm.metrics.relative_error(published, X[200:])
