"""The asymptotic equivalent of a centred kernel matrix for high-dimensional mixture data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap._random import RandomState, named_streams
from phimap._validation import check_finite, check_integer, check_real
from phimap.theory.moments import GaussianMoments, gaussian_moments


@dataclass(frozen=True)
class GaussianMixture:
    """A Gaussian mixture scaled for high dimension p: rows of class a are N(mu_a / sqrt(p), C_a / p).

    Attributes
    ----------
    means : ndarray of shape (n_classes, p)
        Class means mu_a.
    covariances : ndarray of shape (n_classes,), (n_classes, p) or (n_classes, p, p)
        Class covariances C_a, given as multiples of the identity, diagonals, or full matrices.
    weights : ndarray of shape (n_classes,) or None, default=None
        Class weights, normalised to sum 1; None means equal weights.

    References
    ----------
    Ali, Liao, Couillet (2022), *Random matrices in service of ML footprint: ternary random features with no
    performance loss*, Equation 7.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> mixture = pm.theory.GaussianMixture(4 * np.eye(2, 100), np.array([1.0, 1.4]))
    >>> X, labels = mixture.sample(50, random_state=0)
    >>> X.shape, np.bincount(labels).tolist()
    ((50, 100), [25, 25])
    """

    means: np.ndarray
    covariances: np.ndarray
    weights: np.ndarray | None = None

    def __post_init__(self) -> None:
        k, p = np.shape(self.means)
        if np.shape(self.covariances) not in ((k,), (k, p), (k, p, p)):
            raise ValueError(
                f"`covariances` must be of shape ({k},), ({k}, {p}) or ({k}, {p}, {p}) to go with `means`, got "
                f"{np.shape(self.covariances)}."
            )
        if self.weights is not None and (np.shape(self.weights) != (k,) or not np.min(self.weights) > 0):
            raise ValueError(f"`weights` must be {k} positive numbers, one for each class, got {self.weights!r}.")

    @property
    def tau(self) -> float:
        """Mean squared norm of the noise, ``sum_a share_a tr(C_a) / p``."""
        return float(self._shares @ self._traces / self.means.shape[1])

    def sample(self, n: int, random_state: RandomState = None) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows, sorted by class. The class sizes are the weights times n, rounded.

        Parameters
        ----------
        n : int
            Number of rows.
        random_state : int, Generator, RandomState, SeedSequence or None
            Source of randomness.

        Returns
        -------
        X : ndarray of shape (n, p)
        labels : ndarray of intp, shape (n,)
        """
        n = check_integer("n", n, least=1)
        rng = named_streams(random_state, "rows")["rows"]
        bounds = np.rint(np.cumsum(self._shares) * n).astype(np.intp)
        labels = np.searchsorted(bounds, np.arange(n), side="right")
        p = self.means.shape[1]
        noise = rng.standard_normal((n, p))
        for a in range(self.means.shape[0]):
            rows = labels == a
            covariance = np.asarray(self.covariances[a], dtype=np.float64)
            if covariance.ndim == 2:
                values, vectors = np.linalg.eigh(covariance)
                noise[rows] = (noise[rows] * np.sqrt(np.maximum(values, 0))) @ vectors.T
            else:
                noise[rows] *= np.sqrt(covariance)
        return (self.means[labels] + noise) / p**0.5, labels

    @property
    def _shares(self) -> np.ndarray:
        weights = np.ones(self.means.shape[0]) if self.weights is None else np.asarray(self.weights, dtype=np.float64)
        return weights / weights.sum()

    @property
    def _traces(self) -> np.ndarray:
        """Traces (k,) of the class covariances C_a."""
        return np.einsum("aii->a", self._matrices())

    def _matrices(self) -> np.ndarray:
        p = self.means.shape[1]
        given = np.asarray(self.covariances, dtype=np.float64)
        if given.ndim == 3:
            return given
        diagonals = np.broadcast_to(given[:, None] if given.ndim == 1 else given, (given.shape[0], p))
        return diagonals[:, :, None] * np.eye(p)


