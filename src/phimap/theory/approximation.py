"""Bounds on the error of the kernel approximation: Theorem 1 and Table 3 of the survey by Liu et al. (2021)."""

from __future__ import annotations

import sys
from math import exp, inf, lgamma, log, pi, sqrt

from scipy.special import lambertw

from phimap.theory.bounds import SPECTRAL, Registry, require, sampled_features

BOUNDS = Registry()

_LARGEST_EXPONENT = log(sys.float_info.max)

_PAIRED = "i.i.d. directions from the spectral law, a cosine and a sine each (two components a direction)"
_GAUSSIAN = "Gaussian kernel of width length_scale"
_BELOW_NORM = "alpha at most the spectral norm of K"


@BOUNDS.add(
    "fourier-entrywise",
    guarantee="|K - Z Z^T| <= epsilon in every entry of the kernel matrix of n points",
    formula="s = 2 / epsilon^2 * log(n (n - 1) / delta)",
    source="Rahimi, Recht 2007, Sec. 3 (Hoeffding's inequality), with a union bound over the pairs of points",
    assumptions=("a stationary kernel with k(x, x) = 1", _PAIRED),
)
def _entrywise(epsilon: float, delta: float, n: int) -> float:
    require(n >= 2, f"`n` must be at least 2 for this bound, got {n}.")
    return 2 / epsilon**2 * log(n * (n - 1) / delta)


@BOUNDS.add(
    "fourier-uniform",
    guarantee="|k - k_Z| <= epsilon at all pairs of points of a set of the given diameter",
    formula="s = 4 (d + 2) / epsilon^2 * (2 d / (d + 2) * log(sigma diameter / epsilon) + log(C_d / delta)), "
    "sigma = sqrt(d) / length_scale, C_d = 2^((6 d + 2) / (d + 2)) ((2 / d)^(d / (d + 2)) + (d / 2)^(2 / (d + 2)))",
    source="Rahimi, Recht 2007, Claim 1; Sutherland, Schneider 2015, Prop. 1; the survey's Theorem 1",
    assumptions=(_GAUSSIAN, _PAIRED, "epsilon <= sigma diameter"),
)
def _uniform(epsilon: float, delta: float, d: int, diameter: float, length_scale: float) -> float:
    """Number of independent directions that have an error of at most epsilon by Theorem 1 of the survey."""
    spread = sqrt(d) / length_scale * diameter
    require(
        epsilon <= spread,
        f"`epsilon` must be at most sqrt(d) diameter / length_scale = {spread:.4g} for this bound, got {epsilon}.",
    )
    constant = 2 ** ((6 * d + 2) / (d + 2)) * ((2 / d) ** (d / (d + 2)) + (d / 2) ** (2 / (d + 2)))
    return 4 * (d + 2) / epsilon**2 * (2 * d / (d + 2) * log(spread / epsilon) + log(constant / delta))


@BOUNDS.add(
    "fourier-uniform-logarithmic",
    guarantee="|k - k_Z| <= epsilon at all pairs of points of a set of the given diameter",
    formula="s = ((h + sqrt(2 log(1 / delta))) / epsilon)^2, h = 32 sqrt(2 d log(2 S + 1)) + "
    "32 sqrt(2 d log(sigma + 1)) + 16 sqrt(2 d / log(2 S + 1)), S = diameter / length_scale, sigma = sqrt(d)",
    source="Sriperumbudur, Szabo 2015, Theorem 1 (constants of the publication; the survey's Table 3 gives the order)",
    assumptions=(_GAUSSIAN, _PAIRED),
)
def _uniform_logarithmic(epsilon: float, delta: float, d: int, diameter: float, length_scale: float) -> float:
    size = log(2 * diameter / length_scale + 1)
    h = 32 * sqrt(2 * d * size) + 32 * sqrt(2 * d * log(sqrt(d) + 1)) + 16 * sqrt(2 * d / size)
    return ((h + sqrt(2 * log(1 / delta))) / epsilon) ** 2


