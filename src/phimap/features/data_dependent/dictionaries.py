r"""Ridge leverage scores of many items from a small weighted sample of them, called the dictionary.

An item is a vector v (or several vectors, whose scores are added). Its score at the ridge lambda is
``v^T (C + lambda)^{-1} v`` with C the sum of ``v v^T`` over all items. If item j is sampled a_j times on average, then
``C_S = sum_j v_j v_j^T / a_j`` over the sampled items has the mean C. Let ``K_S`` be their Gram matrix,
``A = diag(a)``, and k the inner products of v with them. By the matrix inversion lemma

.. math:: v^\top (C_S + \lambda)^{-1} v = \frac{1}{\lambda} \left( v^\top v - k^\top (K_S + \lambda A)^{-1} k \right)

If ``(1 - e)(C + lambda) <= C_S + lambda <= (1 + e)(C + lambda)``, the estimate lies between score / (1 + e) and score /
(1 - e). Draws in proportion to the scores satisfy this condition with about ``d log(d) / e^2`` items, where d is the
sum of all scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

# Number of items whose inner products with the dictionary are in memory at a time.
_BLOCK = 2048
# Ratio of a ridge in `path_following` to the next ridge.
_STEP = 2.0
# Jitter of Gram matrices, in units of (machine epsilon) x (order) x (largest diagonal entry).
_JITTER = 4


@dataclass(frozen=True)
class Items:
    """Items, given by the inner products of their vectors.

    Attributes
    ----------
    squares : ndarray of shape (n, w)
        Squared norms of the w vectors of each item.
    products : callable
        ``products(a, b)`` gives the inner products (w len(a), w len(b)) of the items at indices a and b; the vectors of
        an item are neighbours.
    """

    squares: np.ndarray
    products: Callable[[np.ndarray, np.ndarray], np.ndarray]

    def __len__(self) -> int:
        return len(self.squares)


@dataclass(frozen=True)
class Dictionary:
    """A weighted sample of the items.

    Attributes
    ----------
    places : ndarray of shape (r,)
        Distinct indices of the items.
    counts : ndarray of shape (r,)
        Expected number of occurrences of each sampled item, divided by its number of occurrences.
    """

    places: np.ndarray
    counts: np.ndarray

    def scores(self, items: Items, ridge: float, at: np.ndarray) -> np.ndarray:
        """Estimated scores of the items at indices `at`, each at most the number of its vectors."""
        width = items.squares.shape[1]
        squares = items.squares[at]
        if self.places.size:
            shifted = items.products(self.places, self.places)
            rounding = _JITTER * len(shifted) * np.finfo(np.float64).eps * shifted.diagonal().max(initial=0.0)
            shifted.flat[:: len(shifted) + 1] += ridge * np.repeat(self.counts, width) + rounding
            lower = cholesky(shifted, lower=True, overwrite_a=True)
            explained = np.empty((len(at), width))
            for start in range(0, len(at), _BLOCK):
                part = slice(start, start + _BLOCK)
                half = solve_triangular(lower, items.products(self.places, at[part]), lower=True, overwrite_b=True)
                explained[part] = np.square(half).sum(axis=0).reshape(-1, width)
            squares = squares - explained
        return np.clip(squares / ridge, 0.0, 1.0).sum(axis=1)


def _drawn(scores: np.ndarray, candidates: np.ndarray, share: float, size: int, rng: np.random.Generator) -> Dictionary:
    """Draw `size` items with replacement from the candidates, in proportion to their scores.

    An item is a candidate with the probability `share`.
    """
    total = scores.sum()
    chances = scores / total if total > 0 else np.full(len(scores), 1.0 / len(scores))
    chosen, copies = np.unique(rng.choice(len(candidates), size, p=chances), return_counts=True)
    return Dictionary(candidates[chosen], share * size * chances[chosen] / copies)


def path_following(
    items: Items, ridge: float, oversampling: float, rng: np.random.Generator, dimension: float = np.inf
) -> Dictionary:
    """Draw a dictionary at each of several falling ridges, and return the last one.

    The method is Algorithm 1 of Rudi, Calandriello, Carratino, Rosasco (2018). The first ridge is ``n max |v|^2`` over
    the n items v. There all scores are at most 1 / n, so uniform draws suffice. Each further ridge is half of the
    ridge before it. At each ridge, scores are estimated for some random items, the candidates, with the dictionary of
    the ridge before it. The number of candidates is proportional to the largest possible score, ``max |v|^2 / ridge``.
    The last ridge is `ridge`, or the first at which the sum of all scores reaches `dimension`.
    """
    n, largest = len(items), float(items.squares.sum(axis=1).max(initial=0.0))
    current = max(n * largest, ridge)
    found = Dictionary(np.empty(0, np.intp), np.empty(0))
    while True:
        n_candidates = min(n, int(np.ceil(oversampling * n * largest / current)) + 1)
        candidates = rng.permutation(n)[:n_candidates]
        scores = found.scores(items, current, candidates)
        total = scores.sum() * n / n_candidates
        found = _drawn(scores, candidates, n_candidates / n, max(1, int(np.ceil(oversampling * total))), rng)
        if current <= ridge or total >= dimension:
            return found
        current = max(current / _STEP, ridge)


def two_pass(items: Items, ridge: float, oversampling: float, rng: np.random.Generator) -> Dictionary:
    """Draw a dictionary by squared norms, then a second by the scores that the first gives; return the second.

    The method is described in Section 3.2 of Alaoui, Mahoney (2015).

    The number of draws of the first dictionary is an upper bound of the sum of all scores: ``sum |v|^2 / ridge``, at
    most the number of items.
    """
    every, norms = np.arange(len(items)), items.squares.sum(axis=1)
    size = min(len(items), int(np.ceil(oversampling * norms.sum() / ridge)) + 1)
    first = _drawn(norms, every, 1.0, size, rng)
    scores = first.scores(items, ridge, every)
    return _drawn(scores, every, 1.0, max(1, int(np.ceil(oversampling * scores.sum()))), rng)


def online(items: Items, ridge: float, oversampling: float, rng: np.random.Generator) -> Dictionary:
    """Dictionary in one pass over the items in order (Calandriello, Lazaric, Valko 2017, Algorithm 1).

    An item enters with q = `oversampling` copies. The score of an item among the items seen so far can only fall. The
    score p of a copy is therefore the smallest estimate so far. If p falls, a copy is kept with the probability new p /
    old p, so that the expected number of copies is ``q p``. Items enter in blocks of the size of the dictionary, at
    least 64. At a large ridge the dictionary may be empty.
    """
    copies = max(1, round(oversampling))
    places, chances, left = np.empty(0, np.intp), np.empty(0), np.empty(0, np.int64)
    start = 0
    while start < len(items):
        stop = min(len(items), start + max(len(places), 64))
        places = np.concatenate([places, np.arange(start, stop)])
        chances = np.concatenate([chances, np.ones(stop - start)])
        left = np.concatenate([left, np.full(stop - start, copies)])
        scores = Dictionary(places, copies * chances / left).scores(items, ridge, places)
        lowered = np.minimum(chances, np.maximum(scores, np.finfo(np.float64).tiny))
        left = rng.binomial(left, lowered / chances)
        places, chances, left = places[left > 0], lowered[left > 0], left[left > 0]
        start = stop
    return Dictionary(places, copies * chances / left)


#: Methods that find a dictionary, by name.
METHODS: dict[str, Callable[[Items, float, float, np.random.Generator], Dictionary]] = {
    "path-following": path_following,
    "two-pass": two_pass,
    "online": online,
}
#: The methods that need no ridge: they can stop at the ridge where the sum of all scores reaches their last argument.
STOPPING_METHODS: dict[str, Callable[[Items, float, float, np.random.Generator, float], Dictionary]] = {
    "path-following": path_following,
}
