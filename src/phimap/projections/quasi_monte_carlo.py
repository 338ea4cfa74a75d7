"""Quasi-Monte Carlo projections: low-discrepancy sequences, lattices, and moment matching."""

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

# Maximum number of coordinates of SciPy's Sobol sequence.
_MOST_SOBOL_COORDINATES = 21201
# Number of bits of a Sobol coordinate, which is SciPy's default. Coordinates are multiples of 2^-30.
_SOBOL_BITS = 30
# Minimum leap of the leaped Halton sequence: the prime number recommended by Kocis and Whiten.
_LEAST_LEAP = 409

SEQUENCES = ("sobol", "halton", "leaped-halton", "lattice")
"""Values of the parameter `sequence` of `QuasiMonteCarlo`."""


class QuasiMonteCarlo(SpreadProjection):
    """Quasi-Monte Carlo: points of a randomised low-discrepancy sequence, mapped by the quantiles of the spectral law.

    If the law has independent coordinates, each coordinate of a point gives one coordinate of the direction. If the law
    is only rotation-invariant (Matern), one additional coordinate gives the radius, and Gaussian quantiles of the
    others give the direction. For a spectral mixture, one additional coordinate selects the component.

    Parameters
    ----------
    sequence : {"sobol", "halton", "leaped-halton", "lattice"}, default="sobol"
        The Sobol sequence, for at most 21,200 columns; the Halton sequence; the leaped Halton sequence, which is every
        L-th Halton point, where L is the smallest prime from 409 on that exceeds its bases; or a rank-1 lattice with a
        generating vector from a component-by-component construction. The first two are scrambled; the others are
        shifted by one uniform point modulo 1.

    Notes
    -----
    **Error.** Unbiased, because scrambling or shifting makes each point uniform. The error is O(log(s)^d / s) for
    smooth integrands, compared with 1 / sqrt(s) for independent draws. The gain is large for small d or for data of low
    effective dimension; with Sobol points it is largest if s is a power of two. The variance of scrambled Sobol points
    never exceeds the variance of independent draws by much. A lattice is chosen for a small worst-case error, averaged
    over shifts, for integrands with mixed first derivatives and equal coordinate weights; see
    `phimap.projections.lattice` for the formula. The number N of lattice points must be prime. For other s, N is the
    next prime and random points are omitted, which adds ``1 - s / N`` times the variance of independent draws.

    **Cost.** O(s d) numbers stored and O(s d) flops per row. `fit` takes O(s d) draws and quantiles and, for a lattice,
    O(d s log s) flops by Fourier transforms.

    **Differs from the source in** the scrambling and in the treatment of laws with dependent coordinates. Sobol points
    get a uniform offset within each cell of the grid of spacing 2^-30, which keeps points away from 0 and makes the
    distribution of each coordinate exact. The leaped sequence is shifted and uses all bases. Lattice points are in
    random order.

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
    """Moment matching: an affine map makes the sample mean and covariance of the directions equal to the law's.

    Parameters
    ----------
    base : {"qmc", "gaussian"}, default="qmc"
        The original points: Sobol points, as in `QuasiMonteCarlo`, or independent draws.

    Notes
    -----
    **Error.** Polynomials of degree 2 in w are averaged exactly, so the kernel is exact to second order at short
    distances. The affine map depends on the draws, which causes a bias of order d / s.

    **Cost.** One singular value decomposition, O(s d^2) flops, in `fit`; afterwards as for independent draws.

    **Differs from the source in** the option of Sobol points, and in the sample covariance, which is divided by s
    instead of s - 1, so that the average of each square is exact.

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
        # U S V^T becomes U V^T times the standard deviation. Whitening by the symmetric square root changes the points
        # least.
        with single_threaded_blas():
            left, _, right = np.linalg.svd(draws, full_matrices=False)
            matched = left @ right
        matched *= np.sqrt(n_directions * law.coordinate_variance) * np.asarray(law.scale)
        return DenseRecord(np.ascontiguousarray(matched.T))


def low_discrepancy(
    law: SpectralLaw, size: int, sequence: str, rng: np.random.Generator, n_groups: int = 1
) -> np.ndarray:
    """Directions (size, d) from a randomised sequence, multiplied by the scale of the law.

    Direction i belongs to group ``i % n_groups``. For several groups, the points have an additional first coordinate,
    and each group takes the points of one interval of this coordinate. Within an interval the other coordinates are
    evenly spread.
    """
    n_first = int(n_groups > 1)
    if law.has_independent_coordinates:
        points = _points(n_first + law.n_features, size, sequence, rng)
        directions = law.coordinate_quantile(points[:, n_first:])
    elif law.is_rotation_invariant:
        from scipy.special import ndtri

        # The first coordinates of a sequence are the most evenly spread. So the first one gives the radius, which
        # affects all coordinates of a direction.
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
    # The value 0 has a probability of at most 2^-53, and 1 occurs only by rounding. Both are moved into the open
    # interval.
    return np.clip(points, np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).epsneg)


def _scrambled(n_coordinates: int, size: int, sequence: str, rng: np.random.Generator) -> np.ndarray:
    """Points (size, n_coordinates) of the scrambled Sobol or Halton sequence."""
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
    """Every L-th point (size, n_coordinates) of the Halton sequence, from point 0 on, in [0, 1).

    L is the smallest prime from 409 on that exceeds all bases. SciPy's generator is not used, because it would compute
    all points in between.
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
