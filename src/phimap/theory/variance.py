"""Variance and bias of random-feature estimates of the Gaussian kernel: Section 3.1 of the survey by Liu et al."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import hyp0f1, hyp1f1

from phimap._validation import check_choice, check_integer
from phimap.kernels.zonal import zonal_rule

# Number of columns up to which SciPy evaluates the Bessel function. For more columns factors of the formula can
# overflow or underflow. A midpoint rule is used instead, and is then exact up to rounding.
_MOST_BESSEL = 64

#: A function of tau squared, the number of directions s and the number of columns d; values have the shape of tau.
Formula = Callable[[np.ndarray, int, int], np.ndarray]


@dataclass(frozen=True)
class _Estimator:
    """Formulas of the variance and bias of one method; `needs_d` is true if the formulas depend on d."""

    variance: Formula | None
    bias: Formula
    needs_d: bool = False


def estimator_variance(method: str, tau: Any, s: int, d: int | None = None) -> Any:
    """Variance of a random-feature estimate of the Gaussian kernel ``exp(-tau^2 / 2)`` at one pair of points.

    Parameters
    ----------
    method : str
        Name of a row of the table below.
    tau : float or array-like
        Distances between the points in length scales, ``|x - y| / length_scale``, at least 0.
    s : int
        Number of directions: half the number of paired features, or the number of features with an offset.
    d : int, optional
        Number of columns of the data; required for the methods marked (d) in the table.

    Returns
    -------
    float or ndarray of the shape of tau

    Raises
    ------
    ValueError
        If the method has no formula, tau is negative or not finite, s or d is below 1, or a required d is missing.

    Notes
    -----
    With ``E = exp(-tau^2)``, ``F = 1F1(d; d/2; -tau^2 / 2)``, Kummer's function, and the normalised Bessel function
    ``B_r = 0F1(; d/2; -d r tau^2 / 4)``:

    ============================ ======================================== =========== ===========================
    method                       variance                                 kind        features
    ============================ ======================================== =========== ===========================
    ``"gaussian"``               ``V = (1 - E)^2 / (2 s)``                exact       [cos, sin]
    ``"gaussian-offset"``        ``U = (1 + E^2 / 2 - E) / s``            exact       cos(w.x + b)
    ``"gaussian-normalized"``    ``U - E (3 - E^2) / (4 s)``              leading     the same, of norm 1
    ``"orthogonal"`` (d)         ``V + (p / s^2) (F - E)``                exact       [cos, sin]
    ``"orthogonal-offset"`` (d)  ``U + (p / s^2) (F - E)``                exact       cos(w.x + b)
    ``"orthogonal-fixed"`` (d)   ``((1 + B_4) / 2 - B_1^2) / s + (p /     exact       [cos, sin], all ``|w|^2 = d``
                                 s^2) (B_2 - B_1^2)``
    ``"fastfood"``               ``V + 6 tau^4 (E + tau^2 / 3) / s``      upper bound [cos, sin]
    ============================ ======================================== =========== ===========================

    p is the number of ordered pairs of different directions within the same block, ``b d (d - 1) + q (q - 1)`` for s =
    b d + q. The norm of ``w_i +- w_j`` is chi-distributed with 2 d degrees of freedom and its direction is uniform, so
    the covariance of such a pair is F - E, which is ``-E tau^4 / (2 d)`` to order 1/d.

    B_r is the mean cosine of a uniform direction of norm ``sqrt(d)`` at the distance ``sqrt(r) tau``. Without radii
    from the law all directions have this norm, and the sum and the difference of two orthogonal directions have the
    norm ``sqrt(2 d)``. The estimate then has the mean B_1, see `estimator_bias`. Structured projections with
    ``radii="fixed"`` come close to these directions.

    For normalised features the estimate is the quotient ``mean(f g) / sqrt(mean(f^2) mean(g^2))`` with
    ``f = sqrt(2) cos(w.x + b)`` and ``g = sqrt(2) cos(w.y + b)``. The delta method gives the variance with an error of
    order ``s^-2``. Since b is uniform, the variance depends neither on the norms of x and y nor on d. Normalising pairs
    of cosine and sine has no effect, because their norm is 1.

    SORF, ROM, the P-model, circulant directions and quasi-Monte Carlo have no formula in tau, s and d. For SORF
    `estimator_bias` gives a bound. Rows of a circulant block have the covariance ``E (cosh(c_ij) - 1)``, where c_ij is
    the autocorrelation of (x - y) / length_scale at lag i - j; it depends on the direction of x - y.

    **Error.** See "kind" in the table; F is evaluated with an error of about 1e-13.

    **Differs from the source in** four points. The survey obtains the variance of normalised features (NRFF) by
    subtracting a term from the variance of [cos, sin], and the result is negative for small tau. Li (2017) subtracts
    the term from the variance with offsets. The survey's ratio of the variances of orthogonal (ORF) and independent
    directions holds for one block, s <= d; for several blocks, p / s replaces s - 1. Circulant directions do not have
    the variance of independent directions: the covariances above are positive, and for x - y in a random direction they
    double the variance at small tau. The survey's 6 tau / sqrt(d) for SORF is a bound on a bias.

    References
    ----------
    Liu, Huang, Chen, Suykens, "Random Features for Kernel Approximation: A Survey on Algorithms, Theory, and
    Beyond", TPAMI 2021, Section 3.1.

    Sutherland, Schneider, "On the Error of Random Fourier Features", UAI 2015 (both forms).

    Li, "Linearized GMM Kernels and Normalized Random Fourier Features", KDD 2017.

    Yu, Suresh, Choromanski, Holtmann-Rice, Kumar, "Orthogonal Random Features", NeurIPS 2016.

    Demni, Kadri, "Orthogonal Random Features: Explicit Forms and Sharp Inequalities", 2023.

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
    """Bias of a random-feature estimate of the Gaussian kernel, or a bound on the absolute value of the bias.

    Parameters
    ----------
    method : str
        A method of `estimator_variance`, or ``"sorf"``, which needs d.
    tau : float or array-like
        Distances between the points in length scales.
    s : int
        Number of directions.
    d : int, optional
        Number of columns of the data; for SORF after padding to a power of two.

    Returns
    -------
    float or ndarray of the shape of tau
        0 for unbiased estimates. For ``"gaussian-normalized"``, ``-exp(-tau^2 / 2) (1 - exp(-2 tau^2)) / (8 s)`` to
        leading order in 1/s. For ``"orthogonal-fixed"``, ``B_1 - exp(-tau^2 / 2)``, which is ``-tau^4 exp(-tau^2 / 2) /
        (4 d)`` to leading order in 1/d. For ``"sorf"``, the bound ``6 tau / sqrt(d)`` on the absolute value.

    Raises
    ------
    ValueError
        Under the same conditions as in `estimator_variance`.

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
    # The test is written as "not >=", so that it also fails for NaN.
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
    # This is U - E (3 - E^2) / (4 s), with the factor (1 - E)^2 taken out to avoid cancellation at small tau.
    rest = -np.expm1(-tau2)
    return rest**2 * (1 + np.exp(-tau2) / 4) / s


def _in_blocks(independent: Formula) -> Formula:
    """Add the covariances within orthogonal blocks of d directions to the variance of independent directions."""

    def variance(tau2: np.ndarray, s: int, d: int) -> np.ndarray:
        covariance = hyp1f1(d, d / 2, -tau2 / 2) - np.exp(-tau2)
        return independent(tau2, s, d) + _pair_share(s, d) * covariance

    return variance


def _pair_share(s: int, d: int) -> float:
    """Share of the ordered pairs of directions that are different directions of the same block of d directions."""
    blocks, rest = divmod(s, d)
    return (blocks * d * (d - 1) + rest * (rest - 1)) / s**2


def _mean_cosine(tau2: np.ndarray, d: int) -> np.ndarray:
    """Mean of ``cos(w.z)`` over uniform directions w of norm sqrt(d), for z with ``|z|^2`` = `tau2`."""
    if d <= _MOST_BESSEL:
        return hyp0f1(d / 2, -d * tau2 / 4)
    nodes, weights = zonal_rule(d)
    found = [np.cos(tau * nodes) @ weights for tau in np.sqrt(tau2).ravel()]
    return np.reshape(found, np.shape(tau2))


def _fixed_in_blocks(tau2: np.ndarray, s: int, d: int) -> np.ndarray:
    square = _mean_cosine(tau2, d) ** 2
    own = (1 + _mean_cosine(4 * tau2, d)) / 2 - square
    return own / s + _pair_share(s, d) * (_mean_cosine(2 * tau2, d) - square)


def _fixed_bias(tau2: np.ndarray, s: int, d: int) -> np.ndarray:
    return _mean_cosine(tau2, d) - np.exp(-tau2 / 2)


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
    "orthogonal-fixed": _Estimator(_fixed_in_blocks, _fixed_bias, needs_d=True),
    "fastfood": _Estimator(_fastfood, _unbiased),
    "sorf": _Estimator(None, _sorf_bias, needs_d=True),
}
