"""Predicted errors of ridge regression on random features, which show double descent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from phimap._validation import check_choice, check_finite, check_real
from phimap.kernels import Kernel, StationaryKernel
from phimap.theory.moments import covariate_moments

# Newton's method finds the logarithms of the ridges. These are the maximum length of a step, the maximum number of
# steps, and the maximum number of halvings of a step that does not reduce the residual.
_LONGEST_STEP, _MOST_STEPS, _MOST_HALVINGS = 3.0, 200, 30
# Relative error of the ridges at which the iteration stops.
_TOLERANCE = 1e-11


class FeatureMoments(NamedTuple):
    """Second moments of one feature function ``f(x) = f(x; w)`` over the distribution of its direction w.

    Attributes
    ----------
    train : ndarray of shape (n, n)
        ``E f(x_i) f(x_j)`` for all pairs of training rows.
    cross : ndarray of shape (n_test, n)
        ``E f(x_t) f(x_i)`` for all pairs of a test row and a training row.
    test : ndarray of shape (n_test,)
        ``E f(x_t)^2`` for all test rows.
    """

    train: np.ndarray
    cross: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class PredictedErrors:
    """Errors of ridge regression on random features, averaged over the random directions.

    Attributes
    ----------
    train, test : float
        Mean squared errors on the training and the test rows.
    bias : float
        First part of `test`: the error of the mean prediction, which includes the noise of the test targets.
    variance : float
        Second part of `test`: the mean variance of the predictions.
    effective_ridge : ndarray of shape (n_functions,)
        The mean prediction equals the prediction of kernel ridge regression with the kernel matrix
        ``sum_k K_k / effective_ridge[k]`` and alpha = 1. With one feature function, this is exact kernel ridge
        regression with alpha = ``effective_ridge[0]``.
    """

    train: float
    test: float
    bias: float
    variance: float
    effective_ridge: np.ndarray


def feature_moments(kernel: Kernel, X: Any, X_test: Any, *, pairing: str = "pairs") -> tuple[FeatureMoments, ...]:
    """Second moments of the feature functions of a kernel.

    Parameters
    ----------
    kernel : Kernel
        A stationary kernel has the feature functions cosine and sine, which share their directions, or the single
        function ``sqrt(2) cos(w.x + b)``. Any other kernel, such as `phimap.kernels.ActivationKernel`, has the single
        function f with ``k(x, y) = E f(x) f(y)``.
    X : array-like of shape (n, d)
        Training rows.
    X_test : array-like of shape (n_test, d)
        Test rows.
    pairing : {"pairs", "offset"}, default="pairs"
        As in `FourierFeatures`; ignored for kernels that are not stationary.

    Returns
    -------
    tuple of FeatureMoments
        Moments of two functions (cosine and sine) for a stationary kernel with pairs, else of one function.

    Notes
    -----
    ``E cos(w.x) cos(w.y) = (k(x, y) + k(x, -y)) / 2`` and ``E sin(w.x) sin(w.y) = (k(x, y) - k(x, -y)) / 2`` exactly.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> cosine, sine = pm.theory.feature_moments(pm.kernels.Gaussian(), np.eye(3), np.eye(3))
    >>> bool(np.allclose(cosine.train + sine.train, pm.kernels.Gaussian()(np.eye(3))))
    True
    """
    check_choice("pairing", pairing, ("pairs", "offset"))
    X, X_test = _rows(X, X_test)
    train, cross, test = kernel(X), kernel(X_test, X), kernel.diag(X_test)
    if pairing == "offset" or not isinstance(kernel, StationaryKernel):
        return (FeatureMoments(train, cross, test),)
    # k(x, -x) is computed row by row, because a full matrix between the test rows would be the largest array.
    opposite = np.array([kernel(row[None], -row[None])[0, 0] for row in X_test])
    mirrored = (kernel(X, -X), kernel(X_test, -X), opposite)
    cosine = FeatureMoments(*((a + b) / 2 for a, b in zip((train, cross, test), mirrored, strict=True)))
    sine = FeatureMoments(*((a - b) / 2 for a, b in zip((train, cross, test), mirrored, strict=True)))
    return cosine, sine


def gaussian_covariates(activation: Any, X: Any, X_test: Any) -> tuple[FeatureMoments, ...]:
    """Second moments of Gaussian covariates, which are equivalent to random features in high dimension.

    The covariate of a row x is ``mu0 + mu1 w.x / sqrt(tau) + mu* t``. The direction w and the number t, drawn for each
    row, are standard Gaussian.

    Parameters
    ----------
    activation : activation, kernel, or sequence of these
        See `gaussian_moments`. `Gaussian` has two functions, a cosine and a sine.
    X : array-like of shape (n, d)
        Training rows; tau is their mean squared norm.
    X_test : array-like of shape (n_test, d)
        Test rows.

    Returns
    -------
    tuple of FeatureMoments
        Moments of each function of the activation.

    Notes
    -----
    With ``(mu0, mu1, mu*)`` from `covariate_moments` at tau, the moments are ``mu0^2 + mu1^2 <x, y> / tau``, plus
    ``mu*^2`` if x and y are the same row.

    **Error.** The equivalence holds in high dimension for rows with independent entries. Other data need
    `feature_moments`: on images of two digits, test errors predicted from Gaussian covariates were 1.4 to 3.2 times too
    large.

    References
    ----------
    Liu, Huang, Chen, Suykens (2021), *Random features for kernel approximation*, Section 7.1, where the square root in
    mu* is missing and t has one component for each column instead of one for each feature.

    Hu, Lu (2020), *Universality laws for high-dimensional learning with random features*.
    """
    X, X_test = _rows(X, X_test)
    tau = check_real("tau", float(np.square(X).sum(axis=1).mean()), above=0.0)
    found = []
    for mu0, mu1, mu_star in covariate_moments(activation, tau):
        slope, noise = mu1**2 / tau, mu_star**2
        train = mu0**2 + slope * (X @ X.T) + noise * np.eye(len(X))
        test = mu0**2 + slope * np.square(X_test).sum(axis=1) + noise
        found.append(FeatureMoments(train, mu0**2 + slope * (X_test @ X.T), test))
    return tuple(found)


def predicted_errors(
    moments: Sequence[FeatureMoments], y: Any, y_test: Any, *, n_directions: float, alpha: float
) -> PredictedErrors:
    r"""Predict training and test error of ridge regression on random features without drawing any features.

    The model is ``argmin_w |y - Z w|^2 + alpha |w|^2`` with ``Z = [f_1(X W), ..., f_k(X W)] / sqrt(n_directions)``,
    where the columns of W are independent directions.

    Parameters
    ----------
    moments : sequence of FeatureMoments
        Moments of each feature function, from `feature_moments` or `gaussian_covariates`. The functions share their
        directions.
    y : array-like of shape (n,)
        Training targets.
    y_test : array-like of shape (n_test,)
        Test targets.
    n_directions : float
        Number of directions N: half the number of features for pairs of cosine and sine.
    alpha : float
        Ridge parameter, positive.

    Returns
    -------
    PredictedErrors

    Raises
    ------
    ValueError
        If there are no moments, their shapes do not match, or n_directions or alpha is not positive.
    RuntimeError
        If the iteration for the ridges does not converge, for example because a matrix of moments is indefinite.

    Notes
    -----
    K_k and C_k are the moments `train` and `cross` of function k. The effective ridges lambda_k solve

    .. math:: \lambda_k = \alpha + \frac{1}{N} \operatorname{tr} K_k R, \qquad R = (I + \sum_k K_k / \lambda_k)^{-1},

    and R / alpha is the deterministic equivalent of ``(Z Z^T + alpha I)^{-1}``. The mean prediction is ``A y`` with
    ``A = sum_k C_k R / lambda_k``. Let ``T_kl = tr(K_k R K_l R) / (N lambda_l^2)`` and ``q_k = y^T R K_k R y``, and let
    theta_k be the expected square of ``f_k(x_t) - A_t f_k(X)``, averaged over the test rows. Then

    .. math::
        \text{variance} = \frac{1}{N} \sum_{kl} \frac{\theta_k}{\lambda_k^2} [(I - T)^{-1}]_{kl} q_l, \qquad
        \text{train} = \frac{1}{n} \Big( |R y|^2 + \sum_{kl} v_k [(I - T)^{-1}]_{kl} q_l \Big), \quad
        v_k = \frac{\operatorname{tr} R^2 K_k}{N \lambda_k^2}.

    **Error.** The relative error vanishes as n, N and the effective dimension of the rows grow together at fixed
    alpha. If there are as many features as rows, the smallest singular value of Z is about 1 / n. If alpha is far below
    the square of this value, the measured error varies strongly between draws, and the prediction is too large.

    **Cost.** O(k^2 n^3) for each of about ten steps of Newton's method, O(k n_test n^2) for the rest.

    **Differs from the source in** the number of functions, which is arbitrary, and in the scale. The source writes n
    lambda for alpha, omits the factor ``1 / sqrt(n_directions)`` of Z, and has delta_k = lambda_k / alpha - 1.

    References
    ----------
    Liao, Couillet, Mahoney (2020), *A random matrix analysis of random Fourier features: beyond the Gaussian kernel, a
    precise phase transition, and the corresponding double descent*, Theorems 1 to 3.

    Jacot, Simsek, Spadaro, Hongler, Gabriel (2020), *Implicit regularization of random feature models*: the
    effective ridge.

    Liu, Huang, Chen, Suykens (2021), *Random features for kernel approximation*, Section 7, Table 8 and Figure 5.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> rng = np.random.default_rng(0)
    >>> X, X_test = rng.standard_normal((2, 100, 50))
    >>> y, y_test = X[:, 0] + 0.3 * rng.standard_normal(100), X_test[:, 0]
    >>> moments = pm.theory.feature_moments(pm.kernels.Gaussian(length_scale=7.0), X, X_test)
    >>> for n_directions in (10, 50, 500):
    ...     print(round(pm.theory.predicted_errors(moments, y, y_test, n_directions=n_directions, alpha=1e-3).test, 2))
    1.1
    4.26
    0.23
    """
    y, y_test = np.asarray(y, dtype=np.float64), np.asarray(y_test, dtype=np.float64)
    if not moments:
        raise ValueError(f"`moments` must hold those of one feature function at least, got {moments!r}.")
    for one in moments:
        shapes = (one.train.shape, one.cross.shape, one.test.shape)
        expected = ((*y.shape, *y.shape), (*y_test.shape, *y.shape), y_test.shape)
        if y.ndim != 1 or y_test.ndim != 1 or shapes != expected:
            raise ValueError(f"`moments` must have the shapes {expected} that go with `y` and `y_test`, got {shapes}.")
    N = check_real("n_directions", n_directions, above=0.0)
    alpha = check_real("alpha", alpha, above=0.0)
    K = np.stack([one.train for one in moments])
    ridges, R, KR = _ridges(K, N, alpha)
    T = _traces_of_products(KR) / (N * ridges**2)
    amplified = np.linalg.inv(np.eye(len(K)) - T)
    A = np.einsum("k,kti->ti", 1 / ridges, np.stack([one.cross for one in moments])) @ R
    Ry = R @ y
    q = np.array([Ry @ K_k @ Ry for K_k in K])
    theta = np.array(
        [
            np.mean(one.test - 2 * np.einsum("ti,ti->t", A, one.cross) + np.einsum("ti,ti->t", A @ one.train, A))
            for one in moments
        ]
    )
    variance = float(theta / ridges**2 @ amplified @ q) / N
    bias = float(np.square(A @ y - y_test).mean())
    v = np.array([np.einsum("ij,ji->", R, KR_k) for KR_k in KR]) / (N * ridges**2)
    train = float(Ry @ Ry + v @ amplified @ q) / y.size
    return PredictedErrors(train, bias + variance, bias, variance, ridges)


def _rows(X: Any, X_test: Any) -> tuple[np.ndarray, np.ndarray]:
    X, X_test = np.asarray(X, dtype=np.float64), np.asarray(X_test, dtype=np.float64)
    if X.ndim != 2 or X_test.ndim != 2 or X.shape[1] != X_test.shape[1]:
        raise ValueError(f"`X_test` must have the columns of X, got {X_test.shape} for {X.shape}.")
    check_finite(X)
    check_finite(X_test)
    return X, X_test


def _traces_of_products(matrices: np.ndarray) -> np.ndarray:
    """Return ``tr(A_k A_l)`` (k, k) for matrices (k, n, n)."""
    k = len(matrices)
    return matrices.reshape(k, -1) @ matrices.transpose(0, 2, 1).reshape(k, -1).T


def _ridges(K: np.ndarray, N: float, alpha: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ridges (k,), ``R`` (n, n) and ``K_k R`` (k, n, n) at the fixed point.

    Newton's method in ``u = log(lambda)`` solves ``u_k = log(alpha + tr(K_k R) / N)``. The Jacobian is ``I - J``, where
    J >= 0 has row sums ``tr(K_k R (I - R)) / (N alpha + tr(K_k R)) < 1``. It is therefore invertible everywhere, and a
    sufficiently short step always lowers the largest residual.
    """
    identity = np.eye(K.shape[1])

    def residual(u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        R = cho_solve(cho_factor(identity + np.einsum("k,kij->ij", np.exp(-u), K)), identity)
        KR = K @ R
        right = alpha + np.einsum("kii->k", KR) / N
        return u - np.log(right), right, R, KR

    # The start is alpha, because all ridges are larger than alpha, and the residual at alpha is negative.
    u = np.full(len(K), np.log(alpha))
    gap, right, R, KR = residual(u)
    for _ in range(_MOST_STEPS):
        size = np.abs(gap).max()
        if size <= _TOLERANCE:
            return np.exp(u), R, KR
        J = _traces_of_products(KR) / (N * right[:, None] * np.exp(u))
        step = np.clip(np.linalg.solve(J - np.eye(len(K)), gap), -_LONGEST_STEP, _LONGEST_STEP)
        for _ in range(_MOST_HALVINGS):
            tried = residual(u + step)
            if np.abs(tried[0]).max() < size:
                break
            step = step / 2
        else:
            # If no step reduces the residual, either it consists of rounding errors, or the matrices are not moments.
            if size <= np.sqrt(_TOLERANCE):
                return np.exp(u), R, KR
            break
        u = u + step
        gap, right, R, KR = tried
    raise RuntimeError(
        f"the effective ridges were not found: relative residual {np.abs(gap).max():.2g} at alpha={alpha:g} and "
        f"n_directions={N:g}. Use a larger alpha, and matrices of moments without negative eigenvalues."
    )
