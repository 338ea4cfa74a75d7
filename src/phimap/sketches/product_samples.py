"""Sampled products of two randomised transforms, which turn two vectors into a sketch of their tensor product."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from phimap.ops import Array, Ops
from phimap.ops.primitives.fourier_products import fourier_product, next_product_factor, product_factor
from phimap.ops.primitives.gather_product import gather_product
from phimap.records import Record, of_indices, of_number, of_signs
from phimap.sketches.signs import fair_signs
from phimap.sketches.transform_rows import balanced_rows, fast_fourier_width, lower_half, padded_width


class ProductSamples(Record):
    """Pairs of rows at which two transforms are multiplied, giving `n_components` features."""

    n_components: int
    rows: tuple[np.ndarray, np.ndarray]

    def serves(self, lengths: Sequence[int]) -> bool:
        """Whether the rows are valid for transforms of two sequences with these lengths."""
        return all(
            length == self.length(length) and int(rows.max()) < self.n_rows(length)
            for rows, length in zip(self.rows, lengths, strict=True)
        )

    @staticmethod
    @abstractmethod
    def n_rows(length: int) -> int:
        """Number of rows in the transform of a sequence of this length."""

    @staticmethod
    @abstractmethod
    def length(width: int) -> int:
        """The smallest length, at least `width`, with a fast transform."""

    @staticmethod
    @abstractmethod
    def transform(ops: Ops, X: Array, signs: Array) -> Array:
        """The transforms of the rows of `X`, dense or CSR, padded and multiplied by `signs` (int8)."""

    @classmethod
    @abstractmethod
    def draw(
        cls,
        lengths: tuple[int, int],
        n_components: int,
        rng: np.random.Generator,
        *,
        replace: bool = False,
        weight: float = 1.0,
    ) -> Self:
        """Draw samples for two transforms of these lengths; features are multiplied by ``sqrt(weight)``."""

    @abstractmethod
    def write(self, ops: Ops, A: Array, B: Array, out: Array, first: int = 0) -> None:
        """Write the sketch from transforms `A` and `B` to the columns of `out` from `first` on.

        If `A` or `B` has one row, this row is used for all rows.
        """

    def product(self, ops: Ops, A: Array, B: Array) -> Array:
        """The sketch (r, n_components) from transforms `A` and `B`. Either may have one row for all r rows."""
        out = ops.empty((max(A.shape[0], B.shape[0]), self.n_components))
        self.write(ops, A, B, out)
        return out

    def next_transform(self, ops: Ops, A: Array, B: Array, signs: Array) -> Array:
        """The `transform` of the `product` of `A` and `B`, with `signs`."""
        return self.transform(ops, self.product(ops, A, B), signs)


@dataclass(frozen=True)
class HadamardSamples(ProductSamples):
    """Samples of Hadamard transforms: one feature per sample.

    Attributes
    ----------
    rows : tuple of two ndarrays of intp, shape (n_components,)
        Sampled rows of the first and of the second transform.
    scale : float
        Factor of every sample.
    """

    rows: tuple[np.ndarray, np.ndarray] = field(metadata=of_indices("m"))
    scale: float

    @staticmethod
    def n_rows(length: int) -> int:
        return length

    @property
    def n_components(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] -- derived here
        return self.rows[0].shape[0]

    @staticmethod
    def length(width: int) -> int:
        return padded_width(width)

    @staticmethod
    def transform(ops: Ops, X: Array, signs: Array) -> Array:
        return ops.fwht(ops.pad_signed(X, signs))

    @classmethod
    def draw(
        cls,
        lengths: tuple[int, int],
        n_components: int,
        rng: np.random.Generator,
        *,
        replace: bool = False,
        weight: float = 1.0,
    ) -> Self:
        return cls(_sampled_rows(lengths, n_components, rng, replace), (weight / n_components) ** 0.5)

    def write(self, ops: Ops, A: Array, B: Array, out: Array, first: int = 0) -> None:
        gather_product(ops, A, self.rows[0], B, self.rows[1], self.scale, out, first)


@dataclass(frozen=True)
class FourierSamples(ProductSamples):
    """Samples of Fourier transforms: two features per sample, its real and imaginary parts.

    Attributes
    ----------
    rows : tuple of two ndarrays of intp, shape (ceil(n_components / 2),)
        Sampled frequencies of both transforms, mapped to at most half the length: see `lower_half`.
    scale : float
        Factor of every sample.
    orientations : tuple of two ndarrays of int8, shape (ceil(n_components / 2),)
        -1 if the sampled frequency was in the upper half, so that the entry is conjugated; else 1.
    n_components : int
    last_sign : int
        For odd `n_components`, the sign with which the imaginary part of the last sample is added to its real part.
    """

    rows: tuple[np.ndarray, np.ndarray] = field(metadata=of_indices("k"))
    scale: float
    orientations: tuple[np.ndarray, np.ndarray] = field(metadata=of_signs("k"))
    n_components: int = field(metadata=of_number(least=1))
    last_sign: int = field(metadata=of_number(least=-1, most=1))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.rows[0].size == -(-self.n_components // 2), "a row of each transform for every two components"

    @staticmethod
    def n_rows(length: int) -> int:
        return length // 2 + 1

    @staticmethod
    def length(width: int) -> int:
        return fast_fourier_width(width)

    @staticmethod
    def transform(ops: Ops, X: Array, signs: Array) -> Array:
        return product_factor(ops, X, signs)

    @classmethod
    def draw(
        cls,
        lengths: tuple[int, int],
        n_components: int,
        rng: np.random.Generator,
        *,
        replace: bool = False,
        weight: float = 1.0,
    ) -> Self:
        sampled = _sampled_rows(lengths, -(-n_components // 2), rng, replace)
        first, second = (lower_half(rows, length) for rows, length in zip(sampled, lengths, strict=True))
        last_sign = int(fair_signs(rng.spawn(1)[0], (1,))[0])
        return cls(
            (first[0], second[0]),
            (2 * weight / n_components) ** 0.5,
            (first[1], second[1]),
            n_components,
            last_sign,
        )

    def write(self, ops: Ops, A: Array, B: Array, out: Array, first: int = 0) -> None:
        m = self.n_components
        samples = self._samples(A, B)
        if m % 2 == 0:
            fourier_product(ops, samples, out, first)
            return
        features = ops.empty((out.shape[0], m + 1))
        fourier_product(ops, samples, features)
        # The last feature combines the real and imaginary parts of the last sample. The factor 0.5^(1/2) gives it the
        # same weight as any other feature.
        features[:, m - 1] = 0.5**0.5 * (features[:, m - 1] + self.last_sign * features[:, m])
        ops.copy(features[:, :m], out, first)

    def next_transform(self, ops: Ops, A: Array, B: Array, signs: Array) -> Array:
        if self.n_components % 2:
            return super().next_transform(ops, A, B, signs)
        return next_product_factor(ops, self._samples(A, B), signs)

    def _samples(self, A: Array, B: Array) -> tuple[Array, Array, Array, Array, Array, Array, float]:
        return A, self.rows[0], self.orientations[0], B, self.rows[1], self.orientations[1], self.scale


FORMS: dict[str, type[ProductSamples]] = {"fourier": FourierSamples, "hadamard": HadamardSamples}


def _sampled_rows(
    lengths: tuple[int, int], n_samples: int, rng: np.random.Generator, replace: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Random rows (n_samples,) of two transforms, drawn independently for each transform.

    Without replacement, every row occurs once before any is repeated.
    """
    first, second = (
        child.integers(length, size=n_samples, dtype=np.intp) if replace else balanced_rows(child, length, n_samples)
        for child, length in zip(rng.spawn(2), lengths, strict=True)
    )
    return first, second
