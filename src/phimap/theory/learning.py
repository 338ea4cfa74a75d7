"""Bounds for learning with random features: Theorems 2 and 3, Tables 4 and 5 of the survey by Liu et al. (2021)."""

from __future__ import annotations

from math import log, sqrt

from phimap._validation import check_choice
from phimap.theory.bounds import Registry, require

BOUNDS = Registry()

DECAYS = ("exponential", "polynomial", "harmonic")

_REGRESSION = ("the target function lies in the RKHS", "bounded continuous features", "Bernstein's condition on y")
_OPTIMISED = "features drawn from the optimised (leverage) distribution"
_DECAY = (
    "eigenvalues of K/n decay as exp(-i^(1/c)) (exponential, decay_rate=c), i^(-2t) (polynomial, decay_rate=t) "
    "or 1/i (harmonic)"
)


def _one_over_root(n: int, **_: object) -> float:
    return n**-0.5


def _one_over(n: int, **_: object) -> float:
    return 1 / n


def _of_source(n: int, source: float, capacity: float, **_: object) -> float:
    return n ** (-1 / (2 * source + capacity))


def _of_low_noise(n: int, decay: str, decay_rate: float = 1.0) -> float:
    return n ** -(decay_rate / (1 + decay_rate)) if _is(decay, "polynomial") else 1 / n


def _of_separation(n: int, decay_rate: float) -> float:
    return n ** (-2 * decay_rate**2)


@BOUNDS.add(
    "ridge-basic",
    guarantee="excess risk O(n^(-1/2)) of ridge regression at lambda = n^(-1/2)",
    formula="s ~ sqrt(n) log(n)",
    source="the survey's Table 4, row of Rudi, Rosasco 2017, Theorem 1",
    assumptions=_REGRESSION,
    regularization=_one_over_root,
)
def _ridge_basic(n: int) -> float:
    return sqrt(n) * log(n)


@BOUNDS.add(
    "ridge-source",
    guarantee="excess risk O(n^(-2r / (2r + gamma))) of ridge regression at lambda = n^(-1 / (2r + gamma))",
    formula="s ~ n^((rho + (2r - 1)(1 + gamma - rho)) / (2r + gamma)) log(108 kappa^2 / (lambda delta)), "
    "r = source, gamma = capacity, rho = compatibility, kappa = feature_bound",
    source="the survey's Theorem 2 and Table 4, rows of Rudi, Rosasco 2017, Theorems 2 (rho = 1) and 3",
    assumptions=(
        *_REGRESSION,
        "source condition with r in [1/2, 1]",
        "capacity condition with gamma in [0, 1]",
        "compatibility condition with rho in [gamma, 1]; rho = 1 for directions from the kernel's own law",
        "n above a constant that the theorem does not give",
    ),
    regularization=_of_source,
)
def _ridge_source(
    delta: float, n: int, source: float, capacity: float, compatibility: float = 1.0, feature_bound: float = 1.0
) -> float:
    require(0.5 <= source <= 1, f"`source` must lie in [0.5, 1] for this bound, got {source}.")
    require(0 <= capacity <= 1, f"`capacity` must lie in [0, 1] for this bound, got {capacity}.")
    require(
        capacity <= compatibility <= 1,
        f"`compatibility` must lie in [capacity, 1] = [{capacity}, 1] for this bound, got {compatibility}.",
    )
    scale = 2 * source + capacity
    exponent = (compatibility + (2 * source - 1) * (1 + capacity - compatibility)) / scale
    ridge = _of_source(n, source, capacity)
    return n**exponent * log(108 * feature_bound**2 / (ridge * delta))


