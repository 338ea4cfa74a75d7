"""The layered sketch of the neural tangent kernel."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.polynomial.polynomial import polyval
from scipy import sparse

import phimap as pm
from phimap.features.ntk.sketch_layers import (
    NTKSketchRecord,
    PolynomialRecord,
    SketchedLayer,
    relu_series,
    step_series,
)
from phimap.features.ntk.sketch_sizes import LayeredSizes
from phimap.kernels import kappa0, kappa1
from phimap.kernels.wide_layers import wide_layer
from phimap.ops import Array, Ops, ops_for
from phimap.random_map import evaluate
from phimap.records import Record
from phimap.sketches import SRHT


@dataclass(frozen=True)
class ExactPowers(Record):
    """All tensor products of x and e1, in place of a sketch of them."""

    n_features: int
    degree: int
    scratch_width = 1

    @property
    def n_components(self) -> int:
        return self.n_features**self.degree

    def cases(self, ops: Ops, X: Array) -> Iterator[tuple[int, Array]]:
        unit = np.eye(1, self.n_features)
        for n_units in range(self.degree + 1):
            product = np.ones((1, 1))
            for factor in range(self.degree):
                row = unit if factor < n_units else X
                product = (product[:, :, None] * row[:, None, :]).reshape(max(len(product), len(row)), -1)
            yield n_units, product


@dataclass(frozen=True)
class ExactProduct(Record):
    """The tensor product of two rows, padded with zeros."""

    n_components: int
    scratch_width = 1

    def sketch_product(self, ops: Ops, X: Array, Y: Array) -> Array:
        out = np.zeros((X.shape[0], self.n_components))
        product = (X[:, :, None] * Y[:, None, :]).reshape(X.shape[0], -1)
        out[:, : product.shape[1]] = product
        return out


def isometry(n_features: int) -> tuple[Any, int]:
    """An SRHT to as many components as its transform has, and their number."""
    width = 1 << (n_features - 1).bit_length()
    return SRHT(width).sample(n_features, np.random.default_rng(width)), width


def exact_polynomial(n_features: int, coefficients: np.ndarray) -> PolynomialRecord:
    powers: Any = ExactPowers(n_features, len(coefficients) - 1)
    reduction, _ = isometry(int(np.count_nonzero(coefficients)) * powers.n_components)
    return PolynomialRecord(powers, tuple(np.sqrt(coefficients)), reduction)


@pytest.mark.parametrize("coefficients", [relu_series(4), step_series(3), relu_series(2)])
def test_polynomial_is_exact_with_exact_products(coefficients):
    X = np.random.default_rng(0).standard_normal((6, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    ops = ops_for(X)
    record = exact_polynomial(4, coefficients).bind(ops)
    Z = np.empty((6, record.n_components))
    record.apply(ops, X, Z)
    np.testing.assert_allclose(Z @ Z.T, polyval(X @ X.T, coefficients), atol=1e-12)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
def test_recursion_is_exact_with_exact_products(depth, normalized):
    X = np.random.default_rng(0).standard_normal((6, 2))
    relu_coefficients, step_coefficients = relu_series(2), step_series(1)
    entrance, phi = isometry(2)
    tangent, psi = isometry(phi)
    layers = []
    for _ in range(depth):
        relu, step = exact_polynomial(phi, relu_coefficients), exact_polynomial(phi, step_coefficients)
        product: Any = ExactProduct(psi * step.n_components)
        phi = relu.n_components
        reduction, psi = isometry(product.n_components + phi)
        layers.append(SketchedLayer(relu, step, product, reduction))
    sizes = LayeredSizes(2, 2, 2, 2, 2, 1, 2)
    drawn = NTKSketchRecord.draw(2, depth, sizes, np.random.default_rng(0), wide_layer("relu"), normalized=normalized)
    record = replace(drawn, entrance=entrance, tangent=tangent, layers=tuple(layers), projection=np.eye(psi))
    ops = ops_for(X)
    Z = np.empty((6, psi))
    evaluate(record.bind(ops), ops, X, Z)
    norms = np.linalg.norm(X, axis=1)
    sigma = K = X @ X.T / np.multiply.outer(norms, norms)
    for _ in range(depth):
        K = K * polyval(sigma, step_coefficients)
        sigma = polyval(sigma, relu_coefficients)
        if normalized:
            sigma = sigma / polyval(1.0, relu_coefficients)
        K = K + sigma
    np.testing.assert_allclose(Z @ Z.T, np.multiply.outer(norms, norms) * K, atol=1e-10)


def test_series_converge_to_the_dual_functions():
    cosines = np.linspace(-0.8, 0.8, 33)
    np.testing.assert_allclose(polyval(cosines, relu_series(60)), kappa1(cosines), atol=1e-7)
    np.testing.assert_allclose(polyval(cosines, step_series(61)), kappa0(cosines), atol=1e-7)
    np.testing.assert_allclose(relu_series(4), [1 / np.pi, 0.5, 0.5 / np.pi, 0, 1 / (24 * np.pi)])
    np.testing.assert_allclose(step_series(3), [0.5, 1 / np.pi, 0, 1 / (6 * np.pi)])


@pytest.mark.parametrize("depth", [1, 3])
def test_error_falls_with_width_down_to_the_bias(depth):
    X = np.random.default_rng(0).standard_normal((40, 12))
    K = pm.kernels.NTK(depth=depth)(X)

    def error(width: int) -> float:
        errors = []
        for seed in range(4):
            Z = pm.NTKSketch(depth, width, method="layered", degree=12, random_state=seed).fit_transform(X)
            errors.append(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))
        return float(np.mean(errors))

    wide, narrow = error(1024), error(64)
    # 16 times the width divides the sketches' error by 4; the Taylor polynomials' stays.
    assert wide < 0.25
    assert wide < 0.5 * narrow


def test_mean_of_draws_is_the_polynomial():
    # Wide inside, so that only the projection errs, which is unbiased.
    X = np.random.default_rng(1).standard_normal((5, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    cosines = X @ X.T
    K = cosines * polyval(cosines, step_series(3)) + polyval(cosines, relu_series(4))
    wide: dict[str, Any] = dict.fromkeys(
        ("phi_components", "psi_components", "relu_components", "step_components"), 1024
    )
    values = []
    for seed in range(40):
        Z = pm.NTKSketch(1, 64, method="layered", degree=4, normalize=False, random_state=seed, **wide).fit_transform(X)
        values.append(Z @ Z.T)
    deviation = np.std(values, axis=0, ddof=1) / len(values) ** 0.5
    # 15 entries, each beyond 5 standard errors with probability below 1e-5; the bias of order 1 / 1024 is far below.
    assert np.all(np.abs(np.mean(values, axis=0) - K) < 5 * deviation + 0.005)


def test_normalised_layers_do_not_blow_up():
    X = np.random.default_rng(0).standard_normal((40, 12))
    K = pm.kernels.NTK(depth=6)(X)
    Z = pm.NTKSketch(6, 128, method="layered", degree=12, random_state=0).fit_transform(X)
    assert np.linalg.norm(Z @ Z.T - K) < np.linalg.norm(K)


@pytest.mark.parametrize("n_features", [60, 3000])
def test_sparse_rows_get_the_features_of_dense_ones(n_features):
    X = sparse.random_array((7, n_features), density=0.05, rng=np.random.default_rng(0), format="csr")
    phi = pm.NTKSketch(2, 64, method="layered", random_state=0).fit(X)
    np.testing.assert_allclose(phi.transform(X), phi.transform(X.toarray()), atol=1e-12)


def test_wide_sparse_rows_are_hashed():
    X = sparse.csr_array((np.ones(3), ([0, 1, 2], [5, 70_000, 99_999])), shape=(4, 100_000))
    record: Any = (phi := pm.NTKSketch(1, 64, method="layered", random_state=0)).fit(X).record_
    assert record.entrance.scratch_width < 100
    assert np.all(phi.transform(X)[3] == 0)


def test_bound_sets_all_dimensions():
    phi = pm.NTKSketch(1, 7, method="layered", epsilon=0.9, delta=0.5, random_state=0)
    X = np.random.default_rng(0).standard_normal((5, 4))
    Z = phi.fit_transform(X)
    record: Any = phi.record_
    layer = record.layers[0]
    # ceil(0.9^-2 log 2), ceil(2 0.9^-4/3) = 3 and ceil(9 0.9^-2) = 12.
    assert Z.shape[1] == phi.output_width(4) == 1
    assert layer.relu.powers.degree == 8
    assert layer.step.powers.degree == 25
    sizes = LayeredSizes.of_bound(2, 0.5, 0.1)
    size = np.log(40)
    assert sizes.phi == np.ceil(64 * 16 * size**3)
    assert sizes.psi == np.ceil(16 * size**2)
    assert sizes.step == np.ceil(16 * 16 * size**3)
    assert sizes.relu == np.ceil(256 * 2 ** (16 / 3) * size**3)
    assert sizes.output == np.ceil(4 * np.log(10))


def test_named_widths_are_used():
    widths: dict[str, Any] = {"phi_components": 20, "psi_components": 30, "relu_components": 40, "step_components": 50}
    record: Any = pm.NTKSketch(2, 60, method="layered", **widths).fit(np.eye(3)).record_
    layer = record.layers[1]
    assert record.entrance.n_components == layer.relu.n_components == 20
    assert record.tangent.n_components == layer.step.n_components == layer.reduction.n_components == 30
    assert (layer.relu.powers.n_components, layer.step.powers.n_components) == (40, 50)
    assert record.projection.shape == (30, 60)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"degree": 1}, "`degree` must be at least 2, got 1"),
        ({"epsilon": 0.5}, "`epsilon` and `delta` must be given together"),
        ({"epsilon": 0.5, "delta": 0.1, "method": "direct"}, "for method='layered'"),
        ({"epsilon": 0.5, "delta": 1.0}, "`delta` must be below 1, got 1.0"),
        ({"phi_components": 0}, "`phi_components` must be at least 1, got 0"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        pm.NTKSketch(**{"method": "layered", **parameters}).fit(np.eye(3))
