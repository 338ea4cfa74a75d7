"""Ridge regression with an exact kernel, or with features in memory, for comparison in the experiments."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from phimap.kernels import Kernel
from phimap.ops import single_threaded_blas

#: Regularisations to try, in units of the mean of the kernel's diagonal.
ALPHAS = tuple(10.0**k for k in range(-6, 4))
_HELD_OUT = 0.1


class Map(Protocol):
    """A feature map: a `FeatureMap`, or another object with the two methods below."""

    def fit(self, X: Any) -> Any: ...

    def transform(self, X: Any) -> Any: ...


def predictions(
    similarity: Kernel | Map,
    X: np.ndarray,
    Y: np.ndarray,
    X_test: np.ndarray,
    alphas: tuple[float, ...] = ALPHAS,
) -> list[np.ndarray]:
    """Return the predictions of ridge regression on centred targets, one array (t, k) for each regularisation.

    Parameters
    ----------
    similarity : Kernel or Map
        A kernel is evaluated on all pairs; a map is fitted to `X`.
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, k)
    X_test : ndarray of shape (t, d)
    alphas : tuple of float
        Regularisations in units of the mean of the kernel's diagonal.

    Returns
    -------
    list of ndarray
    """
    mean = Y.mean(axis=0)
    if isinstance(similarity, Kernel):
        return _solve(similarity(X), similarity(X_test, X), Y - mean, mean, alphas)
    Z = similarity.fit(X).transform(X)
    return feature_predictions(Z, Y, similarity.transform(X_test), alphas)


def kernel_predictions(
    K: np.ndarray, Y: np.ndarray, train: np.ndarray, test: np.ndarray, alphas: tuple[float, ...] = ALPHAS
) -> list[np.ndarray]:
    """Return the result of `predictions`, given the kernel matrix (n, n) and masks of training and test rows."""
    mean = Y[train].mean(axis=0)
    return _solve(K[np.ix_(train, train)], K[np.ix_(test, train)], Y[train] - mean, mean, alphas)


def feature_predictions(
    Z: np.ndarray, Y: np.ndarray, Z_test: np.ndarray, alphas: tuple[float, ...] = ALPHAS
) -> list[np.ndarray]:
    """Return the result of `predictions`, given features (n, m) of training rows and (t, m) of test rows."""
    mean = Y.mean(axis=0)
    if len(Z) <= Z.shape[1]:
        return _solve(Z @ Z.T, Z_test @ Z.T, Y - mean, mean, alphas)
    # Alpha is in units of the mean diagonal of the n x n matrix, and not of the m x m matrix.
    units = Z.shape[1] / len(Z)
    return _solve(Z.T @ Z, Z_test, Z.T @ (Y - mean), mean, tuple(alpha * units for alpha in alphas))


def _solve(
    gram: np.ndarray, cross: np.ndarray, right: np.ndarray, mean: np.ndarray, alphas: tuple[float, ...]
) -> list[np.ndarray]:
    # If all features are zero, the kernel is zero. With the scale 1, the predictions are then the mean.
    scale = float(gram.trace()) / len(gram) or 1.0
    found = []
    with single_threaded_blas():
        for alpha in alphas:
            shifted = gram.copy()
            shifted.flat[:: len(gram) + 1] += alpha * scale
            found.append(cross @ cho_solve(cho_factor(shifted, lower=True, overwrite_a=True), right) + mean)
    return found


def fit_predict(similarity: Kernel | Map, X: np.ndarray, Y: np.ndarray, X_test: np.ndarray, seed: int) -> np.ndarray:
    """Return predictions (t, k) with the regularisation of least squared error on a held-out tenth of the rows."""
    order = np.random.default_rng(seed).permutation(len(X))
    held, kept = np.array_split(order, [max(1, int(_HELD_OUT * len(X)))])
    errors = [np.square(P - Y[held]).mean() for P in predictions(similarity, X[kept], Y[kept], X[held])]
    return predictions(similarity, X, Y, X_test, (ALPHAS[int(np.argmin(errors))],))[0]