@BOUNDS.add(
    "ridge-plain",
    guarantee="excess risk at most 2 lambda + O(n^(-1/2)) above that of the exact kernel, lambda = alpha / n",
    formula="s = 5 feature_bound^2 n / alpha * log(16 statistical_dimension / delta)",
    source="the survey's Theorem 3, of Li et al. 2019, Theorem 1",
    assumptions=(*_REGRESSION, "i.i.d. directions from the spectral law", "|z(w, x)| <= feature_bound"),
)
def _ridge_plain(delta: float, n: int, alpha: float, statistical_dimension: float, feature_bound: float = 1.0) -> float:
    return 5 * feature_bound**2 * n / alpha * log(16 * statistical_dimension / delta)


@BOUNDS.add(
    "ridge-leverage",
    guarantee="excess risk at most 2 lambda + O(n^(-1/2)) above that of the exact kernel, lambda = alpha / n",
    formula="s = 5 statistical_dimension * log(16 statistical_dimension / delta)",
    source="the survey's Theorem 3, of Li et al. 2019, Theorem 1",
    assumptions=(*_REGRESSION, _OPTIMISED),
)
def _ridge_leverage(delta: float, statistical_dimension: float) -> float:
    return 5 * statistical_dimension * log(16 * statistical_dimension / delta)


@BOUNDS.add(
    "ridge-plain-decay",
    guarantee="excess risk O(n^(-1/2)) of ridge regression at lambda = n^(-1/2)",
    formula="s ~ sqrt(n) log(log(n)) for exponential decay, sqrt(n) log(n) for others",
    source="the survey's Table 4, rows of Li et al. 2019, Corollary 2",
    assumptions=(*_REGRESSION, "i.i.d. directions from the spectral law", _DECAY),
    regularization=_one_over_root,
)
def _ridge_plain_decay(n: int, decay: str) -> float:
    return sqrt(n) * _plain_order(n, decay)


@BOUNDS.add(
    "ridge-leverage-decay",
    guarantee="excess risk O(n^(-1/2)) of ridge regression at lambda = n^(-1/2)",
    formula="s ~ log(n)^2 for exponential decay, n^(1 / (2t)) log(n) for polynomial, sqrt(n) log(n) for harmonic",
    source="the survey's Table 4, rows of Li et al. 2019, Corollary 1",
    assumptions=(*_REGRESSION, _OPTIMISED, _DECAY),
    regularization=_one_over_root,
)
def _ridge_leverage_decay(n: int, decay: str, decay_rate: float = 1.0) -> float:
    return _leverage_order(n, decay, decay_rate, harmonic=0.5)


@BOUNDS.add(
    "ridge-out-of-sample",
    guarantee="risk of ridge regression at most epsilon above that of the exact kernel at lambda = alpha / n",
    formula="s ~ 1 / (lambda epsilon) = n / (alpha epsilon)",
    source="the survey's Sec. 5.2.2, of Wang 2019: n features for epsilon = lambda = n^(-1/2)",
    assumptions=("bounded features, not necessarily continuous", "i.i.d. directions from the spectral law"),
)
def _ridge_out_of_sample(epsilon: float, n: int, alpha: float) -> float:
    return n / (alpha * epsilon)


@BOUNDS.add(
    "ridge-sgd",
    guarantee="excess risk O(n^(-1/2)) of least squares by stochastic gradients, whose steps and passes regularise",
    formula="s ~ sqrt(n)",
    source="the survey's Sec. 5.2.2, of Carratino, Rudi, Rosasco 2018",
    assumptions=(*_REGRESSION, "mild conditions on the steps"),
)
def _ridge_sgd(n: int) -> float:
    return sqrt(n)


@BOUNDS.add(
    "lipschitz-basic",
    guarantee="excess risk O(n^(-1/2)) under a Lipschitz loss",
    formula="s ~ n log(n)",
    source="the survey's Table 5, row of Rahimi, Recht 2009, Theorem 1",
    assumptions=("Lipschitz continuous loss",),
)
def _lipschitz_basic(n: int) -> float:
    return n * log(n)


