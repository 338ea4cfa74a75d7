"""Projections from evenly spread points: low-discrepancy sequences, lattices and matched moments."""

from __future__ import annotations

from itertools import count, islice

import numpy as np

from phimap._validation import check_choice
from phimap.kernels.spectral import SpectralLaw
from phimap.kernels.spectral_mixture.kernel import SpectralMixtureLaw
from phimap.ops import single_threaded_blas
from phimap.projections.base import Projection, ProjectionRecord
from phimap.projections.dense import DenseRecord, SpreadProjection
from phimap.projections.lattice import is_prime, shifted_lattice

# SciPy has primitive polynomials for this many coordinates.
_MOST_SOBOL_COORDINATES = 21201
# Sobol points are multiples of 2^-30, SciPy's default.
_SOBOL_BITS = 30
# Every so-many-th point of Halton's sequence is taken at the least: the prime that Kocis and Whiten found best.
_LEAST_LEAP = 409

SEQUENCES = ("sobol", "halton", "leaped-halton", "lattice")
"""Names of the sets of points."""


class QuasiMonteCarlo(SpreadProjection):
    """Quasi-Monte Carlo: points of a randomised low-discrepancy sequence through the inverse spectral law.

    Where the coordinates of the law are independent, each coordinate of a point gives one of the direction. Where
    they are not, but the law is rotation-invariant (Matern), one more coordinate gives the radius and the others,
    as Gaussian quantiles, the direction. Of a spectral mixture one more coordinate chooses the component.

    Parameters
    ----------
    sequence : {"sobol", "halton", "leaped-halton", "lattice"}, default="sobol"
        Sobol's sequence, for at most 21,200 features; Halton's; every L-th point of Halton's, L the least prime from
        409 on that is none of its bases; or a rank-1 lattice, whose generating vector a component-by-component
        construction chooses. The first two are scrambled, the others shifted by one uniform point modulo 1.

    Notes
    -----
    **Error.** Unbiased: scrambling or the shift makes each point uniform. O(log(s)^d / s) for smooth integrands,
    against 1 / sqrt(s) for independent draws; the gain is large for small d or for data of few effective dimensions,
    and Sobol's is greatest when s is a power of two. Scrambled Sobol points never have much more than the variance of
    independent draws. A lattice is chosen for the least worst-case error, on average over its shifts, over integrands
    with mixed first derivatives and equal weights of the coordinates (`phimap.projections.lattice` has the formula). It
    has a prime number of points: of another number s the next prime is taken and points left out at random, which adds
    ``1 - s / N`` times the variance of independent draws.

    **Cost.** O(s d) numbers stored and O(s d) flops a row; `fit` costs O(s d) draws and quantiles, for a lattice also
    O(d s log s) by Fourier transforms.

    **Differs from the source in** the scrambling and, for Sobol, in a uniform offset within each cell of the grid
    of 2^-30, which keeps points off 0 and the law of each coordinate exact; in the treatment of laws with dependent
    coordinates; for the leaped sequence in the shift and in no base left out; for lattices in random order.

    References
    ----------
    Avron, Sindhwani, Yang, Mahoney (2016), *Quasi-Monte Carlo feature maps for shift-invariant kernels*,
    Algorithm 1; Liu, Huang, Chen, Suykens (2021), *Random features for kernel approximation*, Equations 11-12; Kocis,
    Whiten (1997), *Computational investigations of low-discrepancy sequences*, Section 3; Nuyens, Cools (2006), *Fast
    algorithms for component-by-component construction of rank-1 lattice rules*, Section 3.
    """

    name = "qmc"

    def __init__(self, sequence: str = "sobol"):
        self.sequence = sequence

    def _directions(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> np.ndarray:
        return low_discrepancy(law, n_directions, self._checked_sequence(), rng)

    def _in_turn(self, law: SpectralLaw, n_directions: int, n_groups: int, rng: np.random.Generator) -> np.ndarray:
        return low_discrepancy(law, n_directions, self._checked_sequence(), rng, n_groups)

    def _checked_sequence(self) -> str:
        return check_choice("sequence", self.sequence, SEQUENCES)


class MomentMatching(Projection):
    """Moment matching: directions shifted and mixed until their mean and covariance are the law's exactly.

    Parameters
    ----------
    base : {"qmc", "gaussian"}, default="qmc"
        The points to begin with: Sobol's, as in `QuasiMonteCarlo`, or independent draws.

    Notes
    -----
    **Error.** A polynomial of degree 2 in w is averaged exactly, so that the kernel is exact to second order at
    short distances. The mixing depends on the draw: a bias of order d / s remains.

    **Cost.** One singular value decomposition, O(s d^2) flops, in `fit`; afterwards as for independent draws.

    **Differs from the source in** the base points, which may be Sobol's; the covariance is the average over the s
    points, not divided by s - 1, so that the average of each square is exact.

    References
    ----------
    Shen, Yang, Wang (2017), *Random features for shift-invariant kernels with moment matching*, Section 3; Liu,
    Huang, Chen, Suykens (2021), *Random features for kernel approximation*, Equation 13.
    """

    name = "moment-matching"
    needs_finite_variance = True

    def __init__(self, base: str = "qmc"):
        self.base = base

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        base = check_choice("base", self.base, ("qmc", "gaussian"))
        d = law.n_features
        if n_directions <= d:
            raise ValueError(
                f"`projection`={self.name!r} needs more directions than features, {d}, got {n_directions}. "
                f"Use n_components={2 * d + 2} or more for pairs ({d + 1} for phases), or projection='qmc'."
            )
        draws = (
            law.sample(rng, n_directions) if base == "gaussian" else low_discrepancy(law, n_directions, "sobol", rng)
        )
        draws /= law.scale
        draws -= draws.mean(axis=0)
        # The symmetric square root moves the points least: U S V^T becomes U V^T times the wanted standard deviation.
        with single_threaded_blas():
            left, _, right = np.linalg.svd(draws, full_matrices=False)
            matched = left @ right
        matched *= np.sqrt(n_directions * law.coordinate_variance) * np.asarray(law.scale)
        return DenseRecord(np.ascontiguousarray(matched.T))


def low_discrepancy(
    law: SpectralLaw, size: int, sequence: str, rng: np.random.Generator, n_groups: int = 1
) -> np.ndarray:
    """Directions (size, d) of the law, `scale` applied, from a randomised sequence.

    Direction i is in group ``i % n_groups``. One more coordinate, the first, puts the points of several groups in
    order: a group has an interval of it, where the others are as even as everywhere.
    """
    n_first = int(n_groups > 1)
    if law.has_independent_coordinates:
        points = _points(n_first + law.n_features, size, sequence, rng)
        directions = law.coordinate_quantile(points[:, n_first:])
    elif law.is_rotation_invariant:
        from scipy.special import ndtri

        # The first coordinates of a sequence are its most even: the radius, which every direction has, takes the first.
        points = _points(n_first + law.n_features + 1, size, sequence, rng)
        directions = ndtri(points[:, n_first + 1 :])
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        directions = directions * law.radial_quantile(points[:, n_first : n_first + 1]) * law.scale
    elif isinstance(law, SpectralMixtureLaw):
        directions = law.component_quantile(_points(1 + law.n_features, size, sequence, rng))
    else:
        raise ValueError(
            "`projection`='qmc' needs a spectral law with independent coordinates or rotation-invariant, and that of "
            f"{law.kernel_name} is neither. Use projection='gaussian'."
        )
    if n_groups > 1:
        grouped = np.argsort(np.arange(size) % n_groups, kind="stable")
        in_order = np.argsort(points[:, 0], kind="stable")
        directions[grouped] = directions[in_order]
    return directions


def _points(n_coordinates: int, size: int, sequence: str, rng: np.random.Generator) -> np.ndarray:
    """The first points (size, n_coordinates) of a randomised sequence, in the open unit cube."""
    if sequence == "lattice":
        points = shifted_lattice(n_coordinates, size, rng)
    elif sequence == "leaped-halton":
        points = _leaped_halton(n_coordinates, size) + rng.random(n_coordinates)
        points %= 1.0
    else:
        points = _scrambled(n_coordinates, size, sequence, rng)
    # Zero has probability 2^-53 or less, and 1 arises by rounding alone.
    return np.clip(points, np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).epsneg)


