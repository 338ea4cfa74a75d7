"""Directions that are spread over the sphere, from selected rows of a Fourier matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from phimap.kernels.spectral import SpectralLaw
from phimap.ops import Array, Ops, run_tasks
from phimap.ops.primitives.fourier_blocks import fourier_blocks
from phimap.projections.base import Projection, ProjectionRecord, fourier_flops, input_scale
from phimap.projections.blocks import TOGETHER, BlockRecord
from phimap.projections.dense import DenseRecord, haar_orthogonal
from phimap.projections.radii import stratified_radii
from phimap.records import of_floats, of_indices, of_number

# A block has at most `_REDUNDANCY` times m complex points (see `SphericalStructured`), and at most `_MOST_POINTS`. It
# may always have m points.
_REDUNDANCY = 8
_MOST_POINTS = 2048
# Number of candidate frequencies in a step of the coordinate descent, and number of sweeps over all coordinates.
_CANDIDATES = 16
_SWEEPS = 2
# Maximum number of frequencies that are optimised. With more frequencies, random frequencies are as good, to within one
# percent.
_MOST_CHOSEN = 128
# Lower bound inside the logarithm. It keeps the energy of two equal or opposite points finite, but larger than any
# other.
_CLOSEST = 4 * np.finfo(np.float64).eps
# Up to this number of columns, the matrix is stored, because a product with the matrix is faster than the transforms.
_WIDEST_STORED = 48
# Up to this number of columns, rows are rotated by a Haar matrix, which is then a small part of the work.
_WIDEST_HAAR = 128


@dataclass(frozen=True)
class SphereRecord(BlockRecord):
    """Blocks ``F_n^* P D_1 F_h D_2`` for rows read as h complex numbers, with real and imaginary parts alternating.

    F_n and F_h are unnormalised Fourier matrices, D_1 and D_2 are diagonals of phases, and P places h numbers at the
    frequencies of a block.

    Attributes
    ----------
    rotation : ndarray of shape (n_features, 2 h), or None
        Rotation of the rows before all blocks, multiplied by the inverse length scales of the law.
    input_scale : ndarray
        Factors of the columns: ones after a rotation, else the inverse length scales of the law.
    phases : ndarray of shape (n_blocks, 2, h, 2)
        Cosines and sines of the phases in D_1 and D_2.
    frequencies : ndarray of intp, shape (n_blocks, h)
        The frequencies, below n, of each block.
    n_points : int
        Number n of complex points in a block.
    scale : ndarray of shape (n_directions,)
        Radius of each direction divided by its norm before scaling, which is h.
    """

    rotation: np.ndarray | None = field(metadata=of_floats("d", "k"))
    input_scale: np.ndarray = field(metadata=of_floats("k"))
    phases: np.ndarray = field(metadata=of_floats("B", 2, "h", 2))
    frequencies: np.ndarray = field(metadata=of_indices("B", "h", below="n"))
    n_points: int = field(metadata=of_number(length="n"))
    scale: np.ndarray = field(metadata=of_floats("s"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield from super().requirements()
        half, width = self.frequencies.shape[1], self.input_scale.shape[0]
        yield width <= 2 * half, "room for a row in its transforms"
        yield self.rotation is None or width == 2 * half, "a rotation onto all of its transforms"
        yield self.n_points <= 2 * max(2, half, self.n_directions), "no more points than its directions take"
        yield all(n == _fast_length(n) for n in (half, self.n_points)), "transforms of products of 2, 3 and 5"

    @property
    def n_features(self) -> int:
        return (self.input_scale if self.rotation is None else self.rotation).shape[0]

    @property
    def n_stored(self) -> int:
        return self.frequencies.shape[0]

    @property
    def block_size(self) -> int:
        return 2 * self.n_points

    @property
    def n_flops(self) -> int:
        n_blocks, half = self.frequencies.shape
        rotation = 0 if self.rotation is None else 2 * self.rotation.size
        # Two products with phases (six operations per complex number), and two complex transforms.
        block = 12 * half + 2 * fourier_flops(half) + 2 * fourier_flops(self.n_points)
        return self.n_features + rotation + n_blocks * block + self.n_directions

    @property
    def scratch_width(self) -> int:
        # Scratch memory for the dense row, the rotated row, and the values of the blocks that are computed together.
        return self.n_features + self.input_scale.shape[0] + self.block_size * max(1, TOGETHER // self.block_size)

    def _prepared(self, ops: Ops, X: Array) -> Array:
        return ops.dense(X) if self.rotation is None else ops.matmul(X, self.rotation)

    def _values(self, ops: Ops, X: Array, some: slice, columns: slice) -> Array:
        block = self.phases[some], self.frequencies[some], self.n_points, self.scale[columns]
        return fourier_blocks(ops, X, self.input_scale, *block)


class SphericalStructured(Projection):
    """Spherical structured features: directions that minimise a Riesz energy, and stratified radii.

    A block uses m distinct rows k_1, ..., k_m of the n-point Fourier matrix, the frequencies, with m = d / 2 rounded
    up. Column j of these rows is the complex vector with entries ``exp(2 pi i k_l j / n) / sqrt(m)``. This vector and i
    times this vector give two real unit vectors in dimension 2 m. Coordinate descent over the frequencies reduces the
    discrete Riesz 0-energy, the sum of ``-log`` of all distances between the points and their opposites. A random
    rotation makes each direction uniform. Radii are quantiles of the law at stratified points, in random order. For
    activations, which are not even functions, the energy omits the opposites, and the frequency 0 is excluded, so that
    the points of a block sum to zero.

    Notes
    -----
    **Error.** Each radius follows the law. Up to d = 128 each direction is uniform on the sphere, so estimates are
    unbiased. For larger d the rotations are products of random phases and Fourier transforms, which leave a bias far
    below the error. For d = 2 m, up to d directions are orthogonal to each other. A block has at most 8 d directions:
    its points lie on a torus, and more points would not cover the rest of the sphere. Several blocks with different
    rotations cover it.

    **Cost.** O(s log d) flops per row, by Fourier transforms, and O(s) memory; up to d = 128 also a product with a
    stored rotation matrix of size d^2. Up to d = 48 the s x d matrix is stored, because a product with this matrix is
    faster than the transforms.

    **Differs from the source in** the random rotations, without which the map is deterministic and biased, and in the
    use of blocks. The energy includes opposite points, because cosines are equal for opposite directions. n need not be
    prime. Above d = 48, m is rounded up to a product of powers of 2, 3 and 5. The descent compares random candidates.
    It is skipped above 256 columns, where random frequencies are as good.

    References
    ----------
    Lyu (2017), *Spherical structured feature maps for kernel approximation*, Section 4; Liu, Huang, Chen, Suykens
    (2021), *Random features for kernel approximation*, Section 3.2.
    """

    name = "ssf"
    needs_rotation_invariance = True

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        d, even = law.n_features, law.is_for_even_functions
        block_rng, rotation_rng, radius_rng = rng.spawn(3)
        stored = d <= _WIDEST_STORED
        half = -(-d // 2) if stored else _fast_length(-(-d // 2))
        most = max(half, min(_REDUNDANCY * half, _MOST_POINTS))
        n_blocks = -(-n_directions // (2 * most))
        n_points = max(half if even else 2, -(-n_directions // (2 * n_blocks)))
        children = block_rng.spawn(n_blocks)
        if stored:
            blocks = run_tasks(lambda child: _rotated_points(d, n_points, even, child), children)
            radii = radius_rng.permutation(stratified_radii(law, 1, n_directions, radius_rng)[0])
            return DenseRecord(
                np.ascontiguousarray((np.concatenate(blocks)[:n_directions] * radii[:, None] * law.scale).T)
            )
        n_points = _fast_length(n_points)

        def block(child: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
            return child.uniform(0, 2 * np.pi, (2, half)), spread_frequencies(half, n_points, even, child)

        angles, frequencies = map(np.array, zip(*run_tasks(block, children), strict=True))
        rotation, scales = None, input_scale(law)
        if d <= _WIDEST_HAAR:
            rotation = haar_orthogonal(2 * half, rotation_rng)[:d] * scales[:, None]
            scales = np.ones(2 * half)
        # A uniform direction in dimension 2 m times a radius of the law in dimension 2 m has d coordinates that follow
        # the law in dimension d.
        radii = radius_rng.permutation(stratified_radii(law.unit(2 * half), 1, n_directions, radius_rng)[0])
        # Each of the two unnormalised transforms multiplies the norm of a direction by sqrt(h).
        phases = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        return SphereRecord(rotation, scales, phases, frequencies, n_points, radii / half)


def _rotated_points(d: int, n_points: int, even: bool, rng: np.random.Generator) -> np.ndarray:
    """Unit vectors (2 n_points, d) of one block, in random order, rotated by a random orthogonal matrix."""
    half = -(-d // 2)
    points = rng.permutation(structured_points(spread_frequencies(half, n_points, even, rng), n_points))
    # For odd d, one coordinate is dropped. After normalisation, the others are still uniform on the sphere.
    directions = (points @ haar_orthogonal(2 * half, rng))[:, :d]
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


def _fast_length(least: int) -> int:
    """The smallest length, at least `least`, with a fast Fourier transform: a product of powers of 2, 3 and 5."""
    from scipy.fft import next_fast_len

    return next_fast_len(least, real=True)  # pyright: ignore[reportReturnType]


def spread_frequencies(half: int, n_points: int, even: bool, rng: np.random.Generator) -> np.ndarray:
    """Frequencies (half,) below `n_points` with low Riesz energy, by coordinate descent from a random start.

    Frequencies repeat only if fewer than `half` are available. If `even` is False, the frequency 0 is excluded: the
    points then sum to zero, so that linear functions are integrated exactly.
    """
    order = rng.permutation(n_points) if even else 1 + rng.permutation(n_points - 1)
    chosen, spare = np.resize(order, half), order[half:]
    if not spare.size or half > _MOST_CHOSEN:
        # Optimisation is skipped if all frequencies are used, or so many that random frequencies are as good.
        return chosen
    differences = np.arange(1, n_points)
    roots = np.exp(2j * np.pi * np.arange(n_points) / n_points)
    products = roots[np.outer(differences, chosen) % n_points].sum(axis=1)
    energy = _energy(products[:, None] / half, even)[0]
    for coordinate in np.tile(np.arange(half), _SWEEPS):
        candidates = rng.choice(spare.size, min(_CANDIDATES, spare.size), replace=False)
        without = products - roots[differences * chosen[coordinate] % n_points]
        trials = without[:, None] + roots[np.outer(differences, spare[candidates]) % n_points]
        energies = _energy(trials / half, even)
        best = int(energies.argmin())
        if energies[best] < energy:
            energy, products = energies[best], trials[:, best]
            swapped = candidates[best]
            chosen[coordinate], spare[swapped] = spare[swapped], chosen[coordinate]
    return chosen


def structured_points(frequencies: np.ndarray, n_points: int) -> np.ndarray:
    """Real unit vectors (2 n_points, 2 m) of the rows of the `n_points`-point Fourier matrix at `frequencies` (m,).

    They are the columns of these rows, with real and imaginary parts as coordinates, and i times these columns.
    """
    phases = 2 * np.pi / n_points * (np.outer(np.arange(n_points), frequencies) % n_points)
    real, imaginary = np.cos(phases), np.sin(phases)
    points = np.concatenate([np.hstack([real, imaginary]), np.hstack([-imaginary, real])])
    return points / np.sqrt(frequencies.size)


def _energy(products: np.ndarray, even: bool) -> np.ndarray:
    """For k sets of points, return the Riesz 0-energy of one point of each set (k,), up to constants.

    A set consists of n complex vectors w and of the vectors i w, as real points. All points of a set have the same
    energy. `products` (n - 1, k) holds the complex inner products of the first vector v of each set with the others.
    The real part is the real inner product of v and w. The imaginary part is, up to sign, that of v and i w.

    If `even` is True, each point stands for itself and its opposite. The distances from v to w and to -w have the
    product ``2 sqrt(1 - <v, w>^2)``, so each point w adds ``-log(1 - <v, w>^2) / 2``. If `even` is False, there are no
    opposites, and the result is twice the energy: w adds ``-log(1 - <v, w>)``. The imaginary parts come in pairs of
    opposite sign, so that the same term serves both cases for the points i w.
    """
    real, imaginary = np.real(products), np.imag(products)
    gaps = np.stack([(1 - real**2) if even else (1 - real) ** 2, 1 - imaginary**2])
    return -0.5 * np.log(np.maximum(gaps, _CLOSEST)).sum(axis=(0, 1))
