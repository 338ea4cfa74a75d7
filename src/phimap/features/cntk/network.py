"""The record of `CNTKSketch`, which applies the layers to images, region by region, and pools the features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from phimap.config import memory_budget, stated_budget
from phimap.features.cntk.base import LONGEST_SIDE, ImageRecord
from phimap.features.cntk.layers import ConvolutionLayer, LayerInput
from phimap.features.cntk.parts import ProductRecord, WindowRecord
from phimap.features.cntk.pixels import Pixels, Region
from phimap.features.cntk.units import FoldedUnits, Units
from phimap.ops import Array, Ops
from phimap.records import of_number, of_signs

# The images that all threads process at a time take at most 1 / _BUDGET_SHARE of the byte budget.
_BUDGET_SHARE = 4
# A region takes at most 1 / _REGIONS of that share. The size of a region affects the rounding of sums over pixels, so
# it depends neither on the number of threads nor on the free memory.
_REGIONS = 8
# Numbers stored per pixel in addition to its features: variances and moments of the layers.
_NUMBERS = 10
# Least number of pixels processed at a time. With fewer pixels, threads wait for the interpreter lock, and the overhead
# of calls exceeds the gain from the cache.
_LEAST_PART = 128


def _region_bytes() -> int:
    """Return the largest number of bytes that the features of a region may take."""
    return stated_budget() // (_BUDGET_SHARE * _REGIONS)


@dataclass(frozen=True)
class CNTKRecord(ImageRecord):
    """The layers of `CNTKSketch`. Images are first divided by their norms if the activation is homogeneous.

    Attributes
    ----------
    image_shape : tuple of int
        (height, width, channels).
    layers : tuple of ConvolutionLayer
        First to last layer, at least two.
    pixel_window : WindowRecord
        Window that sums one number per pixel, such as its variance, without random signs.
    pixel_signs : tuple of two ndarrays of int8, shapes (height, n_components) and (width, n_components), or None
        Without pooling, random signs of the image rows and columns. The features of a pixel are multiplied by the signs
        of its row and its column, and summed over pixels. None averages over pixels instead.
    n_components : int
        Output width.
    units : Units
        The activation; by default the ReLU.
    """

    image_shape: tuple[int, int, int] = field(metadata=of_number(least=1, most=LONGEST_SIDE))
    layers: tuple[ConvolutionLayer, ...]
    pixel_window: WindowRecord
    pixel_signs: tuple[np.ndarray, np.ndarray] | None = field(metadata=of_signs(None, "m"))
    n_components: int = field(metadata=of_number(length="m"))
    units: Units = field(default_factory=lambda: FoldedUnits(0.5))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        height, width, channels = self.image_shape
        yield len(self.layers) > 1, "two layers at least"
        yield all(layer.product is not None for layer in self.layers[1:]), "products in all layers but the first"
        windows = [w for layer in self.layers for w in (layer.window, layer.tangent_window) if w is not None]
        yield {w.filter_size for w in windows} == {self._filter_size}, "windows of one size"
        yield self.pixel_window.n_inputs == 1, "a window of one number a pixel"
        yield self.layers[0].window.takes(channels), "a window of the channels"
        for before, layer in zip(self.layers[:-1], self.layers[1:], strict=True):
            yield layer.window.takes(before.phi_widths[1]), "windows of the features before them"
            tangents = layer.tangent_window
            yield tangents is None or tangents.takes(before.eta_widths[1]), "windows of the tangents before them"
        if self.pixel_signs is not None:
            yield [len(signs) for signs in self.pixel_signs] == [height, width], "signs for each row and column"
        product = self.layers[-1].product
        assert product is not None
        counts = product.linear_rows.size, product.rows[0].size
        yield self.n_components in ({1} if counts == (1, 1) else {sum(counts)}), "a component for each of its products"

    @property
    def _stored_width(self) -> int:
        """Number of floats stored per pixel: features of two consecutive layers, which exist at the same time."""
        widths = [self.image_shape[2] + _NUMBERS]
        for layer in self.layers[1:]:
            widths.append(sum(w.stored_width for w in (layer.window, layer.tangent_window) if w is not None))
        return max(one + other for one, other in zip(widths, [*widths[1:], 0], strict=True))

    @property
    def scratch_width(self) -> int:
        height, width, _ = self.image_shape
        return height * width * self._stored_width

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        X = ops.floating(ops.dense(X))
        norms = None
        if self.units.is_homogeneous:
            # Normalise, so that squares neither overflow nor underflow.
            norms = ops.row_norms(X)
            X = ops.scale_rows(X, ops.reciprocal(norms))
        images = Pixels.of_images(X, self.image_shape)
        pooled = out[:, first : first + self.n_components]
        ops.zero(out, first, first + self.n_components)
        for region in self._regions(ops, images.n_images):
            # The features in a region depend on all pixels of the widened region.
            wide = region.widened(self._reach, images.shape)
            self._pool(ops, self._through_layers(ops, images.within(ops, wide)), region, wide, pooled)
        share = 1 / images.per_image if self.pixel_signs is None else images.per_image**-0.5
        pooled *= share
        if norms is not None:
            ops.scale_rows_in_place(pooled, norms)

    def _regions(self, ops: Ops, n_images: int) -> Iterator[Region]:
        """Yield regions that cover an image. Each fits `_region_bytes` with the pixels on which its features depend."""
        height, width, _ = self.image_shape
        most = _region_bytes() // (n_images * self._stored_width * ops.dtype.itemsize)
        if height * width <= most:
            yield Region(slice(0, height), slice(0, width))
            return
        side = max(1, int(most**0.5) - 2 * self._reach)
        for top in range(0, height, side):
            for left in range(0, width, side):
                yield Region(slice(top, min(top + side, height)), slice(left, min(left + side, width)))

    def most_threads(self, tile_bytes: int) -> int:
        return memory_budget() // _BUDGET_SHARE // min(tile_bytes, _region_bytes())

    @property
    def _reach(self) -> int:
        """Largest distance along an axis between a pixel and the pixels on which its features depend."""
        return len(self.layers) * (self._filter_size // 2)

    @property
    def _filter_size(self) -> int:
        return self.pixel_window.filter_size

    def _through_layers(self, ops: Ops, pixels: Pixels) -> LayerInput:
        """Return the inputs of the last layer, after all other layers have been applied."""
        share = self._filter_size**-2

        def windows(numbers: Array) -> Array:
            return self.pixel_window.apply(ops, pixels.carrying(numbers[:, None]), slice(None))[:, 0]

        variances = windows((pixels.rows * pixels.rows).sum(1))
        phi, eta = pixels.carrying(self.layers[0].window.prepare(ops, pixels.rows)), None
        # The kernel's recursion for a pixel with itself gives the exact lengths of all features.
        tangents = 0.0 * variances
        for before in range(len(self.layers)):
            roots = variances**0.5
            moments = self.units.moments(ops, roots)
            entering = LayerInput(before, self.units, phi, eta, roots, tangents**0.5, moments)
            if before < len(self.layers) - 1:
                phi, eta = self._layer(ops, entering)
                tangents = windows((tangents * moments.slope_energy + moments.energy) * share)
                variances = windows(moments.energy * share)
        return entering  # pyright: ignore[reportPossiblyUnbound] -- there are two layers at least

    def _layer(self, ops: Ops, entering: LayerInput) -> tuple[Pixels, Pixels | None]:
        """Return phi_h and eta_h of all pixels, prepared for the windows of the next layer."""
        layer, following = self.layers[entering.before : entering.before + 2]
        n_pixels, size = entering.phi.rows.shape[0], self._filter_size
        phi = ops.empty((n_pixels, following.window.stored_width))
        tangents = following.tangent_window
        eta = tangents and ops.empty((n_pixels, tangents.stored_width))
        step = self._part_rows(ops)
        for start in range(0, n_pixels, step):
            part = slice(start, min(start + step, n_pixels))
            patch, psi = layer.patches(ops, entering, part)
            values = layer.values(ops, entering, part, patch, size)
            phi[part] = following.window.prepare(ops, values)
            if tangents is not None and eta is not None:
                _, products = layer.products(ops, entering, part, patch, psi)
                eta[part] = tangents.prepare(ops, layer.tangents(ops, entering, part, values, psi, products, size))
        return entering.phi.carrying(phi), None if eta is None else entering.phi.carrying(eta)

    def _pool(self, ops: Ops, entering: LayerInput, region: Region, wide: Region, pooled: Array) -> None:
        """Add the last layer's features of the pixels of a region to `pooled` (n, n_components)."""
        layer, places = self.layers[-1], wide.places()
        product: ProductRecord = layer.product  # pyright: ignore[reportAssignmentType] -- not None after layer 1
        weights = ops.constant(region.holds(places).astype(np.float64))
        for part in entering.phi.parts(self._part_rows(ops)):
            patch, psi = layer.patches(ops, entering, part.rows)
            first, products = layer.products(ops, entering, part.rows, patch, psi)
            ops.scale_rows_in_place(first, entering.moments.slope[part.rows])
            if self.pixel_signs is None:
                # The sum over pixels comes before `linear` selects rows, so that rows are selected once per image and
                # not for every pixel.
                first, products = (ops.matmul(weights[part.pixels], part.by_image(Z)) for Z in (first, products))
                total = self._side_by_side(ops, product.linear(first), products)
            else:
                features = part.by_image(self._side_by_side(ops, product.linear(first), products))
                rows, columns = (ops.constant(places[part.pixels, axis]) for axis in (0, 1))
                signs = self.pixel_signs[0][rows] * self.pixel_signs[1][columns] * weights[part.pixels, None]
                total = (features * signs).sum(1)
            pooled[part.images] += total * (1 / self._filter_size)

    def _side_by_side(self, ops: Ops, linear: Array, products: Array) -> Array:
        """Features (r, n_components) of psi_L: degree 0 of the derivative's dual, then its other degrees.

        For a single component, the sum of both.
        """
        features = ops.empty((linear.shape[0], self.n_components))
        if self.n_components == 1:
            ops.copy(linear + products, features)
        else:
            ops.copy(linear, features)
            ops.copy(products, features, linear.shape[1])
        return features

    def _part_rows(self, ops: Ops) -> int:
        """Number of pixels processed at a time."""
        widest = max(layer.scratch_width for layer in self.layers)
        return max(_LEAST_PART, ops.tile_bytes // (ops.dtype.itemsize * widest))
