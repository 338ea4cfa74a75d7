"""Tests whether differences between methods are noise: paired tests over the rows that both methods predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import t as student

#: Probability that at least one pair of methods is called different if all methods are equally good.
FALSE_ALARM = 0.05


@dataclass(frozen=True)
class Difference:
    """The difference between two methods.

    Attributes
    ----------
    first, second : str
        Names of the methods.
    mean : float
        Mean loss of the first method minus mean loss of the second: mean squared errors, or shares of wrong labels.
    p_value : float
        P-value of the difference, adjusted for all pairs of the comparison.
    """

    first: str
    second: str
    mean: float
    p_value: float

    @property
    def is_noise(self) -> bool:
        """Whether the difference is not significant at the level `FALSE_ALARM`."""
        return not self.p_value <= FALSE_ALARM


def differences(losses: Mapping[str, Sequence[np.ndarray]]) -> list[Difference]:
    """Compare all pairs of methods.

    Parameters
    ----------
    losses : mapping of str to sequence of ndarray of shape (r,)
        For each method, one array of losses of the test rows for each split; rows have the same order for all methods.

    Returns
    -------
    list of Difference
        One for each pair, in the order of the mapping.

    Notes
    -----
    The variance of the mean difference in loss is a sum of two terms. The first is the variance between rows. The
    second is the variance between training samples; it is positive if there are several splits and their means differ
    by more than the variance between rows explains. The test is Student's t-test with Welch-Satterthwaite degrees of
    freedom; the p-values are adjusted by Holm's method.

    **Error.** The probability of any false alarm is 5 % for independent rows. It may be larger because splits share
    training rows, so that their means differ less than they would with new data. With one split, the variance between
    training samples is unknown.

    **Cost.** One pass over the losses for each pair.

    **Differs from the source in** the variance, which is the sum of both variances.

    References
    ----------
    Dietterich (1998), *Approximate statistical tests for comparing supervised classification learning algorithms*;
    Holm (1979), *A simple sequentially rejective multiple test procedure*.
    """
    pairs = list(combinations(losses, 2))
    found = [_compared([a - b for a, b in zip(losses[one], losses[other], strict=True)]) for one, other in pairs]
    adjusted = _holm(np.array([p for _, p in found]))
    return [
        Difference(one, other, mean, float(p))
        for (one, other), (mean, _), p in zip(pairs, found, adjusted, strict=True)
    ]


def _compared(parts: Sequence[np.ndarray]) -> tuple[float, float]:
    """Return the mean of paired differences, and the p-value of the two-sided test that their mean is 0.

    `parts` has one array of differences for each split.
    """
    every = np.concatenate(parts)
    n, k = every.size, len(parts)
    mean = float(every.mean())
    of_rows = float(every.var(ddof=1)) / n if n > 1 else np.inf
    of_splits = 0.0
    if k > 1:
        # The variance between the splits' means, minus the part that the variance between rows explains.
        explained = float(np.mean([part.var(ddof=1) / part.size for part in parts]))
        of_splits = max(0.0, float(np.var([part.mean() for part in parts], ddof=1)) - explained) / k
    variance = of_rows + of_splits
    if variance == 0:
        return mean, 1.0 if mean == 0 else 0.0
    freedom = variance**2 / (of_rows**2 / (n - 1) + (of_splits**2 / (k - 1) if k > 1 else 0.0))
    return mean, float(2 * student.sf(abs(mean) / np.sqrt(variance), freedom))


def _holm(values: np.ndarray) -> np.ndarray:
    """Return p-values adjusted by Holm's method: the k-th smallest of m is multiplied by m - k + 1."""
    order = np.argsort(values, kind="stable")
    scaled = values[order] * np.arange(values.size, 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted
