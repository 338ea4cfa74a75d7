"""Results on a CUDA device are those of the host, to rounding.

Without a device these tests are skipped. ``PHIMAP_TEST_DEVICE=cpu`` runs them on torch's CPU, to show that they run.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from sklearn.base import clone

import phimap as pm
from phimap.packed import PackedArray
from tests.support.families import MAPS

torch = pytest.importorskip("torch")
DEVICE = os.environ.get("PHIMAP_TEST_DEVICE", "cuda")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(DEVICE == "cuda" and not torch.cuda.is_available(), reason="there is no CUDA device"),
]


@pytest.fixture
def rows(rng):
    X = rng.standard_normal((200, 5)).astype(np.float32)
    return X, np.sin(X.sum(axis=1)).astype(np.float64)


@pytest.mark.parametrize("name", MAPS)
def test_features_are_those_of_the_host(name, rows):
    X, y = rows
    phi = clone(MAPS[name]).fit(X, y)
    expected = phi.transform(X)
    if isinstance(expected, PackedArray):
        expected = expected.to_dense()
    found = phi.transform(torch.as_tensor(X).to(DEVICE))
    if isinstance(found, torch.Tensor):
        assert found.device.type == torch.device(DEVICE).type
        found = found.cpu().numpy()
    elif isinstance(found, PackedArray):
        found = found.to_dense()
    # Features that jump may jump for a few entries that rounding moves across the step.
    near = np.isclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
    assert near.mean() > 0.999


@pytest.mark.parametrize("options", [{"solver": "cholesky"}, {"solver": "cg"}, {"kernel": "ntk"}, {"kernel": "auto"}])
def test_learners_predict_what_they_do_on_the_host(options, rows):
    X, y = rows
    settings = {"kernel": "gaussian", "n_components": 64, "random_state": 0, "effort": "fast", **options}
    host, here = (pm.KernelRegressor(device=device, **settings).fit(X, y).predict(X) for device in ("cpu", DEVICE))
    np.testing.assert_allclose(here, host, rtol=0, atol=1e-2 * np.abs(host).max())


def test_classifier_takes_tensors_of_the_device(rows):
    X, y = rows
    model = pm.KernelClassifier("gaussian", 64, metric=None, random_state=0)
    on_host = model.fit(X, y > 0).predict_proba(X)
    here = torch.as_tensor(X).to(DEVICE)
    np.testing.assert_allclose(clone(model).fit(here, y > 0).predict_proba(here), on_host, atol=1e-2)


@pytest.mark.parametrize("activation", ["relu", "erf"])
def test_convolutional_kernel_and_its_features(activation, rng):
    images = rng.standard_normal((6, 6, 5, 2)).astype(np.float32)
    kernel = pm.kernels.CNTK(2, activation=activation, image_shape=images.shape[1:])
    flat = images.reshape(6, -1)
    here = torch.as_tensor(flat).to(DEVICE)
    np.testing.assert_allclose(np.asarray(kernel(here).cpu()), kernel(flat), rtol=1e-4)
    phi = pm.CNTKSketch(2, n_components=64, activation=activation, random_state=0).fit(images)
    found = phi.transform(torch.as_tensor(images).to(DEVICE)).cpu().numpy()
    expected = phi.transform(images)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
