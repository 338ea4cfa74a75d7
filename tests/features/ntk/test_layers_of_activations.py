"""The published layers with other activations than ReLU: derivatives, means, recursion, model files."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.features.ntk.layers import CentralDifference, NTKRecord
from phimap.kernels import NTK, LeakyReLU
from phimap.ops import ops_for
from phimap.ops.activations import FUNCTIONS, RECTIFIED, SLOPES
from tests.support.statistics import is_mean, kernel_estimates

OTHERS = sorted(set(SLOPES) - set(RECTIFIED))


def rows() -> np.ndarray:
    return np.random.default_rng(2).standard_normal((5, 4)) * [1.0, 0.5, 1.5, 1.0]


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("name", OTHERS)
def test_slopes_are_derivatives_up_to_their_sign(name, backend):
    x = np.linspace(-3.05, 3.05, 62)
    expected = CentralDifference(FUNCTIONS[name])(x)
    if backend == "torch":
        x = pytest.importorskip("torch").from_numpy(x)
    found = np.asarray(ops_for(x).activations[SLOPES[name]](x))
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-9)
    assert abs(np.corrcoef(found, expected)[0, 1]) > 1 - 1e-9


@pytest.mark.parametrize("activation", [*OTHERS, LeakyReLU(0.3), np.tanh], ids=str)
def test_one_layer_is_unbiased(activation):
    """False-alarm rate 1e-6; mutants: the kernel of another depth, and rows of norm 1 as for the ReLU."""
    X = rows()
    phi = pm.NTKFeatures(1, 48, activation=activation, exact_degrees=(), projection="gaussian")
    samples = kernel_estimates(lambda seed: phi.set_params(random_state=seed).fit_transform(X), 300)
    assert is_mean(samples, NTK(1, activation)(X))
    assert not is_mean(samples, NTK(2, activation)(X))
    if not phi.kernel_.is_homogeneous:
        norms = np.linalg.norm(X, axis=1)
        assert not is_mean(samples, np.outer(norms, norms) * NTK(1, activation)(X / norms[:, None]))


def test_layers_follow_the_recursion():
    X = rows()
    phi = pm.NTKFeatures(2, 700, activation="gelu", sketch="none", step_components=8, random_state=0).fit(X)
    record = phi.record_
    assert isinstance(record, NTKRecord)
    values, tangent = X, X @ X.T
    nodes, weights = np.polynomial.hermite_e.hermegauss(90)
    gain = weights.sum() / (weights @ FUNCTIONS["gelu"](nodes) ** 2)
    for layer in record.layers:
        projected, slopes = (values @ part.projection.to_dense().T for part in (layer.relu, layer.step))
        derivative = CentralDifference(FUNCTIONS["gelu"])(slopes) * (gain / slopes.shape[1]) ** 0.5
        values = FUNCTIONS["gelu"](projected) * (gain / projected.shape[1]) ** 0.5
        tangent = tangent * (derivative @ derivative.T) + values @ values.T
    Z = phi.transform(X)
    np.testing.assert_allclose(Z @ Z.T, tangent, rtol=1e-8)


@pytest.mark.parametrize("activation", ["erf", "gelu", "softplus"])
def test_deep_layers_approach_the_kernel(activation):
    X = np.random.default_rng(0).standard_normal((60, 6))
    few, many = (
        pm.metrics.relative_error(
            pm.NTKFeatures(3, m, activation=activation, exact_degrees=(), random_state=0).fit(X), X
        )
        for m in (512, 8192)
    )
    # A sixteenth of the variance: a quarter of the error, but for the bias of the hidden layers.
    assert many < 0.45 * few
    assert many < 0.08


def test_files_sparse_rows_and_refusals(tmp_path):
    from scipy import sparse

    X = rows()
    phi = pm.NTKFeatures(2, 64, activation="erf", exact_degrees=(), random_state=0).fit(X)
    Z = phi.transform(X)
    pm.save(phi, tmp_path / "layers.phimap")
    assert np.array_equal(pm.load(tmp_path / "layers.phimap").transform(X), Z)
    np.testing.assert_allclose(phi.transform(sparse.csr_matrix(X)), Z, atol=1e-12)
    assert np.isfinite(phi.transform(np.zeros((1, 4)))).all()
    single = pm.NTKFeatures(1, 64, activation=np.tanh, exact_degrees=(), random_state=0).fit_transform(np.float32(X))
    double = pm.NTKFeatures(1, 64, activation=np.tanh, exact_degrees=(), random_state=0).fit_transform(X)
    np.testing.assert_allclose(single, double, atol=2e-3)
    with pytest.raises(ValueError, match="`activation` must have a derivative"):
        pm.NTKFeatures(1, 64, activation="sign", exact_degrees=()).fit(X)
    with pytest.raises(ValueError, match="`sampling` must be 'gaussian' for activation='erf'"):
        pm.NTKFeatures(1, 64, activation="erf", sampling="gibbs").fit(X)
