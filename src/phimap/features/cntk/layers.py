"""The program of `CNTKSketch`: layers of per-pixel features, and the sums over windows between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import pi

import numpy as np

from phimap.config import memory_budget, thread_count
from phimap.features.cntk.parts import ProductRecord, WindowRecord
from phimap.ops import Array, Ops
from phimap.random_map import MapRecord
from phimap.records import Record

# Share of the byte budget of one image's features, over all threads.
_BUDGET_SHARE = 4
# Pixels that are worked on at a time at the least: with fewer, two threads wait for the interpreter by turns, and the
# calls cost more than the caches save.
_LEAST_PART = 128


@dataclass(frozen=True)
class ConvolutionLayer(Record):
    """One layer: windows of the features before it, then features of each window.

    Attributes
    ----------
    window : WindowRecord
        Of phi_{h-1}: gives the patch whose direction both kappas see.
    tangent_window : WindowRecord or None
        Of eta_{h-1}, for h > 2: gives psi_{h-1}. At h = 2 psi_1 is the patch itself.
    relu : MapRecord or None
        Patches to features of kappa_1 beyond degree 1; None in the last layer.
    step : MapRecord or None
        Patches to features of kappa_0 beyond degree 1; None in the first layer, where psi_0 = 0.
    product : ProductRecord or None
        Sketch of psi_{h-1} times the features of kappa_0 beyond degree 0.
    """

    window: WindowRecord
    tangent_window: WindowRecord | None
    relu: MapRecord | None
    step: MapRecord | None
    product: ProductRecord | None

    @property
    def psi_width(self) -> int:
        return (self.tangent_window or self.window).n_components

    @property
    def phi_widths(self) -> tuple[int, int]:
        """Features of phi_h that stand exactly, and all of them."""
        exact = 1 + self.window.exact_components
        return exact, 1 + self.window.n_components + (self.relu.n_components if self.relu else 0)

    @property
    def eta_widths(self) -> tuple[int, int]:
        """Features of eta_h that stand exactly, and all of them."""
        exact, width = self.phi_widths
        if self.product is not None:
            width += self.product.rows[0].shape[0]
        if self.tangent_window is not None:
            exact += self.tangent_window.exact_components
            width += self.tangent_window.n_components
        return exact, width

    @property
    def scratch_width(self) -> int:
        """Floats a pixel that a part of the layer's work holds."""
        parts = [2 * self.window.n_components, self.psi_width, self.phi_widths[1], self.eta_widths[1]]
        parts += [part.n_components + part.scratch_width for part in (self.relu, self.step) if part is not None]
        parts += [self.window.n_components, self.product.scratch_width] if self.product else []
        return sum(parts)

    def slopes(self, ops: Ops, patch: Array) -> Array:
        """Features (r, k) of kappa_0 beyond degree 0 of unit patches."""
        n = self.window.n_components
        features = ops.empty((patch.shape[0], n + (self.step.n_components if self.step else 0)))
        ops.copy(patch * pi**-0.5, features)
        if self.step is not None:
            self.step.apply(ops, patch, features, n)
        return features

    def values(self, ops: Ops, patch: Array, gain: Array) -> Array:
        """phi_h (r, k) of unit patches, `gain` (r,) being root N_h / q."""
        phi = ops.empty((patch.shape[0], self.phi_widths[1]))
        phi[:, 0] = pi**-0.5
        ops.copy(patch * 0.5**0.5, phi, 1)
        if self.relu is not None:
            self.relu.apply(ops, patch, phi, 1 + self.window.n_components)
        ops.scale_rows_in_place(phi, gain)
        return phi

    def tangents(self, ops: Ops, phi: Array, psi: Array, products: Array, filter_size: int) -> Array:
        """eta_h (r, k) from phi_h, from psi_{h-1} and from the sketch of its product with the slopes."""
        exact, width = self.phi_widths
        eta = ops.empty((phi.shape[0], self.eta_widths[1]))
        share = 0.5**0.5 / filter_size
        if self.tangent_window is None:
            # psi_1 is the patch of phi_1: the two linear parts, of the weight 1/2 each, are one of the weight 1.
            ops.copy(phi, eta)
            eta[:, 1 : 1 + self.window.n_components] *= 2**0.5
            end = width
        else:
            # Exact features stand first: of phi, then of psi.
            ops.copy(phi[:, :exact], eta)
            ops.copy(psi * share, eta, exact)
            ops.copy(phi[:, exact:], eta, exact + psi.shape[1])
            end = width + psi.shape[1]
        ops.copy(products * (1 / filter_size), eta, end)
        return eta


