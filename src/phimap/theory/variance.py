"""Variance and bias of estimates of the Gaussian kernel: the survey's Section 3.1 as functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import hyp1f1

from phimap._validation import check_choice, check_integer

#: tau squared, number of directions, columns or None -> values of the shape of tau squared.
Formula = Callable[[np.ndarray, int, int], np.ndarray]


@dataclass(frozen=True)
class _Estimator:
    """One row of the table in `estimator_variance`."""

    variance: Formula | None
    bias: Formula
    needs_d: bool = False


def estimator_variance(method: str, tau: Any, s: int, d: int | None = None) -> Any:
    """Variance of a random-feature estimate of the Gaussian kernel ``exp(-tau^2 / 2)`` at one pair of points.

    Parameters
    ----------
    method : str
        A row of the table below.
    tau : float or array-like
        Distances of the points in length scales, ``|x - y| / length_scale``, at least 0.
    s : int
        Number of directions: half the width of paired features, the width of features with an offset.
    d : int, optional
        Columns of the data; needed where the table says so.

    Returns
    -------
    float or ndarray of the shape of tau

    Raises
    ------
    ValueError
        If the method has no formula, tau is negative or not finite, s or d is below 1, or d is missing.

    Notes
    -----
    With ``E = exp(-tau^2)`` and ``F = 1F1(d; d/2; -tau^2 / 2)``, Kummer's function:

    ============================ ======================================== =========== ===========================
    method                       variance                                 kind        features
    ============================ ======================================== =========== ===========================
    ``"gaussian"``               ``V = (1 - E)^2 / (2 s)``                exact       [cos, sin]
    ``"gaussian-offset"``        ``U = (1 + E^2 / 2 - E) / s``            exact       cos(w.x + b)
    ``"gaussian-normalized"``    ``U - E (3 - E^2) / (4 s)``              leading     the same, of norm 1
    ``"orthogonal"`` (d)         ``V + (p / s^2) (F - E)``                exact       [cos, sin]
    ``"orthogonal-offset"`` (d)  ``U + (p / s^2) (F - E)``                exact       cos(w.x + b)
    ``"fastfood"``               ``V + 6 tau^4 (E + tau^2 / 3) / s``      upper bound [cos, sin]
    ============================ ======================================== =========== ===========================

    p counts the ordered pairs of different directions in one block, ``b d (d - 1) + r (r - 1)`` for s = b d + r.
    The norm of ``w_i +- w_j`` is chi-distributed with 2 d degrees of freedom, its direction is uniform: the
    covariance of such a pair is F - E, to order 1/d ``-E tau^4 / (2 d)``.

    Normalised features: the estimate is the quotient ``mean(f g) / sqrt(mean(f^2) mean(g^2))`` with ``f = sqrt(2)
    cos(w.x + b)``, and the delta method gives the variance to an error of order ``s^-2``. b is uniform, so neither the
    norms of x and y nor d enter. Normalising pairs changes nothing: their norm is 1.

    SORF, ROM, the P-model, circulant directions and quasi-Monte Carlo have no formula in tau, s and d. For SORF
    `estimator_bias` has a bound. Rows of a circulant block have the covariance ``E (cosh(c_ij) - 1)``, c_ij
    being the autocorrelation of (x - y) / length_scale at lag i - j: it depends on the direction of x - y.

    **Error.** The kinds above; F is evaluated to about 1e-13.

    **Differs from the source in** four points. The survey's variance of NRFF subtracts from the variance of
    [cos, sin], and is negative for small tau; what Li (2017) subtracts from is that of offsets. Its ratio for ORF holds
    for one block, s <= d; beyond, s - 1 becomes p / s. Circulant directions do not have the variance of independent
    ones: the covariances above are positive, and for x - y in a random direction double it at small tau. SORF's
    6 tau / sqrt(d) bounds a bias.

    References
    ----------
    Liu, Huang, Chen, Suykens, "Random Features for Kernel Approximation: A Survey on Algorithms, Theory, and
    Beyond", TPAMI 2021, Section 3.1.

    Sutherland, Schneider, "On the Error of Random Fourier Features", UAI 2015 (both forms).

    Li, "Linearized GMM Kernels and Normalized Random Fourier Features", KDD 2017.

    Yu, Suresh, Choromanski, Holtmann-Rice, Kumar, "Orthogonal Random Features", NeurIPS 2016.

    Le, Sarlos, Smola, "Fastfood: Approximating Kernel Expansions in Loglinear Time", ICML 2013.

    Examples
    --------
    >>> import phimap as pm
    >>> plain = pm.theory.estimator_variance("gaussian", 1.0, s=64)
    >>> orthogonal = pm.theory.estimator_variance("orthogonal", 1.0, s=64, d=64)
    >>> round(orthogonal / plain, 3)
    0.098
    """
    return _evaluate("variance", method, tau, s, d)


def estimator_bias(method: str, tau: Any, s: int, d: int | None = None) -> Any:
    """Mean error of a random-feature estimate of the Gaussian kernel, or a bound on its absolute value.

    Parameters
    ----------
    method : str
        A method of `estimator_variance`, or ``"sorf"``, which needs d.
    tau : float or array-like
        Distances of the points in length scales.
    s : int
        Number of directions.
    d : int, optional
        Columns of the data, padded to a power of two for SORF.

    Returns
    -------
    float or ndarray of the shape of tau
        0 for unbiased estimates; ``-exp(-tau^2 / 2) (1 - exp(-2 tau^2)) / (8 s)`` for ``"gaussian-normalized"``, to
        leading order in 1/s; the bound ``6 tau / sqrt(d)`` of the absolute value for ``"sorf"``.

    Raises
    ------
    ValueError
        As `estimator_variance`.

    References
    ----------
    Liu, Huang, Chen, Suykens, "Random Features for Kernel Approximation: A Survey on Algorithms, Theory, and
    Beyond", TPAMI 2021, Section 3.1; Yu et al., "Orthogonal Random Features", NeurIPS 2016.

    Examples
    --------
    >>> import phimap as pm
    >>> pm.theory.estimator_bias("sorf", 0.5, s=64, d=4096)
    0.046875
    """
    return _evaluate("bias", method, tau, s, d)


def _evaluate(what: str, method: str, tau: Any, s: int, d: int | None) -> Any:
    known = {name: one for name, one in _ESTIMATORS.items() if getattr(one, what) is not None}
    estimator = known[check_choice("method", method, tuple(known))]
    distances = np.asarray(tau, dtype=np.float64)
    # The test is not "below", so that what is not a number fails, too.
    if not (np.isfinite(distances).all() and (distances >= 0).all()):
        raise ValueError(f"`tau` must be finite distances of at least 0, got {tau!r}.")
    s = check_integer("s", s, least=1)
    if d is None:
        if estimator.needs_d:
            raise ValueError(f"`d` must be given for {method!r}, got None. Give the number of columns of the data.")
        d = 0
    else:
        d = check_integer("d", d, least=1)
    found = getattr(estimator, what)(distances**2, s, d)
    return float(found) if distances.ndim == 0 else found


def _pairs(tau2: np.ndarray, s: int, d: int) -> np.ndarray:
    return np.expm1(-tau2) ** 2 / (2 * s)


def _offset(tau2: np.ndarray, s: int, d: int) -> np.ndarray:
    return (1 + np.exp(-2 * tau2) / 2 - np.exp(-tau2)) / s


def _normalized(tau2: np.ndarray, s: int, d: int) -> np.ndarray:
    # U - E (3 - E^2) / 4 with 1 - E as a factor, twice: nothing cancels at small tau.
    rest = -np.expm1(-tau2)
    return rest**2 * (1 + np.exp(-tau2) / 4) / s


def _in_blocks(independent: Formula) -> Formula:
    """That of independent directions, with the covariances in orthogonal blocks of d."""

    def variance(tau2: np.ndarray, s: int, d: int) -> np.ndarray:
        blocks, rest = divmod(s, d)
        pairs = blocks * d * (d - 1) + rest * (rest - 1)
        covariance = hyp1f1(d, d / 2, -tau2 / 2) - np.exp(-tau2)
        return independent(tau2, s, d) + pairs / s**2 * covariance

    return variance


def _fastfood(tau2: np.ndarray, s: int, d: int) -> np.ndarray:
    return _pairs(tau2, s, d) + 6 * tau2**2 * (np.exp(-tau2) + tau2 / 3) / s


def _unbiased(tau2: np.ndarray, s: int, d: int) -> np.ndarray:
    return np.zeros_like(tau2)


def _normalized_bias(tau2: np.ndarray, s: int, d: int) -> np.ndarray:
    return np.exp(-tau2 / 2) * np.expm1(-2 * tau2) / (8 * s)


def _sorf_bias(tau2: np.ndarray, s: int, d: int) -> np.ndarray:
    return 6 * np.sqrt(tau2 / d)


_ESTIMATORS = {
    "gaussian": _Estimator(_pairs, _unbiased),
    "gaussian-offset": _Estimator(_offset, _unbiased),
    "gaussian-normalized": _Estimator(_normalized, _normalized_bias),
    "orthogonal": _Estimator(_in_blocks(_pairs), _unbiased, needs_d=True),
    "orthogonal-offset": _Estimator(_in_blocks(_offset), _unbiased, needs_d=True),
    "fastfood": _Estimator(_fastfood, _unbiased),
    "sorf": _Estimator(None, _sorf_bias, needs_d=True),
}
