"""Scores of frequencies, and sampling without replacement in proportion to the scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from phimap.features.data_dependent.pool import for_blocks
from phimap.kernels import Kernel

# The automatic alpha makes the statistical dimension this share of min(width, number of rows).
_DIMENSION_SHARE = 1 / 8


def leverage_scores(
    kernel: Kernel, rows: np.ndarray, frequencies: np.ndarray, alpha: float | None, n_components: int
) -> tuple[np.ndarray, float]:
    """Ridge leverage scores ``z^T (K + n alpha I)^{-1} z`` (l,) on rows (n, d), and alpha.

    A score is the sum of this expression over two vectors z: the cosines and the sines of a frequency. If alpha is
    None, it is chosen by `dimension_alpha`.
    """
    n = len(rows)
    values, vectors = np.linalg.eigh(kernel(rows))
    values = np.maximum(values, 0.0)
    alpha = dimension_alpha(values, n_components) if alpha is None else alpha
    whitening = vectors / np.sqrt(values + n * alpha)

    def scores(cosines: np.ndarray, sines: np.ndarray) -> np.ndarray:
        return np.square(whitening.T @ cosines).sum(axis=0) + np.square(whitening.T @ sines).sum(axis=0)

    return for_blocks(rows, frequencies, scores), alpha


def dimension_alpha(values: np.ndarray, n_components: int) -> float:
    """Alpha at which the statistical dimension ``sum v / (v + n alpha)`` of n eigenvalues v is min(width, n) / 8."""
    n = values.size
    wanted = max(1.0, min(n_components, n) * _DIMENSION_SHARE) if n > 1 else 0.5
    least = np.finfo(np.float64).eps * values.sum() / n

    def excess(exponent: float) -> float:
        return float((values / (values + n * np.exp(exponent))).sum()) - wanted

    low, high = np.log(least), np.log(2 * values.sum() / wanted)
    # With few distinct rows K has too low a rank for this dimension: return the smallest alpha above rounding.
    if excess(low) <= 0:
        return float(least)
    exponent: Any = brentq(excess, low, high)
    return float(np.exp(exponent))


def surrogate_scores(rows: np.ndarray, targets: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """``z^T (Y Y^T / n + I) z`` (l,), summed over cosines and sines z, on rows (n, d) with targets (n, t).

    The source's constant factor ``1 / (n lambda)`` is omitted: only ratios of scores matter.
    """
    return len(rows) * (1.0 + target_energies(rows, targets, frequencies))


def target_energies(rows: np.ndarray, targets: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Energies (l,) of the targets at frequencies w: ``sum_t |mean_i y_it exp(i <w, x_i>)|^2``."""

    def energies(cosines: np.ndarray, sines: np.ndarray) -> np.ndarray:
        parts = np.square(targets.T @ cosines).sum(axis=0) + np.square(targets.T @ sines).sum(axis=0)
        return parts / len(rows) ** 2

    return for_blocks(rows, frequencies, energies)


def inclusion_probabilities(scores: np.ndarray, size: int) -> np.ndarray:
    """Inclusion probabilities (l,) that sum to `size`, proportional to the scores except those capped at 1."""
    certain = np.zeros(scores.size, dtype=bool)
    probabilities = np.ones(scores.size)
    while True:
        open_scores = scores[~certain]
        left = size - certain.sum()
        if not open_scores.size or not open_scores.sum() > 0:
            # All remaining scores are 0: give them equal probabilities.
            probabilities[~certain] = left / max(open_scores.size, 1)
            return probabilities
        probabilities[~certain] = left * open_scores / open_scores.sum()
        over = probabilities > 1
        if not over.any():
            return probabilities
        probabilities[over], certain = 1.0, certain | over


def systematic_sample(probabilities: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """`size` distinct indices, each included with its probability (l,), by systematic sampling.

    Systematic sampling steps by 1 along the cumulative sums of the probabilities, from a random start. Indices are
    sorted by probability first, ties at random: every sample then contains similar numbers of likely and unlikely
    indices, and the sum of ``1 / probability`` over the sample hardly varies.
    """
    order = rng.permutation(probabilities.size)
    order = order[np.argsort(-probabilities[order], kind="stable")]
    sums = np.cumsum(probabilities[order])
    sums *= size / sums[-1]
    return rng.permutation(order[np.searchsorted(sums, rng.random() + np.arange(size), side="right")])
