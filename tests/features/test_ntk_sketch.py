"""The sketched polynomial of the neural tangent kernel."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import phimap as pm
from phimap.metrics import relative_error


@pytest.fixture(scope="module")
def digits() -> np.ndarray:
    return load_digits().data


@pytest.mark.parametrize("depth", [1, 3])
def test_error_is_below_random_features(depth, digits):
    sketch = pm.NTKSketch(depth, 1024, random_state=0).fit(digits)
    published = pm.NTKFeatures(depth, 1024, exact_degrees=(), random_state=0).fit(digits)
    assert relative_error(sketch, digits) < 0.4 * relative_error(published, digits)


@pytest.mark.parametrize("depth", [10, 20])
def test_deep_networks(depth, digits):
    assert relative_error(pm.NTKSketch(depth, 2048, random_state=0).fit(digits), digits) < 0.1


def test_norms_are_multiplied_back(digits):
    phi = pm.NTKSketch(2, 64, random_state=0).fit(digits)
    scales = np.linspace(0.0, 3.0, 10)
    Z = phi.transform(digits[:10])
    np.testing.assert_allclose(phi.transform(digits[:10] * scales[:, None]), Z * scales[:, None], atol=1e-10)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"method": "best"}, "`method` must be one of"), ({"degree": 0}, "`degree` must be at least 1, got 0")],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        pm.NTKSketch(**parameters).fit(np.eye(3))
