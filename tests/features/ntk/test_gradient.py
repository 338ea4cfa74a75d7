"""Gradient features: differences of the network itself, and their mean over networks."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.features.ntk.gradient import GradientRecord
from phimap.kernels import NTK
from tests.support.learners import FIXED
from tests.support.statistics import is_mean, kernel_estimates


def network(weights: list[np.ndarray], readout: np.ndarray, x: np.ndarray) -> float:
    h = x
    for W in weights:
        h = np.sqrt(2 / len(readout)) * np.maximum(h @ W, 0)
    return float(h @ readout)


def differences(record: GradientRecord, x: np.ndarray) -> np.ndarray:
    """Central differences in every weight: of the output, then of the layers from last to first, unit by unit."""
    parameters = [record.readout.copy()[:, None], *(W.copy() for W in record.weights)]
    gradient = []
    for parameter in [parameters[0], *parameters[:0:-1]]:
        for unit in range(parameter.shape[1]):
            for entry in range(len(parameter)):
                values = []
                before = parameter[entry, unit]
                for change in (1e-6, -1e-6):
                    parameter[entry, unit] = before + change
                    values.append(network(parameters[1:], parameters[0][:, 0], x))
                parameter[entry, unit] = before
                gradient.append((values[0] - values[1]) / 2e-6)
    return np.array(gradient)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_features_are_the_gradient(depth, rng):
    """The network is linear in each weight between kinks, so that differences are exact up to rounding."""
    X = rng.standard_normal((3, 4))
    phi = pm.NTKGradientFeatures(depth, 5, random_state=1).fit(X)
    Z = phi.transform(X)
    expected = np.array([differences(phi.record_, x) for x in X])
    assert Z.shape == expected.shape == (3, 5 * 4 + 5 + (depth - 1) * 25)
    np.testing.assert_allclose(Z, expected, atol=1e-8 * np.abs(Z).max())


@pytest.mark.parametrize("depth", [1, 2])
def test_mean_over_networks_is_the_kernel(depth, rng):
    """False-alarm rate 1e-6; mutants: another depth, and a network whose weights have another variance.

    Depth 1 is unbiased. At depth 2 the second layer sees the cosines of the first with errors of variance 1 / width:
    a bias of that order, for which the kernel is moved by what is seen, at most 4 / width of the norms.
    """
    X = rng.standard_normal((4, 3))
    phi, width = pm.NTKGradientFeatures(depth, 64), 64
    samples = kernel_estimates(lambda seed: phi.set_params(random_state=seed).fit_transform(X), 300)
    norms = np.linalg.norm(X, axis=1)
    allowance = 0 if depth == 1 else 4.0 / width * np.outer(norms, norms)

    def near(K: np.ndarray) -> bool:
        mean = samples.mean(axis=0)
        return is_mean(samples, np.clip(mean, K - allowance, K + allowance))

    assert near(NTK(depth)(X))
    assert not near(NTK(depth + 1)(X))
    assert not near(1.2 * NTK(depth)(X))


def test_error_falls_as_the_root_of_the_network_width(rng):
    X = rng.standard_normal((6, 5))

    def error(width: int) -> float:
        phi = pm.NTKGradientFeatures(2, width)
        errors = [pm.metrics.relative_error(phi.set_params(random_state=s).fit(X), X) for s in range(20)]
        return float(np.mean(errors))

    # 64 times as wide: an eighth of the error, within a factor of the noise of 20 draws.
    assert 5 < error(4) / error(256) < 13


@pytest.mark.parametrize("depth", [1, 10, 20])
def test_norms_are_those_of_the_kernel_at_any_depth(depth, rng):
    X = np.vstack([rng.standard_normal((3, 6)), np.zeros(6)])
    phi = pm.NTKGradientFeatures(depth, 128, random_state=0).fit(X)
    squares = (phi.transform(X) ** 2).sum(axis=1)
    assert squares[3] == 0
    # Log-normal with variance of about 5 depth / width: a factor of 4 is beyond three deviations at depth 20.
    ratio = squares[:3] / ((depth + 1) * (X[:3] ** 2).sum(axis=1))
    assert (ratio > 0.2).all()
    assert (ratio < 5).all()


def test_features_are_homogeneous_and_stream(rng):
    X = rng.standard_normal((40, 3))
    phi = pm.NTKGradientFeatures(3, 7, random_state=0).fit(X)
    Z = phi.transform(X)
    np.testing.assert_array_equal(phi.transform(4.0 * X), 4.0 * Z)
    np.testing.assert_allclose(np.vstack(list(phi.transform_batches(X, 9))), Z, atol=1e-14)
    with pm.config(memory=20_000), pytest.raises(MemoryError, match="transform_batches"):
        phi.transform(X)


@pytest.mark.parametrize(
    "phi", [pm.NTKGradientFeatures(2, 9), pm.NTKTensorFeatures(2, 4)], ids=lambda p: type(p).__name__
)
def test_learners_take_maps_whose_width_follows_from_the_inputs(phi, rng):
    X = rng.standard_normal((300, 4))
    model = pm.KernelRegressor(phi, random_state=0, **FIXED).fit(X, X[:, 0] * X[:, 1])
    assert model.coef_.shape == (phi.output_width(4),)
    assert model.score(X, X[:, 0] * X[:, 1]) > 0.5


@pytest.mark.parametrize("name", ["depth", "width"])
def test_bad_sizes(name):
    with pytest.raises(ValueError, match=f"`{name}` must be at least 1, got 0"):
        pm.NTKGradientFeatures(**{name: 0}).fit(np.eye(2))
