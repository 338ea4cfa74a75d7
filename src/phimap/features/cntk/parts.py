"""The parts of a layer of `CNTKSketch`: windows, random features of the remainder of kappa, and products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import pi

import numpy as np
from scipy.fft import dct
from scipy.special import gammaln

from phimap.features.cntk.base import LONGEST_SIDE
from phimap.features.cntk.pixels import Pixels
from phimap.features.random_layers.rectified import RectifiedRemainderRecord
from phimap.kernels.spectral import StandardGaussianLaw
from phimap.ops import Array, Ops
from phimap.ops.primitives.gather_product import gather_product
from phimap.projections import SORF
from phimap.projections.dense import DenseRecord, drawn_blocks, haar_orthogonal
from phimap.records import Record, of_floats, of_indices, of_number, of_signs
from phimap.sketches.signs import fair_factors, fair_signs
from phimap.sketches.transform_rows import balanced_rows, padded_width

#: Widest inputs of dense orthogonal directions: up to there a product is as quick as three Hadamard transforms.
WIDEST_DENSE = 64


@dataclass(frozen=True)
class WindowRecord(Record):
    """The direct sum of features over a window: the first ones side by side, the others folded with random signs.

    Attributes
    ----------
    filter_size : int
    exact : int
        First features, which are kept side by side.
    folded : int
        Width to which the direct sum of all others is folded.
    signs : ndarray of shape (filter_size^2, n_features - exact)
        Random signs; without a rotation, their orthogonal transform over the window.
    rotation : ndarray of int8, shape (p,), or None
        Signs of a Hadamard transform of the features beforehand, which spreads what would collide.
    """

    filter_size: int = field(metadata=of_number(least=1, most=LONGEST_SIDE))
    exact: int = field(metadata=of_number(least=0, most=2**31))
    folded: int = field(metadata=of_number(least=0, most=2**31))
    signs: np.ndarray = field(metadata=of_floats("w", "?r"))
    rotation: np.ndarray | None = field(metadata=of_signs("p"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.filter_size % 2 == 1, "an odd size"
        yield self.signs.shape[0] == self.filter_size**2, "signs for each pixel of the window"
        n_folded = self.signs.shape[1]
        yield (1 if n_folded else 0) <= self.folded <= n_folded, "room for what is folded"
        if self.rotation is not None:
            width = self.rotation.shape[0]
            yield width == padded_width(width) == self.exact + n_folded, "signs of a transform of its features"

    @property
    def n_inputs(self) -> int:
        """Features of a pixel that are kept or folded."""
        return self.exact + self.signs.shape[1]

    def takes(self, n_features: int) -> bool:
        """Whether these are windows of so many features a pixel."""
        return n_features == self.n_inputs or (self.rotation is not None and n_features <= self.n_inputs)

    @classmethod
    def draw(
        cls, filter_size: int, exact: int, n_features: int, widest: int, folded: int, rng: np.random.Generator
    ) -> WindowRecord:
        """Keep `exact` features side by side if the window then stays within `widest`; else rotate and fold all."""
        sign_rng, rotation_rng = rng.spawn(2)
        rotation = None
        if exact * filter_size**2 > widest:
            rotation = fair_signs(rotation_rng, (padded_width(n_features),))
            exact, n_features = 0, rotation.shape[0]
        others = n_features - exact
        if others:
            # What a projection would pad to a power of two may as well be used. Beside exact features, the others
            # are of a norm so small that half the width will do.
            kept = exact * filter_size**2
            folded = min(padded_width(kept + (folded // 2 if kept else folded)) - kept, others)
        signs = fair_factors(sign_rng, (filter_size**2, others))
        if rotation is None:
            # Neighbouring pixels are alike: signs for the window's waves, of which the mean is nearly all, collide
            # less than signs for its pixels.
            waves = np.asarray(dct(np.eye(filter_size), norm="ortho", axis=0))
            signs = np.kron(waves, waves).T @ signs
        return cls(filter_size, exact, folded if others else 0, signs, rotation)

    @property
    def n_components(self) -> int:
        return self.filter_size**2 * self.exact + self.folded

    @property
    def exact_components(self) -> int:
        return self.filter_size**2 * self.exact

    @property
    def stored_width(self) -> int:
        """Width of the features a pixel that the sums are taken of."""
        return self.exact + self.signs.shape[1]

    def prepare(self, ops: Ops, features: Array) -> Array:
        """The features of some pixels, as they are stored for the sums."""
        if self.rotation is None:
            return features
        return ops.fwht(ops.pad_signed(features, self.rotation)) * self.rotation.shape[0] ** -0.5

    def apply(self, ops: Ops, stored: Pixels, part: slice) -> Array:
        """Windows (r, n_components) around the pixels in `part`, of features that were prepared."""
        return stored.windows(ops, self.filter_size, part, exact=self.exact, signs=self.signs, folded=self.folded)


def draw_remainder(
    order: int, n_features: int, n_components: int, rng: np.random.Generator
) -> RectifiedRemainderRecord:
    """Random features of kappa_1 (order 1) or kappa_0 (order 0) on unit rows, without the degrees 0 and 1.

    ``(|g| - c) / sqrt(2)`` or ``(sign(g) - c g) / sqrt(2)`` for projections g of unit variance.
    """
    scale = (2 * n_components) ** -0.5
    if n_features > WIDEST_DENSE:
        directions = SORF(radii="fixed").sample(StandardGaussianLaw(n_features), n_components, rng)
        share = _share(padded_width(n_features))
    else:
        blocks = drawn_blocks(
            lambda size, child: haar_orthogonal(n_features, child, size), n_components, n_features, rng
        )
        directions = DenseRecord(np.ascontiguousarray(blocks.T) * n_features**0.5)
        share = _share(n_features)
    return RectifiedRemainderRecord(directions, order, (-share,) if order else (0.0, -share), scale)


@dataclass(frozen=True)
class ProductRecord(Record):
    """Sketch of tensor products ``x (x) y`` by two Hadamard transforms, and of x alone by the first of them.

    Attributes
    ----------
    signs : tuple of two ndarrays of int8
    rows : tuple of two ndarrays of intp, shape (n_products,)
    linear_rows : ndarray of intp
        Rows of the first transform that sketch x itself; none where x is not wanted.
    """

    signs: tuple[np.ndarray, np.ndarray] = field(metadata=of_signs(None))
    rows: tuple[np.ndarray, np.ndarray] = field(metadata=of_indices("n"))
    linear_rows: np.ndarray = field(metadata=of_indices("?l"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        lengths = [signs.shape[0] for signs in self.signs]
        yield all(length == padded_width(length) for length in lengths), "signs for powers of two"
        pairs = zip((*self.rows, self.linear_rows), (*lengths, lengths[0]), strict=True)
        yield all(int(rows.max(initial=0)) < length for rows, length in pairs), "rows of its transforms"

    @classmethod
    def draw(cls, widths: tuple[int, int], n_products: int, n_linear: int, rng: np.random.Generator) -> ProductRecord:
        sign_rng, row_rng = rng.spawn(2)
        lengths = [padded_width(width) for width in widths]
        signs = tuple(fair_signs(sign_rng, (length,)) for length in lengths)
        rows = tuple(balanced_rows(row_rng, length, n_products) for length in lengths)
        return cls(signs, rows, balanced_rows(row_rng, lengths[0], n_linear))  # pyright: ignore[reportArgumentType]

    @property
    def scratch_width(self) -> int:
        return 2 * sum(signs.shape[0] for signs in self.signs) + self.rows[0].shape[0] + self.linear_rows.shape[0]

    def transforms(self, ops: Ops, X: Array, Y: Array) -> tuple[Array, Array]:
        """Hadamard transforms of both sides, of which `linear` and `products` are rows."""
        first, second = (ops.fwht(ops.pad_signed(Z, s)) for Z, s in zip((X, Y), self.signs, strict=True))
        return first, second

    def linear(self, first: Array) -> Array:
        """Sketch of x: linear in the transform, so that of a sum of rows is the sum of theirs."""
        return first[:, self.linear_rows] * max(self.linear_rows.shape[0], 1) ** -0.5

    def products(self, ops: Ops, first: Array, second: Array) -> Array:
        """Sketch of ``x (x) y``."""
        n_rows = self.rows[0].shape[0]
        out = ops.empty((first.shape[0], n_rows))
        gather_product(ops, first, self.rows[0], second, self.rows[1], n_rows**-0.5, out)
        return out


def _share(n_features: int) -> float:
    """The c for directions of length root d: ``c^2 - 2 c E|g| = -2 / pi``, so that just ``2 / pi`` is taken away.

    For Gaussian g it is their E|g|; on the sphere E|g| is larger, for few features by much.
    """
    mean = float(np.exp(gammaln(n_features / 2) - gammaln((n_features + 1) / 2))) * (n_features / pi) ** 0.5
    return mean - max(mean**2 - 2 / pi, 0.0) ** 0.5