def _scrambled(n_coordinates: int, size: int, sequence: str, rng: np.random.Generator) -> np.ndarray:
    """Points of Sobol's or Halton's sequence."""
    from scipy.stats import qmc

    if sequence == "halton":
        return qmc.Halton(n_coordinates, scramble=True, seed=rng).random(size)  # pyright: ignore
    if n_coordinates > _MOST_SOBOL_COORDINATES:
        raise ValueError(
            f"`sequence`='sobol' has at most {_MOST_SOBOL_COORDINATES} coordinates, got {n_coordinates}. "
            "Use sequence='halton', or projection='orthogonal'."
        )
    sobol = qmc.Sobol(n_coordinates, scramble=True, bits=_SOBOL_BITS, seed=rng)  # pyright: ignore
    points = sobol.random_base2((size - 1).bit_length())[:size]
    points += rng.random(points.shape) * 2.0**-_SOBOL_BITS
    return points


def _leaped_halton(n_coordinates: int, size: int) -> np.ndarray:
    """Points 0, L, 2 L, ... (size, n_coordinates) of Halton's sequence, in [0, 1).

    SciPy would make all those between them as well.
    """
    bases = list(islice((n for n in count(2) if is_prime(n)), n_coordinates))
    leap = next(n for n in count(_LEAST_LEAP) if is_prime(n) and n > bases[-1])
    points = np.zeros((n_coordinates, size))
    for row, base in zip(points, bases, strict=True):
        left, unit = np.arange(size) * leap, 1.0 / base
        while left.any():
            left, digits = np.divmod(left, base)
            row += digits * unit
            unit /= base
    return np.ascontiguousarray(points.T)
