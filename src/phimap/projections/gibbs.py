"""Leverage-score sampling of rectified features: the modified distribution ``q(w) ~ |w|^2 N(w; 0, I)``.

Under q the squared norm of w is chi-square with d + 2 degrees of freedom and its direction is uniform, and the feature
``sqrt(2 d / m) ReLU(w.x / |w|)`` depends on the direction alone: it is a rectified feature for directions on the sphere
of radius ``sqrt(d)``.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from phimap._validation import check_integer
from phimap.kernels.spectral import SpectralLaw, onto_sphere
from phimap.projections.base import Projection, ProjectionRecord
from phimap.projections.dense import DenseRecord

# Newton's steps double the digits; bisection halves its bracket where they fail, from 40 down to rounding.
_MOST_STEPS = 64
# A step of Newton's that is this small leaves rounding behind.
_CLOSE = 1e-12
# No tail of a number in double precision is smaller.
_LEAST_TAIL = 2.0**-54
# The tail beyond it is smaller than that.
_LARGEST = 40.0


class GibbsDirections(Projection):
    """Directions of leverage-score sampling by the published Markov chains.

    They stand in for draws of `SphereLaw`, whatever law is given, and serve `NTKFeatures(sampling="gibbs")` alone;
    other maps have no use for them, so that ``projection=`` does not know their name.

    Parameters
    ----------
    sweeps : int, default=1
        Number T of passes over the coordinates.

    Notes
    -----
    **Error.** The features depend on the direction of w alone, and that of the Gaussian start is uniform, as it is
    under q: no sweep is needed, and a few of them leave the directions only nearly uniform. For reproduction.

    **Cost.** O(T s d) evaluations of the normal distribution function in `fit`, several for each coordinate;
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
    """States (n_chains, d) of Markov chains towards ``|w|^2 N(w; 0, I)``, from Gaussian starts.

    Each sweep replaces one coordinate after the other by a draw from its law given all others.
    """
    # A coordinate of all chains is one row: the loop below works on whole rows.
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

    F is the distribution function of a coordinate given that the squares of the others sum to z; its density is
    ``(x^2 + z) / (z + 1)`` times the normal one.

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
    # The law is symmetric: the smaller tail keeps the digits.
    tail = np.maximum(np.minimum(u, 1.0 - u), _LEAST_TAIL)
    low, high = np.zeros_like(tail), np.full_like(tail, _LARGEST)
    # The normal quantile, stretched to the law's variance.
    x = -special.ndtri(tail) * np.sqrt((z + 3.0) / (z + 1.0))
    for _ in range(_MOST_STEPS):
        normal = np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
        excess = special.ndtr(-x) + x * normal / (z + 1.0) - tail
        low, high = np.where(excess > 0, x, low), np.where(excess > 0, high, x)
        density = normal * (x * x + z) / (z + 1.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = x + excess / density
        # Where Newton's step leaves the bracket, or the density vanishes, the middle is next.
        following = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        change = np.abs(following - x)
        x = following
        if (change <= _CLOSE * (1.0 + x)).all():
            break
    return np.where(u < 0.5, -x, x)
