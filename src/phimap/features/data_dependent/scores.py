"""Scores of frequencies, and draws of some of them in proportion to their scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from phimap.features.data_dependent.pool import for_blocks
from phimap.kernels import Kernel

# Share of the width, or of the rows if these are fewer, that the statistical dimension has at the chosen alpha.
_DIMENSION_SHARE = 1 / 8


def leverage_scores(
    kernel: Kernel, rows: np.ndarray, frequencies: np.ndarray, alpha: float | None, n_components: int
) -> tuple[np.ndarray, float]:
    """Ridge leverage ``z^T (K + n alpha I)^{-1} z`` (l,), cosine and sine added up, on rows (n, d), and alpha.

    Where alpha is None it is the one at which the statistical dimension of K is an eighth of the width.
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
    """Alpha at which ``sum v / (v + n alpha)`` over n eigenvalues is an eighth of the width, or of n if n is less."""
    n = values.size
    wanted = max(1.0, min(n_components, n) * _DIMENSION_SHARE) if n > 1 else 0.5
    least = np.finfo(np.float64).eps * values.sum() / n

    def excess(exponent: float) -> float:
        return float((values / (values + n * np.exp(exponent))).sum()) - wanted

    low, high = np.log(least), np.log(2 * values.sum() / wanted)
    # Few distinct rows have no such dimension: all that they have is above rounding.
    if excess(low) <= 0:
        return float(least)
    exponent: Any = brentq(excess, low, high)
    return float(np.exp(exponent))


def surrogate_scores(rows: np.ndarray, targets: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """``z^T (Y Y^T / n + I) z`` (l,), cosine and sine added up, on rows (n, d) with targets (n, t).

    The factor ``1 / (n lambda)`` of the source is left out: it is common to all.
    """
    return len(rows) * (1.0 + target_energies(rows, targets, frequencies))


def target_energies(rows: np.ndarray, targets: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """``sum_t |mean_i y_it exp(i <w, x_i>)|^2`` (l,): the share of the targets' square that goes with a frequency."""

    def energies(cosines: np.ndarray, sines: np.ndarray) -> np.ndarray:
        parts = np.square(targets.T @ cosines).sum(axis=0) + np.square(targets.T @ sines).sum(axis=0)
        return parts / len(rows) ** 2

    return for_blocks(rows, frequencies, energies)


def inclusion_probabilities(scores: np.ndarray, size: int) -> np.ndarray:
    """Probabilities (l,) in proportion to the scores, none above 1, whose sum is `size`."""
    certain = np.zeros(scores.size, dtype=bool)
    probabilities = np.ones(scores.size)
    while True:
        open_scores = scores[~certain]
        left = size - certain.sum()
        if not open_scores.size or not open_scores.sum() > 0:
            # Scores of zero leave nothing to tell the others apart by.
            probabilities[~certain] = left / max(open_scores.size, 1)
            return probabilities
        probabilities[~certain] = left * open_scores / open_scores.sum()
        over = probabilities > 1
        if not over.any():
            return probabilities
        probabilities[over], certain = 1.0, certain | over


def systematic_sample(probabilities: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """`size` distinct places, each with its probability (l,): steps of one along the sums, from a random start.

    The places are sorted by probability first, in random order where these are equal, so that every draw has its share
    of likely and unlikely ones; the sum of ``1 / probability`` then hardly varies.
    """
    order = rng.permutation(probabilities.size)
    order = order[np.argsort(-probabilities[order], kind="stable")]
    sums = np.cumsum(probabilities[order])
    sums *= size / sums[-1]
    return rng.permutation(order[np.searchsorted(sums, rng.random() + np.arange(size), side="right")])
