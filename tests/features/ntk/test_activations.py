"""Neural tangent features of other units on MNIST rows, and of homogeneous units by all constructions."""

import numpy as np
import pytest

import phimap as pm
from phimap.kernels import NTK, LeakyReLU


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("activation", ["abs", "cos", "erf", "gelu", "leaky-relu", "sin"])
def test_error_on_mnist(activation, depth, data_dir):
    with np.load(data_dir / "mnist.npz") as arrays:
        X = arrays["X_train"][:400].reshape(400, -1).astype(np.float64)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    for family in (pm.NTKFeatures, pm.NTKSketch):
        phi = family(depth, 8192, activation=activation, random_state=0).fit(X)
        assert pm.metrics.relative_error(phi, X) < 0.03


@pytest.mark.parametrize("activation", ["abs", "leaky-relu", LeakyReLU(-0.3)], ids=str)
@pytest.mark.parametrize("remainder", ["sketch", "activation"])
def test_homogeneous_units(activation, remainder, rng):
    X = rng.standard_normal((200, 12)) + 0.3
    phi = pm.NTKFeatures(2, 2048, activation=activation, remainder=remainder, random_state=0).fit(X)
    assert phi.record_.norms is None
    error = pm.metrics.relative_error(phi, X)
    assert error < 0.06
    # The mutant: the kernel of units with twice the slope and more.
    assert pm.metrics.relative_error(phi, X, kernel=NTK(2, LeakyReLU(0.8))) > 1.5 * error
    # Scaled rows have scaled features.
    np.testing.assert_allclose(phi.transform(3 * X), 3 * phi.transform(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("activation", ["abs", "leaky-relu"])
def test_layered_sketch_of_homogeneous_units(activation, rng):
    X = rng.standard_normal((100, 12)) + 0.5
    phi = pm.NTKSketch(1, 4096, activation=activation, method="layered", degree=12, random_state=0).fit(X)
    assert pm.metrics.relative_error(phi, X) < 0.1
    assert pm.metrics.relative_error(phi, X, kernel=NTK(1, LeakyReLU(0.5))) > 0.1


def test_leaky_units_of_slope_zero_are_rectified(rng):
    X = rng.standard_normal((50, 6))
    rectified = pm.NTKFeatures(2, 128, random_state=0).fit_transform(X)
    leaky = pm.NTKFeatures(2, 128, activation=LeakyReLU(0.0), random_state=0).fit_transform(X)
    np.testing.assert_array_equal(leaky, rectified)
