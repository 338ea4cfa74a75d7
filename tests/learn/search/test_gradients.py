"""Gradients of models on features, and the metrics made of them."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.learn.search.metric import (
    MOST_COLUMNS_OF_FULL,
    _differences,
    gradient_factor,
    gradients,
    inverse_root,
    mean_root,
    metric_of,
    power_of_root,
    root_of,
)
from phimap.learn.search.trial import FoldFit


def fourier(rng, d=4, m=40):
    X = rng.standard_normal((30, d))
    phi = pm.FourierFeatures(pm.kernels.Gaussian(1.5), m, projection="gaussian", random_state=0).fit(X)
    return X, phi, rng.standard_normal((m, 2))


def by_formula(phi, X, coefs):
    """Gradients (n, d, t) of Fourier features, by SPEC's formula: W^T (b cos - a sin) / sqrt(s)."""
    W = np.asarray(phi.record_.projection.matrix)
    W = W if W.shape[0] == X.shape[1] else W.T
    s = W.shape[1]
    angles = X @ W
    a, b = coefs[:s], coefs[s:]
    slopes = (np.cos(angles)[:, :, None] * b - np.sin(angles)[:, :, None] * a) / np.sqrt(s)
    return np.einsum("ds,nst->ndt", W, slopes)


def test_gradients_of_fourier_features(rng):
    _, phi, coefs = fourier(rng)
    # More rows than one task has.
    X = rng.standard_normal((600, 4))
    expected = by_formula(phi, X, coefs)
    np.testing.assert_allclose(gradients(phi.record_, X, coefs), expected, atol=1e-4)
    # A mutant: without the inner derivative of the cosine's sign.
    assert np.abs(gradients(phi.record_, X, coefs) - by_formula(phi, X, coefs * np.array([[1.0, -1.0]]))).max() > 0.1


@pytest.mark.parametrize(
    "feature_map",
    [
        pm.NystroemFeatures(pm.kernels.Matern(1.5, 2.0), 20, random_state=0),
        pm.NystroemFeatures(pm.kernels.NTK(1), 20, random_state=0),
        pm.DotProductFeatures(pm.kernels.Polynomial(2), 64, random_state=0),
        pm.FourierFeatures(pm.kernels.Additive(pm.kernels.Gaussian(), 2), 32, random_state=0),
    ],
    ids=lambda one: type(one).__name__,
)
def test_outputs_along_a_line_follow_the_gradients(feature_map, rng):
    X, step = rng.standard_normal((30, 5)), 1e-3
    phi = feature_map.fit(X)
    coefs, direction = rng.standard_normal((phi.transform(X).shape[1], 1)), rng.standard_normal(5)
    ahead, behind = (phi.transform(X + sign * step * direction) @ coefs for sign in (1, -1))
    slopes = gradients(phi.record_, X, coefs)[:, :, 0] @ direction
    np.testing.assert_allclose(slopes, ((ahead - behind) / (2 * step))[:, 0], rtol=5e-3, atol=5e-3)


def test_landmarks_have_a_shorter_way_to_their_outputs(rng):
    from phimap.ops import ops_for

    X = rng.standard_normal((50, 3))
    phi = pm.NystroemFeatures(pm.kernels.Laplacian(3.0), 20, random_state=0).fit(X)
    coefs, ops = rng.standard_normal((20, 2)), ops_for(X)
    np.testing.assert_allclose(phi.record_.bind(ops).linear_outputs(ops, X, coefs), phi.transform(X) @ coefs, rtol=1e-9)


def test_the_metric_is_the_mean_outer_product_in_the_first_coordinates(rng):
    X, phi, coefs = fourier(rng)
    root = rng.standard_normal((4, 4))
    slopes = by_formula(phi, X @ root, coefs)
    expected = np.einsum("ndt,net->de", slopes, slopes) / len(X)
    factor = gradient_factor(FoldFit(phi.record_, coefs), X, root, None)
    found = factor.T @ factor
    np.testing.assert_allclose(found, root @ expected @ root.T, rtol=1e-4, atol=1e-3)
    # A mutant: the gradient in the coordinates after the root.
    assert np.abs(found - expected).max() > 0.1