@BOUNDS.add(
    "fourier-uniform-gaussian",
    guarantee="|k - k_Z| <= epsilon at all pairs of points of a set of the given diameter",
    formula="s ~ epsilon^-2 log(diameter / length_scale)",
    source="the survey's Table 3, row of Honorio, Li 2017, Theorem 1",
    assumptions=(_GAUSSIAN, "diameter / length_scale well above 1"),
)
def _uniform_gaussian(epsilon: float, diameter: float, length_scale: float) -> float:
    return _log_diameter(diameter, length_scale) / epsilon**2


@BOUNDS.add(
    "fourier-l2",
    guarantee="the L2 norm of k - k_Z over pairs of points of a set of the given diameter <= epsilon",
    formula="s = (V (1 + sqrt(2 log(1 / delta))) / epsilon)^2, "
    "V = pi^(d/2) (diameter / 2)^d / Gamma(d/2 + 1), the volume of the ball",
    source="Sriperumbudur, Szabo 2015, Theorem 3 at r = 2; its constants follow from Var <= 1/s and McDiarmid",
    assumptions=("a stationary kernel with k(x, x) = 1", _PAIRED, "norm with respect to Lebesgue measure"),
)
def _l2(epsilon: float, delta: float, d: int, diameter: float) -> float:
    log_volume = d / 2 * log(pi) + d * log(diameter / 2) - lgamma(d / 2 + 1)
    return _power(2 * (log_volume - log(epsilon))) * (1 + sqrt(2 * log(1 / delta))) ** 2


@BOUNDS.add(
    "fourier-lr",
    guarantee="the Lr norm of k - k_Z over pairs of points of a set of the given diameter <= epsilon",
    formula="s ~ (diameter / length_scale)^(4 d / r) / epsilon^2, times log(diameter / length_scale) for r < 2",
    source="the survey's Table 3, rates of Sriperumbudur, Szabo 2015, Corollary 2 and Theorem 3 "
    "(the table's own last column leaves the power of the diameter out)",
    assumptions=("a stationary kernel", "diameter and volume in units of length_scale", "r >= 1"),
)
def _lr(epsilon: float, d: int, diameter: float, length_scale: float, r: float) -> float:
    require(r >= 1, f"`r` must be at least 1 for this bound, got {r}.")
    factor = _log_diameter(diameter, length_scale) if r < 2 else 1.0
    return factor * _power(4 * d / r * log(diameter / length_scale) - 2 * log(epsilon))


@BOUNDS.add(
    "fourier-spectral",
    guarantee=SPECTRAL,
    formula="s = 8/3 / epsilon^2 * n / alpha * log(16 statistical_dimension / delta)",
    source="Avron et al. 2017, Theorem 7 (the survey's Table 3 gives the order)",
    assumptions=("a stationary kernel with k(x, x) = 1", _PAIRED, _BELOW_NORM, "epsilon <= 1/2"),
)
def _spectral(epsilon: float, delta: float, n: int, alpha: float, statistical_dimension: float) -> float:
    return sampled_features(n / alpha, epsilon, delta, statistical_dimension)


@BOUNDS.add(
    "leverage-spectral",
    guarantee=SPECTRAL,
    formula="s = 8/3 / epsilon^2 * statistical_dimension * log(16 statistical_dimension / delta)",
    source="Avron et al. 2017, Lemma 6 at the exact leverage function; Han et al. 2021 and Zandieh et al. 2021, "
    "Theorem 5",
    assumptions=(
        "directions drawn by the exact ridge leverage function and weighted accordingly",
        _BELOW_NORM,
        "epsilon <= 1/2",
    ),
)
def _leverage(epsilon: float, delta: float, statistical_dimension: float) -> float:
    return sampled_features(statistical_dimension, epsilon, delta, statistical_dimension)


@BOUNDS.add(
    "largest-leverage-spectral",
    guarantee=SPECTRAL,
    formula="s = 8/3 / epsilon^2 * largest_leverage * log(16 statistical_dimension / delta)",
    source="the survey's F_inf(lambda), Assumption 6 (Rudi, Rosasco 2017), in the inequality of Avron et al. 2017, "
    "Lemma 6",
    assumptions=(
        "weighted directions of a density, with leverage over density at most largest_leverage",
        _BELOW_NORM,
        "epsilon <= 1/2",
    ),
)
def _largest_leverage(epsilon: float, delta: float, statistical_dimension: float, largest_leverage: float) -> float:
    # F_inf is at least its mean over the density, which is the statistical dimension.
    require(
        largest_leverage >= statistical_dimension,
        f"`largest_leverage` must be at least statistical_dimension={statistical_dimension}, got {largest_leverage}.",
    )
    return sampled_features(largest_leverage, epsilon, delta, statistical_dimension)


