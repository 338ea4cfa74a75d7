"""Fastfood: Gaussian matrices imitated by two Walsh-Hadamard transforms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from phimap.kernels.spectral import SpectralLaw
from phimap.ops import Array, Ops
from phimap.ops.primitives.fastfood_blocks import fastfood_blocks
from phimap.projections.base import Projection, ProjectionRecord, hadamard_flops, input_scale
from phimap.projections.blocks import BlockRecord
from phimap.records import of_floats, of_indices, of_signs
from phimap.sketches.signs import fair_signs
from phimap.sketches.transform_rows import is_padded_width


@dataclass(frozen=True)
class FastfoodRecord(BlockRecord):
    """Blocks ``diag(scale) H diag(gains) P H diag(signs)``, H unnormalised, on inputs padded to a power of two p.

    Attributes
    ----------
    input_scale : ndarray of shape (n_features,)
        The law's inverse length scales, applied to the input.
    signs : ndarray of int8, shape (n_blocks, p)
    permutations : ndarray of intp, shape (n_blocks, p)
        Row j of P picks coordinate ``permutations[b, j]``.
    gains : ndarray of shape (n_blocks, p)
    scale : ndarray of shape (n_directions,)
        Radius over the norm of the unscaled row.
    """

    input_scale: np.ndarray = field(metadata=of_floats("d"))
    signs: np.ndarray = field(metadata=of_signs("B", "p"))
    permutations: np.ndarray = field(metadata=of_indices("B", "p", permutation=True))
    gains: np.ndarray = field(metadata=of_floats("B", "p"))
    scale: np.ndarray = field(metadata=of_floats("s"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield from super().requirements()
        yield is_padded_width(self.block_size, self.n_features), "blocks as wide as a power of two that holds a row"

    @property
    def block_size(self) -> int:
        return self.signs.shape[1]

    @property
    def n_stored(self) -> int:
        return self.signs.shape[0]

    @property
    def n_flops(self) -> int:
        n_blocks, width = self.signs.shape
        return self.n_features + n_blocks * 2 * (width + hadamard_flops(width)) + self.n_directions

    def _values(self, ops: Ops, X: Array, some: slice, columns: slice) -> Array:
        return fastfood_blocks(ops, X, self.signs[some], self.permutations[some], self.gains[some], self.scale[columns])


class Fastfood(Projection):
    """Fastfood: blocks ``sqrt(p) diag(r / |g|) H diag(g) P H B`` with H normalised.

    B holds random signs, P is a random permutation, g a Gaussian vector, r are independent radii, and p is the
    input width padded to a power of two.

    Notes
    -----
    **Error.** Unbiased: given B and P a row of ``sqrt(p) H diag(g) P H B`` is a standard Gaussian vector, so its
    direction is uniform and independent of its norm ``|g|``. With a radius from the law in p dimensions, the d
    coordinates that are not padding follow the law in d dimensions exactly, for every rotation-invariant law.
    Rows of one block are uncorrelated but not independent: at distance tau length scales of the Gaussian kernel
    the variance is near ``1 + tau^4 exp(-tau^2) / (1 - exp(-tau^2))^2`` times that of independent draws, twice it
    for near rows, as derived for `Circulant`.

    **Cost.** O(s log p) flops a row, two transforms for each p directions, and 25 bytes stored for each direction;
    no matrix is stored.

    **Differs from the source in** the factor sqrt(p), which the survey's Eq. 9 lacks and without which every
    direction is too short, and in the padding. Radii are drawn from the law of every rotation-invariant kernel.

    References
    ----------
    Le, Sarlos, Smola (2013), *Fastfood: approximating kernel expansions in loglinear time*, Section 3; Liu, Huang,
    Chen, Suykens (2021), *Random features for kernel approximation*, Eq. 9.
    """

    name = "fastfood"
    needs_rotation_invariance = True

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        d = law.n_features
        width = 1 << (d - 1).bit_length()
        n_blocks = -(-n_directions // width)
        sign_rng, permutation_rng, gain_rng, radius_rng = rng.spawn(4)
        signs = fair_signs(sign_rng, (n_blocks, width))
        ordered = np.broadcast_to(np.arange(width, dtype=np.intp), (n_blocks, width))
        permutations = permutation_rng.permuted(ordered, axis=1)
        gains = gain_rng.standard_normal((n_blocks, width))
        # With H unnormalised a row has norm sqrt(p) |g|.
        norms = np.repeat(np.sqrt(width) * np.linalg.norm(gains, axis=1), width)[:n_directions]
        scale = law.unit(width).sample_radii(radius_rng, n_directions) / norms
        return FastfoodRecord(input_scale(law), signs, permutations, gains, scale)
