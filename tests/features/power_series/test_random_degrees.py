"""Random Maclaurin features as published: products of signs of random degrees, and their variance."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.features.power_series.random_degrees import RandomDegreesRecord
from phimap.kernels import NTK, Exponential, Gaussian, Polynomial, Taylor
from tests.support.records import apply
from tests.support.statistics import is_mean, kernel_estimates

EPS = np.finfo(np.float64).eps


def features(kernel, width, **parameters):
    return pm.DotProductFeatures(kernel, width, method="random-maclaurin", **parameters)


def test_features_are_products_of_their_own_signs(rng):
    X = rng.standard_normal((6, 4))
    record = RandomDegreesRecord.draw(4, np.array([3, 2, 2, 1]), rng)
    assert record.counts == (4, 3, 1)
    assert set(np.unique(record.matrix)) == {-1.0, 1.0}
    P = X @ record.matrix
    expected = np.stack([P[:, 0] * P[:, 4] * P[:, 7], P[:, 1] * P[:, 5], P[:, 2] * P[:, 6], P[:, 3]], axis=1)
    np.testing.assert_allclose(apply(record, X), expected, atol=64 * EPS * np.abs(expected).max())


@pytest.mark.parametrize("width", [1, 30])
@pytest.mark.parametrize("exact_degrees", [(), (0, 1)])
@pytest.mark.parametrize("kernel", [Taylor([0.5, 1.0, 0.4, 0.0, 0.3]), Polynomial(2, gamma=0.5), Exponential(2.0)])
def test_unbiased_at_rows_that_fit_never_saw(width, exact_degrees, kernel, rng):
    """False-alarm rate 1e-6; mutants: half and one and a half times the estimate."""
    seen, X = rng.standard_normal((30, 4)), rng.standard_normal((4, 4)) / 2
    # So many degrees of the exponential that what is left out is far below the noise.
    degree = 12 if isinstance(kernel, Exponential) else None
    phi = features(kernel, width, exact_degrees=exact_degrees, degree=degree, adaptive=False)
    estimates = kernel_estimates(lambda seed: phi.set_params(random_state=seed).fit(seen).transform(X), 600)
    assert is_mean(estimates, kernel(X))
    if width > 1:
        assert not is_mean(0.5 * estimates, kernel(X))
        assert not is_mean(1.5 * estimates, kernel(X))


def test_variance_is_the_documented_one(seed):
    """False-alarm rate 1e-6; mutants: independent cosines in place of signs, and fixed widths in place of chance."""
    c, group, n_maps = np.array([0.5, 1.0, 0.4]), 6, 20_000
    x, y = np.array([[0.6, 0.3, -0.4], [0.5, -0.2, 0.7]])
    # One wide map is many narrow ones, whose features are in random order again.
    phi = features(Taylor(c), group * n_maps, exact_degrees=(), random_state=seed).fit(np.eye(3))
    Z = phi.transform(np.stack([x, y]))[:, np.random.default_rng(seed).permutation(group * n_maps)]
    squares = (n_maps * (Z[0] * Z[1]).reshape(n_maps, group).sum(axis=1) - phi.kernel_(x[None], y[None])[0, 0]) ** 2
    chances = 2.0 ** -np.arange(1, 4)
    chances /= chances.sum()
    a, b, s = x @ x, y @ y, x @ y
    of_signs, of_gaussians = a * b + 2 * s**2 - 2 * (x**2 * y**2).sum(), a * b + 2 * s**2
    degrees = np.arange(3)

    def variance(second_moment):
        return ((c**2 * second_moment**degrees / chances).sum() - (c * s**degrees).sum() ** 2) / group

    # Squares are skewed: asking for 1e-7 leaves the rate below 1e-6.
    assert is_mean(squares, variance(of_signs), 1e-7)
    assert not is_mean(squares, variance(of_gaussians), 1e-7)
    fixed = (c**2 * (of_signs**degrees - s ** (2 * degrees)) / chances).sum() / group
    assert not is_mean(squares, fixed, 1e-7)


def test_exact_degrees_leave_chance_the_others(rng):
    X = rng.standard_normal((20, 3))
    kernel = Polynomial(2, gamma=0.5)
    phi = features(kernel, 40, exact_degrees=(0, 1, 2), random_state=0).fit(X)
    np.testing.assert_allclose(phi.transform(X) @ phi.transform(X).T, kernel(X), atol=64 * EPS * kernel(X).max())
    degrees = [term.orthogonal.degree for term in features(kernel, 40).fit(X).record_.terms[1:2]]
    assert degrees == [1]


@pytest.mark.parametrize("kernel", [NTK(2), Gaussian(4.0), Taylor([0.0, 0.5, 0.25], homogeneous=True), Taylor([0.7])])
def test_every_kernel_with_a_series_is_served(kernel, rng):
    """The error falls like the root of the width; mutant: the map of a narrower kernel."""
    X = rng.standard_normal((40, 5))
    phi = features(kernel, 20_000, random_state=0).fit(X)
    error = pm.metrics.relative_error(phi, X)
    assert error < 0.1
    assert pm.metrics.relative_error(phi, 1.5 * X, kernel=Gaussian(0.5)) > 0.2


def test_shares_of_fixed_widths_err_less(rng):
    """On rows that are no multiples of each other; what the guide's figures say at large."""
    X = rng.standard_normal((60, 8))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    errors = {
        method: np.mean(
            [
                pm.metrics.relative_error(
                    pm.DotProductFeatures(
                        Exponential(), 256, method=method, exact_degrees=(), adaptive=False, random_state=seed
                    ).fit(X),
                    X,
                )
                for seed in range(5)
            ]
        )
        for method in ("random-maclaurin", "maclaurin")
    }
    assert errors["maclaurin"] < 0.8 * errors["random-maclaurin"]
