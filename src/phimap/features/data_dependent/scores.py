"""Scores of frequencies, and sampling without replacement in proportion to the scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from phimap.features.data_dependent.dictionaries import METHODS, STOPPING_METHODS, Items
from phimap.features.data_dependent.pool import for_blocks
from phimap.features.nystroem.landmarks import nystroem_factor
from phimap.kernels import Kernel

# The parameter of all `METHODS` for oversampling: the expected number of draws of an item of score 1.
_OVERSAMPLING = 4.0
# Statistical dimension of the kernel at the automatic alpha, as a share of min(width, number of rows).
_DIMENSION_SHARE = 1 / 8


def leverage_scores(
    K: np.ndarray, rows: np.ndarray, frequencies: np.ndarray, alpha: float | None, n_components: int
) -> tuple[np.ndarray, float]:
    """Ridge leverage scores ``z^T (K + n alpha I)^{-1} z`` (l,) on rows (n, d) with kernel matrix K, and alpha.

    A score is the sum of this expression over two vectors z: the cosines and the sines of a frequency. If alpha is
    None, it is chosen by `dimension_alpha`.
    """
    n = len(rows)
    values, vectors = np.linalg.eigh(K)
    values = np.maximum(values, 0.0)
    alpha = dimension_alpha(values, n, n_components) if alpha is None else alpha
    whitening = vectors / np.sqrt(values + n * alpha)
    return _squared_norms(whitening, rows, frequencies), alpha


def nystroem_leverage_scores(
    method: str,
    kernel: Kernel,
    rows: np.ndarray,
    frequencies: np.ndarray,
    alpha: float | None,
    n_components: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, float]:
    """The scores (l,) of `leverage_scores` with a Nystroem approximation in place of K, and alpha.

    The landmarks are the rows that ``METHODS[method]`` draws. Let ``B B^T`` be the approximation, with B (n, r), and
    ``L L^T = B^T B + n alpha I``. A score is ``(|z|^2 - |L^{-1} B^T z|^2) / (n alpha)``, summed over two vectors z
    (n,): the cosines and the sines of a frequency. As ``B B^T <= K``, no score is below the score of K at the same
    alpha. If alpha is None, `dimension_alpha` chooses it from the eigenvalues of the approximation; only
    `STOPPING_METHODS` can do so.
    """
    n = len(rows)
    items = Items(kernel.diag(rows)[:, None], lambda a, b: kernel(rows[a], rows[b]))
    least = n * np.finfo(np.float64).eps * float(items.squares.max(initial=0.0))
    if alpha is None:
        # The dictionary is larger than the wanted dimension, because alpha also depends on smaller eigenvalues.
        wanted = 2 * _wanted_dimension(n, n_components)
        sample = STOPPING_METHODS[method](items, least, _OVERSAMPLING, rng, wanted)
    else:
        sample = METHODS[method](items, max(n * alpha, least), _OVERSAMPLING, rng)
    B = nystroem_factor(kernel, rows, sample.places)
    values, vectors = np.linalg.eigh(B.T @ B)
    values = np.maximum(values, 0.0)
    alpha = dimension_alpha(values, n, n_components) if alpha is None else alpha
    explained = _squared_norms(B @ (vectors / np.sqrt(values + n * alpha)), rows, frequencies)
    # The squared cosines and sines of a frequency sum to n.
    return np.maximum(n - explained, 0.0) / (n * alpha), alpha


def _squared_norms(factor: np.ndarray, rows: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """``|factor^T z|^2`` (l,), summed over the cosines and the sines z (n,) of a frequency; `factor` is (n, r)."""

    def norms(cosines: np.ndarray, sines: np.ndarray) -> np.ndarray:
        return np.square(factor.T @ cosines).sum(axis=0) + np.square(factor.T @ sines).sum(axis=0)

    return for_blocks(rows, frequencies, norms)


def pool_matrix(rows: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """The estimate (n, n) of the kernel matrix by all frequencies (l, d), each with weight 1 / l."""
    K = np.zeros((len(rows), len(rows)))

    def add(cosines: np.ndarray, sines: np.ndarray) -> np.ndarray:
        np.add(K, (cosines @ cosines.T + sines @ sines.T) / len(frequencies), out=K)
        return np.empty(0)

    for_blocks(rows, frequencies, add)
    return K


def dimension_alpha(values: np.ndarray, n: int, n_components: int) -> float:
    """Alpha at which the statistical dimension ``sum v / (v + n alpha)`` is min(width, n) / 8.

    `values` are the eigenvalues of the kernel matrix of n rows. Eigenvalues of 0 may be left out.
    """
    wanted = _wanted_dimension(n, n_components)
    least = np.finfo(np.float64).eps * values.sum() / n

    def excess(exponent: float) -> float:
        return float((values / (values + n * np.exp(exponent))).sum()) - wanted

    low, high = np.log(least), np.log(2 * values.sum() / wanted)
    # If few rows are distinct, the rank of K is too low for this dimension. The smallest alpha above rounding is then
    # returned.
    if excess(low) <= 0:
        return float(least)
    exponent: Any = brentq(excess, low, high)
    return float(np.exp(exponent))


def _wanted_dimension(n: int, n_components: int) -> float:
    """The statistical dimension at the automatic alpha, for n rows and this width."""
    return max(1.0, min(n_components, n) * _DIMENSION_SHARE) if n > 1 else 0.5


def surrogate_scores(rows: np.ndarray, targets: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """``z^T (Y Y^T / n + I) z`` (l,), summed over cosines and sines z, on rows (n, d) with targets (n, t).

    The constant factor ``1 / (n lambda)`` of the source is omitted, because only ratios of scores matter.
    """
    return len(rows) * (1.0 + target_energies(rows, targets, frequencies))


def target_energies(rows: np.ndarray, targets: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Energies (l,) of the targets at frequencies w: ``sum_t |mean_i y_it exp(i <w, x_i>)|^2``."""

    def energies(cosines: np.ndarray, sines: np.ndarray) -> np.ndarray:
        parts = np.square(targets.T @ cosines).sum(axis=0) + np.square(targets.T @ sines).sum(axis=0)
        return parts / len(rows) ** 2

    return for_blocks(rows, frequencies, energies)


def inclusion_probabilities(scores: np.ndarray, size: int) -> np.ndarray:
    """Inclusion probabilities (l,) of sum `size`, proportional to the scores except where they are capped at 1."""
    certain = np.zeros(scores.size, dtype=bool)
    probabilities = np.ones(scores.size)
    while True:
        open_scores = scores[~certain]
        left = size - certain.sum()
        if not open_scores.size or not open_scores.sum() > 0:
            # All remaining scores are 0, so their frequencies get equal probabilities.
            probabilities[~certain] = left / max(open_scores.size, 1)
            return probabilities
        probabilities[~certain] = left * open_scores / open_scores.sum()
        over = probabilities > 1
        if not over.any():
            return probabilities
        probabilities[over], certain = 1.0, certain | over


def systematic_sample(probabilities: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """`size` distinct indices, each included with its probability (l,), by systematic sampling.

    Systematic sampling steps by 1 along the cumulative sums of the probabilities, from a random start. Before that,
    indices are sorted by probability, with ties in random order. Every sample then contains similar numbers of likely
    and unlikely indices, and the sum of ``1 / probability`` over the sample hardly varies.
    """
    order = rng.permutation(probabilities.size)
    order = order[np.argsort(-probabilities[order], kind="stable")]
    sums = np.cumsum(probabilities[order])
    sums *= size / sums[-1]
    return rng.permutation(order[np.searchsorted(sums, rng.random() + np.arange(size), side="right")])
