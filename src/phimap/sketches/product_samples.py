"""Products of two randomised transforms, sampled: the step from two vectors to a sketch of their tensor product."""

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
    """Pairs of rows at which two transforms are multiplied: a sketch of `n_components` features."""

    n_components: int
    rows: tuple[np.ndarray, np.ndarray]

    def serves(self, lengths: Sequence[int]) -> bool:
        """Whether the rows are those of two transforms of sequences of these lengths."""
        return all(
            length == self.length(length) and int(rows.max()) < self.n_rows(length)
            for rows, length in zip(self.rows, lengths, strict=True)
        )

    @staticmethod
    @abstractmethod
    def n_rows(length: int) -> int:
        """Rows of the transform of a sequence of a length."""

    @staticmethod
    @abstractmethod
    def length(width: int) -> int:
        """The least length not below `width` that the transform likes."""

    @staticmethod
    @abstractmethod
    def transform(ops: Ops, X: Array, signs: Array) -> Array:
        """The transforms of the rows of `X`, dense or CSR, after `signs` (int8, of the padded length)."""

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
        """Draw a sketch of the product of transforms of these lengths, with features times ``sqrt(weight)``."""

    @abstractmethod
    def write(self, ops: Ops, A: Array, B: Array, out: Array, first: int = 0) -> None:
        """Write the sketch of transforms `A` and `B` to the columns of `out` from `first`; one row serves all."""

    def product(self, ops: Ops, A: Array, B: Array) -> Array:
        """The sketch (r, n_components) of transforms `A` and `B`; one of a single row serves all r rows."""
        out = ops.empty((max(A.shape[0], B.shape[0]), self.n_components))
        self.write(ops, A, B, out)
        return out

    def next_transform(self, ops: Ops, A: Array, B: Array, signs: Array) -> Array:
        """The `transform` of the `product`."""
        return self.transform(ops, self.product(ops, A, B), signs)


@dataclass(frozen=True)
class HadamardSamples(ProductSamples):
    """Hadamard transforms: one feature a sample.

    Attributes
    ----------
    rows : tuple of two ndarrays of intp, shape (n_components,)
        Of the first and of the second transform.
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
    """Fourier transforms: two features a sample, its real and its imaginary part.

    Attributes
    ----------
    rows : tuple of two ndarrays of intp, shape (ceil(n_components / 2),)
        Frequencies up to half the length L. The transform of a real vector has at L - i the conjugate of i.
    scale : float
    orientations : tuple of two ndarrays of int8, shape (ceil(n_components / 2),)
        -1 where the sampled frequency was in the upper half, so that the entry at `rows` is conjugated; else 1.
    n_components : int
    last_sign : int
        Sign between the two parts of the last sample, which share a feature where `n_components` is odd.
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
        # Half a sample for half a sample's share: every feature has the same part in the estimate.
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
    """Uniform rows (n_samples,) of two transforms, those of one independent of those of the other.

    Without replacement every row comes once before any comes again.
    """
    first, second = (
        child.integers(length, size=n_samples, dtype=np.intp) if replace else balanced_rows(child, length, n_samples)
        for child, length in zip(rng.spawn(2), lengths, strict=True)
    )
    return first, second
