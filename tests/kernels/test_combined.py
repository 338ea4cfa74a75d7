"""Sums, products and multiples of kernels: values, laws, parameters and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special
from sklearn.base import clone

from phimap.kernels import (
    Cauchy,
    CauchyLaw,
    Gaussian,
    GaussianLaw,
    Kernel,
    Laplacian,
    Matern,
    Polynomial,
    Product,
    Scaled,
    StationaryKernel,
    StationaryProduct,
    Sum,
    SumLaw,
)
from phimap.projections import REGISTRY

D = 4
LEFT, RIGHT = Gaussian(length_scale=1.5), Polynomial(degree=2, gamma=0.5)


@pytest.fixture
def X(rng):
    return rng.standard_normal((12, D))


def test_operators_give_the_values(X):
    left, right = LEFT(X), RIGHT(X)
    for kernel, expected in (
        (LEFT + RIGHT, left + right),
        (LEFT * RIGHT, left * right),
        (2.0 * LEFT, 2 * left),
        (LEFT * np.float64(2.0), 2 * left),
        (np.float32(2.0) * LEFT, 2 * left),
        (3 * (LEFT + 0.5 * RIGHT) * LEFT, 3 * (left + 0.5 * right) * left),
        ((2 * LEFT) * (3 * LEFT), 6 * left * left),
    ):
        np.testing.assert_allclose(kernel(X), expected, rtol=1e-13)
        np.testing.assert_allclose(kernel.diag(X), np.diag(expected), rtol=1e-13)
    np.testing.assert_allclose(sum([0.5 * RIGHT, LEFT][1:], start=RIGHT)(X), left + right, rtol=1e-13)


def test_operators_keep_the_structure():
    assert isinstance(LEFT * Laplacian(), StationaryProduct)
    assert isinstance(LEFT * RIGHT, Product)
    assert not isinstance(LEFT * RIGHT, StationaryKernel)
    assert repr(2.0 * (3.0 * LEFT)) == "Scaled(factor=6.0, kernel=Gaussian(length_scale=1.5))"
    long = LEFT + RIGHT * (Matern(nu=2.5, length_scale=7.0) + 0.25 * Cauchy(length_scale=3.0))
    assert "\n" not in repr(long)
    assert repr(clone(long)) == repr(long)
    weights = [weight for weight, _ in (2.0 * (LEFT + 3.0 * (RIGHT + LEFT))).terms()]
    assert weights == [2.0, 6.0, 6.0]


def test_parameters_are_nested(X):
    kernel = LEFT + 0.5 * Laplacian()
    assert kernel.get_params()["right__kernel__length_scale"] == 1.0
    changed: Kernel = clone(kernel).set_params(left__length_scale=2.0, right__factor=4.0)  # pyright: ignore
    np.testing.assert_allclose(changed(X), Gaussian(2.0)(X) + 4 * Laplacian()(X))
    np.testing.assert_allclose(kernel(X), LEFT(X) + 0.5 * Laplacian()(X))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: -1.0 * LEFT, ValueError, r"`factor` must be greater than 0.0, got -1.0"),
        (lambda: LEFT * 0, ValueError, r"`factor` must be greater than 0.0, got 0"),
        (lambda: LEFT * np.nan, ValueError, r"`factor` must be"),
        (lambda: LEFT * np.ones(3), TypeError, r"`factor` must be a number"),
        (lambda: "2" * LEFT, TypeError, r"`factor` must be a number"),
        (lambda: LEFT + 1.0, TypeError, r"a kernel can be added to a kernel only, got 1.0. Use Taylor"),
        (lambda: Scaled(LEFT, -2.0)(np.eye(2)), ValueError, r"`factor` must be greater than 0.0, got -2.0"),
        (lambda: Sum(LEFT, 3)(np.eye(2)), TypeError, r"`right` must be a Kernel, got int"),
        (lambda: Product(LEFT, Gaussian(-1.0))(np.eye(2)), ValueError, r"`length_scale` must be greater than 0.0"),
        (lambda: StationaryProduct(RIGHT, LEFT)(np.eye(2)), TypeError, r"`left` must be a stationary kernel"),
    ],
)
def test_what_is_no_kernel_is_refused(make, error, message):
    with pytest.raises(error, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_laws_of_sums():
    scales = np.array([1.0, 2.0, 0.5, 4.0])
    gaussian = (Gaussian(3.0) * Gaussian(4.0)).spectral_law(D)
    assert type(gaussian) is GaussianLaw
    assert gaussian.scale == pytest.approx((1 / 9 + 1 / 16) ** 0.5)
    cauchy = (Laplacian(2.0) * Laplacian(scales)).spectral_law(D)
    assert type(cauchy) is CauchyLaw
    np.testing.assert_allclose(cauchy.scale, 0.5 + 1 / scales)
    mixed = (Gaussian(3.0) * Laplacian(2.0) * Gaussian(4.0)).spectral_law(D)
    assert type(mixed) is SumLaw
    assert [type(part) for part in mixed.parts] == [GaussianLaw, CauchyLaw]
    assert mixed.coordinate_variance == np.inf
    rng = np.random.default_rng(0)
    law = (Gaussian(2.0) * Matern(nu=3.5, length_scale=0.5)).spectral_law(D)
    assert law.is_gaussian_mixture
    assert law.sample(rng, 200_000).var() == pytest.approx(law.coordinate_variance, rel=0.03)


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(2.0) * Laplacian(4.0),
        Gaussian(2.0) * Matern(nu=1.5, length_scale=3.0),
        Cauchy(2.0) * Gaussian(np.array([1.0, 2.0, 3.0, 4.0])),
    ],
    ids=repr,
)
def test_projections_serve_the_law_or_refuse_it(kernel, rng):
    law = kernel.spectral_law(D)
    differences = rng.standard_normal((6, D))
    exact = kernel(differences, np.zeros((1, D)))[:, 0]
    served = set()
    for name, projection in REGISTRY.items():
        if projection.unmet_requirement(law):
            with pytest.raises(ValueError, match=f"`projection`='{name}' needs"):
                projection().sample(law, 64, rng)
            continue
        try:
            directions = projection().sample(law, 4096, np.random.default_rng(0)).to_dense()
        except ValueError as error:
            # These tell at the draw: what the law lacks, or that a rule has no such number of directions.
            assert "a product of kernels is n" in str(error) or name == "sparse-grid"  # noqa: PT017
            continue
        served.add(name)
        if name == "gaussian":  # Rules of few points and sparse signs err in few dimensions, whatever the law.
            # 4,096 cosines of variance below 1, of six differences: false alarm below 1e-6.
            error = np.abs(np.cos(directions @ differences.T).mean(axis=0) - exact).max()
            assert error < special.ndtri(1 - 1e-7) / 64
    assert "gaussian" in served
    assert not served & {"orthogonal", "fastfood", "sorf", "qmc", "ssf"}
