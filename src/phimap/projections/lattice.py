r"""Rank-1 lattices of prime size, with generating vectors from a component-by-component construction.

The points are ``{i z / N}``, i = 0, ..., N - 1, for an integer vector z, shifted by one uniform point modulo 1. The
space of integrands with square-integrable mixed first derivatives, weighted by ``gamma`` per coordinate, has the
reproducing kernel

.. math:: \prod_j \bigl(1 + \gamma (\tfrac12 B_2(\{x_j - y_j\}) + (x_j - \tfrac12)(y_j - \tfrac12))\bigr),
          \qquad B_2(t) = t^2 - t + \tfrac16.

The squared worst-case error of a rule is the mean of this kernel over all pairs of points, minus 1. Averaged over a
uniform shift of x and y, ``(x - 1/2)(y - 1/2)`` becomes ``B_2({x - y}) / 2``. The differences of lattice points are the
lattice points, each N times. The mean squared error over shifts is therefore

.. math:: e^2(z) = \frac1N \sum_{i=0}^{N-1} \prod_j \bigl(1 + \gamma B_2(\{i z_j / N\})\bigr) - 1,

which takes O(N d) operations. The construction chooses the coordinates of z one after another. Each choice minimises
the error for the coordinates chosen so far.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count

import numpy as np

# The weight of a coordinate in the error of the lattice is this number divided by the number of coordinates. An
# integrand is ``cos(<w, t>)`` for a difference t of rows. Its derivative in w_j has a mean square of about ``t_j^2 /
# 2``, and kernels should be accurate for ``|t|`` of about 1. Weights four times smaller or larger gave the same
# accuracy.
_TOTAL_WEIGHT = 2.0


def shifted_lattice(n_coordinates: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Points (size, n_coordinates) of a randomly shifted lattice, in [0, 1), in random order.

    The lattice has N points, where N is the smallest prime that is at least `size` (and at least 3). Of these points,
    `size` are selected at random. In random order, the first few points are at least as good as independent draws.
    """
    n_points = next(n for n in count(max(size, 3)) if is_prime(n))
    chosen = rng.permutation(n_points)[:size]
    # The integer products are below n_points^2, so they cannot overflow.
    points = (chosen[:, None] * generating_vector(n_points, n_coordinates)) % n_points / n_points
    points += rng.random(n_coordinates)
    return points % 1.0


@lru_cache(maxsize=32)
def generating_vector(n_points: int, n_coordinates: int) -> np.ndarray:
    """Generating vector (n_coordinates,) of a lattice whose number of points is a prime, at least 3.

    With powers of a primitive root g, the sums over ``i = g^-b`` for all candidates ``z = g^a`` form one cyclic
    convolution per coordinate. Fourier transforms compute all convolutions in O(d N log N). Half of the powers suffice,
    because ``B_2({-t}) = B_2({t})``.
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
        # For the first coordinate, all candidates are equivalent. For the others, the sums over b rank the candidates.
        sums = np.fft.irfft(spectrum * np.fft.rfft(products), half) if j else np.zeros(half)
        best = int(np.argmin(sums))
        vector[j] = powers[best]
        products *= 1 + weight * bernoulli[(best - np.arange(half)) % half]
        # Only ratios of products matter. Without normalisation, they could overflow or underflow for many coordinates.
        products /= products.mean()
    vector.flags.writeable = False
    return vector


def is_prime(n: int) -> bool:
    """Whether n is prime, by trial division."""
    return n > 1 and all(n % factor for factor in range(2, int(n**0.5) + 1))


def _primitive_root(prime: int) -> int:
    """The smallest primitive root: its powers modulo `prime` run through 1, ..., prime - 1."""
    factors = [q for q in range(2, prime) if (prime - 1) % q == 0 and is_prime(q)]
    return next(g for g in range(2, prime) if all(pow(g, (prime - 1) // q, prime) != 1 for q in factors))
