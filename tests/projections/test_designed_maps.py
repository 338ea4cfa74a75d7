"""Feature maps over projections that do not fit every width, which the registry of maps asks for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import phimap as pm
from phimap.ops import numpy_ops
from phimap.projections import SparseGrid

MAPS = {
    "moment-matching": pm.FourierFeatures(n_components=24, projection="moment-matching", random_state=0),
    "moment-matching-matern": pm.FourierFeatures(
        pm.kernels.Matern(nu=2.5), 24, projection="moment-matching", random_state=0
    ),
    "moment-matching-relu": pm.ArcCosineFeatures(1, 24, projection="moment-matching", random_state=0),
    "gauss-grid": pm.FourierFeatures(n_components=32, projection="gauss-grid"),
    "gauss-grid-relu": pm.ArcCosineFeatures(1, 32, projection="gauss-grid"),
    "sparse-grid": pm.FourierFeatures(n_components=12, projection="sparse-grid"),
    "sparse-grid-signed": pm.FourierFeatures(n_components=22, projection=SparseGrid(1.5)),
    "sparse-grid-offset": pm.FourierFeatures(
        n_components=11, pairing="offset", projection=SparseGrid(1.5), random_state=0
    ),
    "sparse-grid-relu": pm.ArcCosineFeatures(2, 11, projection="sparse-grid"),
    "spherical-radial": pm.FourierFeatures(n_components=30, projection="spherical-radial", random_state=2),
    "spherical-radial-relu": pm.ArcCosineFeatures(1, 30, projection="spherical-radial", random_state=2),
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_way_to_the_features_agrees(name, dtype, rng, tmp_path, monkeypatch):
    monkeypatch.setattr(numpy_ops.NumpyOps, "least_tile_rows", 16)
    monkeypatch.setattr(numpy_ops.NumpyOps, "tile_bytes", 1)
    X = rng.standard_normal((70, 5)).astype(dtype)
    X[np.abs(X) < 0.5] = 0
    phi = clone(MAPS[name]).fit(X)
    Z = phi.transform(X)
    assert Z.shape == (70, phi.n_components)
    assert Z.dtype == dtype
    # A few hundred operations on values of the size of Z.
    slack = 500 * np.finfo(dtype).eps * max(1.0, float(np.abs(Z).max()))
    np.testing.assert_allclose(phi.transform(sparse.csr_array(X)), Z, atol=slack)
    np.testing.assert_array_equal(phi.set_params(n_jobs=2).transform(X), phi.set_params(n_jobs=1).transform(X))
    pm.save(phi, tmp_path / "map.phimap")
    loaded = pm.load(tmp_path / "map.phimap")
    np.testing.assert_array_equal(loaded.transform(X), Z)
    np.testing.assert_array_equal(loaded.signature_, phi.signature_)


@pytest.mark.parametrize("name", MAPS)
def test_tensors_give_the_same_features(name, rng):
    torch = pytest.importorskip("torch")
    X = rng.standard_normal((30, 5))
    phi = clone(MAPS[name]).fit(X)
    Z = phi.transform(X)
    slack = 500 * np.finfo(np.float64).eps * max(1.0, float(np.abs(Z).max()))
    np.testing.assert_allclose(phi.transform(torch.tensor(X)).numpy(), Z, atol=slack)


@pytest.mark.parametrize("name", [name for name in MAPS if not name.endswith(("relu", "offset"))])
def test_pairs_estimate_one_on_the_diagonal(name, rng):
    X = rng.standard_normal((9, 5))
    phi = clone(MAPS[name]).fit(X)
    Z = phi.transform(X)
    signs = 1 if phi.signature_ is None else phi.signature_
    assert (phi.signature_ is None) == (name not in ("sparse-grid-signed", "spherical-radial"))
    np.testing.assert_allclose(
        (signs * Z**2).sum(axis=1), 1, atol=64 * np.finfo(np.float64).eps * (Z**2).sum(axis=1).max()
    )


@pytest.mark.parametrize("d", [61, 150])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_structured_spheres_agree_on_every_way(d, dtype, rng, tmp_path, monkeypatch):
    monkeypatch.setattr(numpy_ops.NumpyOps, "least_tile_rows", 16)
    monkeypatch.setattr(numpy_ops.NumpyOps, "tile_bytes", 1)
    torch = pytest.importorskip("torch")
    X = rng.standard_normal((70, d)).astype(dtype) * (rng.random((70, d)) < 0.3)
    for phi in (
        pm.FourierFeatures(pm.kernels.Gaussian(np.linspace(5, 20, d)), 1403, projection="ssf", random_state=0),
        pm.ArcCosineFeatures(1, 703, projection="ssf", random_state=0),
    ):
        Z = phi.fit(X).transform(X)
        W = phi.record_.projection.to_dense()
        # A few hundred operations on values of the size of Z, and of the projections that cosines are taken of.
        slack = 500 * np.finfo(dtype).eps * max(1.0, float(np.abs(Z).max()), float(np.abs(X @ W.T).max()))
        np.testing.assert_allclose(phi.transform(sparse.csr_array(X)), Z, atol=slack)
        np.testing.assert_allclose(phi.transform(torch.tensor(X)).numpy(), Z, atol=slack)
        np.testing.assert_allclose(phi.transform(X[:5]), Z[:5], atol=slack)
        np.testing.assert_array_equal(phi.set_params(n_jobs=2).transform(X), phi.set_params(n_jobs=1).transform(X))
        pm.save(phi, tmp_path / "map.phimap")
        np.testing.assert_array_equal(pm.load(tmp_path / "map.phimap").transform(X), Z)


def test_a_damaged_sphere_is_refused(rng):
    X = rng.standard_normal((3, 61))
    phi = pm.FourierFeatures(n_components=40, projection="ssf", random_state=0).fit(X)
    damaged = replace(phi.record_.projection, frequencies=phi.record_.projection.frequencies + 1000)
    phi.record_ = replace(phi.record_, projection=damaged)
    with pytest.raises(
        ValueError, match=r"`frequencies` must be below `n_points`, of blocks for all of `scale`. Fit the map again"
    ):
        phi.transform(X)
