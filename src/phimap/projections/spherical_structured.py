"""Directions spread over the sphere by chosen rows of a Fourier matrix."""

from __future__ import annotations

import numpy as np

from phimap.kernels.spectral import SpectralLaw
from phimap.ops import run_tasks
from phimap.projections.base import Projection, ProjectionRecord
from phimap.projections.dense import DenseRecord, haar_orthogonal

# Complex points of a block in multiples of those that a basis needs; see the notes of the class.
_REDUNDANCY = 8
# Frequencies that one step of the descent compares, and its sweeps over all coordinates.
_CANDIDATES = 16
_SWEEPS = 2
# A pair of equal or opposite points has infinite energy: this keeps it finite, and worse than any other.
_CLOSEST = 4 * np.finfo(np.float64).eps


class SphericalStructured(Projection):
    """Spherical structured features: directions that minimise a Riesz energy, radii from one-dimensional QMC.

    A block takes m = ceil(d / 2) distinct frequencies k_1, ..., k_m of the n-point Fourier matrix. Its column j is
    the complex vector ``exp(2 pi i k_l j / n) / sqrt(m)``, which gives two real unit vectors in dimension 2 m, itself
    and i times itself. The frequencies are chosen by coordinate descent on the discrete Riesz 0-energy, the sum of
    ``-log`` of all distances between the points and their opposites; a random rotation makes each direction uniform.
    Radii are the law's quantiles at stratified points, in random order.

    Notes
    -----
    **Error.** Unbiased: each direction is uniform on the sphere and each radius follows the law. For even d, up to d
    directions are orthogonal. A block has at most 8 d: its points lie on a torus, which leaves most of the sphere
    out however many they are, while the independent rotations of several blocks average this out.

    **Cost.** For s directions, O(s d^2) flops in `fit` for the rotations and O(s d) for the descent; O(s d) numbers
    stored and O(s d) flops a row.

    **Differs from the source in** the random rotations, without which the map is deterministic and biased; in blocks;
    in the energy, which counts opposites, since cosines do not tell a direction from its opposite; in n, which need
    not be prime; in the descent, which compares random candidates; and in the stored matrix in place of a fast
    Fourier transform.

    References
    ----------
    Lyu (2017), *Spherical structured feature maps for kernel approximation*, Section 4; Liu, Huang, Chen, Suykens
    (2021), *Random features for kernel approximation*, Section 3.2.
    """

    name = "ssf"
    needs_rotation_invariance = True

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        d = law.n_features
        half = -(-d // 2)
        n_points = max(half, min(_REDUNDANCY * half, -(-n_directions // 2)))
        n_blocks = -(-n_directions // (2 * n_points))

        def block(child: np.random.Generator) -> np.ndarray:
            points = structured_points(spread_frequencies(half, n_points, child), n_points)
            # For odd d one coordinate too many is cut off: a uniform vector stays uniform in its direction.
            directions = (child.permutation(points) @ haar_orthogonal(2 * half, child))[:, :d]
            return directions / np.linalg.norm(directions, axis=1, keepdims=True)

        directions = np.concatenate(run_tasks(block, rng.spawn(n_blocks)))[:n_directions]
        strata = (rng.permutation(n_directions) + rng.random(n_directions)) / n_directions
        # Rounding alone can reach 1, where the radius is infinite.
        radii = law.radial_quantile(np.minimum(strata, 1 - np.finfo(np.float64).epsneg))
        return DenseRecord(np.ascontiguousarray((directions * radii[:, None] * law.scale).T))


def spread_frequencies(half: int, n_points: int, rng: np.random.Generator) -> np.ndarray:
    """Distinct frequencies (half,) below `n_points` of low Riesz energy, by coordinate descent from a random start."""
    order = rng.permutation(n_points)
    chosen, spare = order[:half], order[half:]
    if half == n_points:
        # All rows of the matrix: the points are a basis, which no choice improves.
        return chosen
    differences = np.arange(1, n_points)
    roots = np.exp(2j * np.pi * np.arange(n_points) / n_points)
    products = roots[np.outer(differences, chosen) % n_points].sum(axis=1)
    energy = _energy(products[:, None] / half)[0]
    for coordinate in np.tile(np.arange(half), _SWEEPS):
        candidates = rng.choice(spare.size, min(_CANDIDATES, spare.size), replace=False)
        rest = products - roots[differences * chosen[coordinate] % n_points]
        trials = rest[:, None] + roots[np.outer(differences, spare[candidates]) % n_points]
        energies = _energy(trials / half)
        best = int(energies.argmin())
        if energies[best] < energy:
            energy, products = energies[best], trials[:, best]
            swapped = candidates[best]
            chosen[coordinate], spare[swapped] = spare[swapped], chosen[coordinate]
    return chosen


def structured_points(frequencies: np.ndarray, n_points: int) -> np.ndarray:
    """Real unit vectors (2 n_points, 2 m) of the columns of m rows of the Fourier matrix, and i times them."""
    phases = 2 * np.pi / n_points * (np.outer(np.arange(n_points), frequencies) % n_points)
    real, imaginary = np.cos(phases), np.sin(phases)
    points = np.concatenate([np.hstack([real, imaginary]), np.hstack([-imaginary, real])])
    return points / np.sqrt(frequencies.size)


def _energy(products: np.ndarray) -> np.ndarray:
    """Riesz 0-energy a point (k,) from the inner products (n - 1, k) of the first complex point with the others.

    The distances of v to w and to -w multiply to ``2 sqrt(1 - <v, w>^2)``, and i times a point turns real parts
    into imaginary ones.
    """
    squares = np.stack([np.real(products), np.imag(products)]) ** 2
    return -0.5 * np.log(np.maximum(1 - squares, _CLOSEST)).sum(axis=(0, 1))
