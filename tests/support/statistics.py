"""Statistical tests with a stated false-alarm rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

#: Probability that a correct program fails one statistical test.
FALSE_ALARM = 1e-6


def is_mean(samples: np.ndarray, expected: np.ndarray | float, false_alarm: float = FALSE_ALARM) -> bool:
    """Whether `expected` can be the mean of the independent, identically distributed ``samples[i]``.

    Every entry of the sample mean is standardised by its own standard error and compared with the two-sided
    quantile of Student's t, divided among the entries (Bonferroni).
    """
    samples = np.asarray(samples, dtype=np.float64)
    n = samples.shape[0]
    error = samples.std(axis=0, ddof=1) / np.sqrt(n)
    # An entry that never varies is known exactly, up to the rounding of its evaluation.
    floor = 64 * np.finfo(np.float64).eps * np.maximum(np.abs(expected), 1)
    z = np.abs(samples.mean(axis=0) - expected) / np.maximum(error, floor)
    return bool(z.max() < stats.t.isf(false_alarm / (2 * z.size), n - 1))


def enough_samples(draw: Callable[[range], np.ndarray], accepts: Callable[[np.ndarray], bool]) -> np.ndarray:
    """A hundred samples, or four hundred if `accepts` tells that a mutant passes with a hundred.

    ``draw(numbers)`` gives one sample for each number. A test may look at the samples once or twice, so each look gets
    half of the false-alarm rate.
    """
    samples = draw(range(100))
    return np.concatenate([samples, draw(range(100, 400))]) if accepts(samples) else samples


def kernel_estimates(draw: Callable[[int], np.ndarray], n_seeds: int) -> np.ndarray:
    """Stack the kernel estimates ``Z Z^T`` of the features ``Z = draw(seed)`` over seeds: (n_seeds, n, n)."""
    features = (draw(seed) for seed in range(n_seeds))
    return np.stack([Z @ Z.T for Z in features])


def is_at_most(samples: np.ndarray, bound: np.ndarray | float, false_alarm: float = FALSE_ALARM) -> bool:
    """Whether the mean of the independent, identically distributed ``samples[i]`` can lie at or below `bound`.

    One-sided, entry by entry, by Student's t as in `is_mean`.
    """
    samples = np.asarray(samples, dtype=np.float64)
    n = samples.shape[0]
    error = samples.std(axis=0, ddof=1) / np.sqrt(n)
    excess = samples.mean(axis=0) - bound
    return bool((excess <= stats.t.isf(false_alarm / excess.size, n - 1) * error).all())


def fails_at_most(failed: Sequence[bool], probability: float, false_alarm: float = FALSE_ALARM) -> bool:
    """Whether independent trials, of which these `failed`, can fail with this probability at most."""
    return bool(sum(failed) <= stats.binom.isf(false_alarm, len(failed), probability))


def is_slope(x: np.ndarray, y: np.ndarray, expected: float, false_alarm: float = FALSE_ALARM) -> bool:
    """Whether `expected` can be the slope of the line through the points, whose errors are independent."""
    fit = stats.linregress(x, y)
    return bool(abs(fit.slope - expected) < stats.t.isf(false_alarm / 2, len(x) - 2) * fit.stderr)


def follows(samples: np.ndarray, distribution_function: Callable, false_alarm: float = FALSE_ALARM) -> bool:
    """Whether the independent samples (n,) can have this distribution function, by Kolmogorov and Smirnov."""
    return bool(stats.kstest(samples, distribution_function).pvalue > false_alarm)
