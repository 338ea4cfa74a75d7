"""Conformal intervals and sets of classes, from the errors of rows that were not used in any choice."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np

from phimap._validation import check_real
from phimap._warnings import caller_level
from phimap.learn.ridge.solve import solve_ridge_dual
from phimap.records import Record, of_floats

# Largest number of conformal scores that a model stores for each target.
_MOST_SCORES = 1024
# Level of a quantile of the absolute errors. Smaller errors are replaced by this quantile, because the logarithm of a
# tiny error would dominate the fit of the scale.
_LEAST_ERROR = 0.05
# The logarithm of the scale of a new row is clipped to two quantiles of the fitted logarithms: the quantile of this
# level, and the quantile of 1 minus this level.
_CLIPPED = 0.02


@dataclass(frozen=True)
class ErrorScale(Record):
    r"""The size of the errors as a function of the features: ``exp(phi(x)^T coef + intercept)``, within bounds.

    Attributes
    ----------
    coef : ndarray of shape (m, t)
        Coefficients of the m features for the t targets.
    intercept : ndarray of shape (t,)
    bounds : ndarray of shape (2, t)
        Least and largest logarithm of the scale.

    Notes
    -----
    Ridge regression of the logarithms of absolute errors, whose alpha minimises the leave-one-out error. If the errors
    do not vary with x, alpha is large and the scale is constant. **Cost.** An eigendecomposition of the order of the
    rows, at most 768, or of the features if they are clearly fewer.
    """

    coef: np.ndarray = field(metadata=of_floats("m", "t"))
    intercept: np.ndarray = field(metadata=of_floats("t"))
    bounds: np.ndarray = field(metadata=of_floats(2, "t"))

    @classmethod
    def of_errors(cls, Z: np.ndarray, errors: np.ndarray, weights: np.ndarray | None) -> ErrorScale | None:
        """Return the scale, learned from `errors` (r, t) at rows with features `Z` (r, m).

        None for fewer than two rows, or if at least 5 % of the errors of a target are 0.
        """
        sizes = np.abs(errors)
        least = np.quantile(sizes, _LEAST_ERROR, axis=0)
        # If many predictions are exact, their errors are zero and would hide the size of the other errors.
        if len(sizes) < 2 or not least.all():
            return None
        solution = solve_ridge_dual(Z, np.log(np.maximum(sizes, least)), weights=weights)
        fitted = Z @ solution.coef + solution.intercept
        return cls(solution.coef, solution.intercept, np.quantile(fitted, [_CLIPPED, 1 - _CLIPPED], axis=0))

    def of_outputs(self, outputs: np.ndarray) -> np.ndarray:
        """Return the scale (r, t), given the products (r, t) of features with `coef`."""
        return np.exp(np.clip(outputs + self.intercept, *self.bounds))


@dataclass(frozen=True)
class Conformal(Record):
    r"""The distribution of scores of rows that were not used in any choice; large scores mean large errors.

    Attributes
    ----------
    scores : ndarray of shape (k, t)
        Ascending scores of each target, at most 1,024.
    levels : ndarray of shape (k, t)
        Largest coverage for which the score is the threshold.
    scale : ErrorScale or None
        Scale by which errors were divided; None if it is 1, and for sets of classes.

    Notes
    -----
    For n scores of equal weight, the level of the i-th smallest score is ``i / (n + 1)``. If a new row is exchangeable
    with the n rows, its score is at most the i-th smallest with at least this probability. With weights, the level is
    the sum of the weights of the scores up to this one, divided by the total weight plus the mean weight. A coverage
    above the largest level has an infinite threshold.

    The score of a number is ``|y - f(x)| / s(x)``, and the interval is ``f(x) +- q s(x)`` with the threshold q. The
    score of a class is the cumulated probability of the classes that are more probable. So a set takes classes in the
    order of their probabilities until their sum exceeds the threshold, as in the source without its random numbers.
    The most probable class has the score 0 and is in every set.

    References
    ----------
    Vovk, Gammerman, Shafer (2005), *Algorithmic learning in a random world*; Lei, G'Sell, Rinaldo, Tibshirani,
    Wasserman (2018), *Distribution-free predictive inference for regression*, Section 5.2 (the scale); Barber, Candes,
    Ramdas, Tibshirani (2021), *Predictive inference with the jackknife+* (errors of rows left out); Romano, Sesia,
    Candes (2020), *Classification with valid and adaptive coverage* (sets).
    """

    scores: np.ndarray = field(metadata=of_floats("k", "t", least=0))
    levels: np.ndarray = field(metadata=of_floats("k", "t", least=0, most=1))
    scale: ErrorScale | None = None

    @classmethod
    def of_scores(cls, scores: np.ndarray, weights: np.ndarray | None, scale: ErrorScale | None = None) -> Conformal:
        """Return the distribution of `scores` (n, t) of rows with weights (n,)."""
        order = np.argsort(scores, axis=0, kind="stable")
        counted = np.ones(len(scores)) if weights is None else weights / weights.mean()
        levels = np.cumsum(counted[order], axis=0) / (len(scores) + 1)
        # More scores than `_MOST_SCORES` are divided into that many parts of equal size. Each part is represented by
        # its largest score, so no threshold becomes smaller.
        kept = np.ceil(np.linspace(1, len(scores), min(len(scores), _MOST_SCORES))).astype(np.intp) - 1
        ascending = np.take_along_axis(scores, order, axis=0)[kept]
        # A part has the level of its largest score: a coverage between two levels needs the score of the higher level.
        return cls(ascending, np.minimum(levels[kept], 1.0), scale)

    def reaches(self, coverage: float) -> bool:
        """Whether the thresholds of all targets are finite for a coverage."""
        return bool(np.isfinite(self.threshold(coverage)).all())

    @property
    def most_coverage(self) -> float:
        """The largest coverage that all targets reach, rounded down to four decimals."""
        return float(np.floor(1e4 * self.levels[-1].min()) / 1e4)

    def threshold(self, coverage: float) -> np.ndarray:
        """Return the threshold (t,) of scores for a coverage; infinite if this coverage needs more scores."""
        # Rounding must not make a coverage of 0.9 need the 91st of 99 scores, instead of the 90th.
        reached = self.levels >= coverage * (1 - 1e-12)
        first = np.take_along_axis(self.scores, reached.argmax(axis=0)[None], axis=0)[0]
        return np.where(reached.any(axis=0), first, np.inf)


class CoverageWarning(UserWarning):
    """A coverage needs more conformal rows than a model has."""


def check_coverage(coverage: float, conformal: Conformal | None, purpose: str) -> float:
    """Return `coverage` as a float; raise unless it lies between 0 and 1, both excluded.

    Warn if the coverage is too large for the number of conformal scores; `purpose` completes the message.
    """
    coverage = check_real("coverage", coverage, above=0.0)
    if not coverage < 1:
        raise ValueError(f"`coverage` must be below 1, got {coverage:g}. Use for example 0.9.")
    if conformal is not None and not conformal.reaches(coverage):
        warnings.warn(
            f"`coverage` must be at most {conformal.most_coverage:g} for {purpose}, got {coverage:g}: this model has "
            "too few conformal rows for more. Ask for less, or fit to more rows.",
            CoverageWarning,
            stacklevel=caller_level(),
        )
    return coverage


def class_scores(probabilities: np.ndarray) -> np.ndarray:
    """Return the sum of the probabilities of all more probable classes, for each row and class (r, n_classes)."""
    order = np.argsort(-probabilities, axis=1, kind="stable")
    ordered = np.take_along_axis(probabilities, order, axis=1)
    sums = np.cumsum(ordered, axis=1) - ordered
    # Equal probabilities have the same score, so that the order of the classes does not matter.
    for k in range(1, ordered.shape[1]):
        same = ordered[:, k] == ordered[:, k - 1]
        sums[same, k] = sums[same, k - 1]
    result = np.empty_like(sums)
    np.put_along_axis(result, order, np.maximum(sums, 0), axis=1)
    return result
