"""Activation features: the formula, the variance of the theory, unbiasedness, callables."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special
from sklearn.base import clone

import phimap as pm
from phimap.ops.activations import NAMES
from phimap.projections import SparseGrid
from tests.support.families import MAPS
from tests.support.learners import FIXED
from tests.support.statistics import is_mean, kernel_estimates

FUNCTIONS = {
    "abs": np.abs,
    "cos": np.cos,
    "erf": special.erf,
    "gelu": lambda x: 0.5 * x * special.erfc(-x / np.sqrt(2)),
    "leaky-relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "relu": lambda x: np.maximum(x, 0),
    "sign": np.sign,
    "sin": np.sin,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "step": lambda x: np.heaviside(x, 0),
}
UNREGISTERED = sorted(set(NAMES) - {name.split("-")[1] for name in MAPS if name.startswith("activation")})


def cubed(x):
    """An activation of a user, for arrays and tensors."""
    return x - 0.1 * x**3


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_are_the_activation_of_the_projections(name, dtype, rng):
    # Wide enough for projections beyond 20, where some forms of softplus turn into the identity.
    X = (10 * rng.standard_normal((40, 5))).astype(dtype)
    phi = pm.ActivationFeatures(name, 64, random_state=0).fit(X)
    projected = X @ phi.record_.projection.to_dense().T
    expected = FUNCTIONS[name](projected) / 8
    Z = phi.transform(X)
    assert Z.dtype == dtype
    # Projections, of 5 products, err by some eps of themselves, and no activation here is steeper than 1.2.
    atol = 16 * np.finfo(dtype).eps * np.abs(projected).max() / 8
    np.testing.assert_allclose(Z, expected, atol=atol)


@pytest.mark.parametrize("activation", [*NAMES, cubed])
def test_tensors_give_the_same_map(activation, rng):
    torch = pytest.importorskip("torch")
    X = 10 * rng.standard_normal((40, 5))
    phi = pm.ActivationFeatures(activation, 64, random_state=0).fit(X)
    expected = phi.transform(X)
    Z = phi.transform(torch.tensor(X))
    assert Z.dtype == torch.float64
    np.testing.assert_allclose(Z.numpy(), expected, rtol=1e-12, atol=64 * np.finfo(float).eps * np.abs(X).max())
    assert phi.transform(torch.tensor(X, dtype=torch.float32)).dtype == torch.float32


@pytest.mark.parametrize("activation", [*UNREGISTERED, cubed, np.tanh])
@pytest.mark.parametrize("projection", ["gaussian", "orthogonal"])
def test_unbiased(activation, projection, rng):
    """False-alarm rate 1e-6; mutants: a missing factor, another activation."""
    # Norms near 1, where the products of cubes do not yet have tails that would hide a tenth.
    X = 0.5 * rng.standard_normal((4, 5))
    phi = pm.ActivationFeatures(activation, 64, projection=projection)
    exact = phi.fit(X).kernel_(X)
    samples = kernel_estimates(lambda seed: phi.set_params(random_state=seed).fit_transform(X), 400)
    assert is_mean(samples, exact)
    assert not is_mean(1.1 * samples, exact)
    assert not is_mean(samples, pm.kernels.ActivationKernel("softplus")(X))


def test_variance_is_that_of_the_theory(seed):
    """False-alarm rate 1e-6; mutants: the second moment without the square of the mean, another activation."""
    angle = np.array([0.3, 0.9, 1.6, 2.4])
    X = np.vstack([[1.0, 0.0], np.column_stack([np.cos(angle), np.sin(angle)])])
    group, n_maps = 8, 20_000

    def squared_errors(name):
        phi = pm.ActivationFeatures(name, n_maps * group, projection="gaussian", random_state=seed)
        Z = phi.fit_transform(X).reshape(len(X), n_maps, group)
        return (n_maps * np.einsum("gk,igk->gi", Z[0], Z[1:]) - phi.kernel_(X)[0, 1:]) ** 2

    exact = pm.kernels.ActivationKernel("sign")(X)[0, 1:]
    # A product of signs is 1 or -1: its variance is 1 - k^2. Squares are skewed: asking for 1e-7 covers that.
    assert is_mean(squared_errors("sign"), (1 - exact**2) / group, 1e-7)
    assert not is_mean(squared_errors("sign"), np.full(4, 1 / group), 1e-7)
    assert not is_mean(squared_errors("erf"), (1 - exact**2) / group, 1e-7)


@pytest.mark.parametrize(("name", "order"), [("step", 0), ("relu", 1)])
def test_rectified_powers_are_the_arc_cosine_features(name, order, rng):
    X = rng.standard_normal((30, 5))
    Z = pm.ActivationFeatures(name, 128, random_state=3).fit_transform(X)
    peer = pm.ArcCosineFeatures(order, 128, random_state=3).fit_transform(X)
    np.testing.assert_allclose(np.sqrt(2) * Z, peer, rtol=4 * np.finfo(float).eps)


@pytest.mark.parametrize("projection", ["gaussian", "orthogonal", "sorf"])
def test_a_wider_map_starts_with_the_features_of_a_narrower_one(projection, rng):
    X = rng.standard_normal((10, 5))
    phi = pm.ActivationFeatures("erf", 16, projection=projection, random_state=0)
    narrow, wide = (phi.set_params(n_components=m).fit_transform(X) for m in (16, 64))
    np.testing.assert_allclose(narrow, 2 * wide[:, :16], atol=64 * np.finfo(float).eps)


def test_a_callable_is_kept_by_clones_and_refused_by_model_files(rng, tmp_path):
    X = rng.standard_normal((10, 5))
    phi = pm.ActivationFeatures(cubed, 16, random_state=0).fit(X)
    np.testing.assert_array_equal(clone(phi).fit_transform(X), phi.transform(X))
    with pytest.raises(TypeError, match=r"a model file cannot hold model\.activation=.*cubed"):
        pm.save(phi, tmp_path / "map.phimap")
    assert not list(tmp_path.iterdir())
    named = pm.ActivationFeatures("gelu", 16, random_state=0).fit(X)
    pm.save(named, tmp_path / "map.phimap")
    np.testing.assert_array_equal(pm.load(tmp_path / "map.phimap").transform(X), named.transform(X))


@pytest.mark.parametrize(
    ("activation", "error", "message"),
    [
        (np.sum, ValueError, r"`activation` must give one real number for each.*shape \(\)"),
        (lambda x: x[:, :2], ValueError, r"one real number for each"),
        (lambda x: np.exp(x * x), ValueError, r"features overflow float64"),
        (7, TypeError, r"`activation` must be a name or a callable, got int"),
    ],
)
def test_what_is_no_activation_is_refused(activation, error, message):
    X = 1e3 * np.eye(5)
    with pytest.raises(error, match=message):
        pm.ActivationFeatures(activation, 16, random_state=0).fit(X).transform(X)


def test_a_learner_takes_activation_features(rng):
    X = rng.standard_normal((300, 4))
    y = np.sin(X[:, 0]) + X[:, 1]
    model = pm.KernelRegressor(pm.ActivationFeatures("erf", 256, random_state=0), **FIXED).fit(X, y)
    assert model.score(X, y) > 0.95


def test_signature_of_activation_features_is_that_of_the_projection(rng):
    """A rule of degree 3 is exact for the square of a projection: the identity's dual is the inner product."""
    X = rng.standard_normal((6, 4))
    phi = pm.ActivationFeatures(np.positive, 9, projection=SparseGrid(1.0)).fit(X)
    Z = phi.transform(X)
    np.testing.assert_allclose(
        (Z * phi.signature_) @ Z.T, X @ X.T, atol=64 * np.finfo(float).eps * np.abs(X @ X.T).max()
    )
    np.testing.assert_allclose(phi.kernel_(X), X @ X.T, atol=256 * np.finfo(float).eps * np.abs(X @ X.T).max())
