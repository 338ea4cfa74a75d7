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

# Directions to a block of results: a block of 256 rows is 1 MB in float32, the size of an L2 cache.
_BLOCK = 1024
# From here on, lists of entries take fewer operations than tables of the sums of four inputs.
_SPARSE = 0.8
# The largest byte whose digits are those of four entries.
_MOST_CODE = 3 ** len(TERNARY_PLACES) - 1
# Uniform numbers held at a time while the signs are drawn.
_DRAWN = 2**20


@dataclass(frozen=True)
class SignRecord(Record):
    """Some rows of few ones and minus ones.

    Attributes
    ----------
    indices : ndarray of int32, shape (n_nonzero,)
        For each row the columns of its ones, then those of its minus ones.
    bounds : ndarray of intp, shape (2 n_rows + 1,)
        Where in `indices` the ones and the minus ones of each row begin, and the end.
    """

    indices: np.ndarray = field(metadata=of_indices("?z"))
    bounds: np.ndarray = field(metadata=of_indices(None, ascending=True))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.bounds.size % 2 == 1, "two bounds for each row, and the end"
        yield self.bounds[0] == 0 and self.bounds[-1] == self.indices.size, "bounds from the first index to the last"

    def serves(self, n_features: int) -> bool:
        """Whether the rows are those of a matrix of that many columns."""
        return not self.indices.size or int(self.indices.max()) < n_features

    @property
    def n_rows(self) -> int:
        return self.bounds.shape[0] // 2

    @property
    def n_additions(self) -> int:
        return self.indices.shape[0]

    def multiply(self, ops: Ops, X: Array) -> Array:
        """The product of `X` with the transpose of the rows."""
        return signed_sums(ops, X, self.indices, self.bounds)


@dataclass(frozen=True)
class SignCodeRecord(Record):
    """Some rows of ones, minus ones and zeros, four to a byte.

    Attributes
    ----------
    codes : ndarray of uint8, shape (n_rows, 2 k)
        Four entries each as digits of base 3, the lowest first, 2 being -1; k is that of 8 k inputs, the last ones 0.
    """

    codes: np.ndarray = field(metadata=of_entries("byte", "r", "w", most=_MOST_CODE))

    def serves(self, n_features: int) -> bool:
        """Whether the rows are those of a matrix of that many columns."""
        return self.codes.shape[1] == 2 * -(-n_features // 8)

    @property
    def n_rows(self) -> int:
        return self.codes.shape[0]

    @property
    def n_additions(self) -> int:
        return self.codes.size

    def multiply(self, ops: Ops, X: Array) -> Array:
        """The product of `X` with the transpose of the rows."""
        return ternary_product(ops, X, self.codes)


@dataclass(frozen=True)
class SparseSignRecord(ProjectionRecord):
    """Sparse signs times a scale for each input.

    Attributes
    ----------
    input_scale : ndarray of shape (n_features,)
        The law's inverse length scales over the standard deviation of a sign.
    signs : tuple of SignRecord or SignCodeRecord
        The directions, up to 1,024 in each.
    scale : ndarray of shape (n_directions,), or None
        Factors of the directions, for mixtures of Gaussian laws.
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
    """Sparse signs: independent entries, 0 with probability eps, else ``+-(1 - eps)^(-1/2)`` with equal chances.

    They stand for standard Gaussian numbers. For mixtures of Gaussian laws (Matern) each direction has its factor.

    Parameters
    ----------
    sparsity : float, default=2/3
        Probability eps of a zero, at least 0 and below 1. With 2/3 entries have the first five moments of a Gaussian.

    Notes
    -----
    **Error.** Biased: the entries have the mean and variance of the Gaussian law, which they replace, but another
    law. The mean of ``cos(w.(x - y))`` is the product over coordinates t of (x - y) / length_scale of
    ``eps + (1 - eps) cos(t (1 - eps)^(-1/2))``, which is the Gaussian kernel to third order in t; the next term is
    ``(1 / (1 - eps) - 3) sum t^4 / 24`` times it. Small where many coordinates contribute, large where few do: a
    sparsity of 0.9 is for some hundred inputs or more.

    **Cost.** From a sparsity of 0.8 on ``(1 - eps) s d`` additions a row, and 4 bytes stored for each of as many
    entries. Below, ``s d / 4`` additions, of the sums of four inputs, and as many bytes. Both are faster than a
    product with a dense matrix from some hundred inputs on.

    **Differs from the source in** the laws other than the Gaussian.

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
    """Rows of independent signs and zeros, as lists of where they are."""
    indices, counts = [], []
    for is_one, is_minus_one in _draw(n_rows, n_columns, sparsity, rng):
        kinds = np.stack([is_one, is_minus_one], axis=1)
        indices.append(np.nonzero(kinds)[2].astype(np.int32))
        counts.append(kinds.sum(axis=2).ravel())
    bounds = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.intp)
    return SignRecord(np.concatenate(indices), bounds)


def _draw_codes(n_rows: int, n_columns: int, sparsity: float, rng: np.random.Generator) -> SignCodeRecord:
    """Rows of independent signs and zeros, as codes."""
    places = np.array(TERNARY_PLACES, np.uint8)
    codes = []
    for is_one, is_minus_one in _draw(n_rows, n_columns, sparsity, rng):
        digits = np.pad(is_one + np.uint8(2) * is_minus_one, ((0, 0), (0, -n_columns % 8)))
        codes.append(digits.reshape(len(digits), -1, len(places)) @ places)
    return SignCodeRecord(np.concatenate(codes))


def _draw(
    n_rows: int, n_columns: int, sparsity: float, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Where ones are and where minus ones, rows by rows, from one uniform number for each entry."""
    together = max(1, _DRAWN // n_columns)
    for first in range(0, n_rows, together):
        uniform = rng.random((min(together, n_rows - first), n_columns))
        is_one = uniform >= (1.0 + sparsity) / 2.0
        yield is_one, (uniform >= sparsity) & ~is_one
