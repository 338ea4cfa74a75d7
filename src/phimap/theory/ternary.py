"""Ternary functions whose Gaussian moments match the moments of another activation."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from phimap._validation import check_real
from phimap.theory.moments import GaussianMoments, gaussian_moments

# Largest threshold in standard deviations. Values beyond it practically never occur.
_LARGEST = 8.0
# Number of points of the grid on which thresholds are first searched. Roots and minima between the points are then
# refined.
_GRID = 400
# A moment counts as matched if its error is below this share of the variance.
_MATCHED = 1e-8
# A squared linear term, or an error in d0, below this share of the variance counts as zero.
_NEGLIGIBLE = 1e-10


class Ternary(NamedTuple):
    """The function ``height * (1 if t > upper, -1 if t < lower, else 0)``.

    If both thresholds are equal, t at the threshold gives -height, so the function is never 0.

    Attributes
    ----------
    lower, upper : float
        Thresholds, ``lower <= upper``; with ``lower = -inf`` the only values are 0 and `height`.
    height : float
        Absolute value of the function where it is not 0.

    Notes
    -----
    The moments d0, d1 and d2 (see `GaussianMoments`) follow from the density f and the distribution P of N(0, tau):
    ``d1 = height^2 (f(upper) + f(lower))^2``, ``d2 = height^2 ((upper f(upper) + lower f(lower)) / tau)^2 / 4`` and
    ``d0 = height^2 (P+ + P- - (P+ - P-)^2) - tau d1`` with ``P+ = P(t > upper)``, ``P- = P(t < lower)``.

    **Differs from the source in** these formulas: Equations 10 and 27 and the ternary row of Table 1 of Ali, Liao,
    Couillet (2022) are wrong.
    """

    lower: float
    upper: float
    height: float

    @property
    def is_binary(self) -> bool:
        """Whether the function has only two values, so that one bit stores a value."""
        return self.lower == self.upper or self.lower == -np.inf

    def __call__(self, t: Any) -> np.ndarray:
        """Return the values at `t`, an array of any shape."""
        t = np.asarray(t, dtype=np.float64)
        below = t <= self.lower if self.lower == self.upper else t < self.lower
        return self.height * ((t > self.upper).astype(np.float64) - below)

    def moments(self, tau: float) -> GaussianMoments:
        """Return the Gaussian moments under N(0, tau), in closed form."""
        return GaussianMoments(*(self.height**2 * _unit_moments(*self[:2], check_real("tau", tau, above=0.0))))


def ternary_thresholds(target: Any, tau: float, *, levels: int = 3) -> Ternary:
    """Find the ternary function whose moments d1 and d2 equal the moments of a target.

    Parameters
    ----------
    target : activation, kernel or GaussianMoments
        As in `gaussian_moments`.
    tau : float
        Variance of the function's argument: the mean squared norm of the data.
    levels : {2, 3}, default=3
        Number of values of the function. With two values the thresholds are equal, and the function
        ``height * sign(t - threshold)`` is stored in one bit.

    Returns
    -------
    Ternary

    Raises
    ------
    ValueError
        If a parameter is out of range, or the target is constant.

    Warns
    -----
    UserWarning
        If no ternary function has both moments, for example if the target is even, so that d1 = 0. The returned
        function then has the least error in ``(d0, tau d1, 2 tau^2 d2)``; the warning reports the error relative to the
        variance.

    Notes
    -----
    Let u+ and u- be the thresholds in standard deviations and g the standard normal density. The moments d1 and d2
    determine ``height (g(u+) + g(u-)) = (tau d1)^(1/2)`` and a weighted mean of u- and u+. The weights are g(u-) and
    g(u+), and the mean is ``(4 tau d2 / d1)^(1/2)``. One degree of freedom remains. It is chosen such that d0 is
    nearest to the target's d0 and, among equally near solutions, the height is least. For the Gaussian kernel, d0 is
    matched exactly for tau of about 2 or more.

    **Differs from the source in** the height, which is 1 in the publication. With height 1 the moments of the Gaussian
    kernel cannot be matched for tau of 1 or more.

    References
    ----------
    Ali, Liao, Couillet (2022), *Random matrices in service of ML footprint: ternary random features with no
    performance loss*, Corollary 1 and Algorithm 1.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> kernel = pm.kernels.Gaussian()
    >>> ternary = pm.theory.ternary_thresholds(kernel, tau=1.0)
    >>> bool(np.allclose(ternary.moments(1.0)[1:], pm.theory.gaussian_moments(kernel, 1.0)[1:], atol=1e-12))
    True
    """
    tau = check_real("tau", tau, above=0.0)
    check_two_or_three("levels", levels)
    wanted = target if isinstance(target, GaussianMoments) else gaussian_moments(target, tau)
    variance = wanted.d0 + tau * wanted.d1
    check_varies(variance, tau)
    linear = (tau * wanted.d1) ** 0.5
    mean = tau * (4 * wanted.d2) ** 0.5 / linear if tau * wanted.d1 > _NEGLIGIBLE * variance else np.inf
    if mean >= _LARGEST:
        return _best(wanted, tau, levels)
    above, below = (0.0, 0.0) if levels == 2 else _nearest(mean, linear, wanted.d0)
    upper, lower = mean + above, mean - below
    height = linear / (_density(upper) + _density(lower))
    return Ternary(float(lower * tau**0.5), float(upper * tau**0.5), float(height))


def check_two_or_three(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is 2 or 3."""
    if value not in (2, 3) or isinstance(value, bool):
        raise ValueError(f"`{name}` must be 2 or 3, got {value!r}.")


