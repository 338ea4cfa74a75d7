"""Sketches of several tensor powers side by side: the interchangeable part of a map of a power series."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from phimap.ops import Array, Ops
from phimap.random_map import MapRecord
from phimap.sketches import SRHT, CountSketch, PolySketch, TensorSketch
from phimap.sketches.polysketch import is_wide
from phimap.sketches.spectra import fast_fourier_width, hadamard_signs, padded_width
from phimap.sketches.srht import SRHTRecord


@dataclass(frozen=True)
class StackedRecord(MapRecord):
    """Maps of the same rows side by side.

    Attributes
    ----------
    parts : tuple of MapRecord
    """

    parts: tuple[MapRecord, ...]

    @property
    def n_features(self) -> int:
        return self.parts[0].n_features

    @property
    def n_components(self) -> int:
        return sum(part.n_components for part in self.parts)

    @property
    def scratch_width(self) -> int:
        return max(part.scratch_width for part in self.parts)

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        for part in self.parts:
            part.apply(ops, X, out, first)
            first += part.n_components


@dataclass(frozen=True)
class SpectralProductsRecord(MapRecord):
    """Products of entries of independent randomised Fourier transforms: a power of degree j has j factors.

    Attributes
    ----------
    n_features : int
    signs : ndarray of int8, shape (largest degree, L)
        Of the transforms, which all degrees share.
    rows : tuple of ndarrays of intp, shapes (j, ceil(width / 2))
        One for each degree: frequencies up to half of L.
    orientations : tuple of ndarrays of int8, shapes as of `rows`
        -1 where the entry is conjugated, its frequency being in the upper half.
    widths : tuple of int
        Features of each degree.
    last_signs : tuple of int
        Sign between the two parts of the last sample, which share a feature where a width is odd.
    """

    n_features: int
    signs: np.ndarray
    rows: tuple[np.ndarray, ...]
    orientations: tuple[np.ndarray, ...]
    widths: tuple[int, ...]
    last_signs: tuple[int, ...]

    @property
    def n_components(self) -> int:
        return sum(self.widths)

    @property
    def scratch_width(self) -> int:
        return self.n_features + 2 * self.signs.shape[0] * self.signs.shape[1] + 2 * max(self.widths)

    @classmethod
    def draw(
        cls, n_features: int, degrees: Sequence[int], widths: Sequence[int], rng: np.random.Generator
    ) -> SpectralProductsRecord:
        length = fast_fourier_width(n_features)
        sign_rng, row_rng, last_rng = rng.spawn(3)
        signs = hadamard_signs(sign_rng, (max(degrees), length))
        rows, orientations = [], []
        for degree, width in zip(degrees, widths, strict=True):
            # Each factor visits all frequencies before it visits one again: by Parseval's theorem this takes out of
            # the error what depends on one factor's frequency alone.
            samples = -(-width // 2)
            rounds = -(-samples // length)
            drawn = [
                np.concatenate([row_rng.permutation(length) for _ in range(rounds)])[:samples] for _ in range(degree)
            ]
            frequencies = np.stack(drawn).astype(np.intp)
            upper = 2 * frequencies > length
            rows.append(np.where(upper, length - frequencies, frequencies))
            orientations.append(np.where(upper, -1, 1).astype(np.int8))
        last = hadamard_signs(last_rng, (len(widths),))
        return cls(
            n_features,
            signs,
            tuple(rows),
            tuple(orientations),
            tuple(int(width) for width in widths),
            tuple(int(sign) for sign in last),
        )

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        spectra = ops.signed_spectra(ops.dense(X), self.signs)
        for rows, orientations, width, last in zip(
            self.rows, self.orientations, self.widths, self.last_signs, strict=True
        ):
            scale = (2 / width) ** 0.5
            if width % 2 == 0:
                ops.fourier_chain(spectra, rows, orientations, scale, out, first)
            else:
                features = ops.empty((X.shape[0], width + 1))
                ops.fourier_chain(spectra, rows, orientations, scale, features, 0)
                # Half a sample for half a sample's share: every feature has the same part in the estimate.
                middle = width // 2
                features[:, middle] = 0.5**0.5 * (features[:, middle] + last * features[:, width])
                ops.copy(features[:, :width], out, first)
            first += width


@dataclass(frozen=True)
class SignProductsRecord(MapRecord):
    """Products of projections onto independent random signs: a power of degree j has j factors.

    Attributes
    ----------
    n_features : int
    signs : ndarray of int8, shape (j, B, 1, p)
        Factor l projects onto the rows of ``H diag(signs[l, b, 0])``, p the padded input width: each of these rows
        is a vector of independent signs.
    scale : ndarray of shape (n_components,)
    """

    n_features: int
    signs: np.ndarray
    scale: np.ndarray

    @property
    def n_components(self) -> int:
        return self.scale.shape[0]

    @property
    def scratch_width(self) -> int:
        return self.n_features + 3 * self.n_components

    @classmethod
    def draw(cls, n_features: int, degree: int, width: int, rng: np.random.Generator) -> SignProductsRecord:
        padded = padded_width(n_features)
        signs = hadamard_signs(rng, (degree, -(-width // padded), 1, padded))
        # The j-th root, since each factor is scaled.
        return cls(n_features, signs, np.full(width, width ** (-0.5 / degree)))

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        X = ops.contiguous(ops.dense(X))
        product = ops.hadamard_blocks(X, self.signs[0], self.scale)
        for factor in range(1, self.signs.shape[0]):
            product = product * ops.hadamard_blocks(X, self.signs[factor], self.scale)
        ops.copy(product, out, first)


@dataclass(frozen=True)
class ReducedRecord(MapRecord):
    """A wide map whose features are reduced by a sketch."""

    wide: MapRecord
    reduction: SRHTRecord

    @property
    def n_features(self) -> int:
        return self.wide.n_features

    @property
    def n_components(self) -> int:
        return self.reduction.n_components

    @property
    def scratch_width(self) -> int:
        return self.wide.scratch_width + self.reduction.scratch_width

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        features = ops.empty((X.shape[0], self.wide.n_components))
        self.wide.apply(ops, X, features)
        self.reduction.apply(ops, features, out, first)


# Width of the inner nodes of a tree, whose error counts times the square of the cosine: so many times this square
# times the width of the widest output, but not less than the second number.
_INNER_SHARE = 4
_INNER_WIDTH = 1024
# Features that compact Maclaurin maps draw for each that they keep.
_OVERSAMPLING = 4


def _compact(n_features: int, degree: int, width: int, rng: np.random.Generator) -> MapRecord:
    wide_rng, reduction_rng = rng.spawn(2)
    wide = SignProductsRecord.draw(n_features, degree, _OVERSAMPLING * width, wide_rng)
    return ReducedRecord(wide, SRHT(width).sample(wide.n_components, reduction_rng))


def _tensor_sketch(n_features: int, degree: int, width: int, rng: np.random.Generator) -> MapRecord:
    return TensorSketch(width, degree=degree).sample(n_features, rng)


# Draws of the sketch of one power: (n_features, degree, width, generator) -> record.
_SINGLE: dict[str, Callable[[int, int, int, np.random.Generator], MapRecord]] = {
    "tensorsketch": _tensor_sketch,
    "maclaurin": SignProductsRecord.draw,
    "compact-maclaurin": _compact,
}

METHODS = ("polysketch", "complex-to-real", *_SINGLE)
"""Names of the sketches of powers."""


def draw_powers(
    method: str,
    n_features: int,
    degrees: Sequence[int],
    widths: Sequence[int],
    squared_cosine: float,
    rng: np.random.Generator,
) -> MapRecord:
    """Draw sketches of the tensor powers of these degrees, ascending, with these widths, side by side.

    `squared_cosine` is that of two rows on average.
    """
    if method == "polysketch":
        return _draw_tree(n_features, degrees, widths, squared_cosine, rng)
    if method == "complex-to-real":
        return SpectralProductsRecord.draw(n_features, degrees, widths, rng)
    draw = _SINGLE[method]
    children = rng.spawn(len(degrees))
    return StackedRecord(
        tuple(
            draw(n_features, degree, width, child)
            for degree, width, child in zip(degrees, widths, children, strict=True)
        )
    )


def _draw_tree(
    n_features: int, degrees: Sequence[int], widths: Sequence[int], squared_cosine: float, rng: np.random.Generator
) -> MapRecord:
    """All powers from one tree; the first power, which needs none, by SRHT.

    Rows that are wide for the tree are hashed, for each leaf and for the first power anew, in the time of their
    nonzeros.
    """
    linear_rng, tree_rng = rng.spawn(2)
    higher = {degree: width for degree, width in zip(degrees, widths, strict=True) if degree > 1}
    widest = max(higher.values(), default=widths[0])
    inner = min(widest, max(_INNER_WIDTH, int(_INNER_SHARE * squared_cosine * widest)))
    wide = is_wide(n_features, inner)
    parts: list[MapRecord] = []
    if degrees[0] == 1:
        parts.append((CountSketch if wide else SRHT)(widths[0]).sample(n_features, linear_rng))
    if higher:
        sketch = PolySketch(inner_components=inner, leaf="countsketch" if wide else "none")
        parts.append(sketch.sample_powers(n_features, higher, tree_rng))
    return StackedRecord(tuple(parts))


def unit_variance(method: str, degree: int, squared_cosine: np.ndarray) -> np.ndarray:
    """About m times the variance of a sketch with m features of the power of unit vectors, for each squared cosine.

    ``(1 + c s^2)^j - s^(2 j)`` for products of j factors: c = 2 with real signs, 1 with complex samples. In a tree
    the error of a product is one more sketch of it, whose size the number of factors does not change.
    """
    if method == "polysketch":
        return 1 + squared_cosine**degree
    spread = 1 if method == "complex-to-real" else 2
    return (1 + spread * squared_cosine) ** degree - squared_cosine**degree
