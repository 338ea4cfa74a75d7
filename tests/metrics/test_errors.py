"""Errors of kernel estimates, against their definitions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import phimap as pm
from phimap.metrics import relative_error, spectral_error


@pytest.fixture
def fitted(rng):
    X = rng.standard_normal((40, 3))
    return pm.FourierFeatures(n_components=64, random_state=0).fit(X), X


def centred(K):
    P = np.eye(len(K)) - 1 / len(K)
    return P @ K @ P


@pytest.mark.parametrize("center", [False, True])
def test_errors_are_their_definitions(fitted, center):
    phi, X = fitted
    Z = phi.transform(X)
    K, estimate = phi.kernel_(X), Z @ Z.T
    if center:
        K, estimate = centred(K), centred(estimate)
    expected = np.linalg.norm(K - estimate) / np.linalg.norm(K)
    assert relative_error(phi, X, center=center) == pytest.approx(expected, rel=1e-11)
    expected = np.linalg.norm(K - estimate, 2) / np.linalg.norm(K, 2)
    assert spectral_error(phi, X, center=center) == pytest.approx(expected, rel=1e-11)


def test_spectral_error_sees_negative_eigenvalues(rng):
    # The estimate is above the kernel: the largest error is the negative one.
    X = rng.standard_normal((20, 3))
    phi = pm.NystroemFeatures(n_components=20, random_state=0).fit(X)
    half = pm.kernels.Gaussian(length_scale=0.3)
    Z, K = phi.transform(X), half(X)
    expected = np.linalg.norm(K - Z @ Z.T, 2) / np.linalg.norm(K, 2)
    assert np.linalg.eigvalsh(K - Z @ Z.T)[-1] < expected * np.linalg.norm(K, 2) / 2
    assert spectral_error(phi, X, half) == pytest.approx(expected, rel=1e-11)


def test_another_kernel_may_be_the_truth(fitted):
    phi, X = fitted
    other = pm.kernels.Gaussian(length_scale=3.0)
    Z, K = phi.transform(X), other(X)
    expected = np.linalg.norm(K - Z @ Z.T) / np.linalg.norm(K)
    assert relative_error(phi, X, other) == pytest.approx(expected, rel=1e-11)
    assert relative_error(phi, X, other) > relative_error(phi, X)


def test_maps_that_are_not_fitted_are_fitted_on_a_clone(fitted):
    phi, X = fitted
    fresh = pm.FourierFeatures(n_components=64, random_state=0)
    assert relative_error(fresh, X) == relative_error(phi, X)
    assert not hasattr(fresh, "record_")


def test_subset_is_random_without_replacement_and_fixed_by_its_seed(fitted):
    phi, X = fitted
    few = [relative_error(phi, X, n_subset=10, random_state=seed) for seed in (0, 0, 1)]
    assert few[0] == few[1] != few[2]
    assert relative_error(phi, X, n_subset=40) == relative_error(phi, X)
    # A kernel of whole rows betrays the rows that were taken: distinct ones, in their order.
    seen = []

    class Spy(pm.kernels.Gaussian):
        def __call__(self, X, Y=None):
            seen.append(X)
            return super().__call__(X, Y)

    relative_error(phi, X, Spy(), n_subset=25)
    taken = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in seen[0]]
    assert len(taken) == 25
    assert taken == sorted(set(taken))


def test_layouts_agree(fitted):
    phi, X = fitted
    expected = relative_error(phi, X, n_subset=30)
    assert relative_error(phi, sparse.csr_matrix(X), n_subset=30) == pytest.approx(expected, rel=1e-12)
    framed = pm.FourierFeatures(n_components=64, random_state=0).fit(pd.DataFrame(X, columns=list("abc")))
    assert relative_error(framed, pd.DataFrame(X, columns=list("abc")), n_subset=30) == pytest.approx(expected)
    assert relative_error(phi, X.tolist(), n_subset=30) == pytest.approx(expected)


def test_tensors_agree(fitted):
    torch = pytest.importorskip("torch")
    phi, X = fitted
    assert relative_error(phi, torch.tensor(X), n_subset=30) == pytest.approx(relative_error(phi, X, n_subset=30))


def test_a_kernel_that_vanishes_has_no_relative_error():
    X = np.zeros((5, 3))
    with pytest.raises(ValueError, match="kernel matrix is zero on this subset"):
        relative_error(pm.ArcCosineFeatures(1, 8, random_state=0), X)
    with pytest.raises(ValueError, match="kernel matrix is zero on this subset"):
        spectral_error(pm.FourierFeatures(n_components=8, random_state=0), np.ones((1, 3)), center=True)


def test_bad_subset_names_the_rule(fitted):
    with pytest.raises(ValueError, match="`n_subset` must be at least 1, got 0"):
        relative_error(*fitted, n_subset=0)
