"""Structured projections by products of random signs and Walsh-Hadamard transforms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from phimap._validation import check_choice, check_integer
from phimap.kernels.spectral import SpectralLaw
from phimap.ops import Array, Ops, host
from phimap.ops.primitives.hadamard_blocks import hadamard_blocks
from phimap.projections.base import Projection, ProjectionRecord, hadamard_flops, input_scale
from phimap.projections.blocks import BlockRecord
from phimap.records import of_floats, of_signs
from phimap.sketches.signs import fair_signs
from phimap.sketches.transform_rows import is_padded_width


@dataclass(frozen=True)
class HadamardRecord(BlockRecord):
    """Blocks ``H D_1 H D_2 ... H D_t``, with H unnormalised, for rows padded to a power of two p.

    Attributes
    ----------
    input_scale : ndarray of shape (n_features,)
        Factors of the columns: the inverse length scales of the law.
    signs : ndarray of int8, shape (n_blocks, t, p)
        Diagonals of D_1, ..., D_t of each block.
    scale : ndarray of shape (n_directions,)
        Radius of each direction divided by its norm before scaling.
    """

    input_scale: np.ndarray = field(metadata=of_floats("d"))
    signs: np.ndarray = field(metadata=of_signs("B", "t", "p"))
    scale: np.ndarray = field(metadata=of_floats("s"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield from super().requirements()
        yield is_padded_width(self.block_size, self.n_features), "blocks as wide as a power of two that holds a row"

    @property
    def block_size(self) -> int:
        return self.signs.shape[2]

    @property
    def n_stored(self) -> int:
        return self.signs.shape[0]

    @property
    def n_flops(self) -> int:
        n_blocks, n_factors, width = self.signs.shape
        chains = n_blocks * n_factors * (width + hadamard_flops(width))
        return self.n_features + chains + self.n_directions

    def _values(self, ops: Ops, X: Array, some: slice, columns: slice) -> Array:
        return hadamard_blocks(ops, X, self.signs[some], self.scale[columns])


class ROM(Projection):
    """Random orthogonal matrices with t factors, each a Walsh-Hadamard matrix times a diagonal of random signs.

    A block is ``sqrt(p) (H D_1) ... (H D_t)``, where H is normalised and p is the least power of two not below d.

    Parameters
    ----------
    factors : int, default=2
        Number t of factors, at least 1. `SORF` has three factors.
    radii : {"auto", "fixed", "law"}, default="auto"
        ``"fixed"`` gives every direction the root mean square radius, as published; for Gaussian laws only.
        ``"law"`` draws radii from the law, which removes the bias in the norms. ``"auto"`` is ``"fixed"`` for
        Gaussian laws and ``"law"`` for all others.

    Notes
    -----
    **Error.** Biased, by at most ``6 tau / sqrt(d)`` for the Gaussian kernel at a distance of tau length scales. In
    practice the error is close to the error of orthogonal directions for d above about 30, and larger for smaller d.
    Two factors are only slightly less accurate than three. One factor is unsuitable for sparse or standardised data,
    where a few rare columns dominate distances.

    **Cost.** O(t s log p) flops per row and O(s) memory; no matrix is stored.

    **Differs from the source in** the padding, the choice of radii, and two factors by default. The usual choice of
    three factors is `SORF`.

    References
    ----------
    Choromanski, Rowland, Weller (2017), *The unreasonable effectiveness of structured random orthogonal
    embeddings*, Section 2.
    """

    name = "rom"
    needs_rotation_invariance = True

    def __init__(self, factors: int = 2, *, radii: str = "auto"):
        self.factors = factors
        self.radii = radii

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        factors = check_integer("factors", self.factors, least=1)
        radii = check_choice("radii", self.radii, ("auto", "fixed", "law"))
        if radii == "fixed" and not law.is_gaussian:
            raise ValueError(f"`radii`='fixed' is for Gaussian laws, got that of {law.kernel_name}. Use radii='law'.")
        d = law.n_features
        width = 1 << (d - 1).bit_length()
        n_blocks = -(-n_directions // width)
        sign_rng, radius_rng = rng.spawn(2)
        signs = fair_signs(sign_rng, (n_blocks, factors, width))
        # A row of the unnormalised product of t factors has norm width^(t/2). In the publication, it has norm
        # sqrt(width).
        fixed = np.full(n_directions, width ** (0.5 - factors / 2))
        if radii == "fixed" or (radii == "auto" and law.is_gaussian):
            return HadamardRecord(input_scale(law), signs, fixed)
        plain = HadamardRecord(np.ones(d), signs, fixed)
        norms = _direction_norms(plain)
        # If all non-zero entries of a direction are in the padding, its norm is 0, and it remains zero.
        scale = fixed * law.sample_radii(radius_rng, n_directions) / np.where(norms > 0, norms, 1.0)
        return HadamardRecord(input_scale(law), signs, scale)


class SORF(ROM):
    """Structured orthogonal random features: `ROM` with three factors.

    Parameters
    ----------
    radii : {"auto", "fixed", "law"}, default="auto"
        As in `ROM`.

    Notes
    -----
    **Error.** As for `ROM`: biased by at most ``6 tau / sqrt(d)`` for the Gaussian kernel at a distance of tau length
    scales.

    **Cost.** O(s log p) flops per row and O(s) memory.

    **Differs from the source in** the padding and the choice of radii.

    References
    ----------
    Yu, Suresh, Choromanski, Holtmann-Rice, Kumar (2016), *Orthogonal random features*, Section 4.
    """

    name = "sorf"

    def __init__(self, *, radii: str = "auto"):
        super().__init__(3, radii=radii)


def _direction_norms(record: HadamardRecord) -> np.ndarray:
    """Norms (s,) of the directions, without the padded coordinates, from products with unit vectors."""
    ops = host()
    bound = record.bind(ops)
    squares = np.zeros(record.n_directions)
    # A few unit vectors are used at a time: all products together would be the s x d matrix, which is never stored.
    for first in range(0, record.n_features, 256):
        rows = np.eye(min(256, record.n_features - first), record.n_features, first)
        for columns, values in bound.blocks(ops, rows):
            squares[columns] += np.einsum("ij,ij->j", values, values)
    return np.sqrt(squares)
