"""Which differences between methods are within noise: a paired test over the rows that both have predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import t as student

#: Probability that any of the pairs of a comparison is called different where none is.
FALSE_ALARM = 0.05


@dataclass(frozen=True)
class Difference:
    """Two methods beside each other.

    Attributes
    ----------
    first, second : str
    mean : float
        Mean of the losses of the first less those of the second: squared errors, or shares of wrong labels.
    p_value : float
        Adjusted for all pairs of the comparison.
    """

    first: str
    second: str
    mean: float
    p_value: float

    @property
    def is_noise(self) -> bool:
        """Whether so large a difference is no surprise between equals."""
        return not self.p_value <= FALSE_ALARM


def differences(losses: Mapping[str, Sequence[np.ndarray]]) -> list[Difference]:
    """Compare all pairs of methods.

    Parameters
    ----------
    losses : mapping of str to sequence of ndarray of shape (r,)
        For each method the losses of the test rows, split by split, in the same order.

    Returns
    -------
    list of Difference
        One for each pair, in the order of the mapping.

    Notes
    -----
    The mean difference of the losses of a row has a variance from the rows and, where there are several splits and
    their means differ by more than the rows explain, one from the draws of training rows. Student's t has the degrees
    of freedom of Welch and Satterthwaite; the p-values are adjusted by Holm.

    **Error.** The probability of any false alarm is 5 % for rows that are independent of each other. Training rows
    that splits have in common make their means more alike than those of new data would be; with one split nothing is
    known of what other training rows would change.

    **Cost** one pass over the losses for each pair.

    **Differs from the source in** taking both variances together.

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
    """Mean of paired differences, and the probability of one as large between equals."""
    every = np.concatenate(parts)
    n, k = every.size, len(parts)
    mean = float(every.mean())
    of_rows = float(every.var(ddof=1)) / n if n > 1 else np.inf
    of_splits = 0.0
    if k > 1:
        # This is the variance of the splits' means beyond what their rows explain.
        explained = float(np.mean([part.var(ddof=1) / part.size for part in parts]))
        of_splits = max(0.0, float(np.var([part.mean() for part in parts], ddof=1)) - explained) / k
    variance = of_rows + of_splits
    if variance == 0:
        return mean, 1.0 if mean == 0 else 0.0
    freedom = variance**2 / (of_rows**2 / (n - 1) + (of_splits**2 / (k - 1) if k > 1 else 0.0))
    return mean, float(2 * student.sf(abs(mean) / np.sqrt(variance), freedom))


def _holm(values: np.ndarray) -> np.ndarray:
    """Adjusted p-values: the smallest counts as many times as there are, the next once less, and so on."""
    order = np.argsort(values, kind="stable")
    scaled = values[order] * np.arange(values.size, 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted
