"""Every projection with every kernel and shape: it serves, or one line says what it needs and a remedy that does.

The tables are over the registry: a new projection is tested here without a new test.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import phimap as pm
from phimap.kernels import Additive, Cauchy, Gaussian, Laplacian, Matern, SpectralMixture
from phimap.kernels.spectral import StandardGaussianLaw
from phimap.projections import REGISTRY
from tests.support.memory import traced

MIXTURE_KERNEL = SpectralMixture([1.0, 2.0], means=[[0.0] * 5, [1.0, 0.5, 0.0, -0.5, 0.0]])
KERNELS = {
    kernel.spectral_law(5).kernel_name: kernel
    for kernel in (Gaussian(), Matern(nu=1.5), Cauchy(2.0), Laplacian(3.0), MIXTURE_KERNEL, Additive(Gaussian(), 2))
}
ROTATION = {"orthogonal", "rom", "sorf", "fastfood", "ssf", "simplex"}
MIXTURE = {"sparse-sign", "spherical-radial"}
SIGNED = {"sparse-grid", "spherical-radial"}
GRID = {"gauss-grid"}
MOMENTS = {"moment-matching", "sparse-grid", "gauss-quadrature"}
#: What the survey's Table 2 and our guide say cannot be served.
IMPOSSIBLE = {
    "Gaussian": set(),
    "Matern": GRID,
    "Cauchy": ROTATION | MIXTURE | GRID,
    "Laplacian": ROTATION | MIXTURE | MOMENTS | GRID,
    "a spectral mixture": ROTATION | MIXTURE | MOMENTS | GRID | {"circulant", "p-model"},
    "an additive kernel": (ROTATION - {"orthogonal"}) | MIXTURE | MOMENTS | GRID | {"circulant", "p-model"},
}
SURVEYED = ROTATION | MIXTURE | MOMENTS | GRID | {"gaussian", "circulant", "p-model", "qmc"}
LAYERS = {
    "arc-cosine": pm.ArcCosineFeatures(1),
    "activation": pm.ActivationFeatures("erf"),
    "deep": pm.ArcCosineFeatures(1, depth=2),
    "ntk": pm.NTKFeatures(2),
}
every_projection = pytest.mark.parametrize("name", REGISTRY)


def remedies(phi, X):
    """Parameters that the error of a fit names, in their order; None where there is no error."""
    try:
        phi.fit(X)
    except ValueError as error:
        message = str(error)
    else:
        return None
    assert re.fullmatch(r"[^\n]*`projection`[^\n]*\. Use [^\n]*\.", message), message
    advice = message.rpartition(" Use ")[2]
    widths = re.findall(r"n_components=(\d+)", advice)[:1]
    return [{"n_components": int(width)} for width in widths] + [
        {"projection": name} for name in re.findall(r"projection='([a-z-]+)'", advice)
    ]


def fitted(phi, X):
    """Fit; where the map does not fit the rule, as the error tells."""
    for remedy in remedies(phi, X) or [{}]:
        changed = clone(phi).set_params(**remedy)
        if remedies(changed, X) is None:
            return changed
    raise AssertionError(f"no remedy for {phi} helped")


def fourier(name, n_components, kernel=None):
    return pm.FourierFeatures(kernel, n_components, projection=name, random_state=3)


@every_projection
@pytest.mark.parametrize("kernel", KERNELS)
def test_pairs_serve_or_say_what_is_needed(name, kernel, rng):
    X = rng.standard_normal((20, 5))
    phi = fourier(name, 33, KERNELS[kernel])
    unmet = REGISTRY[name].unmet_requirement(KERNELS[kernel].spectral_law(5))
    assert name not in SURVEYED or bool(unmet) == (name in IMPOSSIBLE[kernel])
    if unmet:
        message = (
            rf"^`projection`='{name}' needs [^\n`]*, which {kernel} lacks\. Use projection='qmc', or 'gaussian'\.$"
        )
        with pytest.raises(ValueError, match=message):
            phi.fit(X)
        assert remedies(phi, X) == [{"projection": "qmc"}]
    phi = fitted(phi, X)
    Z = phi.transform(X)
    signs = 1 if phi.signature_ is None else phi.signature_
    # A lone phase, at an odd width, has a square of any size.
    if phi.n_components % 2 == 0:
        np.testing.assert_allclose((signs * Z**2).sum(axis=1), 1, atol=1e-12 * (Z**2).sum(axis=1).max())
    assert np.isfinite(Z).all()


@every_projection
@pytest.mark.parametrize("family", LAYERS)
def test_layers_of_units_serve_or_refuse_negative_weights(name, family, rng):
    X = rng.standard_normal((20, 5))
    phi = clone(LAYERS[family]).set_params(n_components=36, projection=name, random_state=0)
    assert not REGISTRY[name].unmet_requirement(StandardGaussianLaw(5))
    # Rules of a width of their own fit no two layers, and negative weights have no signature in the second.
    served = fitted(phi, X)
    assert served.projection == name or (name in ("moment-matching", *SIGNED, *GRID) and family in ("deep", "ntk"))
    assert np.isfinite(served.transform(X)).all()


@every_projection
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("d", "s"), [(1, 1), (1, 7), (2, 3), (7, 2), (5, 13), (33, 127), (300, 17)])
def test_any_shape_and_any_input(name, dtype, d, s, rng):
    """One input, fewer directions than inputs, a prime number of them; rows dense and in CSR form."""
    X = rng.standard_normal((11, d)).astype(dtype)
    X[np.abs(X) < 0.7] = 0
    phi = fitted(fourier(name, 2 * s, Gaussian(np.sqrt(d))), X)
    Z = phi.transform(X)
    assert Z.shape == (11, phi.n_components)
    assert Z.dtype == dtype
    # Phases err by an eps of their size and cosines by as much.
    W = phi.record_.projection.to_dense()
    slack = 4 * d * np.finfo(dtype).eps * max(1.0, np.abs(X @ W.T).max()) * max(1.0, np.abs(Z).max())
    for form in (sparse.csr_array, sparse.csr_matrix):
        Z_sparse = phi.transform(form(X))
        assert Z_sparse.dtype == dtype
        np.testing.assert_allclose(Z_sparse, Z, atol=slack)
    double = phi.transform(X.astype(np.float64))
    np.testing.assert_allclose(Z, double, atol=slack)
    np.testing.assert_array_equal(clone(phi).fit(sparse.csr_array(X)).transform(X), Z)


@every_projection
def test_ten_thousand_inputs_take_no_square_matrix(name, rng):
    """A square matrix of order 10,000 would be 800 MB, its factorisation minutes."""
    X = rng.standard_normal((3, 10_000)).astype(np.float32)
    phi = fourier(name, 16, Gaussian(100.0))
    if name == "moment-matching":
        # Its singular value decomposition needs more directions than inputs.
        assert remedies(phi, X) == [{"n_components": 20_002}, {"projection": "qmc"}]
        phi.set_params(projection="qmc")
    peak, Z = traced(lambda: fitted(phi, X).transform(X))
    assert peak < 200 * 2**20
    assert np.isfinite(Z).all()


@every_projection
def test_sparse_rows_are_made_dense_a_tile_at_a_time(name):
    n, d = 30_000, 300
    X = sparse.random_array((n, d), density=0.01, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    phi = fitted(fourier(name, 8), X[:10])
    peak, Z = traced(lambda: phi.transform(X))
    assert 4 * n * d > 34 * 2**20
    assert peak - Z.nbytes < 24 * 2**20
