"""Compressed features: greedy weights against their bounds, and maps that are cut to columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import nnls

import phimap as pm
from phimap.features.data_dependent import greedy_weights
from phimap.features.data_dependent.compressed import SelectedRecord, selected
from phimap.features.fourier import FourierRecord
from phimap.features.nystroem.nystroem import FewLandmarksWarning

KERNEL = pm.kernels.Gaussian(length_scale=2.0)


def rows(n: int = 200, d: int = 4) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((n, d))


def vectors(n: int = 60, width: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Estimates ``z_j z_j^T`` (l, n^2) of single features, and their inner products."""
    Z = pm.FourierFeatures(KERNEL, width, projection="gaussian", random_state=0).fit_transform(rows(n))
    flat = np.stack([np.outer(z, z).ravel() for z in Z.T])
    return flat, flat @ flat.T


def squared_error(flat: np.ndarray, weights: np.ndarray) -> float:
    return float(np.square(weights @ flat - flat.sum(axis=0)).sum())


def frank_wolfe_in_full(flat: np.ndarray, n_steps: int, *, best: bool = True) -> np.ndarray:
    """Errors after each step of the method written in the vectors themselves; `best=False` takes the worst corner."""
    lengths = np.linalg.norm(flat, axis=1)
    corners, target = flat * (lengths.sum() / lengths)[:, None], flat.sum(axis=0)
    pick = np.argmax if best else np.argmin
    point = corners[pick(corners @ target)]
    errors = [np.square(point - target).sum()]
    for _ in range(n_steps):
        corner = corners[pick(corners @ (target - point))]
        along = corner - point
        share = np.clip((target - point) @ along / max(along @ along, 1e-300), 0, 1)
        point = point + share * along
        errors.append(np.square(point - target).sum())
    return np.array(errors)


def test_frank_wolfe_is_the_method_written_in_full(monkeypatch):
    flat, G = vectors()
    for n_steps in (0, 1, 5, 20):
        monkeypatch.setattr(greedy_weights, "_STEPS", n_steps / 80)
        monkeypatch.setattr(greedy_weights, "_walk", lambda step, weights, size, n=n_steps: [step() for _ in range(n)])
        weights = greedy_weights.frank_wolfe(G, 80)
        expected = frank_wolfe_in_full(flat, n_steps)[-1]
        assert np.isclose(squared_error(flat, weights), expected, rtol=1e-6, atol=1e-9 * G.sum())


def test_frank_wolfe_falls_as_proven():
    """After every step within ``D^2 / (1 + t)``, and by ``f^2 / D^2`` in each; mutant: the worst corner in each."""
    flat, _ = vectors()
    lengths = np.linalg.norm(flat, axis=1)
    corners = flat * (lengths.sum() / lengths)[:, None]
    squares = np.square(corners).sum(axis=1)
    diameter = (squares[:, None] + squares - 2 * corners @ corners.T).max()
    assert diameter <= 4 * lengths.sum() ** 2
    steps = np.arange(101)
    errors = frank_wolfe_in_full(flat, 100)
    assert (errors <= diameter / (1 + steps)).all()
    assert (errors[1:] <= errors[:-1] - errors[:-1] ** 2 / diameter + 1e-12 * diameter).all()
    mutant = frank_wolfe_in_full(flat, 100, best=False)
    assert not (mutant <= diameter / (1 + steps)).all()


@pytest.mark.parametrize("method", greedy_weights.METHODS)
def test_greedy_weights_are_sparse_and_near_the_best_of_their_columns(method):
    flat, G = vectors()
    choose = greedy_weights.METHODS[method]
    errors = []
    for size in (1, 4, 16, 64):
        weights = choose(G, size)
        assert (weights >= 0).all()
        assert 0 < np.count_nonzero(weights) <= size
        chosen = weights > 0
        best = nnls(flat[chosen].T, flat.sum(axis=0))[1] ** 2
        errors.append(squared_error(flat, weights))
        assert errors[-1] >= best * (1 - 1e-9)
    assert errors == sorted(errors, reverse=True)
    # A random choice of as many, with the best weights as here, is the mutant.
    chosen, random = np.flatnonzero(choose(G, 16)), np.random.default_rng(0).permutation(80)[:16]
    best, other = (nnls(flat[columns].T, flat.sum(axis=0))[1] for columns in (chosen, random))
    assert best < 0.95 * other


def test_giga_ends_at_the_angle_it_says():
    """Its error is that of the best multiple of its direction; mutant: the multiple of the source's first step."""
    flat, G = vectors()
    weights = greedy_weights.giga(G, 10)
    point, target = weights @ flat, flat.sum(axis=0)
    assert np.isclose(point @ target, point @ point)
    assert squared_error(flat, 1.1 * weights) > squared_error(flat, weights)


