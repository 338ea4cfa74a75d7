"""Leverage-score sampling of rectified features: the density ``q(w)`` proportional to ``|w|^2 N(w; 0, I)``.

Under q the direction of w is uniform, and its squared norm is chi-square with d + 2 degrees of freedom. The feature
``sqrt(2 d / m) ReLU(<w, x> / |w|)`` depends on the direction only: it equals an ordinary rectified feature for a
direction on the sphere of radius ``sqrt(d)``.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from phimap._validation import check_integer
from phimap.kernels.spectral import SpectralLaw, onto_sphere
from phimap.projections.base import Projection, ProjectionRecord
from phimap.projections.dense import DenseRecord

# Maximum number of steps by which a quantile is found. Bisection alone then reduces the bracket from 40 to the level of
# rounding.
_MOST_STEPS = 64
# The iteration stops after a Newton step of this relative size, because only rounding error remains.
_CLOSE = 1e-12
# Lower bound of tail probabilities: uniform double-precision numbers are multiples of 2^-53.
_LEAST_TAIL = 2.0**-54
# Upper end of the bracket; the tail probability beyond it is below _LEAST_TAIL.
_LARGEST = 40.0


class GibbsDirections(Projection):
    """Directions of leverage-score sampling by the published Markov chains.

    The directions replace draws from `SphereLaw`. Of the given law, only the number of columns is used. Only
    `NTKFeatures(sampling="gibbs")` uses this projection, so `REGISTRY` does not list it.

    Parameters
    ----------
    sweeps : int, default=1
        Number T of sweeps over the coordinates.

    Notes
    -----
    **Error.** The features depend on the direction of w only. This direction is uniform under q. It is uniform for the
    Gaussian start, too, but only nearly uniform after a few sweeps, so sweeps are not needed. This projection is for
    reproducing published results.

    **Cost.** O(T s d) evaluations of the normal distribution function in `fit`, several per coordinate and sweep;
    afterwards as for independent draws.

    **Differs from the source in** nothing.

    References
    ----------
    Zandieh et al. (2021), *Scaling neural tangent kernels via sketching and random features*, Algorithm 3; Han et al.
    (2021), *Random features for the neural tangent kernel*, Algorithm 2.
    """

    name = "gibbs"

    def __init__(self, sweeps: int = 1):
        self.sweeps = sweeps

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        sweeps = check_integer("gibbs_sweeps", self.sweeps, least=0)
        chains = gibbs_chains(n_directions, law.n_features, sweeps, rng)
        return DenseRecord(np.ascontiguousarray(onto_sphere(chains).T))


def gibbs_chains(n_chains: int, n_features: int, sweeps: int, rng: np.random.Generator) -> np.ndarray:
    """States (n_chains, d) of Gibbs samplers for the density ``|w|^2 N(w; 0, I)``, with Gaussian starts.

    A sweep replaces each coordinate in turn by a draw from its conditional distribution given all others.
    """
    # One row per coordinate, with the values of all chains, so that the loop works on contiguous rows.
    w = np.ascontiguousarray(rng.standard_normal((n_chains, n_features)).T)
    squares = np.square(w).sum(axis=0)
    for _ in range(sweeps):
        for coordinate in w:
            others = np.maximum(squares - coordinate**2, 0.0) if n_features > 1 else np.zeros(n_chains)
            coordinate[:] = conditional_quantile(rng.random(n_chains), others)
            squares = others + coordinate**2
    return w.T


def conditional_quantile(u: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Invert ``F(x) = (erf(x / sqrt(2)) + 1) / 2 - x exp(-x^2 / 2) / (sqrt(2 pi) (z + 1))``.

    F is the distribution function of one coordinate, given that the squares of the other coordinates sum to z. Its
    density is ``(x^2 + z) / (z + 1)`` times the standard normal density.

    Parameters
    ----------
    u : ndarray of shape (n,)
        Probabilities.
    z : ndarray of shape (n,)
        Sums of squares, at least 0.

    Returns
    -------
    ndarray of shape (n,)
    """
    # The distribution is symmetric; working with the smaller tail avoids cancellation.
    tail = np.maximum(np.minimum(u, 1.0 - u), _LEAST_TAIL)
    low, high = np.zeros_like(tail), np.full_like(tail, _LARGEST)
    # The start is the normal quantile, scaled to the standard deviation of F.
    x = -special.ndtri(tail) * np.sqrt((z + 3.0) / (z + 1.0))
    for _ in range(_MOST_STEPS):
        normal = np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
        excess = special.ndtr(-x) + x * normal / (z + 1.0) - tail
        low, high = np.where(excess > 0, x, low), np.where(excess > 0, high, x)
        density = normal * (x * x + z) / (z + 1.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = x + excess / density
        # A bisection step is taken if the Newton step leaves the bracket or the density vanishes.
        following = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        change = np.abs(following - x)
        x = following
        if (change <= _CLOSE * (1.0 + x)).all():
            break
    return np.where(u < 0.5, -x, x)
