"""Gradient features of convolutional networks against finite differences and the exact kernel."""

import numpy as np
import pytest

import phimap as pm


def network(x, record):
    """The output of the network at image x (h, w, c), by plain loops over the filter."""
    q, (height, width, _) = record.filter_size, record.image_shape
    values = x
    for W in record.filters:
        k = W.shape[1]
        padded = np.pad(values, ((q // 2,) * 2, (q // 2,) * 2, (0, 0)))
        places = W.reshape(q, q, -1, k)
        projected = sum(padded[a : a + height, b : b + width] @ places[a, b] for a in range(q) for b in range(q))
        values = (2 / k) ** 0.5 / q * np.maximum(projected, 0)
    pixels = values.reshape(height * width, -1)
    if record.readout.ndim == 1:
        return (pixels @ record.readout).mean()
    return (pixels * record.readout).sum() / (height * width) ** 0.5


@pytest.mark.parametrize("pooling", ["gap", "flatten"])
def test_finite_differences(pooling):
    X = np.random.default_rng(0).normal(size=(2, 4, 5, 2))
    phi = pm.CNTKGradientFeatures(3, 3, 3, pooling=pooling, random_state=0).fit(X)
    Z, record = phi.transform(X), phi.record_
    assert Z.shape == (2, 2 * 81)
    columns = [(layer, i, j) for layer in (2, 1) for i in range(27) for j in range(3)]
    for column in range(0, 162, 13):
        layer, i, j = columns[column]
        ends = []
        for step in (1e-6, -1e-6):
            record.filters[layer][i, j] += step
            ends.append([network(x, record) for x in X])
            record.filters[layer][i, j] -= step
        np.testing.assert_allclose(Z[:, column], np.subtract(*ends) / 2e-6, atol=1e-7)


@pytest.mark.parametrize("pooling", ["gap", "flatten"])
def test_tends_to_the_kernel(pooling):
    """The mean over draws is within the bias, of the order of 1 / width; mutant: the kernel of another depth."""
    X = np.random.default_rng(0).normal(size=(5, 6, 6, 3))
    phi = pm.CNTKGradientFeatures(3, 3, 48, pooling=pooling)
    estimates = []
    for seed in range(60):
        Z = phi.set_params(random_state=seed).fit_transform(X)
        estimates.append(Z @ Z.T)
    K, mean = phi.kernel_(X), np.mean(estimates, axis=0)
    noise = np.std(estimates, axis=0).max() / 60**0.5
    assert np.abs(mean - K).max() < 0.06 * K.max() + 5 * noise
    other = pm.kernels.CNTK(4, 3, pooling)(X)
    assert np.abs(mean - other).max() > 0.06 * K.max() + 5 * noise
