"""Structured matrices whose products are convolutions: circulant, Toeplitz, Hankel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from phimap.kernels.spectral import SpectralLaw
from phimap.ops import Array, Ops
from phimap.ops.primitives.convolutions import convolution_transforms, convolutions
from phimap.projections.base import fourier_flops
from phimap.projections.blocks import TOGETHER, BlockRecord
from phimap.records import of_floats, of_indices, of_number
from phimap.sketches.signs import fair_word_factors


@dataclass(frozen=True)
class ConvolutionRecord(BlockRecord):
    """Blocks of values ``scale_i (b * x)_(offset + i)``: cyclic convolutions of a row x with generators b of length n.

    Attributes
    ----------
    input_scale : ndarray of shape (n_features,)
        Factors of the columns: the inverse length scales of the law times random signs.
    order : ndarray of intp, shape (n_features,), or None
        Permutation of the columns; None keeps their order.
    generators : ndarray of shape (n_blocks, n)
        n is even, a product of powers of 2, 3 and 5, and at least n_features.
    offset : int
        Index of the first entry of a convolution that is used; with 0, all n entries are used.
    scale : ndarray of shape (n_directions,)
        Factors of the directions: random signs or ones, times the `row_factors`.
    """

    input_scale: np.ndarray = field(metadata=of_floats("d"))
    order: np.ndarray | None = field(metadata=of_indices("d", permutation=True))
    generators: np.ndarray = field(metadata=of_floats("B", "n"))
    offset: int = field(metadata=of_number(least=0))
    scale: np.ndarray = field(metadata=of_floats("s"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        length = self.generators.shape[1]
        yield self.offset < length, "an offset within a convolution"
        yield from super().requirements()
        yield length >= self.n_features, "generators that are no shorter than a row"
        yield length == fast_length(length), "generators whose length is an even product of 2, 3 and 5"

    @property
    def n_stored(self) -> int:
        return self.generators.shape[0]

    @property
    def block_size(self) -> int:
        return self.generators.shape[1] - self.offset

    @property
    def n_flops(self) -> int:
        n_blocks, length = self.generators.shape
        # Each block takes a product of transforms (length / 2 complex numbers, six operations each) and an inverse
        # transform.
        return self.n_features + fourier_flops(length) * (n_blocks + 1) + 3 * n_blocks * length + self.n_directions

    @property
    def scratch_width(self) -> int:
        # Scratch memory for the row, its transform, and a block of results.
        return self.n_features + self.generators.shape[1] + max(self.block_size, TOGETHER)

    def _prepared(self, ops: Ops, X: Array) -> tuple[Array, int]:
        X = ops.dense(X)
        factors = self.input_scale
        if self.order is not None:
            X, factors = X[:, self.order], factors[self.order]
        length = self.generators.shape[1]
        transforms = convolution_transforms(ops, X, factors, length)
        return transforms, X.shape[0]

    def _values(self, ops: Ops, X: tuple[Array, int], some: slice, columns: slice) -> Array:
        transforms, n_rows = X
        return convolutions(ops, transforms, n_rows, self.generators[some], self.offset, self.scale[columns])


def fast_length(least: int) -> int:
    """The smallest even length, at least `least`, with a fast Fourier transform: a product of powers of 2, 3 and 5."""
    from scipy.fft import next_fast_len

    return 2 * next_fast_len(-(-least // 2), real=True)  # pyright: ignore[reportOperatorIssue]


def draw_generators(law: SpectralLaw, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Random numbers of the given shape, of which any d form a direction in d columns, up to its radius and scale.

    They are standard Gaussian for a rotation-invariant law, else independent coordinates of the law with unit scale.
    """
    if law.is_rotation_invariant:
        return rng.standard_normal(shape)
    return law.unit(int(np.prod(shape))).sample(rng, 1).reshape(shape)


def signed_input_scale(law: SpectralLaw, rng: np.random.Generator) -> np.ndarray:
    """Inverse length scales (d,) with random signs.

    Neighbouring rows of the matrix are shifts of each other, so their products with a smooth x nearly agree. Random
    signs prevent this agreement.
    """
    return fair_word_factors(rng, (law.n_features,)) * law.scale


def row_factors(law: SpectralLaw, sequences: np.ndarray, n_directions: int, rng: np.random.Generator) -> np.ndarray:
    """Factors (s,) that scale each window of length d in `sequences` (B, n) to a radius drawn from the law.

    The factors are 1 if the windows already follow the law.
    """
    if law.is_gaussian or not law.is_rotation_invariant:
        return np.ones(n_directions)
    # A convolution adds only positive terms. Differences of cumulative sums would lose digits for short windows.
    ones = np.ones(law.n_features)
    squares = np.concatenate([np.convolve(sequence**2, ones, mode="valid") for sequence in sequences])
    return law.sample_radii(rng, n_directions) / np.sqrt(squares[:n_directions])
