"""The parts of a layer of `CNTKSketch`: windows, random features of kappa_0 and kappa_1, and sketched products."""

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

#: Up to this input width, directions are dense and orthogonal: a product with them is as fast as three Hadamard
#: transforms.
WIDEST_DENSE = 64


@dataclass(frozen=True)
class WindowRecord(Record):
    """The direct sum of pixel features over a window. The first features are kept; all other features are folded.

    Folding multiplies features by random signs and adds them up to `folded` sums.

    Attributes
    ----------
    filter_size : int
        Height and width of the window.
    exact : int
        Number of features per pixel that are kept: the first ones.
    folded : int
        Width to which the direct sum of all other features is folded.
    signs : ndarray of shape (filter_size^2, n_features - exact)
        Random signs. If there is no rotation, these are the orthogonal cosine transforms of random signs over the
        window.
    rotation : ndarray of int8, shape (p,), or None
        Signs of a randomised Hadamard transform, of length p, of the features before folding. It spreads their energy
        evenly.
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
        """Number of features per pixel that are kept or folded."""
        return self.exact + self.signs.shape[1]

    def takes(self, n_features: int) -> bool:
        """Whether the window can be applied to `n_features` features per pixel."""
        return n_features == self.n_inputs or (self.rotation is not None and n_features <= self.n_inputs)

    @classmethod
    def draw(
        cls, filter_size: int, exact: int, n_features: int, widest: int, folded: int, rng: np.random.Generator
    ) -> WindowRecord:
        """Draw a window that keeps `exact` features of each pixel.

        If the exact features of a whole window are more than `widest`, all features are rotated and folded instead.
        """
        sign_rng, rotation_rng = rng.spawn(2)
        rotation = None
        if exact * filter_size**2 > widest:
            rotation = fair_signs(rotation_rng, (padded_width(n_features),))
            exact, n_features = 0, rotation.shape[0]
        others = n_features - exact
        if others:
            # The transforms of the next layer pad their input to a power of two anyway, so the total width is a power
            # of two. If there are exact features, the folded features have small norms, and half of the width suffices.
            kept = exact * filter_size**2
            folded = min(padded_width(kept + (folded // 2 if kept else folded)) - kept, others)
        signs = fair_factors(sign_rng, (filter_size**2, others))
        if rotation is None:
            # Neighbouring pixels are similar, so the mean dominates the other cosine waves of a window. Random signs on
            # the waves interfere less than random signs on the pixels.
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
        """Number of features per pixel that `prepare` returns and `apply` takes."""
        return self.exact + self.signs.shape[1]

    def prepare(self, ops: Ops, features: Array) -> Array:
        """Return features of pixels in the form that `apply` takes; they are rotated if there is a rotation."""
        if self.rotation is None:
            return features
        return ops.fwht(ops.pad_signed(features, self.rotation)) * self.rotation.shape[0] ** -0.5

    def apply(self, ops: Ops, stored: Pixels, part: slice) -> Array:
        """Windows (r, n_components) around the pixels in `part`, of features prepared by `prepare`."""
        return stored.windows(ops, self.filter_size, part, exact=self.exact, signs=self.signs, folded=self.folded)


def draw_remainder(
    order: int, n_features: int, n_components: int, rng: np.random.Generator
) -> RectifiedRemainderRecord:
    """Random features of kappa_1 (order 1) or kappa_0 (order 0) on unit rows, without the degrees 0 and 1.

    The features are ``(|g| - c) / sqrt(2)`` and ``(sign(g) - c g) / sqrt(2)`` for projections g of unit variance, with
    the constant c of `_share`.
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
    """Sketch of tensor products ``x (x) y`` by two Hadamard transforms, and of x alone by the first transform.

    Attributes
    ----------
    signs : tuple of two ndarrays of int8
        Random signs of both transforms.
    rows : tuple of two ndarrays of intp, shape (n_products,)
        Rows of both transforms whose products sketch ``x (x) y``.
    linear_rows : ndarray of intp
        Rows of the first transform that sketch x; empty if x is not sketched.
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
        """Hadamard transforms of `X` and `Y`, the arguments of `linear` and `products`."""
        first, second = (ops.fwht(ops.pad_signed(Z, s)) for Z, s in zip((X, Y), self.signs, strict=True))
        return first, second

    def linear(self, first: Array) -> Array:
        """Sketch of x. It is linear in the transform `first`, which may therefore be a sum of transforms."""
        return first[:, self.linear_rows] * max(self.linear_rows.shape[0], 1) ** -0.5

    def products(self, ops: Ops, first: Array, second: Array) -> Array:
        """Sketch of ``x (x) y``, given the transforms of x and of y."""
        n_rows = self.rows[0].shape[0]
        out = ops.empty((first.shape[0], n_rows))
        gather_product(ops, first, self.rows[0], second, self.rows[1], n_rows**-0.5, out)
        return out


def _share(n_features: int) -> float:
    """The constant c of `draw_remainder`: it solves ``c^2 - 2 c E|g| = -2 / pi``.

    g is the projection of a unit row on a uniformly random direction of length ``sqrt(n_features)``.

    The energy of ``|g| - c`` is then ``1 - 2 / pi``, as for Gaussian g with ``c = E|g|``. On the sphere, E|g| is larger
    than for Gaussian g, especially if there are few features.
    """
    mean = float(np.exp(gammaln(n_features / 2) - gammaln((n_features + 1) / 2))) * (n_features / pi) ** 0.5
    return mean - max(mean**2 - 2 / pi, 0.0) ** 0.5
