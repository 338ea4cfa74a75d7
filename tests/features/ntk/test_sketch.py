"""The sketched polynomial of the neural tangent kernel."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

import phimap as pm
from phimap.metrics import relative_error
from tests.support.memory import traced


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


def sparse_rows(n: int, d: int, nonzeros: int) -> sparse.csr_array:
    """Rows in float32, half of their entries in frequent columns."""
    rng = np.random.default_rng(0)
    data = rng.uniform(0.5, 2.0, n * nonzeros).astype(np.float32)
    columns = rng.integers(np.where(np.arange(n * nonzeros) % 2, 200, d))
    return sparse.csr_array((data, columns, np.arange(0, n * nonzeros + 1, nonzeros)), shape=(n, d))


@pytest.mark.parametrize(
    "phi",
    [pm.NTKSketch(1, 256, degree=4), pm.NTKSketch(1, 256, degree=4, adaptive=False), pm.NTKFeatures(1, 256)],
    ids=["adaptive", "fixed", "features"],
)
def test_wide_sparse_rows_take_the_time_and_memory_of_their_nonzeros(phi):
    X = sparse_rows(300, 10**6, 20)
    phi.set_params(random_state=0, n_jobs=1)
    peak, Z = traced(lambda: phi.fit(X).transform(X))
    # Buckets and signs of every leaf, and their copies in float32. The rows alone would take 1.2 GB.
    assert peak < 2 * phi.record_.n_bytes + 2**25 < 250e6
    assert Z.shape == (300, 256)
    K = phi.kernel_(X)
    assert np.linalg.norm(Z @ Z.T - K) < 0.4 * np.linalg.norm(K)


def test_wide_rows_get_the_same_features_however_they_are_given():
    X = sparse_rows(40, 5000, 20)
    # Some rows hold a column twice: this is not to be seen, and not to be changed.
    assert not X.has_canonical_format
    data = X.data.copy()
    dense, compressed = (pm.NTKSketch(1, 512, degree=4, random_state=0).fit(rows) for rows in (X.toarray(), X))
    assert all(term.orthogonal is None or not hasattr(term.orthogonal, "basis") for term in compressed.record_.terms)
    Z = dense.transform(X.toarray())
    np.testing.assert_allclose(compressed.transform(X), Z, atol=1e-5 * np.abs(Z).max())
    np.testing.assert_allclose(dense.transform(X), Z, atol=1e-5 * np.abs(Z).max())
    np.testing.assert_array_equal(X.data, data)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"method": "best"}, "`method` must be one of"), ({"degree": 0}, "`degree` must be at least 1, got 0")],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        pm.NTKSketch(**parameters).fit(np.eye(3))