def test_roots_are_those_of_metrics_of_trace_d(rng):
    factor = rng.standard_normal((9, 6))
    metric = factor.T @ factor
    full, diagonal = root_of(factor, "full"), root_of(factor, "diagonal")
    np.testing.assert_allclose(metric_of(full, 6), metric * 6 / np.trace(metric), rtol=1e-8)
    np.testing.assert_allclose(metric_of(diagonal, 6), np.diag(metric) * 6 / np.trace(metric), rtol=1e-8)
    np.testing.assert_array_equal(metric_of(None, 6), np.ones(6))
    # A model that is constant tells nothing of the columns.
    np.testing.assert_array_equal(root_of(np.zeros((3, 3)), "diagonal"), np.ones(3))


def test_a_metric_of_many_columns_keeps_its_leading_directions(rng):
    d = MOST_COLUMNS_OF_FULL + 20
    factor = rng.standard_normal((400, 3)) * [3.0, 2.0, 1.0] @ rng.standard_normal((3, d))
    factor += 1e-3 * rng.standard_normal(factor.shape)
    root, metric = root_of(factor, "full"), factor.T @ factor
    assert root.shape == (d, 100)
    np.testing.assert_allclose(root @ root.T * np.trace(metric) / 100, metric, atol=1e-4 * np.abs(metric).max())
    np.testing.assert_array_equal(root, root_of(factor, "full"))
    # The mean over folds is that of the metrics, to the directions kept; nothing undoes them.
    other = root_of(factor + rng.standard_normal(factor.shape), "full")
    mean = (root @ root.T + other @ other.T) / 2
    values = np.linalg.eigvalsh(mean)[::-1][:100]
    found = mean_root([root, other])
    np.testing.assert_allclose(np.linalg.norm(found, axis=0) ** 2, values / values.mean(), rtol=2e-2)
    assert inverse_root(mean) is None


@pytest.mark.parametrize(
    "kernel",
    [
        pm.kernels.Gaussian(1.3),
        pm.kernels.Gaussian(np.array([1.0, 2.0, 0.5])),
        pm.kernels.Laplacian(2.0),
        pm.kernels.Laplacian(np.array([1.0, 2.0, 0.5])),
        *(pm.kernels.ExponentialPower(p, 1.7) for p in (1.0, 1.4, 2.0)),
        *(pm.kernels.Matern(nu, 1.7) for nu in (0.5, 0.8, 1.2, 1.5, 2.5, np.inf)),
        pm.kernels.Cauchy(2.0),
        *(pm.kernels.Additive(pm.kernels.Gaussian(1.3), order) for order in (1, 2, 3)),
        pm.kernels.Additive(pm.kernels.Cauchy(2.0), 2),
    ],
    ids=repr,
)
def test_gradients_of_landmarks_are_the_limits_of_differences(kernel, rng):
    rows = rng.standard_normal((30, 3))
    phi = pm.NystroemFeatures(kernel, 30, random_state=0).fit(rows)
    X, coefs = rng.standard_normal((40, 3)), rng.standard_normal((30, 2))
    # A difference over a kink is no derivative.
    X = X[np.abs(X[:, None] - rows).min(axis=(1, 2)) > 2e-3]
    assert len(X) > 20
    expected = _differences(phi.record_, X, coefs)
    np.testing.assert_allclose(gradients(phi.record_, X, coefs), expected, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("kernel", [pm.kernels.Laplacian(2.0), pm.kernels.Matern(0.5, 2.0)], ids=repr)
def test_a_kink_counts_with_the_mean_of_its_slopes(kernel):
    # On the line the slopes at a landmark are -1/2 and 1/2 of its own term, and those of the others stay.
    Y, weights = np.array([[0.0], [1.0]]), np.array([[1.0], [2.0]])
    np.testing.assert_allclose(kernel.gradients(Y[:1], Y, weights), [[[np.exp(-0.5)]]])


def test_a_power_of_a_metric_and_what_undoes_it(rng):
    full = root_of(rng.standard_normal((7, 5)), "full")
    np.testing.assert_allclose(full @ inverse_root(full @ full.T), np.eye(5), atol=1e-8)
    # Half the power of a metric has its root as the metric, up to the trace.
    tempered = power_of_root(full, 0.5)
    np.testing.assert_allclose(tempered @ tempered.T, full * 5 / np.trace(full), atol=1e-8)
    weights = np.array([4.0, 1.0, 0.25])
    np.testing.assert_allclose(power_of_root(np.sqrt(weights), 0.5) ** 2, np.sqrt(weights) * 3 / np.sqrt(weights).sum())
    np.testing.assert_allclose(inverse_root(weights), 1 / np.sqrt(weights))
    assert inverse_root(np.ones(3)) is None
