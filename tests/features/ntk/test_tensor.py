"""Explicit tensor features: widths, the recursion of their Gram matrices, and what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.features.random_layers.rectified import RectifiedRecord
from phimap.kernels import NTK
from tests.support.statistics import is_mean, kernel_estimates


def rectified(record: RectifiedRecord, V: np.ndarray) -> np.ndarray:
    projected = V @ record.projection.to_dense().T
    return record.scale * (projected > 0) * projected**record.order


def recursion(phi: pm.NTKTensorFeatures | pm.NTKFeatures, X: np.ndarray) -> np.ndarray:
    """Gram matrix by products of those of every layer."""
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    hidden = X / norms
    tangent = hidden @ hidden.T
    for layer in phi.record_.layers:
        steps, hidden = rectified(layer.step, hidden), rectified(layer.relu, hidden)
        tangent = tangent * (steps @ steps.T) + hidden @ hidden.T
    return tangent * norms * norms.T


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_products_follow_the_recursion(depth, rng):
    X = rng.standard_normal((6, 5))
    phi = pm.NTKTensorFeatures(depth, 3, random_state=0).fit(X)
    Z = phi.transform(X)
    assert Z.shape == (6, sum(3**k for k in range(1, depth + 1)) + 3**depth * 5)
    np.testing.assert_allclose(Z @ Z.T, recursion(phi, X), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("sampling", ["gaussian", "leverage", "gibbs"])
def test_features_without_a_sketch_have_the_width_asked_for(sampling, rng):
    X = rng.standard_normal((6, 5))
    for depth, n_components in ((1, 7), (2, 100), (3, 1000), (3, 57)):
        phi = pm.NTKFeatures(depth, n_components, sketch="none", sampling=sampling, random_state=0).fit(X)
        Z = phi.transform(X)
        assert Z.shape == (6, n_components)
        np.testing.assert_allclose(Z @ Z.T, recursion(phi, X), rtol=1e-12, atol=1e-14)


def test_widths_without_a_sketch_can_be_set(rng):
    phi = pm.NTKFeatures(2, 200, sketch="none", relu_components=20, step_components=4, random_state=0)
    layers = phi.fit(rng.standard_normal((6, 5))).record_.layers
    assert [(layer.relu.n_components, layer.step.n_components) for layer in layers] == [(20, 4), (40, 4)]
    assert [layer.product.n_components for layer in layers] == [20, 160]


def test_features_without_a_sketch_are_unbiased_at_depth_one(rng):
    """False-alarm rate 1e-6; mutant: the kernel of depth 2."""
    X = rng.standard_normal((4, 3))
    phi = pm.NTKFeatures(1, 80, sketch="none")
    samples = kernel_estimates(lambda seed: phi.set_params(random_state=seed).fit_transform(X), 300)
    assert is_mean(samples, NTK(1)(X))
    assert not is_mean(samples, NTK(2)(X))


def test_what_explodes_says_so():
    X = np.eye(30)
    with pytest.raises(MemoryError, match=r"`width`=128 at `depth`=6 .*one row takes .* GB.*NTKFeatures"):
        pm.NTKTensorFeatures(6, 128).fit(X)
    with pytest.raises(ValueError, match=r"`n_components` must exceed the 32 products .*got 32.*'tensorsrht'"):
        pm.NTKFeatures(3, 32, sketch="none").fit(X)
    # (30 inputs x 10 steps + 983 rectified) x 10 steps + 983, x 10 steps.
    with pytest.raises(ValueError, match=r"the 138,130 products of 10 step features"):
        pm.NTKFeatures(3, 4096, sketch="none", step_components=10, relu_components=983).fit(X)
    with pytest.raises(ValueError, match="`width` must be at least 1, got 0"):
        pm.NTKTensorFeatures(1, 0).fit(X)
