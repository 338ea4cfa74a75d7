"""Sparse random signs in place of Gaussian directions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from phimap._validation import check_real
from phimap.kernels.spectral import SpectralLaw
from phimap.ops import Array, Ops
from phimap.ops.base import TERNARY_PLACES
from phimap.ops.primitives.signed_sums import signed_sums
from phimap.ops.primitives.ternary_product import ternary_product
from phimap.projections.base import Projection, ProjectionRecord
from phimap.records import Record, of_entries, of_floats, of_indices

# Number of directions in a block: a block of 256 rows then takes 1 MB in float32, the size of an L2 cache.
_BLOCK = 1024
# Least share of zeros from which a product uses lists of the indices of nonzero entries. These lists then take fewer
# operations than tables with the sums of four columns.
_SPARSE = 0.8
# The largest code of four entries in a byte.
_MOST_CODE = 3 ** len(TERNARY_PLACES) - 1
# Number of uniform numbers that are drawn at a time; they take 8 MB.
_DRAWN = 2**20


@dataclass(frozen=True)
class SignRecord(Record):
    """Rows with entries 1, -1 and mostly 0, stored as index lists.

    Attributes
    ----------
    indices : ndarray of int32, shape (n_nonzero,)
        For each row, the columns with 1, then the columns with -1.
    bounds : ndarray of intp, shape (2 n_rows + 1,)
        Positions in `indices` where the list of 1 and the list of -1 of each row begin, and the total length.
    """

    indices: np.ndarray = field(metadata=of_indices("?z"))
    bounds: np.ndarray = field(metadata=of_indices(None, ascending=True))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.bounds.size % 2 == 1, "two bounds for each row, and the end"
        yield self.bounds[0] == 0 and self.bounds[-1] == self.indices.size, "bounds from the first index to the last"

    def serves(self, n_features: int) -> bool:
        """Whether the rows are valid for a matrix with `n_features` columns."""
        return not self.indices.size or int(self.indices.max()) < n_features

    @property
    def n_rows(self) -> int:
        return self.bounds.shape[0] // 2

    @property
    def n_additions(self) -> int:
        return self.indices.shape[0]

    def multiply(self, ops: Ops, X: Array) -> Array:
        """The product (r, n_rows) of `X` (r, n_features) with the transpose of these rows."""
        return signed_sums(ops, X, self.indices, self.bounds)


@dataclass(frozen=True)
class SignCodeRecord(Record):
    """Rows with entries 1, -1 and 0, stored as codes, four entries per byte.

    Attributes
    ----------
    codes : ndarray of uint8, shape (n_rows, 2 k)
        Each byte holds four entries as digits in base 3, lowest first; the digit 2 means -1. Rows are padded with zeros
        to 8 k columns.
    """

    codes: np.ndarray = field(metadata=of_entries("byte", "r", "w", most=_MOST_CODE))

    def serves(self, n_features: int) -> bool:
        """Whether the rows are valid for a matrix with `n_features` columns."""
        return self.codes.shape[1] == 2 * -(-n_features // 8)

    @property
    def n_rows(self) -> int:
        return self.codes.shape[0]

    @property
    def n_additions(self) -> int:
        return self.codes.size

    def multiply(self, ops: Ops, X: Array) -> Array:
        """The product (r, n_rows) of `X` (r, n_features) with the transpose of these rows."""
        return ternary_product(ops, X, self.codes)


@dataclass(frozen=True)
class SparseSignRecord(ProjectionRecord):
    """Sparse random signs times a scale of each column.

    Attributes
    ----------
    input_scale : ndarray of shape (n_features,)
        Inverse length scales of the law divided by the standard deviation of a sign.
    signs : tuple of SignRecord or SignCodeRecord
        The signs of the directions, in blocks of up to 1,024 directions.
    scale : ndarray of shape (n_directions,), or None
        Random factors of the directions, for Gaussian scale mixtures.
    """

    input_scale: np.ndarray = field(metadata=of_floats("d"))
    signs: tuple[SignRecord | SignCodeRecord, ...]
    scale: np.ndarray | None = field(default=None, metadata=of_floats("s"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.n_directions > 0, "a direction"
        yield all(block.serves(self.n_features) for block in self.signs), "signs of columns of its input"
        yield self.scale is None or self.scale.size == self.n_directions, "a scale for each direction"

    @property
    def n_features(self) -> int:
        return self.input_scale.shape[0]

    @property
    def n_directions(self) -> int:
        return sum(block.n_rows for block in self.signs)

    @property
    def n_flops(self) -> int:
        return (
            self.n_features
            + sum(block.n_additions for block in self.signs)
            + (0 if self.scale is None else self.n_directions)
        )

    @property
    def scratch_width(self) -> int:
        return self.n_features + min(_BLOCK, self.n_directions) * (1 if self.scale is None else 2)

    def blocks(self, ops: Ops, X: Array) -> Iterator[tuple[slice, Array]]:
        X = ops.scale_columns(ops.dense(X), self.input_scale)
        first = 0
        for block in self.signs:
            columns = slice(first, first + block.n_rows)
            values = block.multiply(ops, X)
            yield columns, values if self.scale is None else ops.scale_columns(values, self.scale[columns])
            first = columns.stop


class SparseSign(Projection):
    """Sparse signs: independent entries, 0 with probability eps, else ``+-(1 - eps)^(-1/2)`` with equal probability.

    The entries replace standard Gaussian numbers. For Gaussian scale mixtures (Matern) each direction is multiplied by
    a random factor.

    Parameters
    ----------
    sparsity : float, default=2/3
        Probability eps of a zero, at least 0 and below 1. With 2/3 the first five moments equal the moments of a
        Gaussian.

    Notes
    -----
    **Error.** Biased: the entries have the mean and variance of a Gaussian but are not Gaussian. The mean of
    ``cos(<w, x - y>)`` is the product of ``eps + (1 - eps) cos(t (1 - eps)^(-1/2))`` over the coordinates t of
    (x - y) / length_scale. This mean equals the Gaussian kernel to third order in t; the relative difference is about
    ``(1 / (1 - eps) - 3) sum t^4 / 24``. The bias is small if many coordinates contribute to the distance and large if
    few do. A sparsity of 0.9 needs about a hundred columns or more.

    **Cost.** For sparsities from 0.8 on: ``(1 - eps) s d`` additions per row, and 4 bytes stored per non-zero entry.
    For lower sparsities: ``s d / 4`` additions, each of a precomputed sum of four columns, and ``s d / 4`` bytes. From
    about a hundred columns on, both are faster than a product with a dense matrix.

    **Differs from the source in** laws other than the Gaussian.

    References
    ----------
    Achlioptas (2003), *Database-friendly random projections*, Theorem 1.1, for sparsities 0 and 2/3; Ali, Liao,
    Couillet (2022), *Random matrices in service of ML footprint: ternary random features with no performance loss*,
    Eq. 4.
    """

    name = "sparse-sign"
    needs_gaussian_mixture = True

    def __init__(self, sparsity: float = 2 / 3):
        self.sparsity = sparsity

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        sparsity = check_real("sparsity", self.sparsity, least=0.0)
        if sparsity >= 1.0:
            raise ValueError(f"`sparsity` must be below 1, got {self.sparsity}. Some entries must not be zero.")
        d = law.n_features
        draw = _draw_signs if sparsity >= _SPARSE else _draw_codes
        signs = tuple(
            draw(min(_BLOCK, n_directions - first), d, sparsity, rng) for first in range(0, n_directions, _BLOCK)
        )
        scale = None if law.is_gaussian else law.sample_mixing(rng, n_directions)
        return SparseSignRecord(np.broadcast_to(law.scale / np.sqrt(1.0 - sparsity), (d,)).copy(), signs, scale)


def _draw_signs(n_rows: int, n_columns: int, sparsity: float, rng: np.random.Generator) -> SignRecord:
    """Rows of independent signs and zeros, as index lists."""
    indices, counts = [], []
    for is_one, is_minus_one in _draw(n_rows, n_columns, sparsity, rng):
        kinds = np.stack([is_one, is_minus_one], axis=1)
        indices.append(np.nonzero(kinds)[2].astype(np.int32))
        counts.append(kinds.sum(axis=2).ravel())
    bounds = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.intp)
    return SignRecord(np.concatenate(indices), bounds)


def _draw_codes(n_rows: int, n_columns: int, sparsity: float, rng: np.random.Generator) -> SignCodeRecord:
    """Rows of independent signs and zeros, as base-3 codes."""
    places = np.array(TERNARY_PLACES, np.uint8)
    codes = []
    for is_one, is_minus_one in _draw(n_rows, n_columns, sparsity, rng):
        digits = np.pad(is_one + np.uint8(2) * is_minus_one, ((0, 0), (0, -n_columns % 8)))
        codes.append(digits.reshape(len(digits), -1, len(places)) @ places)
    return SignCodeRecord(np.concatenate(codes))


def _draw(
    n_rows: int, n_columns: int, sparsity: float, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield masks of the entries 1 and of the entries -1, a few rows at a time, from one uniform number per entry."""
    together = max(1, _DRAWN // n_columns)
    for first in range(0, n_rows, together):
        uniform = rng.random((min(together, n_rows - first), n_columns))
        is_one = uniform >= (1.0 + sparsity) / 2.0
        yield is_one, (uniform >= sparsity) & ~is_one
