"""Generalised Gaussian moments of activations, which determine the spectrum of the kernel in high dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from phimap._validation import check_choice, check_real
from phimap.kernels import ActivationKernel, Gaussian, Kernel
from phimap.ops.activations import FUNCTIONS

Activation = Callable[[np.ndarray], Any]

#: Activations by name, as functions of float64 arrays.
NAMED: dict[str, Activation] = {
    **FUNCTIONS,
    "identity": lambda t: t,
    "quadratic": np.square,
    "relu": lambda t: np.maximum(t, 0),
    "step": lambda t: np.where(t > 0, 1.0, 0.0),
}

# Gaussian integrals are computed up to `_REACH` standard deviations, in panels of the width `_PANEL`, each with
# `_NODES` Gauss-Legendre nodes. The density beyond `_REACH` is below 1e-145, so activations may grow like exp(10 t).
_REACH, _PANEL, _NODES = 26.0, 2.0, 20
# Share of a panel's width at which it is split. It is not 1/2: for a jump in the middle of a panel, the sum over two
# halves could agree with the whole although both are wrong.
_SPLIT = 0.382
# Maximum number of successive splits of a panel, which locate a jump to a width of 1e-13. Maximum number of panels,
# which only an activation with more than a thousand jumps reaches.
_DEPTH, _MOST_PANELS = 64, 2000
# A panel is split again if a split changes its integral by more than this share of the sum of the absolute integrals of
# all panels.
_TOLERANCE = 1e-14
# A variance below this share of the second moment counts as zero.
_NOISE = 1e-12


class GaussianMoments(NamedTuple):
    """Moments of an activation sigma under ``t ~ N(0, tau)``. Derivatives are weak (distributional) derivatives.

    Attributes
    ----------
    d0 : float
        ``Var[sigma(t)] - tau d1``, the coefficient of the identity in the equivalent kernel.
    d1 : float
        ``E[sigma'(t)]^2``, the weight of inner products.
    d2 : float
        ``E[sigma''(t)]^2 / 4``, the weight of norms and covariances.
    """

    d0: float
    d1: float
    d2: float


class CovariateMoments(NamedTuple):
    """Coefficients of the Gaussian covariate ``mu0 + mu1 t + mu_star t'`` that replaces ``sigma(sqrt(tau) t)``.

    Here t and t' are independent and N(0, 1). The covariate has the mean and variance of ``sigma(sqrt(tau) t)``, and
    the same covariance with t.

    Attributes
    ----------
    mu0 : float
        ``E sigma``.
    mu1 : float
        ``E[t sigma]``.
    mu_star : float
        ``(E sigma^2 - mu0^2 - mu1^2)^(1/2)``.
    """

    mu0: float
    mu1: float
    mu_star: float


def covariate_moments(activation: Any, tau: float) -> tuple[CovariateMoments, ...]:
    """Return coefficients of covariates that are equivalent to random features of Gaussian data in high dimension.

    Parameters
    ----------
    activation : str, callable, kernel, or sequence of these
        See `gaussian_moments`.
    tau : float
        Variance of ``w.x``: the mean squared norm of the data.

    Returns
    -------
    tuple of CovariateMoments
        Coefficients for each function; `Gaussian` has two functions, a cosine and a sine.

    Raises
    ------
    ValueError
        Under the same conditions as in `gaussian_moments`.

    Notes
    -----
    ``mu1^2 = tau d1`` and ``mu_star^2 = d0``, with d0 and d1 from `gaussian_moments`. The integrals have the same error
    as there. The survey prints mu_star without the square root.

    References
    ----------
    Liu, Huang, Chen, Suykens (2021), *Random features for kernel approximation*, Section 7.1.

    Examples
    --------
    >>> import phimap as pm
    >>> ((mu0, mu1, mu_star),) = pm.theory.covariate_moments("relu", tau=1.0)
    >>> round(mu0, 6), round(mu1, 6), round(mu_star, 6)
    (0.398942, 0.5, 0.301405)
    """
    tau = check_real("tau", tau, above=0.0)
    found = []
    for function in activation_functions(activation):
        mean, first, square = _projections(function, tau, 1)
        rest = square - mean**2 - first**2
        found.append(CovariateMoments(float(mean), float(first), float(max(rest, 0.0) ** 0.5)))
    return tuple(found)


def gaussian_moments(activation: Any, tau: float) -> GaussianMoments:
    """Return generalised Gaussian moments of an activation, or their sum over several activations.

    Parameters
    ----------
    activation : str, callable, kernel, or sequence of these
        A name among ``"abs"``, ``"cos"``, ``"erf"``, ``"gelu"``, ``"identity"``, ``"leaky-relu"`` (slope 0.01),
        ``"quadratic"`` (t^2), ``"relu"``, ``"sign"``, ``"sin"``, ``"softplus"`` and ``"step"``; a function of
        float64 arrays; `Gaussian`, which means the pair of cosine and sine of ``t / length_scale``; or
        `ActivationKernel`. The moments of several activations, whose features are concatenated, are added.
    tau : float
        Variance of t: the mean squared norm of the data.

    Returns
    -------
    GaussianMoments

    Raises
    ------
    ValueError
        If tau is not positive, the name is unknown, or the activation is not finite or has no second moment.

    Notes
    -----
    By Stein's identity, ``E sigma' = E[t sigma] / tau`` and ``E sigma'' = E[(t^2 - tau) sigma] / tau^2``, so
    derivatives are not needed. The integrals are adaptive Gauss-Legendre sums, which are refined at jumps and kinks.
    Their error is about 1e-13 of the second moment.

    References
    ----------
    Ali, Liao, Couillet (2022), *Random matrices in service of ML footprint: ternary random features with no
    performance loss*, Theorem 1 and Table 1. In the table, the row for ternary functions is wrong (see `Ternary`), and
    the row for exp(t) holds for ``exp(-t^2 / 2)``.

    Examples
    --------
    >>> import phimap as pm
    >>> d0, d1, d2 = pm.theory.gaussian_moments("relu", tau=1.0)
    >>> round(d1, 6), round(d2, 6)
    (0.25, 0.039789)
    """
    tau = check_real("tau", tau, above=0.0)
    parts = [_moments(function, tau) for function in activation_functions(activation)]
    return GaussianMoments(*(float(sum(column)) for column in zip(*parts, strict=True)))


def hermite_energies(activation: Any, tau: float, degrees: int) -> tuple[np.ndarray, float]:
    """Return the squared Hermite coefficients 1 to `degrees` of ``z -> activation(sqrt(tau) z)``, and its variance.

    Values for several functions are added. The squared coefficients of degrees 1 and 2 are ``tau d1`` and
    ``2 tau^2 d2``.
    """
    energies, variance = np.zeros(degrees), 0.0
    for function in activation_functions(activation):
        mean, *coefficients, square = _projections(function, tau, degrees)
        if square - mean**2 > _NOISE * square:
            energies += np.square(coefficients)
            variance += float(square - mean**2)
    return energies, variance


def activation_functions(activation: Any) -> tuple[Activation, ...]:
    """Return the functions whose values are concatenated in the features of an activation or kernel."""
    if isinstance(activation, Gaussian):
        scale = activation.spectral_law(1).scale
        return (lambda t: np.cos(scale * t), lambda t: np.sin(scale * t))
    if isinstance(activation, ActivationKernel):
        return activation_functions(activation.activation)
    if isinstance(activation, str):
        return (NAMED[check_choice("activation", activation, tuple(sorted(NAMED)))],)
    if callable(activation) and not isinstance(activation, type | Kernel):
        return (activation,)
    if isinstance(activation, list | tuple) and activation:
        return tuple(function for part in activation for function in activation_functions(part))
    raise TypeError(
        "`activation` must be a name, a function, Gaussian, ActivationKernel or a sequence of these, "
        f"got {activation!r}."
    )


def _moments(function: Activation, tau: float) -> GaussianMoments:
    mean, first, second, square = _projections(function, tau, 2)
    variance = square - mean**2
    if variance <= _NOISE * square:
        return GaussianMoments(0.0, 0.0, 0.0)
    # The variance minus the linear term is a sum of squares, so a negative value can only be a rounding error.
    return GaussianMoments(max(variance - first**2, 0.0), first**2 / tau, second**2 / (2 * tau**2))


def _projections(function: Activation, tau: float, degrees: int) -> np.ndarray:
    """Return the means (degrees + 2,) of ``h_k(z) f(sqrt(tau) z)``, k = 0, ..., degrees, and of ``f(sqrt(tau) z)^2``.

    f is `function`, h_k are the normalised Hermite polynomials, and z is standard normal.
    """

    def integrands(z: np.ndarray) -> np.ndarray:
        values = np.asarray(function(tau**0.5 * z), dtype=np.float64)
        if values.shape != z.shape:
            raise ValueError("`activation` must give one real number for each it gets. Write it with array operations.")
        polynomials = [np.ones_like(z), z]
        for k in range(1, degrees):
            polynomials.append((z * polynomials[k] - k**0.5 * polynomials[k - 1]) / (k + 1) ** 0.5)
        density = np.exp(-0.5 * z * z) / (2 * np.pi) ** 0.5
        return density * values * np.stack([*polynomials[: degrees + 1], values])

    with np.errstate(over="ignore", invalid="ignore"):
        means = _integrate(integrands)
    if not np.isfinite(means).all():
        raise ValueError(f"`activation` must be finite with a second moment under N(0, {tau:g}), got {function!r}.")
    return means


def _integrate(integrands: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the integrals (k,) over the real line of k functions, by adaptive Gauss-Legendre sums.

    `integrands` maps points z (q,) to values (k, q).
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)

    def panels(starts: np.ndarray, widths: np.ndarray) -> np.ndarray:
        points = starts[:, None] + 0.5 * widths[:, None] * (1 + nodes)
        values = integrands(points.ravel())
        return 0.5 * widths * (values.reshape(-1, *points.shape) @ weights)

    starts = np.arange(-_REACH, _REACH, _PANEL)
    widths = np.full(starts.size, _PANEL)
    coarse = panels(starts, widths)
    allowed = _TOLERANCE * np.abs(coarse).sum()
    total = np.zeros(coarse.shape[0])
    for _ in range(_DEPTH):
        left = _SPLIT * widths
        fine = panels(np.concatenate([starts, starts + left]), np.concatenate([left, widths - left]))
        fine = fine.reshape(total.size, 2, -1)
        # Comparisons with NaN are false, so panels that contain NaN are not refined.
        again = np.abs(fine.sum(axis=1) - coarse).max(axis=0) > allowed
        total += fine[:, :, ~again].sum(axis=(1, 2))
        starts = np.concatenate([starts[again], (starts + left)[again]])
        widths = np.concatenate([left[again], (widths - left)[again]])
        coarse = fine[:, :, again].reshape(total.size, -1)
        if not again.any() or starts.size > _MOST_PANELS:
            break
    return total + coarse.sum(axis=1)
