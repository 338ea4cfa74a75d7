r"""Rank-1 lattices of prime size, their generating vector by a component-by-component construction.

The points are ``{i z / N}``, i = 0, ..., N - 1, for a vector z of whole numbers, shifted by one uniform point modulo 1.
Integrands with square-integrable mixed derivatives of first order, weighted by ``gamma`` a coordinate, have the
reproducing kernel

.. math:: \prod_j \bigl(1 + \gamma (\tfrac12 B_2(\{x_j - y_j\}) + (x_j - \tfrac12)(y_j - \tfrac12))\bigr),
          \qquad B_2(t) = t^2 - t + \tfrac16.

The squared error of a rule in the worst case is the mean of this kernel over all pairs of points, less 1. A uniform
shift of both arguments makes of ``(x - 1/2)(y - 1/2)`` another ``B_2({x - y}) / 2`` on average, and the differences of
the points of a lattice are its points, each N times. So the mean over shifts is

.. math:: e^2(z) = \frac1N \sum_{i=0}^{N-1} \prod_j \bigl(1 + \gamma B_2(\{i z_j / N\})\bigr) - 1,

O(N d) to evaluate. The construction takes one coordinate after the other, each the best with those before it.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count

import numpy as np

# Weight of a coordinate, times their number. An integrand cos(w.t) has derivatives of mean square t_j^2 / 2 or so in
# w_j, and kernels are wanted at |t| of about 1. A quarter of it and four times it made no difference in what was
# measured.
_TOTAL_WEIGHT = 2.0


def shifted_lattice(n_coordinates: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Points (size, n_coordinates) of a randomly shifted lattice, in [0, 1), in random order.

    The lattice has the least prime number of points that suffices, of which chance leaves out those too many: a part of
    the points is then no worse than independent ones.
    """
    n_points = next(n for n in count(max(size, 3)) if is_prime(n))
    chosen = rng.permutation(n_points)[:size]
    # Products are below the square of the number of points, far from the range of whole numbers.
    points = (chosen[:, None] * generating_vector(n_points, n_coordinates)) % n_points / n_points
    points += rng.random(n_coordinates)
    return points % 1.0


@lru_cache(maxsize=32)
def generating_vector(n_points: int, n_coordinates: int) -> np.ndarray:
    """Generating vector (n_coordinates,) of a lattice of a prime number of points, at least 3.

    By the powers of a primitive root g the sums over ``i = g^-b`` for all ``z = g^a`` are one cyclic convolution, which
    Fourier transforms take: O(d N log N). Since ``B_2({-t}) = B_2({t})`` half of the powers do.
    """
    half = (n_points - 1) // 2
    root = _primitive_root(n_points)
    powers = np.empty(half, dtype=np.int64)
    powers[0] = 1
    for a in range(1, half):
        powers[a] = powers[a - 1] * root % n_points
    t = powers / n_points
    bernoulli = t * t - t + 1 / 6
    spectrum = np.fft.rfft(bernoulli)
    weight = _TOTAL_WEIGHT / n_coordinates
    products = np.ones(half)
    vector = np.empty(n_coordinates, dtype=np.int64)
    for j in range(n_coordinates):
        # All candidates are alike for the first coordinate. The sums over b are what they differ in.
        sums = np.fft.irfft(spectrum * np.fft.rfft(products), half) if j else np.zeros(half)
        best = int(np.argmin(sums))
        vector[j] = powers[best]
        products *= 1 + weight * bernoulli[(best - np.arange(half)) % half]
        # Only their ratios count, and those of many coordinates would leave the range of numbers.
        products /= products.mean()
    vector.flags.writeable = False
    return vector


def is_prime(n: int) -> bool:
    """Whether a whole number is prime, by trial of its divisors."""
    return n > 1 and all(n % factor for factor in range(2, int(n**0.5) + 1))


def _primitive_root(prime: int) -> int:
    """The least number whose powers are all of 1, ..., prime - 1."""
    factors = [q for q in range(2, prime) if (prime - 1) % q == 0 and is_prime(q)]
    return next(g for g in range(2, prime) if all(pow(g, (prime - 1) // q, prime) != 1 for q in factors))