def check_varies(variance: float, tau: float) -> None:
    """Raise ValueError if the target, whose variance under N(0, tau) is `variance`, is constant."""
    if not variance > 0:
        raise ValueError(f"`target` must not be constant, got variance {variance} at tau={tau}.")


def _nearest(mean: float, linear: float, d0: float) -> tuple[float, float]:
    """Return the distances of both thresholds from their weighted mean for which the function's d0 is nearest to `d0`.

    The distance of the upper threshold comes first. Distances are in standard deviations. `mean` is the weighted mean,
    and `linear` is ``(tau d1)^(1/2)``, see the notes of `ternary_thresholds`.
    """
    from scipy.optimize import brentq, minimize_scalar

    grid = np.concatenate([[0.0], np.geomspace(1e-4, _LARGEST, _GRID)])
    found: list[tuple[float, float, float, float]] = []
    for far in (False, True):

        def excess(above: Any, far: bool = far) -> np.ndarray:
            below = _below(mean, np.asarray(above), far)
            height = linear / (_density(mean + above) + _density(mean - below))
            return height**2 * _spread(mean - below, mean + above) - linear**2 - d0

        def add(above: float, far: bool = far) -> None:
            below = float(_below(mean, np.asarray(above), far))
            height = linear / (_density(mean + above) + _density(mean - below))
            missed = abs(float(excess(above)))
            found.append((0.0 if missed <= _NEGLIGIBLE * (d0 + linear**2) else missed, float(height), above, below))

        values = excess(grid)
        for k in np.flatnonzero(np.sign(values[1:]) != np.sign(values[:-1])):
            add(brentq(lambda above: float(excess(above)), grid[k], grid[k + 1], xtol=1e-14))  # pyright: ignore
        k = int(np.abs(values).argmin())
        bounds = (grid[max(k - 1, 0)], grid[min(k + 1, grid.size - 1)])
        closest: Any = minimize_scalar(lambda above: abs(float(excess(above))), bounds=bounds, method="bounded")
        add(float(closest.x))
        add(float(grid[k]))
    return min(found)[2:]


def _below(mean: float, above: np.ndarray, far: bool) -> np.ndarray:
    """Return the distance q of the lower threshold with ``q g(mean - q) = above g(mean + above)``, by bisection.

    g is the standard normal density. The left side increases up to some q and then decreases, so there are two
    solutions. `far` selects the larger one.
    """
    peak = (mean + (mean**2 + 4) ** 0.5) / 2
    with np.errstate(divide="ignore"):
        wanted = np.log(above) - mean * above - above**2 / 2
    low = np.full(above.shape, peak if far else 0.0)
    high = np.full(above.shape, peak + 2 * _LARGEST if far else peak)
    for _ in range(64):
        middle = (low + high) / 2
        with np.errstate(divide="ignore"):
            reached = (np.log(middle) + mean * middle - middle**2 / 2 > wanted) != far
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return np.where(above > 0, high, 0.0 if not far else high)


def _best(wanted: GaussianMoments, tau: float, levels: int) -> Ternary:
    """Return the ternary function with the least error in all three moments; warn if the error is not negligible."""
    from scipy.optimize import minimize

    weights = np.array([1.0, tau, 2 * tau**2])
    target = weights * wanted
    variance = wanted.d0 + tau * wanted.d1

    def fit(thresholds: np.ndarray) -> tuple[float, float]:
        """Return the least error, and the squared height that attains it. Moments are linear in the squared height."""
        lower, upper = np.sort(np.resize(thresholds, 2)) * tau**0.5
        unit = weights * _unit_moments(lower, upper, tau)
        squared = max(float(unit @ target / (unit @ unit)), 0.0)
        return float(np.linalg.norm(squared * unit - target)) / variance, squared

    points = np.linspace(-4, 4, 41)
    starts = points[:, None] if levels == 2 else np.stack(np.meshgrid(points, points), axis=-1).reshape(-1, 2)
    start = min(starts, key=lambda thresholds: fit(thresholds)[0])
    thresholds = minimize(lambda x: fit(x)[0], start, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12}).x
    error, squared = fit(thresholds)
    lower, upper = np.sort(np.resize(thresholds, 2)) * tau**0.5
    found = Ternary(float(lower), float(upper), squared**0.5)
    got = found.moments(tau)
    if error <= _MATCHED:
        return found
    warnings.warn(
        f"no ternary function has the moments d1={wanted.d1:.3g}, d2={wanted.d2:.3g} of this target at tau={tau:.3g}; "
        f"the best has d1={got.d1:.3g}, d2={got.d2:.3g}, with a residual of {error:.2g} of the variance.",
        UserWarning,
        stacklevel=3,
    )
    return found


def _unit_moments(lower: float, upper: float, tau: float) -> np.ndarray:
    """Return d0, d1 and d2 of a ternary function of height 1."""
    standardised = np.array([lower, upper]) / tau**0.5
    densities = _density(standardised)
    d1 = densities.sum() ** 2 / tau
    slopes = np.where(np.isfinite(standardised), standardised, 0.0) @ densities
    return np.array([_spread(*standardised) - tau * d1, d1, (slopes / tau) ** 2 / 4])


def _spread(lower: Any, upper: Any) -> Any:
    """Return the variance under N(0, 1) of a ternary function of height 1 with these thresholds."""
    above, below = ndtr(-upper), ndtr(lower)
    return above + below - (above - below) ** 2


def _density(u: Any) -> Any:
    return np.exp(-0.5 * np.square(u)) / (2 * np.pi) ** 0.5
