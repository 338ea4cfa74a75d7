"""Fourier features: the variances of the theory, nested draws, the rate, and the options."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import phimap as pm
from phimap.kernels import Gaussian
from tests.support.families import STATIONARY_KERNELS
from tests.support.statistics import is_at_most, is_mean, is_slope

GROUP = 8
"""Features of a small map; one wide map with independent directions is many of them side by side."""

DISTANCES = np.array([0.3, 0.6, 0.9, 1.2])
"""Kernel values from 0.96 to 0.49, where pairs and phases differ well beyond the noise of the measurement."""


def small_map_estimates(pairing: str, seed: int, n_maps: int = 10_000, length_scale: float = 1.0) -> np.ndarray:
    """Kernel estimates (n_maps, 4) at `DISTANCES` by maps of `GROUP` features with independent directions."""
    direction = np.array([2.0, -1.0, 2.0]) / 3
    X = np.concatenate([np.zeros((1, 3)), DISTANCES[:, None] * direction])
    phi = pm.FourierFeatures(
        Gaussian(length_scale=length_scale),
        n_maps * GROUP,
        projection="gaussian",
        pairing=pairing,
        random_state=seed,
    )
    parts = 2 if pairing == "pairs" else 1
    Z = phi.fit_transform(X).reshape(len(X), parts, n_maps, GROUP // parts)
    return n_maps * np.einsum("cgk,icgk->gi", Z[0], Z[1:])


def predicted_variance(pairing: str) -> np.ndarray:
    decay = np.exp(-(DISTANCES**2))
    return ((1 - decay) ** 2 if pairing == "pairs" else 1 + decay**2 / 2 - decay) / GROUP


@pytest.mark.parametrize(("pairing", "other"), [("pairs", "offset"), ("offset", "pairs")])
def test_variance_is_that_of_the_theory(pairing, other, seed):
    """False-alarm rate 1e-6; mutants: another bandwidth, a missing factor, the other form."""
    exact = np.exp(-(DISTANCES**2) / 2)
    squares = (small_map_estimates(pairing, seed) - exact) ** 2
    # Squares are skewed: asking for 1e-7 leaves the rate below 1e-6 for 10,000 of them.
    assert is_mean(squares, predicted_variance(pairing), 1e-7)
    assert not is_mean(squares, predicted_variance(other), 1e-7)
    assert not is_mean(2 * squares, predicted_variance(pairing), 1e-7)
    wider = small_map_estimates(pairing, seed, length_scale=1.3)
    assert not is_mean((wider - exact) ** 2, predicted_variance(pairing), 1e-7)


def test_pairs_are_never_worse_than_phases(seed):
    """False-alarm rate 1e-6; mutant: their roles exchanged."""
    tau = np.linspace(0, 6, 601)
    assert (np.expm1(-(tau**2)) ** 2 <= 1 + np.exp(-2 * tau**2) / 2 - np.exp(-(tau**2))).all()
    exact = np.exp(-(DISTANCES**2) / 2)
    pairs, phases = ((small_map_estimates(name, seed) - exact) ** 2 for name in ("pairs", "offset"))
    assert is_at_most(pairs - phases, 0)
    assert not is_at_most(phases - pairs, 0)


@pytest.mark.parametrize("pairing", ["pairs", "offset"])
def test_error_falls_as_the_root_of_the_width(pairing, rng):
    """False-alarm rate 1e-6; mutant: a bandwidth wrong by a fifth, whose error stops falling."""
    X = rng.standard_normal((12, 5))
    widths = np.repeat(2 ** np.arange(5, 12), 25)

    def log_errors(length_scale: float) -> np.ndarray:
        phi = pm.FourierFeatures(Gaussian(length_scale=length_scale), projection="gaussian", pairing=pairing)
        K = Gaussian(length_scale=2.0)(X)
        maps = (phi.set_params(n_components=int(m), random_state=i) for i, m in enumerate(widths))
        return np.log([np.linalg.norm(Z @ Z.T - K) for Z in (phi.fit_transform(X) for phi in maps)])

    assert is_slope(np.log(widths), log_errors(2.0), -0.5)
    assert not is_slope(np.log(widths), log_errors(1.6), -0.5)


@pytest.mark.parametrize("projection", ["gaussian", "orthogonal", "sorf", "rom"])
@pytest.mark.parametrize("pairing", ["pairs", "offset"])
def test_a_wider_map_starts_with_the_directions_of_a_narrower_one(projection, pairing, rng):
    X = rng.standard_normal((4, 5))
    narrow, wide = (
        pm.FourierFeatures(n_components=m, projection=projection, pairing=pairing, random_state=3).fit(X).record_
        for m in (22, 90)
    )
    W = narrow.projection.to_dense()
    np.testing.assert_allclose(wide.projection.to_dense()[: len(W)], W, rtol=1e-12)
    np.testing.assert_array_equal(wide.shift[: narrow.shift.size], narrow.shift)


@pytest.mark.parametrize("projection", ["gaussian", "orthogonal", "sorf"])
def test_length_scales_of_features_divide_the_input(projection, rng):
    X = rng.standard_normal((20, 5))
    length_scale = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
    phi = pm.FourierFeatures(Gaussian(length_scale=length_scale), 64, projection=projection, random_state=0)
    plain = pm.FourierFeatures(Gaussian(), 64, projection=projection, random_state=0)
    # Powers of two divide exactly; what is left is the order of the sums.
    atol = 64 * np.finfo(float).eps * np.abs(X / length_scale).max()
    np.testing.assert_allclose(phi.fit_transform(X), plain.fit_transform(X / length_scale), atol=atol)


@pytest.mark.parametrize("kernel", STATIONARY_KERNELS, ids=repr)
def test_pairs_have_unit_norm(kernel, rng):
    X = rng.standard_normal((30, 5)).astype(np.float32)
    Z = pm.FourierFeatures(kernel, 128, random_state=0).fit_transform(X)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1, atol=16 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("pairing", ["pairs", "offset"])
def test_normalize_input_is_the_map_of_unit_rows(pairing, rng):
    X = rng.standard_normal((20, 4))
    X[2] = 0
    unit = X / np.maximum(np.linalg.norm(X, axis=1), np.finfo(float).tiny)[:, None]
    phi = pm.FourierFeatures(n_components=64, pairing=pairing, normalize_input=True, random_state=0).fit(X)
    plain = clone(phi).set_params(normalize_input=False).fit(X)
    np.testing.assert_allclose(phi.transform(X), plain.transform(unit), atol=1e-13)
    np.testing.assert_allclose(phi.kernel_(X), Gaussian()(unit), atol=1e-13)
    assert np.abs(phi.kernel_(X) - plain.kernel_(X)).max() > 0.1


def test_normalize_output_gives_unit_features_and_leaves_pairs_as_they_are(rng):
    X = rng.standard_normal((20, 4))
    phi = pm.FourierFeatures(n_components=64, pairing="offset", normalize_output=True, random_state=0).fit(X)
    plain = clone(phi).set_params(normalize_output=False).fit(X).transform(X)
    Z = phi.transform(X)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(Z, plain / np.linalg.norm(plain, axis=1, keepdims=True), rtol=1e-13)
    np.testing.assert_allclose(phi.kernel_(X), Gaussian()(X))
    pairs = [
        pm.FourierFeatures(n_components=64, normalize_output=normalised, random_state=0).fit_transform(X)
        for normalised in (False, True)
    ]
    np.testing.assert_allclose(*pairs, rtol=1e-14)


def test_normalize_output_lowers_the_error_of_phases(rng):
    """False-alarm rate 1e-6; mutant: the two forms exchanged."""
    X = 0.5 * rng.standard_normal((10, 4))
    K = Gaussian()(X)
    phi = pm.FourierFeatures(n_components=64, pairing="offset")
    errors = []
    for seed in range(200):
        plain, unit = (
            phi.set_params(normalize_output=normalised, random_state=seed).fit_transform(X)
            for normalised in (False, True)
        )
        errors.append(np.linalg.norm(unit @ unit.T - K) - np.linalg.norm(plain @ plain.T - K))
    assert is_at_most(np.array(errors), 0)
    assert not is_at_most(-np.array(errors), 0)


def test_a_kernel_of_another_kind_is_refused():
    with pytest.raises(TypeError, match=r"`kernel` must be a stationary kernel.*NTKFeatures"):
        pm.FourierFeatures(pm.kernels.NTK()).fit(np.eye(3))
