"""Greedy algorithms for sparse weights: a weighted sum of a few vectors approximates the sum of all vectors.

Nonzero vectors r_1, ..., r_l are given only by their inner products G (l, l). Both algorithms scale the vectors to
equal length and use an exact line search, so the error never increases.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Maximum number of steps for each vector to be kept. Some steps choose a vector that was chosen before.
_STEPS = 4


def frank_wolfe(G: np.ndarray, size: int) -> np.ndarray:
    """Nonnegative weights (l,), at most `size` of them positive, by the Frank-Wolfe algorithm.

    It minimises ``f = |sum_j w_j r_j - R|^2`` subject to ``sum_j w_j |r_j| = sigma``, where R is the sum of all r_j,
    and sigma the sum of their lengths. The vertices of this set are ``r_j sigma / |r_j|``. The start is the vertex with
    the largest inner product with R. After t steps, ``f <= D^2 / (1 + t)``, where D is the largest distance between two
    vertices, at most ``2 sigma``.
    """
    lengths = np.sqrt(G.diagonal())
    sigma = lengths.sum()
    # A point is a convex combination c of the vertices, and w_j = c_j sigma / |r_j|.
    scale = sigma / lengths
    corners, target = G * scale * scale[:, None], G.sum(axis=1) * scale
    mixture = np.zeros(len(G))
    first = int(np.argmax(target))
    mixture[first] = 1.0
    # Inner products of the vertices with the current point, and its squared norm.
    products, square = corners[first].copy(), float(corners[first, first])

    def step() -> bool:
        nonlocal mixture, products, square
        slopes = target - products
        best = int(np.argmax(slopes))
        toward = slopes[best] - (mixture @ target - square)
        length = corners[best, best] - 2 * products[best] + square
        if not (toward > 0 and length > 0):
            return False
        share = min(toward / length, 1.0)
        square = (1 - share) ** 2 * square + 2 * share * (1 - share) * products[best] + share**2 * corners[best, best]
        mixture *= 1 - share
        mixture[best] += share
        products = (1 - share) * products + share * corners[best]
        return True

    _walk(step, lambda: mixture, size)
    return mixture * scale


def giga(G: np.ndarray, size: int) -> np.ndarray:
    """Nonnegative weights (l,), at most `size` of them positive, by greedy iterative geodesic ascent.

    A point y on the unit sphere moves toward the direction of R, the sum of all vectors r_j. Each step chooses the r_j
    for which the great circle from y to r_j starts closest to the direction of R. Then y moves along this circle to the
    position nearest to R. The length of the weighted sum is fitted at the end. The error is ``|R| sin(angle)``, with
    the angle between y and R.
    """
    lengths = np.sqrt(G.diagonal())
    whole = float(np.sqrt(max(G.sum(), 0.0)))
    units = G / lengths / lengths[:, None]
    target = G.sum(axis=1) / (lengths * whole)
    weights = np.zeros(len(G))
    first = int(np.argmax(target))
    weights[first] = 1.0
    # Cosines of the angles between the point and the vectors, and between the point and R.
    products, cosine = units[first].copy(), float(target[first])

    def step() -> bool:
        nonlocal weights, products, cosine
        # The great circle from the point to r_j starts along r_j - <r_j, point> point.
        sine = np.sqrt(np.maximum(1 - products**2, 0.0))
        along = np.full(len(G), -np.inf)
        usable = sine > np.sqrt(np.finfo(np.float64).eps)
        along[usable] = (target[usable] - cosine * products[usable]) / sine[usable]
        best = int(np.argmax(along))
        if not along[best] > 0:
            return False
        to_best, to_rest = target[best] - cosine * products[best], cosine - target[best] * products[best]
        share = to_best / (to_best + max(to_rest, 0.0))
        length = np.sqrt((1 - share) ** 2 + 2 * share * (1 - share) * products[best] + share**2)
        weights *= (1 - share) / length
        weights[best] += share / length
        products = ((1 - share) * products + share * units[best]) / length
        cosine = ((1 - share) * cosine + share * target[best]) / length
        return True

    _walk(step, lambda: weights, size)
    return weights * (cosine * whole) / lengths


def _walk(step: Callable[[], bool], weights: Callable[[], np.ndarray], size: int) -> None:
    """Take steps until `size` weights are positive, no step reduces the error, or 4 * `size` steps are done."""
    for _ in range(_STEPS * size):
        if np.count_nonzero(weights()) >= size or not step():
            return


#: Algorithms by name.
METHODS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {"frank-wolfe": frank_wolfe, "giga": giga}
