"""Asymptotic errors of regression on random features, with the variance by its sources, and of classification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from phimap._validation import check_real
from phimap.theory.moments import covariate_moments


@dataclass(frozen=True)
class AsymptoticErrors:
    """Parts of the limit of the excess risk, whose sum is `test`.

    Attributes
    ----------
    bias : float
        Squared error of the mean prediction, which is the average over label noise, directions and training rows.
    noise : float
        Mean variance due to the label noise, with directions and rows fixed.
    initialization : float
        Mean variance due to the random directions, after averaging over the noise, with rows fixed.
    sampling : float
        Variance due to the training rows, after averaging over noise and directions.
    effective_ridge : float
        The prediction averaged over directions equals the prediction of the kernel of infinitely many features with
        this ridge.
    """

    bias: float
    noise: float
    initialization: float
    sampling: float
    effective_ridge: float

    @property
    def test(self) -> float:
        """Excess risk: the mean squared difference of prediction and noise-free target at a new row."""
        return self.bias + self.noise + self.initialization + self.sampling


class _Traces(NamedTuple):
    """Limits of normalised traces of resolvents at a ridge rho.

    The matrices are ``S = X X^T / d`` and ``C = X^T X / d``, for n Gaussian rows X of d columns.

    Attributes
    ----------
    first, second : float
        ``tr (C + rho)^-1 / d`` and ``tr (C + rho)^-2 / d``.
    dual_first, dual_second : float
        ``tr (S + rho)^-1 / n`` and ``tr (S + rho)^-2 / n``.
    """

    first: float
    second: float
    dual_first: float
    dual_second: float


def asymptotic_errors(
    activation: Any, psi_1: float, psi_2: float, *, alpha: float, signal: float = 1.0, noise: float = 0.0
) -> AsymptoticErrors:
    r"""Excess risk of ridge regression on random features of Gaussian rows, as n, d and s grow together.

    The model is ``argmin_w |y - Z w|^2 + alpha |w|^2`` with ``Z = sigma(X W) / sqrt(s)``, for n rows
    ``x ~ N(0, I_d)``, s directions ``w ~ N(0, I_d / d)`` and targets ``y = <x, beta> + noise``.

    Parameters
    ----------
    activation : str or callable
        The function sigma, see `gaussian_moments`. It must have a linear part: ``E t sigma(t)`` is not 0.
    psi_1 : float
        Limit of d / n.
    psi_2 : float
        Limit of s / n; above 1 the model has more features than rows.
    alpha : float
        Ridge parameter, positive.
    signal : float, default=1.0
        ``|beta|^2``, the variance of the target function.
    noise : float, default=0.0
        Variance of the label noise. A part of the target that is not linear in x acts like noise with the variance of
        this part. The risk then also contains this variance.

    Returns
    -------
    AsymptoticErrors

    Raises
    ------
    ValueError
        If a number is out of range, or the activation has no linear part.

    Notes
    -----
    Let ``mu_1 = E t sigma(t)`` and ``mu_*^2 = E sigma(t)^2 - mu_0^2 - mu_1^2`` for standard Gaussian t. In the limit
    the mean over directions of ``Z Z^T`` is ``K = mu_1^2 S + mu_*^2 I`` with ``S = X X^T / d``. The term of mu_0^2 has
    rank one and vanishes in the limit. Three steps lead to the parts.

    1. *Directions.* As in `predicted_errors`, with ``lambda = alpha + (lambda / s) tr K (K + lambda)^-1`` the mean
       prediction is kernel ridge regression with K and lambda, and the variance at a new row u is
       ``(theta / s) y^T M K M y / (1 - tr (K M)^2 / s)`` with ``M = (K + lambda)^-1``, and theta the mean of
       ``k(u, u) - 2 c^T M c + c^T M K M c`` for the kernel k of K and ``c = mu_1^2 X u / d``.
    2. *Noise.* The mean prediction is linear in x, with the coefficients of ridge regression on the rows themselves,
       ``(C + rho)^-1 X^T y / d`` for ``C = X^T X / d`` and ``rho = (mu_*^2 + lambda) / mu_1^2``. Both quadratic forms
       in y split into signal and noise.
    3. *Rows.* C has the Marchenko-Pastur law: ``m = tr (C + rho)^-1 / d`` solves ``m (rho + c / (1 + m)) = 1`` with
       ``c = n / d``, and ``m_2 = tr (C + rho)^-2 / d = -dm / d rho``. A new row has the covariance I, so that the parts
       are functions of m and m_2:

    .. math::
        \text{bias} &= |\beta|^2 \rho^2 m^2, \qquad \text{sampling} = |\beta|^2 \rho^2 (m_2 - m^2), \\
        \theta &= \mu_*^2 + \mu_1^2 \rho m - \lambda (m - \rho m_2)

    The mean prediction has the noise variance ``noise (m - rho m_2)``. The variance of step 1 adds its term of the
    label noise to `noise`; its term of the signal is `initialization`.

    **Error.** Exact in the limit. At n = 100 and more the measured mean risk differs by a few percent; near psi_2 = 1
    with a small alpha single draws vary strongly.

    **Cost.** One scalar equation.

    **Differs from the source in** the derivation, which reduces the split of d'Ascoli et al. to the deterministic
    equivalent of `predicted_errors`; and in alpha, which is n / d times the lambda of Mei and Montanari. Their risk is
    the same number: the tests compare the two.

    References
    ----------
    Mei, Montanari (2019), *The generalization error of random features regression*, Theorem 2; d'Ascoli, Refinetti,
    Biroli, Krzakala (2020), *Double trouble in double descent: bias and variance(s) in the lazy regime*, Section 3;
    Liu, Huang, Chen, Suykens (2021), *Random features for kernel approximation*, Section 7.1 and Table 8.

    Examples
    --------
    >>> import phimap as pm
    >>> for psi_2 in (0.3, 1.0, 3.0):
    ...     found = pm.theory.asymptotic_errors("relu", 0.5, psi_2, alpha=1e-3, noise=0.1)
    ...     parts = (found.test, found.bias, found.noise, found.initialization, found.sampling)
    ...     print(*(round(part, 2) for part in parts))
    0.93 0.39 0.04 0.47 0.03
    2.14 0.06 0.58 1.47 0.02
    0.28 0.05 0.09 0.11 0.02
    """
    d, s = check_real("psi_1", psi_1, above=0.0), check_real("psi_2", psi_2, above=0.0)
    alpha = check_real("alpha", alpha, above=0.0)
    signal, noise = check_real("signal", signal, least=0.0), check_real("noise", noise, least=0.0)
    functions = covariate_moments(activation, 1.0)
    # Numbers of columns and directions are in units of the number of rows; a and b are mu_1^2 and mu_*^2.
    a, b = functions[0].mu1 ** 2, functions[0].mu_star ** 2
    if len(functions) != 1 or not a > np.finfo(np.float64).eps * (a + b):
        raise ValueError(
            f"`activation` must be one function with a linear part, got {activation!r}. Use feature_moments and "
            "predicted_errors."
        )

    def traces(ridge: float) -> _Traces:
        return _marchenko_pastur((b + ridge) / a, d)

    def excess(log_ridge: float) -> float:
        ridge = float(np.exp(log_ridge))
        return 1.0 - alpha / ridge - (1.0 - ridge / a * traces(ridge).dual_first) / s

    least, most = np.log(alpha), np.log(alpha + 2 * (a + b) / s)
    root: Any = brentq(excess, least, most, xtol=1e-13)
    ridge = float(np.exp(root))
    rho, (m, m_2, dual, dual_2) = (b + ridge) / a, traces(ridge)
    # Step 1 of the notes: the variance over directions is `amplified` times the quadratic form y^T M K M y / n in the
    # targets. `of_signal` and `of_noise` are the means of this form for a signal and for noise of variance 1.
    theta = b + a * rho * m - ridge * (m - rho * m_2)
    amplified = theta / s / (1.0 - (1.0 - 2 * ridge / a * dual + (ridge / a) ** 2 * dual_2) / s)
    of_signal = d * ((1.0 - rho * m) / a - ridge / a**2 * (m - rho * m_2))
    of_noise = dual / a - ridge / a**2 * dual_2
    return AsymptoticErrors(
        bias=signal * (rho * m) ** 2,
        noise=noise * (m - rho * m_2 + amplified * of_noise),
        initialization=signal * amplified * of_signal,
        sampling=signal * rho**2 * (m_2 - m**2),
        effective_ridge=ridge,
    )


def asymptotic_classification_error(
    activation: Any, psi_1: float, psi_2: float, *, alpha: float, flips: float = 0.0
) -> float:
    r"""Share of wrong signs of ridge regression on labels 1 and -1, in the limit of `asymptotic_errors`.

    Labels are the signs of ``<x, beta>``, each flipped with probability `flips`. The prediction is the sign of the
    model that `asymptotic_errors` describes, fitted to the labels.

    Parameters
    ----------
    activation : str or callable
        The function sigma with a linear part, see `gaussian_moments`.
    psi_1, psi_2 : float
        Limits of d / n and s / n.
    alpha : float
        Ridge parameter, positive.
    flips : float, default=0.0
        Probability that a training label is flipped, at least 0 and below 1/2.

    Returns
    -------
    float
        Probability that the predicted sign at a new row differs from the sign of ``<x, beta>``. If the labels of new
        rows are flipped, too, the share of wrong signs is ``flips + (1 - 2 flips) error``.

    Raises
    ------
    ValueError
        If a number is out of range, or the activation has no linear part.

    Notes
    -----
    For ``|beta| = 1`` and ``g = <x, beta>`` the label is ``y = b g + r`` with
    ``b = E y g = (1 - 2 flips) (2 / pi)^(1/2)``. The rest r is not correlated with x and acts like noise, of variance
    ``1 - b^2``: the fit equals the fit of regression with the signal ``b^2``. Let f be the prediction at a new row. The
    prediction averaged over noise, directions and rows is ``(1 - rho m) b g``, of which `asymptotic_errors` gives the
    bias ``b^2 (rho m)^2``, so that

    .. math:: E f g = b - \sqrt{\text{bias}}, \qquad E f^2 = \text{test} + 2 b E f g - b^2.

    Both are the same for almost all fits, since they concentrate. A sum of many features of x, f is Gaussian jointly
    with g, and their signs differ with probability ``arccos(E f g / (E f^2)^(1/2)) / pi``.

    **Error.** Exact in the limit. At n = 400 the means of 100 draws were within .002 of it in six cases.

    **Cost.** As for `asymptotic_errors`.

    **Differs from the source in** the loss: only the squared loss is covered, which needs no equations beyond those of
    regression.

    References
    ----------
    Gerace, Loureiro, Krzakala, Mezard, Zdeborova (2020), *Generalisation error in learning with random features and
    the hidden manifold model*; Liu, Huang, Chen, Suykens (2021), *Random features for kernel
    approximation*, Table 8.

    Examples
    --------
    >>> import phimap as pm
    >>> for psi_2 in (0.3, 1.0, 3.0):
    ...     print(round(pm.theory.asymptotic_classification_error("relu", 0.5, psi_2, alpha=1e-3), 3))
    0.368
    0.395
    0.257
    """
    flips = check_real("flips", flips, least=0.0)
    if flips >= 0.5:
        raise ValueError(f"`flips` must be below 0.5, got {flips}.")
    signal = (1 - 2 * flips) ** 2 * 2 / np.pi
    found = asymptotic_errors(activation, psi_1, psi_2, alpha=alpha, signal=signal, noise=1 - signal)
    overlap = signal**0.5 - found.bias**0.5
    square = found.test + 2 * signal**0.5 * overlap - signal
    return float(np.arccos(overlap / square**0.5) / np.pi)


def _marchenko_pastur(rho: float, psi_1: float) -> _Traces:
    """Traces of resolvents at a ridge `rho`, for n Gaussian rows of ``psi_1 n`` columns."""
    # The positive root m of rho m^2 + (rho + c - 1) m - 1 = 0 with c = 1 / psi_1, in the form without cancellation.
    linear = rho + 1.0 / psi_1 - 1.0
    root = np.hypot(linear, 2 * rho**0.5)
    m = (root - linear) / (2 * rho) if linear < 0 else 2.0 / (root + linear)
    m_2 = (m**2 + m) / root
    # S and C have the same eigenvalues, except for n - d zeros.
    zeros = 1.0 - psi_1
    return _Traces(float(m), float(m_2), float(psi_1 * m + zeros / rho), float(psi_1 * m_2 + zeros / rho**2))