def equivalent_kernel(
    activation: Any, X: Any, labels: Any, *, mixture: GaussianMixture | None = None, tau: float | None = None
) -> np.ndarray:
    """Asymptotic equivalent of the centred kernel matrix ``P K P``, ``P = I - 1 1^T / n``, for mixture data.

    Parameters
    ----------
    activation : activation, kernel or GaussianMoments
        Activation that defines the kernel as the mean product of features: see `gaussian_moments`.
    X : array-like of shape (n, p)
        Rows in the scaling of `GaussianMixture`: their norms are of order 1.
    labels : array-like of shape (n,)
        Classes of the rows.
    mixture : GaussianMixture or None, default=None
        Distribution of the rows, with classes in the order of the sorted labels. If None, means, traces and products of
        covariances are estimated from the rows.
    tau : float or None, default=None
        Variance at which the Gaussian moments are evaluated; None means the mean squared norm of the noise. A value
        that differs from this by a multiple of ``p^(-1/2)``, such as the mean squared norm of the rows, gives the same
        limit.

    Returns
    -------
    ndarray of shape (n, n)

    Raises
    ------
    ValueError
        If the shapes do not match, or the mixture must be estimated and a class has fewer than 3 rows.

    Notes
    -----
    Let z_i be x_i minus the mean of its class, J (n, k) the class indicators, ``phi_i = |z_i|^2 - E|z_i|^2``, C the
    mean covariance, ``t_a = tr(C_a - C) / sqrt(p)`` and ``T_ab = tr(C_a C_b) / p``. With the `GaussianMoments` d0, d1
    and d2 of the activation at `tau`, the equivalent is::

        P (d1 X X^T + d2 V A V^T + d0 I) P,  V = [J / sqrt(p), phi],  A = [[t t^T + 2 T, t], [t^T, 1]].

    **Error.** The spectral norm of the difference vanishes almost surely as n and p grow together; the neglected terms
    are of order ``p^(-1/2)``. The theorem holds for any distribution of the directions with variance 1.

    **Cost.** O(n^2 p) time; estimating the mixture takes O(k p^2) memory.

    **Differs from the source in** the estimate of ``tr(C_a^2)``: the plug-in estimate has a bias of
    ``tr(C_a)^2 / n_a``, which is of order p and is subtracted here.

    References
    ----------
    Ali, Liao, Couillet (2022), *Random matrices in service of ML footprint: ternary random features with no
    performance loss*, Theorem 1, Equations 8 and 9.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> mixture = pm.theory.GaussianMixture(4 * np.eye(2, 400), np.array([1.0, 1.2]))
    >>> X, labels = mixture.sample(600, random_state=0)
    >>> K = pm.kernels.ActivationKernel("relu")(X)
    >>> K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    >>> gap = K - pm.theory.equivalent_kernel("relu", X, labels)
    >>> bool(np.abs(np.linalg.eigvalsh(gap)).max() < 0.1 * np.linalg.eigvalsh(K).max())
    True
    """
    X = np.array(X, dtype=np.float64)
    classes, index = np.unique(np.asarray(labels), return_inverse=True)
    if X.ndim != 2 or index.shape != X.shape[:1]:
        raise ValueError(f"`labels` must have one class for each row of X, got {index.shape} for {X.shape}.")
    check_finite(X)
    statistics = _estimated(X, index, classes.size) if mixture is None else _known(mixture, X, index, classes.size)
    centres, norms, products = statistics
    n, p = X.shape
    counts = np.bincount(index)
    mean_norm = float(counts @ norms / n)
    tau = mean_norm if tau is None else check_real("tau", tau, above=0.0)
    moments = activation if isinstance(activation, GaussianMoments) else gaussian_moments(activation, tau)
    t = (norms - mean_norm) * p**0.5
    fluctuations = np.square(X - centres[index]).sum(axis=1) - norms[index]
    V = np.column_stack([np.eye(classes.size)[index] / p**0.5, fluctuations])
    A = np.block([[np.outer(t, t) + 2 * products, t[:, None]], [t, np.ones(1)]])
    # The factors are centred, so their products are centred, too.
    X, V = X - X.mean(axis=0), V - V.mean(axis=0)
    equivalent = moments.d1 * (X @ X.T) + (moments.d2 * (V @ A)) @ V.T - moments.d0 / n
    equivalent.flat[:: n + 1] += moments.d0
    return equivalent


def _known(
    mixture: GaussianMixture, X: np.ndarray, index: np.ndarray, n_classes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the means (k, p) of rows by class, ``tr(C_a) / p`` (k,) and ``tr(C_a C_b) / p`` (k, k) of a mixture."""
    if mixture.means.shape != (n_classes, X.shape[1]):
        raise ValueError(
            f"`mixture` must have the {n_classes} classes and {X.shape[1]} columns of the data, got means of shape "
            f"{mixture.means.shape}."
        )
    p = X.shape[1]
    matrices = mixture._matrices().reshape(n_classes, -1)
    return mixture.means / p**0.5, mixture._traces / p, matrices @ matrices.T / p


def _estimated(X: np.ndarray, index: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimate the three results of `_known` from the rows. The estimates are unbiased for Gaussian rows."""
    p = X.shape[1]
    centres, norms = np.empty((n_classes, p)), np.empty(n_classes)
    matrices, squares = np.empty((n_classes, p * p)), np.empty(n_classes)
    for a in range(n_classes):
        rows = X[index == a]
        free = rows.shape[0] - 1
        if free < 2:
            raise ValueError(f"`labels` must give each class at least 3 rows, got {rows.shape[0]} for class {a}.")
        centres[a] = rows.mean(axis=0)
        noise = rows - centres[a]
        covariance = p * (noise.T @ noise) / free
        trace = float(np.trace(covariance))
        norms[a], matrices[a] = trace / p, covariance.ravel()
        # E tr(S^2) of a Wishart matrix S contains a multiple of tr(C)^2, which is subtracted.
        squares[a] = free**2 / ((free - 1) * (free + 2)) * (np.square(covariance).sum() - trace**2 / free)
    products = matrices @ matrices.T / p
    np.fill_diagonal(products, squares / p)
    return centres, norms, products
