"""Arc-cosine features: layers, their rate and bias."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.projections import Gaussian, SparseGrid
from tests.support.statistics import is_mean, is_slope, kernel_estimates


@pytest.mark.parametrize("order", [0, 1, 2])
def test_layers_follow_each_other(order, rng):
    X = rng.standard_normal((20, 5))
    phi = pm.ArcCosineFeatures(order, 32, depth=3, random_state=0).fit(X)
    expected = X
    for layer in phi.record_.layers:
        projected = expected @ layer.projection.to_dense().T
        expected = np.sqrt(2 / 32) * np.where(projected > 0, projected**order, 0)
    # Three sums of up to 32 products, and powers of them.
    np.testing.assert_allclose(phi.transform(X), expected, atol=2**8 * np.finfo(float).eps * np.abs(expected).max())


def test_depth_one_is_the_first_layer(rng):
    X = rng.standard_normal((20, 5))
    shallow, deep = (pm.ArcCosineFeatures(1, 32, depth=depth, random_state=0).fit(X).record_ for depth in (1, 3))
    np.testing.assert_array_equal(shallow.projection.to_dense(), deep.layers[0].projection.to_dense())
    weights = [layer.projection.to_dense() for layer in deep.layers]
    assert weights[1].shape == weights[2].shape
    assert not np.isclose(weights[1], weights[2]).any()


@pytest.mark.parametrize(("order", "depth"), [(0, 2), (1, 2), (2, 2)])
def test_deep_features_tend_to_the_deep_kernel(order, depth, rng):
    """False-alarm rate 1e-6; mutant: the kernel of one layer more or less."""
    X = rng.standard_normal((6, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    widths = np.repeat(2 ** np.arange(5, 11), 20)
    maps = [pm.ArcCosineFeatures(order, int(m), depth=depth, random_state=i) for i, m in enumerate(widths)]
    estimates = [Z @ Z.T for Z in (phi.set_params(projection="gaussian").fit_transform(X) for phi in maps)]

    def log_errors(layers):
        K = pm.kernels.ArcCosine(order, depth=layers)(X)
        return np.log([np.linalg.norm(estimate - K) for estimate in estimates])

    assert is_slope(np.log(widths), log_errors(depth), -0.5)
    assert not is_slope(np.log(widths), log_errors(depth + 1), -0.5)
    assert not is_slope(np.log(widths), log_errors(depth - 1), -0.5)


def test_two_layers_of_rectified_units_have_the_exact_mean_on_the_diagonal(rng):
    """False-alarm rate 1e-6: a layer preserves the mean of a squared norm. Mutant: a missing factor."""
    X = rng.standard_normal((5, 4))
    phi = pm.ArcCosineFeatures(1, 32, depth=2, projection=Gaussian())
    samples = kernel_estimates(lambda seed: phi.set_params(random_state=seed).fit_transform(X), 400)
    norms = np.diagonal(samples, axis1=1, axis2=2)
    assert is_mean(norms, (X**2).sum(axis=1))
    assert not is_mean(norms / 2, (X**2).sum(axis=1))


@pytest.mark.parametrize(
    ("depth", "error", "message"),
    [(0, ValueError, r"`depth` must be at least 1, got 0"), (1.5, TypeError, r"`depth` must be an integer")],
)
def test_bad_depth(depth, error, message):
    with pytest.raises(error, match=message):
        pm.ArcCosineFeatures(depth=depth).fit(np.eye(3))


def test_negative_weights_serve_one_layer_only(rng):
    X = rng.standard_normal((6, 4))
    phi = pm.ArcCosineFeatures(1, 9, projection=SparseGrid(1.0))
    assert (phi.fit(X).signature_ < 0).any()
    with pytest.raises(ValueError, match=r"positive quadrature weights for depth > 1.*Use projection='orthogonal'"):
        phi.set_params(depth=2).fit(X)
