"""The kernel matrix of mixture data and its equivalent in high dimension."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.linalg import eigsh

import phimap as pm
from phimap.theory import GaussianMixture, equivalent_kernel, gaussian_moments


def centred(K):
    return K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()


def spectral_norm(A):
    return abs(eigsh(A, 1, v0=np.ones(len(A)) + np.arange(len(A)) / len(A), return_eigenvectors=False)[0])


def two_classes(p, spread=4.0):
    """The mixture of Figure 2 of Ali, Liao, Couillet (2022)."""
    return GaussianMixture(4 * np.eye(2, p), 1 + spread * np.arange(2) / np.sqrt(p))


@pytest.mark.slow
@pytest.mark.parametrize("source", ["mixture", "labels"])
@pytest.mark.parametrize(
    ("activation", "kernel"),
    [("relu", pm.kernels.ActivationKernel("relu")), (pm.kernels.Gaussian(), pm.kernels.Gaussian())],
    ids=["relu", "gaussian"],
)
def test_equivalent_is_near_in_spectral_norm(activation, kernel, source):
    mixture = two_classes(512)
    X, labels = mixture.sample(2048, random_state=0)
    K = centred(kernel(X))
    equivalent = equivalent_kernel(activation, X, labels, mixture=mixture if source == "mixture" else None)
    # Measured 0.02; the terms left out are of order p^(-1/2) = 0.044.
    assert spectral_norm(K - equivalent) < 0.05 * spectral_norm(K)
    first, other = (eigsh(matrix, 1, v0=X[:, 0])[1][:, 0] for matrix in (K, equivalent))
    assert abs(first @ other) > 0.95


def test_error_falls_as_dimension_grows():
    errors = []
    for p in (50, 800):
        mixture = two_classes(p)
        X, labels = mixture.sample(p, random_state=1)
        K = centred(pm.kernels.Gaussian()(X))
        gap = K - equivalent_kernel(pm.kernels.Gaussian(), X, labels, mixture=mixture)
        errors.append(spectral_norm(gap) / spectral_norm(K))
    # p^(-1/2) falls fourfold.
    assert errors[1] < errors[0] / 2


def test_covariances_enter_through_the_second_moment():
    """Classes that differ in their spread only: without d2 nothing tells them apart."""
    mixture = GaussianMixture(np.zeros((2, 300)), 1 + 8 * np.arange(2) / np.sqrt(300))
    X, labels = mixture.sample(400, random_state=0)
    K = centred(pm.kernels.ActivationKernel("abs")(X))
    equivalent = equivalent_kernel("abs", X, labels, mixture=mixture)
    size = spectral_norm(K)
    assert spectral_norm(K - equivalent) < 0.25 * size
    blind = equivalent_kernel(gaussian_moments("abs", mixture.tau)._replace(d2=0.0), X, labels, mixture=mixture)
    assert spectral_norm(K - blind) > 0.8 * size


def test_formula_written_out(rng):
    """Equations 8 and 9 with their matrices, for full covariances and unequal shares."""
    p, k = 6, 3
    roots = rng.standard_normal((k, p, p))
    mixture = GaussianMixture(rng.standard_normal((k, p)), roots @ roots.transpose(0, 2, 1), np.array([1.0, 2.0, 1.0]))
    X, labels = mixture.sample(40, random_state=0)
    n = len(X)
    J = np.eye(k)[labels]
    C = mixture.covariances
    mean = np.tensordot(np.bincount(labels) / n, C, axes=1)
    t = np.array([np.trace(C[a] - mean) for a in range(k)]) / np.sqrt(p)
    T = np.array([[np.trace(C[a] @ C[b]) for b in range(k)] for a in range(k)]) / p
    Z = X - J @ mixture.means / np.sqrt(p)
    phi = np.square(Z).sum(axis=1) - np.array([np.trace(C[a]) for a in labels]) / p
    V = np.column_stack([J / np.sqrt(p), phi])
    A = np.block([[np.outer(t, t) + 2 * T, t[:, None]], [t, 1.0]])
    d0, d1, d2 = gaussian_moments("relu", np.trace(mean) / p)
    P = np.eye(n) - 1 / n
    expected = P @ (d1 * X @ X.T + d2 * V @ A @ V.T + d0 * np.eye(n)) @ P
    np.testing.assert_allclose(equivalent_kernel("relu", X, labels, mixture=mixture), expected, atol=1e-10)


def test_samples_have_the_stated_law():
    """Means within 5 standard errors; traces of covariances within 5 of theirs."""
    C = np.stack([np.diag([1.0, 4.0, 0.5]), [[2.0, 0.9, 0], [0.9, 1.0, 0], [0, 0, 1.0]]])
    mixture = GaussianMixture(np.array([[1.0, 0, 0], [0, -2.0, 0]]), C, np.array([1.0, 3.0]))
    X, labels = mixture.sample(40_000, random_state=0)
    assert np.bincount(labels).tolist() == [10_000, 30_000]
    for a in range(2):
        rows = X[labels == a] * np.sqrt(3)
        error = 5 * np.sqrt(np.diag(C[a]) / len(rows))
        assert np.all(np.abs(rows.mean(axis=0) - mixture.means[a]) < error)
        spread = np.sqrt((np.square(C[a]) + np.outer(np.diag(C[a]), np.diag(C[a]))) / len(rows))
        assert np.all(np.abs(np.cov(rows.T) - C[a]) < 5 * spread)
    assert mixture.tau == pytest.approx((0.25 * 5.5 + 0.75 * 4.0) / 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GaussianMixture(np.eye(2), np.ones(3)), r"`covariances` must be of shape \(2,\)"),
        (lambda: GaussianMixture(np.eye(2), np.ones(2), np.array([1.0, 0.0])), r"`weights` must be 2 positive"),
        (lambda: equivalent_kernel("relu", np.eye(4), [0, 1]), r"`labels` must have one class for each row"),
        (lambda: equivalent_kernel("relu", np.eye(4), [0, 0, 1, 1]), r"at least 3 rows, got 2 for class 0"),
        (
            lambda: equivalent_kernel("relu", np.eye(4), [0, 0, 1, 1], mixture=two_classes(3)),
            r"`mixture` must have the 2 classes and 4 columns",
        ),
    ],
)
def test_bad_input_names_the_remedy(call, message):
    with pytest.raises(ValueError, match=message):
        call()
