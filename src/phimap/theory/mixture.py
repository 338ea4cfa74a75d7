"""Several ternary functions side by side, whose mean kernel agrees with a target's in more than two degrees."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from phimap._validation import check_real
from phimap.theory.moments import hermite_energies
from phimap.theory.ternary import Ternary, check_two_or_three, check_varies, ternary_thresholds

# Thresholds in standard deviations. A function that is hardly ever crossed needs a height that drowns all others at
# finite width: beyond 3 of them one unit in 700 fires.
_LARGEST, _STEPS = 3.0, 61


class TernaryMixture(NamedTuple):
    """Ternary functions of one height and the shares of the features that take each.

    Attributes
    ----------
    functions : tuple of Ternary
    shares : tuple of float
        They sum to 1.
    """

    functions: tuple[Ternary, ...]
    shares: tuple[float, ...]

    def assign(self, n_components: int) -> np.ndarray:
        """The function of each of so many features (m,): any first ones have the shares, up to a few features."""
        # Multiples of the golden ratio are spread evenly over [0, 1), however many are taken.
        golden = (5**0.5 - 1) / 2
        places = (0.5 + golden * np.arange(n_components)) % 1.0
        return np.searchsorted(np.cumsum(self.shares)[:-1], places, side="right")


def ternary_mixture(target: Any, tau: float, *, degrees: int = 3) -> TernaryMixture:
    r"""Ternary functions whose mean kernel has the target's first Hermite coefficients, and the least variance.

    .. math:: \sum_j p_j c_k(\sigma_j)^2 = c_k(\sigma)^2,\quad c_k(\sigma) = \mathbb{E}\,\sigma(\sqrt\tau z) h_k(z),
        \quad k = 1, \dots, \text{degrees}

    Parameters
    ----------
    target : activation or kernel
        As in `gaussian_moments`.
    tau : float
        Variance of the function's argument: the mean squared norm of the data.
    degrees : {2, 3}, default=3
        Degrees matched; the first two are the moments d1 and d2.

    Returns
    -------
    TernaryMixture
        At most `degrees` functions; that of `ternary_thresholds` alone where no mixture matches.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the target is constant.

    Warns
    -----
    UserWarning
        If no mixture has these degrees, as for even functions.

    Notes
    -----
    On rows of squared norm tau, at the cosine r, the kernel of a function is ``sum_k c_k^2 r^k``. Theorem 1 is about r
    near 0, where degrees 1 and 2 decide; on real data r is 0.3 or 0.6, and the third counts. Degrees far beyond act
    as a multiple of the identity: a regularisation that a learner can add, but not take away. So the variance, the
    sum of all degrees, is the least. This is a linear program in the weights ``height^2 p_j`` of functions with
    thresholds on a grid; its solutions have as many functions as there are equations. One height for all, so that
    features stay integers times one scale, takes shares in proportion to these weights.

    **Differs from the source in** all of it: the source has one function.

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
    # Solved once more for the chosen functions alone, to rounding.
    weights = np.linalg.lstsq(energies[:, chosen], wanted, rcond=None)[0]
    height = float(weights.sum() ** 0.5)
    scale = tau**0.5
    functions = tuple(Ternary(float(lower[j] * scale), float(upper[j] * scale), height) for j in chosen)
    return TernaryMixture(functions, tuple(float(weight) for weight in weights / weights.sum()))


def _step_coefficients(thresholds: np.ndarray, degrees: int) -> np.ndarray:
    """Hermite coefficients 1, 2, ... of the functions 1 (z > threshold): (degrees, n)."""
    density = np.exp(-0.5 * thresholds**2) / (2 * np.pi) ** 0.5
    # c_k is the density times h_{k-1} / sqrt(k).
    polynomials = [np.ones_like(thresholds), thresholds, (thresholds**2 - 1) / 2**0.5]
    return np.stack([density * polynomials[k] / (k + 1) ** 0.5 for k in range(degrees)])
