"""The dense Gauss grid: exact for polynomials, the product of one-dimensional rules, natural sizes."""

from __future__ import annotations

from itertools import product
from math import factorial

import numpy as np
import pytest
from scipy import special

import phimap as pm
from phimap.kernels import Gaussian, GaussianLaw, StandardGaussianLaw
from phimap.projections import GaussGrid

EPS = np.finfo(np.float64).eps


def draw(law, s):
    return GaussGrid().sample(law, s, np.random.default_rng(0))


def moment(power):
    return 0 if power % 2 else np.prod(np.arange(1.0, power, 2))


@pytest.mark.parametrize(("d", "n"), [(1, 2), (1, 6), (2, 3), (3, 2), (3, 5), (4, 3)])
@pytest.mark.parametrize("law", [GaussianLaw, StandardGaussianLaw])
def test_polynomials_are_integrated_exactly(d, n, law):
    """Up to degree 2 n - 1 in each coordinate, odd ones by the unmerged grid; mutant: degree 2 n, which is not."""
    merged = law is GaussianLaw
    record = draw(law(d), (n**d + 1) // 2 if merged else n**d)
    W = record.to_dense()
    assert (record.weights > 0).all()
    np.testing.assert_allclose(record.weights.sum(), 1, atol=64 * EPS)
    for powers in product(range(0, 2 * n), repeat=d):
        if merged and sum(powers) % 2:
            continue
        found = record.weights @ np.prod(W ** np.array(powers), axis=1)
        size = record.weights @ np.prod(np.abs(W) ** np.array(powers), axis=1)
        np.testing.assert_allclose(found, np.prod([moment(p) for p in powers]), atol=256 * EPS * size)
    assert not np.isclose(record.weights @ W[:, 0] ** (2 * n), moment(2 * n))


@pytest.mark.parametrize("n", [2, 3, 6])
def test_the_estimate_is_the_product_of_rules_in_one_dimension(n, rng):
    """And errs by no more than the remainder of Gauss's rule; mutant: one node less."""
    scales = np.array([0.5, 2.0, 1.0])
    X = rng.standard_normal((9, 3))
    phi = pm.FourierFeatures(Gaussian(scales), 2 * ((n**3 + 1) // 2), projection="gauss-grid").fit(X)
    Z = phi.transform(X)
    assert phi.signature_ is None
    delta = (X[:, None] - X) / scales
    nodes, weights = special.roots_hermitenorm(n)
    rules = np.cos(delta[..., None] * nodes) @ (weights / weights.sum())
    np.testing.assert_allclose(Z @ Z.T, rules.prod(axis=-1), atol=64 * EPS)
    remainder = factorial(n) * delta ** (2 * n) / factorial(2 * n)
    assert (np.abs(rules - np.exp(-0.5 * delta**2)) <= remainder + 64 * EPS).all()
    assert not (np.abs(rules - np.exp(-0.5 * delta**2)) <= remainder / (4 * n)).all()


def test_few_columns_are_estimated_to_rounding(rng):
    X = rng.standard_normal((50, 2))
    phi = pm.FourierFeatures(Gaussian(2.0), 900, projection="gauss-grid").fit(X)
    np.testing.assert_allclose(phi.transform(X) @ phi.transform(X).T, phi.kernel_(X), atol=1e-12)


@pytest.mark.parametrize(
    ("d", "width", "message"),
    [
        (
            3,
            20,
            r"has 4 or 14 directions for 3 features, got 10. Use n_components=8 or 28 for pairs, 4 or 14 for phases",
        ),
        (3, 2, r"has 4 directions for 3 features, got 1. Use n_components=8 for pairs"),
        (40, 64, r"has 2\^39 directions or more for 40 features, got 32. Use projection='orthogonal'"),
    ],
)
def test_widths_that_do_not_fit_name_those_that_do(d, width, message):
    with pytest.raises(ValueError, match=message):
        pm.FourierFeatures(n_components=width, projection="gauss-grid").fit(np.ones((2, d)))


def test_units_take_the_whole_grid():
    X = np.eye(3)
    with pytest.raises(
        ValueError, match=r"has 8 or 27 directions for 3 features, got 20. Use n_components=8 or 27, or"
    ):
        pm.ArcCosineFeatures(1, 20, projection="gauss-grid").fit(X)
    Z = pm.ActivationFeatures(np.positive, 8, projection="gauss-grid").fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, X @ X.T, atol=64 * EPS)
