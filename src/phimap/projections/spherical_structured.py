"""Directions spread over the sphere by chosen rows of a Fourier matrix."""

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

# Complex points of a block in multiples of those that a basis needs, and the most of them: see the notes of the class.
_REDUNDANCY = 8
_MOST_POINTS = 2048
# Frequencies that one step of the descent compares, and its sweeps over all coordinates.
_CANDIDATES = 16
_SWEEPS = 2
# From this many coordinates on random frequencies are as good as chosen ones, to the percent.
_MOST_CHOSEN = 128
# A pair of equal or opposite points has infinite energy: this keeps it finite, and worse than any other.
_CLOSEST = 4 * np.finfo(np.float64).eps
# Widest input whose directions are stored: below, a product is faster than the transforms.
_WIDEST_STORED = 48
# Widest input that is rotated by a Haar matrix: its product is then a small part of the work.
_WIDEST_HAAR = 128


@dataclass(frozen=True)
class SphereRecord(BlockRecord):
    """Blocks ``F_n^* P D_1 F_h D_2`` on inputs taken as h complex numbers, real and imaginary parts in turn.

    F is an unnormalised Fourier matrix of its order, D_i a diagonal of phases; P puts h numbers at the frequencies.

    Attributes
    ----------
    rotation : ndarray of shape (n_features, 2 h), or None
        Rotation of the input before all blocks, the law's inverse length scales applied.
    input_scale : ndarray
        Factors of the rotated input, or the law's inverse length scales where it is not rotated.
    phases : ndarray of shape (n_blocks, 2, h, 2)
        Cosines and sines.
    frequencies : ndarray of intp, shape (n_blocks, h)
    n_points : int
        Complex points n of a block.
    scale : ndarray of shape (n_directions,)
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
        # Two products with phases, six operations for a complex number, and two complex transforms.
        block = 12 * half + 2 * fourier_flops(half) + 2 * fourier_flops(self.n_points)
        return self.n_features + rotation + n_blocks * block + self.n_directions

    @property
    def scratch_width(self) -> int:
        # The dense row, the rotated one, and the values of the blocks computed at once.
        return self.n_features + self.input_scale.shape[0] + self.block_size * max(1, TOGETHER // self.block_size)

    def _prepared(self, ops: Ops, X: Array) -> Array:
        return ops.dense(X) if self.rotation is None else ops.matmul(X, self.rotation)

    def _values(self, ops: Ops, X: Array, some: slice, columns: slice) -> Array:
        block = self.phases[some], self.frequencies[some], self.n_points, self.scale[columns]
        return fourier_blocks(ops, X, self.input_scale, *block)


class SphericalStructured(Projection):
    """Spherical structured features: directions that minimise a Riesz energy, radii from one-dimensional QMC.

    A block takes m = d / 2, rounded up, distinct frequencies k_1, ..., k_m of the n-point Fourier matrix. Its column j
    is the complex vector ``exp(2 pi i k_l j / n) / sqrt(m)``, which gives two real unit vectors in dimension 2 m,
    itself and i times itself. The frequencies are chosen by coordinate descent on the discrete Riesz 0-energy, the sum
    of ``-log`` of all distances between the points and their opposites; a random rotation makes each direction
    uniform. Radii are the law's quantiles at stratified points, in random order. For activations, which are not even,
    the energy leaves opposites out, and so do the frequencies zero: the points of a block then add up to zero.

    Notes
    -----
    **Error.** Each radius follows the law. Up to d = 128 each direction is uniform on the sphere, so that estimates
    are unbiased; beyond, the rotations are products of random phases and Fourier transforms, which leave a bias far
    below the error. For d = 2 m, up to d directions are orthogonal. A block has at most 8 d: its points lie on a
    torus, which leaves most of the sphere out however many they are, while the rotations of several blocks average
    this out.

    **Cost.** O(s log d) flops a row, by Fourier transforms, and O(s) memory; up to d = 128 a rotation of d^2 numbers
    comes first. Up to d = 48 the s x d matrix is stored: the product with it is faster than the transforms.

    **Differs from the source in** the random rotations, without which the map is deterministic and biased; in blocks;
    in the energy, which counts opposites, since cosines do not tell a direction from its opposite; in n, which need
    not be prime; in the descent, which compares random candidates and leaves off above 256 inputs, where random
    frequencies are as good; in m, which above d = 48 is rounded up to a product of 2, 3 and 5.

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
        # A uniform direction in dimension 2 m times a radius that the law has there, cut to d coordinates, has the law.
        radii = radius_rng.permutation(stratified_radii(law.unit(2 * half), 1, n_directions, radius_rng)[0])
        # Unnormalised, both transforms multiply the norm of a row by the root of h.
        phases = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        return SphereRecord(rotation, scales, phases, frequencies, n_points, radii / half)


def _rotated_points(d: int, n_points: int, even: bool, rng: np.random.Generator) -> np.ndarray:
    """Unit vectors (2 n_points, d) of one block, in random order, rotated by a Haar matrix of its own."""
    half = -(-d // 2)
    points = rng.permutation(structured_points(spread_frequencies(half, n_points, even, rng), n_points))
    # For odd d one coordinate too many is cut off: a uniform vector stays uniform in its direction.
    directions = (points @ haar_orthogonal(2 * half, rng))[:, :d]
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


def _fast_length(least: int) -> int:
    """The next length, from `least` on, whose Fourier transform is fast: a product of 2, 3 and 5."""
    from scipy.fft import next_fast_len

    return next_fast_len(least, real=True)  # pyright: ignore[reportReturnType]


def spread_frequencies(half: int, n_points: int, even: bool, rng: np.random.Generator) -> np.ndarray:
    """Frequencies (half,) below `n_points` of low Riesz energy, by coordinate descent from a random start.

    They are distinct, or as often the same as must be. Unless integrands are `even` zero is left out: the points then
    add up to zero, which makes odd functions of degree one exact.
    """
    order = rng.permutation(n_points) if even else 1 + rng.permutation(n_points - 1)
    chosen, spare = np.resize(order, half), order[half:]
    if not spare.size or half > _MOST_CHOSEN:
        # All rows of the matrix are a basis or a simplex, which no choice improves.
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
    """Real unit vectors (2 n_points, 2 m) of the columns of m rows of the Fourier matrix, and i times them."""
    phases = 2 * np.pi / n_points * (np.outer(np.arange(n_points), frequencies) % n_points)
    real, imaginary = np.cos(phases), np.sin(phases)
    points = np.concatenate([np.hstack([real, imaginary]), np.hstack([-imaginary, real])])
    return points / np.sqrt(frequencies.size)


def _energy(products: np.ndarray, even: bool) -> np.ndarray:
    """Riesz 0-energy a point (k,) from the inner products (n - 1, k) of the first complex point with the others.

    The distances of v to w and to -w multiply to ``2 sqrt(1 - <v, w>^2)``, and i times a point turns real parts
    into imaginary ones, of either sign.
    """
    real, imaginary = np.real(products), np.imag(products)
    gaps = np.stack([(1 - real**2) if even else (1 - real) ** 2, 1 - imaginary**2])
    return -0.5 * np.log(np.maximum(gaps, _CLOSEST)).sum(axis=(0, 1))
