"""Mixtures of ternary functions whose mean kernel matches a target in up to three Hermite degrees."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from phimap._validation import check_real
from phimap.theory.moments import hermite_energies
from phimap.theory.ternary import Ternary, check_two_or_three, check_varies, ternary_thresholds

# Largest absolute threshold in standard deviations, and number of thresholds on the grid. About one of 700 values
# exceeds a threshold of 3. A function with a larger threshold would need a large height. At finite width it would then
# dominate all other functions.
_LARGEST, _STEPS = 3.0, 61


class TernaryMixture(NamedTuple):
    """Ternary functions of equal height, with the share of the features that uses each function.

    Attributes
    ----------
    functions : tuple of Ternary
        Functions of the mixture; each feature uses one of them.
    shares : tuple of float
        For each function, the share of the features that uses it. The shares sum to 1.
    """

    functions: tuple[Ternary, ...]
    shares: tuple[float, ...]

    def assign(self, n_components: int) -> np.ndarray:
        """Return the index (m,) of the function that each of `n_components` features uses.

        For every k, the first k features have these shares, up to a few features.
        """
        # Any number of successive multiples of the golden ratio, modulo 1, are evenly spread over [0, 1).
        golden = (5**0.5 - 1) / 2
        places = (0.5 + golden * np.arange(n_components)) % 1.0
        return np.searchsorted(np.cumsum(self.shares)[:-1], places, side="right")


def ternary_mixture(target: Any, tau: float, *, degrees: int = 3) -> TernaryMixture:
    r"""Find ternary functions whose mean kernel has the target's first Hermite coefficients and the least variance.

    .. math:: \sum_j p_j c_k(\sigma_j)^2 = c_k(\sigma)^2,\quad c_k(\sigma) = \mathbb{E}\,\sigma(\sqrt\tau z) h_k(z),
        \quad k = 1, \dots, \text{degrees}

    Here :math:`\sigma` is the target, :math:`\sigma_j` are the ternary functions, :math:`p_j` is the share of features
    that use :math:`\sigma_j`, and :math:`h_k` is the normalised Hermite polynomial of degree k.

    Parameters
    ----------
    target : activation or kernel
        As in `gaussian_moments`.
    tau : float
        Variance of the function's argument: the mean squared norm of the data.
    degrees : {2, 3}, default=3
        Number of Hermite degrees matched; the first two correspond to the moments d1 and d2.

    Returns
    -------
    TernaryMixture
        Mixture of at most `degrees` functions. If no mixture matches, its only function is the function of
        `ternary_thresholds`.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the target is constant.

    Warns
    -----
    UserWarning
        If no mixture matches these degrees, for example if the target is even.

    Notes
    -----
    For rows of squared norm tau whose cosine is r, the kernel of a function is ``sum_k c_k^2 r^k``. Theorem 1 of the
    source concerns r near 0, where degrees 1 and 2 dominate. On real data r is 0.3 or 0.6, and degree 3 matters too. At
    much higher degrees ``r^k`` is nearly 0 for different rows, so that these degrees only add to the diagonal of the
    kernel matrix. This acts as regularisation, which a learner can increase but not reduce. Among the mixtures that
    match the target, the mixture with the least sum of ``c_k^2`` over all degrees is taken. This sum is the variance of
    the function's values. All functions have the same height (their absolute value where they are not 0), so that
    features are integers times one scale. The unknowns ``height^2 p_j`` solve a linear program, with one candidate for
    each pair of thresholds on a grid, and one equation for each matched degree. Its solution has at most as many
    functions as equations.

    **Differs from the source in** using several functions; the source has one.

    References
    ----------
    Ali, Liao, Couillet (2022), *Random matrices in service of ML footprint: ternary random features with no
    performance loss*, Corollary 1 (degrees 1 and 2, one function).

    Examples
    --------
    >>> import phimap as pm
    >>> mixture = pm.theory.ternary_mixture(pm.kernels.Gaussian(), tau=1.34)
    >>> [round(float(share), 3) for share in mixture.shares]
    [0.575, 0.374, 0.051]
    """
    from scipy.optimize import linprog

    tau = check_real("tau", tau, above=0.0)
    check_two_or_three("degrees", degrees)
    wanted, variance = hermite_energies(target, tau, degrees)
    check_varies(variance, tau)
    grid = np.linspace(-_LARGEST, _LARGEST, _STEPS)
    low, high = np.triu_indices(_STEPS)
    lower = np.concatenate([grid[low], np.full(_STEPS, -np.inf)])
    upper = np.concatenate([grid[high], grid])
    steps = _step_coefficients(grid, degrees)
    energies = np.square(np.concatenate([steps[:, low] + steps[:, high], steps], axis=1))
    above, below = ndtr(-upper), ndtr(lower)
    solution = linprog(above + below - (above - below) ** 2, A_eq=energies, b_eq=wanted / variance)
    if solution.status != 0:
        warnings.warn(
            f"no mixture of ternary functions has degrees 1 to {degrees} of this target at tau={tau:.3g}; one function "
            "is taken.",
            UserWarning,
            stacklevel=2,
        )
        return TernaryMixture((ternary_thresholds(target, tau),), (1.0,))
    chosen = np.flatnonzero(solution.x > 0)
    # The equations are solved again for the selected functions only, to full accuracy.
    weights = np.linalg.lstsq(energies[:, chosen], wanted, rcond=None)[0]
    height = float(weights.sum() ** 0.5)
    scale = tau**0.5
    functions = tuple(Ternary(float(lower[j] * scale), float(upper[j] * scale), height) for j in chosen)
    return TernaryMixture(functions, tuple(float(weight) for weight in weights / weights.sum()))


def _step_coefficients(thresholds: np.ndarray, degrees: int) -> np.ndarray:
    """Return Hermite coefficients 1, 2, ... (degrees, n) of the step functions that are 1 for z > threshold, else 0."""
    density = np.exp(-0.5 * thresholds**2) / (2 * np.pi) ** 0.5
    # The coefficient c_k is the normal density times h_{k-1} / sqrt(k), both evaluated at the threshold.
    polynomials = [np.ones_like(thresholds), thresholds, (thresholds**2 - 1) / 2**0.5]
    return np.stack([density * polynomials[k] / (k + 1) ** 0.5 for k in range(degrees)])
