"""Neural tangent features of other units on MNIST rows, and of homogeneous units by all constructions."""

import numpy as np
import pytest

import phimap as pm
from phimap.features.power_series.norms import NormFit
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


@pytest.mark.parametrize("name", ["erf", "sin"])
def test_odd_kernels_have_more_than_their_linear_term(name):
    """Degree 2 gives an odd kernel nothing: it is no reason to stop at degree 1, whose bias is a quarter for erf."""
    base = np.random.default_rng(7).standard_normal((4, 5))
    X = np.concatenate([base, base[:2] + 0.1, -base[:1], 0.3 * base[1:2]])
    samples = []
    for seed in range(60):
        phi = pm.NTKFeatures(1, 64, activation=name, random_state=seed)
        Z = phi.fit_transform(X)
        samples.append(Z @ Z.T)
    exact, samples = phi.kernel_(X), np.array(samples)
    noise = samples.std(axis=0).max() / 60**0.5
    assert noise > 1e-3
    # Rows of norm 2.8 are all but orthogonal to all others for the sine: 64 features see its diagonal with much noise.
    assert np.abs(samples.mean(axis=0) - exact).max() < 0.1 * exact.max() + 3 * noise


def test_fits_are_remembered_by_what_they_depend_on():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((40, 5)), rng.standard_normal((40, 5))
    options = {"activation": "gelu", "n_components": 64, "random_state": 0}
    first = pm.NTKFeatures(1, **options).fit(X).transform(X)
    others = [pm.NTKFeatures(1, **options).fit(Y), pm.NTKFeatures(2, **options).fit(X)]
    assert all(not np.allclose(phi.transform(X), first) for phi in others)
    np.testing.assert_array_equal(pm.NTKFeatures(1, **options).fit(X).transform(X), first)
    plain = NormFit(NTK(1, "gelu"), 5, np.linalg.norm(X, axis=1)).of_degree(4)
    for _ in range(2):
        found = NormFit.of(NTK(1, "gelu"), 5, X).of_degree(4)
        np.testing.assert_allclose(found.coefficients, plain.coefficients, rtol=1e-6)
    # A function that changes between two fits is asked again.
    size = [1.0]

    def unit(t):
        return size[0] * t + t * t

    before = NormFit.of(NTK(1, unit), 5, X).of_degree(2).coefficients
    size[0] = 2.0
    assert not np.allclose(NormFit.of(NTK(1, unit), 5, X).of_degree(2).coefficients, before)
