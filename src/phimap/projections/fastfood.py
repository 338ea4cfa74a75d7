"""Fastfood: two Walsh-Hadamard transforms in place of a Gaussian matrix."""

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
    """Blocks ``diag(scale) H diag(gains) P H diag(signs)``, H unnormalised, for rows padded to a power of two p.

    Attributes
    ----------
    input_scale : ndarray of shape (n_features,)
        Factors of the columns: the inverse length scales of the law.
    signs : ndarray of int8, shape (n_blocks, p)
        Random signs before the first transform.
    permutations : ndarray of intp, shape (n_blocks, p)
        Row j of P selects coordinate ``permutations[b, j]`` in block b.
    gains : ndarray of shape (n_blocks, p)
        Gaussian factors between the two transforms.
    scale : ndarray of shape (n_directions,)
        Radius of each direction divided by its norm before scaling.
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

    B is a diagonal of random signs, P a random permutation, g a Gaussian vector, and r a vector of independent radii. p
    is the least power of two that is at least d.

    Notes
    -----
    **Error.** Unbiased: given B and P, a row of ``sqrt(p) H diag(g) P H B`` is a standard Gaussian vector, so its
    direction is uniform and independent of its norm ``|g|``. With a radius from the law in p dimensions, the d
    coordinates that are not padding follow the law in d dimensions exactly, for every rotation-invariant law.
    Rows of one block are uncorrelated but not independent. For the Gaussian kernel at a distance of tau length scales,
    the variance is about ``1 + tau^4 exp(-tau^2) / (1 - exp(-tau^2))^2`` times the variance of independent draws: up to
    twice as large, for close rows. The derivation is the same as for `Circulant`.

    **Cost.** O(s log p) flops per row (two transforms per p directions) and 25 bytes stored per direction; no matrix is
    stored.

    **Differs from the source in** the padding, and in radii for every rotation-invariant law. Eq. 9 of the survey omits
    the factor sqrt(p), without which every direction is too short.

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
        # A row has norm sqrt(p) |g|, because H is unnormalised.
        norms = np.repeat(np.sqrt(width) * np.linalg.norm(gains, axis=1), width)[:n_directions]
        scale = law.unit(width).sample_radii(radius_rng, n_directions) / norms
        return FastfoodRecord(input_scale(law), signs, permutations, gains, scale)