@BOUNDS.add(
    "fastfood-uniform",
    guarantee="|k - k_Z| <= epsilon at all pairs of points of a set of the given diameter",
    formula="s ~ log(d / delta) times the number of fourier-uniform",
    source="the survey's Sec. 5.1: the error is O(sqrt(log(d / delta))) times that of independent directions (Le, "
    "Sarlos, Smola 2013)",
    assumptions=(_GAUSSIAN, "Fastfood directions", "epsilon <= sigma diameter"),
)
def _fastfood(epsilon: float, delta: float, d: int, diameter: float, length_scale: float) -> float:
    return log(d / delta) * _uniform(epsilon, delta, d, diameter, length_scale)


@BOUNDS.add(
    "maclaurin-uniform",
    guarantee="|k - k_Z| <= epsilon at all pairs of points of a bounded set",
    formula="s ~ d / epsilon^2 log(1 / (epsilon delta))",
    source="the survey's Sec. 5.1 (Kar, Karnick 2012, Theorem 8)",
    counts="features",
    assumptions=("a dot-product kernel with a non-negative power series", "random Maclaurin features"),
)
def _maclaurin(epsilon: float, delta: float, d: int) -> float:
    return d / epsilon**2 * log(1 / (epsilon * delta))


@BOUNDS.add(
    "qmc-entrywise",
    guarantee="|k - k_Z| <= epsilon at a pair of points, as s grows",
    formula="s ~ exp(d u), where u > 1 solves (d u)^d = epsilon exp(d u): the error is log(s)^d / s from s = exp(d) on",
    source="the survey's Sec. 3.2 (Yang, Sindhwani, Avron, Mahoney 2014)",
    assumptions=("a spectral law of independent columns", "directions of a low-discrepancy sequence"),
)
def _quasi_monte_carlo(epsilon: float, d: int) -> float:
    # The rate log(s)^d / s grows up to s = e^d, where it is (d / e)^d. It does not apply to fewer directions.
    argument = -(epsilon ** (1 / d)) / d
    u = -float(lambertw(argument, -1).real) if argument > -exp(-1) else 1.0
    return _power(d * u)


@BOUNDS.add(
    "orthogonal-spectral",
    guarantee=SPECTRAL,
    formula="s ~ (n / alpha)^2 / epsilon",
    source="the survey's Table 3, row of Choromanski et al. 2018, Theorem 5.4: error O(1 / (s lambda^2)), "
    "lambda = alpha / n",
    assumptions=(_GAUSSIAN, "i.i.d. or orthogonal directions"),
)
def _orthogonal(epsilon: float, n: int, alpha: float) -> float:
    return (n / alpha) ** 2 / epsilon


@BOUNDS.add(
    "low-precision-spectral",
    guarantee="(1 - D1)(K + alpha I) <= Z Z^T + alpha I <= (1 + D2)(K + alpha I), D1 and D2 of the order of epsilon",
    formula="s ~ epsilon^-2 n / alpha * log(statistical_dimension)",
    source="the survey's Table 3, row of Zhang et al. 2019, Theorem 2",
    assumptions=("features quantised to b bits whose error is small beside alpha", "statistical_dimension > 1"),
)
def _low_precision(epsilon: float, n: int, alpha: float, statistical_dimension: float) -> float:
    require(
        statistical_dimension > 1,
        f"`statistical_dimension` must be greater than 1 for this bound, got {statistical_dimension}.",
    )
    return n / alpha * log(statistical_dimension) / epsilon**2


def _log_diameter(diameter: float, length_scale: float) -> float:
    require(
        diameter > length_scale,
        f"`diameter` must be greater than length_scale={length_scale} for this bound, got {diameter}.",
    )
    return log(diameter / length_scale)


def _power(exponent: float) -> float:
    """Return e^exponent, or infinity if it overflows."""
    return exp(exponent) if exponent < _LARGEST_EXPONENT else inf