@dataclass(frozen=True)
class CNTKRecord(MapRecord):
    """The layers, applied to images divided by their norms.

    Attributes
    ----------
    image_shape : tuple of int
        (height, width, channels).
    layers : tuple of ConvolutionLayer
        At least two.
    pixel_window : WindowRecord
        Plain sums over windows.
    pixel_signs : tuple of two ndarrays of int8, shapes (height, n_components) and (width, n_components), or None
        Without pooling, the signs with which the pixels' features are added; None for their mean.
    n_components : int
    """

    image_shape: tuple[int, int, int]
    layers: tuple[ConvolutionLayer, ...]
    pixel_window: WindowRecord
    pixel_signs: tuple[np.ndarray, np.ndarray] | None
    n_components: int

    #: An image is work enough for a tile.
    least_tile_rows = 1

    @property
    def n_features(self) -> int:
        height, width, channels = self.image_shape
        return height * width * channels

    @property
    def _stored_width(self) -> int:
        """Floats a pixel of the features that windows are taken of: those of a layer, and of the layer before it."""
        widths = [self.image_shape[2] + len(self.layers) + 1]
        for layer in self.layers[1:]:
            widths.append(sum(w.stored_width for w in (layer.window, layer.tangent_window) if w is not None))
        return max(one + other for one, other in zip(widths, [*widths[1:], 0], strict=True))

    @property
    def scratch_width(self) -> int:
        height, width, _ = self.image_shape
        return height * width * self._stored_width

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        X = ops.floating(ops.dense(X))
        norms = ops.row_norms(X)
        images = ops.scale_rows(X, ops.reciprocal(norms)).reshape(X.shape[0], *self.image_shape)
        pooled = out[:, first : first + self.n_components]
        ops.zero(out, first, first + self.n_components)
        for region in self._regions(ops, X.shape[0]):
            self._add_region(ops, images, region, pooled)
        n_pixels = self.image_shape[0] * self.image_shape[1]
        ops.scale_rows_in_place(pooled, norms * (1 / n_pixels if self.pixel_signs is None else n_pixels**-0.5))

    def _regions(self, ops: Ops, n_images: int) -> Iterator[tuple[slice, slice]]:
        """Parts of the images, rows and columns, small enough for the byte budget with the pixels that reach in."""
        height, width, _ = self.image_shape
        n_threads = thread_count() if ops.threaded else 1
        pixel_bytes = _BUDGET_SHARE * n_threads * n_images * self._stored_width * ops.dtype.itemsize
        most = memory_budget() // pixel_bytes
        if height * width <= most:
            yield slice(0, height), slice(0, width)
            return
        side = max(1, int(most**0.5) - 2 * self._reach)
        for top in range(0, height, side):
            for left in range(0, width, side):
                yield slice(top, min(top + side, height)), slice(left, min(left + side, width))

    @property
    def _reach(self) -> int:
        """How far the value of a pixel depends on others."""
        return len(self.layers) * (self.pixel_window.filter_size // 2)

    def _add_region(self, ops: Ops, images: Array, region: tuple[slice, slice], pooled: Array) -> None:
        """Add the features of the pixels of a region, computed from all pixels that reach into it."""
        height, width, _ = self.image_shape
        wide = _widened(region[0], self._reach, height), _widened(region[1], self._reach, width)
        pixels = images[:, wide[0], wide[1]]
        shape = pixels.shape[1], pixels.shape[2]
        stored = ops.contiguous(pixels.reshape(-1, self.image_shape[2]))
        squares = (stored * stored).sum(1)[:, None]
        phi, eta = self.layers[0].window.prepare(ops, stored), None
        filter_size = self.pixel_window.filter_size
        for depth, layer in enumerate(self.layers):
            squares = self.pixel_window.apply(ops, ops.contiguous(squares), shape, slice(None))
            squares = squares if depth == 0 else squares * filter_size**-2
            if layer is self.layers[-1]:
                self._pool(ops, phi, eta, squares[:, 0] ** 0.5, shape, region, wide, pooled)
                break
            phi, eta = self._layer(ops, depth, phi, eta, squares[:, 0] ** 0.5, shape)

    def _layer(
        self,
        ops: Ops,
        depth: int,
        phi: Array,
        eta: Array | None,
        roots: Array,
        shape: tuple[int, int],
    ) -> tuple[Array, Array | None]:
        """phi_h and eta_h of all pixels as the windows of the following layer want them, for ``h = depth + 1``.

        `roots` (r,) are the roots of N_h.
        """
        layer, following = self.layers[depth : depth + 2]
        n_pixels, filter_size = phi.shape[0], self.pixel_window.filter_size
        next_phi = ops.empty((n_pixels, following.window.stored_width))
        next_eta = following.tangent_window and ops.empty((n_pixels, following.tangent_window.stored_width))
        step = self._part_rows(ops)
        for start in range(0, n_pixels, step):
            part = slice(start, min(start + step, n_pixels))
            patch, psi = self._patches(ops, depth, phi, eta, roots, shape, part)
            values = layer.values(ops, patch, roots[part] * (1 / filter_size))
            next_phi[part] = following.window.prepare(ops, values)
            if following.tangent_window is not None:
                _, products = self._products(ops, depth, patch, psi, roots[part])
                tangents = layer.tangents(ops, values, psi, products, filter_size)
                next_eta[part] = following.tangent_window.prepare(ops, tangents)  # pyright: ignore[reportOptionalSubscript]
        return next_phi, next_eta

    def _patches(
        self,
        ops: Ops,
        depth: int,
        phi: Array,
        eta: Array | None,
        roots: Array,
        shape: tuple[int, int],
        part: slice,
    ) -> tuple[Array, Array]:
        """Unit patches of phi_{h-1}, and psi_{h-1} of the length it is known to have, of some pixels."""
        layer = self.layers[depth]
        patch = _of_length(ops, layer.window.apply(ops, phi, shape, part), 1.0)
        if layer.tangent_window is None:
            return patch, ops.scale_rows(patch, roots[part])
        psi = layer.tangent_window.apply(ops, eta, shape, part)
        return patch, _of_length(ops, psi, roots[part] * depth**0.5)

    def _products(self, ops: Ops, depth: int, patch: Array, psi: Array, roots: Array) -> tuple[Array, Array]:
        """The transform of psi_{h-1}, and its products with the slopes, of the length of those they sketch."""
        layer = self.layers[depth]
        product: ProductRecord = layer.product  # pyright: ignore[reportAssignmentType]
        first, second = product.transforms(ops, psi, layer.slopes(ops, patch))
        products = product.products(ops, first, second)
        return first, _of_length(ops, products, roots * (depth / 2) ** 0.5)

    def _pool(
        self,
        ops: Ops,
        phi: Array,
        eta: Array | None,
        roots: Array,
        shape: tuple[int, int],
        region: tuple[slice, slice],
        wide: tuple[slice, slice],
        pooled: Array,
    ) -> None:
        """Add the last layer's features of the pixels of a region to `pooled` (n, n_components)."""
        inside = np.zeros(shape)
        inside[tuple(slice(r.start - w.start, r.stop - w.start) for r, w in zip(region, wide, strict=True))] = 1.0
        places = np.argwhere(np.ones(shape, dtype=bool)) + np.array([wide[0].start, wide[1].start])
        weights = ops.constant(inside.reshape(-1))
        n_pixels, filter_size = places.shape[0], self.pixel_window.filter_size
        depth = len(self.layers) - 1
        product: ProductRecord = self.layers[-1].product  # pyright: ignore[reportAssignmentType]
        step = self._part_rows(ops)
        # Whole images at a time where they are small, parts of one where they are not.
        step = step // n_pixels * n_pixels if step >= n_pixels else step
        for image in range(0, phi.shape[0], max(step, n_pixels)):
            for start in range(image, min(image + max(step, n_pixels), phi.shape[0]), step):
                part = slice(start, min(start + step, phi.shape[0], image + max(step, n_pixels)))
                patch, psi = self._patches(ops, depth, phi, eta, roots, shape, part)
                first, products = self._products(ops, depth, patch, psi, roots[part])
                n_images = max(1, products.shape[0] // n_pixels)
                pixel = slice(start - image, start - image + products.shape[0] // n_images)
                one = image // n_pixels
                total = pooled[one : one + n_images]
                if self.pixel_signs is None:
                    # The sum over pixels comes first: rows of it are gathered, not of every pixel.
                    linear, products = (
                        ops.matmul(weights[pixel], Z.reshape(n_images, -1, Z.shape[1])) for Z in (first, products)
                    )
                    total += self._side_by_side(ops, product.linear(linear), products) * (1 / filter_size)
                    continue
                features = self._side_by_side(ops, product.linear(first), products)
                rows, columns = (ops.constant(places[pixel, axis]) for axis in (0, 1))
                signs = self.pixel_signs[0][rows] * self.pixel_signs[1][columns] * weights[pixel, None]
                total += (features.reshape(n_images, -1, self.n_components) * signs).sum(1) * (1 / filter_size)

    def _side_by_side(self, ops: Ops, linear: Array, products: Array) -> Array:
        """Features of psi_L from the linear part of kappa_0 and from the rest of it."""
        features = ops.empty((linear.shape[0], self.n_components))
        if self.n_components == 1:
            ops.copy(linear * 0.5**0.5 + products, features)
        else:
            ops.copy(linear * 0.5**0.5, features)
            ops.copy(products, features, linear.shape[1])
        return features

    def _part_rows(self, ops: Ops) -> int:
        """Pixels that are worked on at a time."""
        widest = max(layer.scratch_width for layer in self.layers)
        return max(_LEAST_PART, ops.tile_bytes // (ops.dtype.itemsize * widest))


def _of_length(ops: Ops, rows: Array, lengths: Array | float) -> Array:
    """Rows (r, k) scaled to lengths (r,); zero rows stay zero."""
    return ops.scale_rows(rows, ops.reciprocal(ops.row_norms(rows)) * lengths)


def _widened(part: slice, reach: int, size: int) -> slice:
    """`part` of an axis of that size, with as many more places on both sides as there are up to `reach`."""
    return slice(max(0, part.start - reach), min(size, part.stop + reach))