@BOUNDS.add(
    "lipschitz-plain-decay",
    guarantee="excess risk O(n^(-1/2)) under a Lipschitz loss at lambda = 1/n",
    formula="s ~ n log(log(n)) for exponential decay, n log(n) for others",
    source="the survey's Table 5, rows of Li et al. 2019, Corollary 4",
    assumptions=("Lipschitz continuous loss", "i.i.d. directions from the spectral law", _DECAY),
    regularization=_one_over,
)
def _lipschitz_plain_decay(n: int, decay: str) -> float:
    return n * _plain_order(n, decay)


@BOUNDS.add(
    "lipschitz-leverage-decay",
    guarantee="excess risk O(n^(-1/2)) under a Lipschitz loss at lambda = 1/n",
    formula="s ~ log(n)^2 for exponential decay, n^(1 / (2t)) log(n) for polynomial, n log(n) for harmonic",
    source="the survey's Table 5, rows of Bach 2017, Sec. 4.5, and Li et al. 2019, Corollary 3",
    assumptions=("Lipschitz continuous loss", _OPTIMISED, _DECAY),
    regularization=_one_over,
)
def _lipschitz_leverage_decay(n: int, decay: str, decay_rate: float = 1.0) -> float:
    return _leverage_order(n, decay, decay_rate, harmonic=1.0)


@BOUNDS.add(
    "svm-low-noise",
    guarantee="excess risk of a support vector machine of order log(n)^(c+2) / n, n^(-t/(1+t)) log(n) or n^(-1/2), "
    "at lambda = 1/n, n^(-t/(1+t)) or 1/n for exponential, polynomial or harmonic decay",
    formula="s ~ log(n)^c log(log(n)^c) for exponential decay, n^(1 / (1+t)) log(n) for polynomial, "
    "n log(n) for harmonic",
    source="the survey's Table 5, rows of Sun, Gilbert, Tewari 2018, Theorem 1",
    assumptions=("hinge loss", "Massart's low noise condition", _OPTIMISED, _DECAY),
    regularization=_of_low_noise,
)
def _svm_low_noise(n: int, decay: str, decay_rate: float = 1.0) -> float:
    if _is(decay, "exponential"):
        return log(n) ** decay_rate * decay_rate * _log_log(n)
    return n ** (1 / (1 + decay_rate) if decay == "polynomial" else 1.0) * log(n)


@BOUNDS.add(
    "svm-separation",
    guarantee="excess risk of a support vector machine of order log(n)^(2c+1) log(log(n)) / n at lambda = n^(-2 c^2)",
    formula="s ~ log(n)^(2c) log(log(n))",
    source="the survey's Table 5, row of Sun, Gilbert, Tewari 2018, Theorem 2",
    assumptions=(
        "hinge loss",
        "the classes are separated by a distance",
        _OPTIMISED,
        "exponential decay, decay_rate=c",
    ),
    regularization=_of_separation,
)
def _svm_separation(n: int, decay_rate: float) -> float:
    return log(n) ** (2 * decay_rate) * _log_log(n)


def _plain_order(n: int, decay: str) -> float:
    """Return the logarithmic factor in the number of directions that are drawn from the spectral distribution."""
    return _log_log(n) if _is(decay, "exponential") else log(n)


def _leverage_order(n: int, decay: str, decay_rate: float, *, harmonic: float) -> float:
    """Return the number of directions needed from the optimised distribution, up to a constant factor.

    `harmonic` is the exponent of n for harmonic decay.
    """
    if _is(decay, "exponential"):
        return log(n) ** 2
    return n ** (1 / (2 * decay_rate) if decay == "polynomial" else harmonic) * log(n)


def _is(decay: str, expected: str) -> bool:
    return check_choice("decay", decay, DECAYS) == expected


def _log_log(n: int) -> float:
    # log(log(n)) is positive from n = 3 on; the order is meaningless for smaller n.
    require(n >= 3, f"`n` must be at least 3 for this bound, got {n}.")
    return log(log(n))