@pytest.mark.parametrize("method", greedy_weights.METHODS)
def test_compression_errs_less_than_as_many_plain_features(method):
    X = rows(400)
    wide = pm.FourierFeatures(KERNEL, 512, projection="gaussian", random_state=0)
    phi = pm.CompressedFeatures(wide, 64, method=method, random_state=0).fit(X[:200])
    assert isinstance(phi.record_, FourierRecord)
    narrow = pm.FourierFeatures(KERNEL, 64, projection="gaussian", random_state=0).fit(X)
    assert pm.metrics.relative_error(phi, X[200:]) < 0.6 * pm.metrics.relative_error(narrow, X[200:])


def test_all_columns_are_the_map_itself():
    X = rows(100)
    wide = pm.FourierFeatures(KERNEL, 40, random_state=0)
    # More pairs of rows than columns determine the weights, which are then all 1.
    phi = pm.CompressedFeatures(wide, 40, random_state=0).fit(X)
    np.testing.assert_allclose(phi.transform(X) @ phi.transform(X).T, wide.fit_transform(X) @ wide.transform(X).T)


@pytest.mark.parametrize(
    "inner",
    [
        pm.FourierFeatures(KERNEL, 17, projection="gaussian", random_state=0),
        pm.FourierFeatures(KERNEL, 16, projection="gaussian", pairing="offset", random_state=0),
        pm.FourierFeatures(KERNEL, 16, projection="gaussian", normalize_input=True, random_state=0),
        pm.FourierFeatures(KERNEL, 16, pairing="offset", normalize_output=True, random_state=0),
        pm.FourierFeatures(KERNEL, 16, projection="spherical-radial", random_state=0),
        pm.FourierFeatures(KERNEL, 16, projection="sorf", random_state=0),
        pm.ArcCosineFeatures(1, 16, random_state=0),
    ],
    ids=lambda phi: f"{type(phi).__name__}-{phi.n_components}-{getattr(phi, 'pairing', '')}-{phi.projection}",
)
def test_selected_columns_are_those_of_the_map(inner: Any):
    X = rows(30)
    Z = inner.fit_transform(X)
    columns = np.random.default_rng(0).permutation(Z.shape[1])[:9]
    factors = np.random.default_rng(1).random(9)
    record = selected(inner.record_, columns, factors)
    phi = pm.CompressedFeatures(inner, 9).fit(X)
    phi.record_ = record
    np.testing.assert_allclose(phi.transform(X), Z[:, columns] * factors, atol=1e-12)
    if inner.signature_ is not None:
        np.testing.assert_array_equal(phi.signature_, inner.signature_[columns])


def test_signs_of_a_quadrature_rule_stay_with_their_columns():
    X = 0.5 * rows(200)
    wide = pm.FourierFeatures(KERNEL, 10, projection=pm.projections.SparseGrid(p=1.0)).fit(X)
    assert wide.signature_ is not None
    assert (wide.signature_ < 0).sum() == 2
    phi = pm.CompressedFeatures(wide, 9, random_state=0).fit(X)
    assert isinstance(phi.record_, SelectedRecord)
    # One column of ten is left out: a sine of a weight that cosines make up for. A wrong sign would show.
    assert pm.metrics.relative_error(phi, X) < 2 * pm.metrics.relative_error(wide, X)
    Z = phi.transform(X)
    assert np.linalg.norm(Z @ Z.T - KERNEL(X)) > 10 * np.linalg.norm((Z * phi.signature_) @ Z.T - KERNEL(X))


def test_columns_of_zeros_take_no_part():
    X = np.random.default_rng(0).permutation(np.repeat(rows(8), 4, axis=0))
    with pytest.warns(FewLandmarksWarning, match="32 features are zero"):
        phi = pm.CompressedFeatures(pm.NystroemFeatures(KERNEL, 64), 32, random_state=0).fit(X)
    np.testing.assert_allclose(phi.transform(X) @ phi.transform(X).T, KERNEL(X), atol=1e-6)


def test_targets_go_to_the_map_inside():
    X = rows(100)
    inner = pm.ReweightedFeatures(KERNEL, 64)
    phi = pm.CompressedFeatures(inner, 16, random_state=0)
    assert phi.wants_targets
    with pytest.raises(ValueError, match="ReweightedFeatures requires y"):
        phi.fit(X)
    phi.fit(X, np.sin(X[:, 0]))
    assert isinstance(phi.kernel_, pm.kernels.FiniteSpectrum)
    assert not pm.CompressedFeatures().wants_targets


@pytest.mark.parametrize(
    ("phi", "error", "message"),
    [
        (pm.CompressedFeatures(n_components=4, method="best"), ValueError, r"`method` must be one of 'frank-wolfe'"),
        (pm.CompressedFeatures(pm.FourierFeatures(n_components=8), 9), ValueError, r"must be at most 8, the width"),
        (pm.CompressedFeatures(pm.sketches.SRHT(8), 4), TypeError, r"`feature_map` must be a feature map, got SRHT"),
    ],
)
def test_bad_parameters_name_the_remedy(phi, error, message):
    with pytest.raises(error, match=message):
        phi.fit(rows(20))


def test_a_choice_beyond_the_byte_budget_is_refused():
    with pm.config(memory=10**6), pytest.raises(MemoryError, match="the choice among 256 features"):
        pm.CompressedFeatures(n_components=64).fit(rows(20))
