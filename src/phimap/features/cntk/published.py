"""The published sketch of the convolutional tangent kernel.

It sketches Taylor polynomials of kappa_1 and kappa_0, the kernels of the ReLU and of its derivative, at every pixel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from phimap._validation import Shape
from phimap.features.cntk.base import LONGEST_SIDE, ImageRecord
from phimap.features.cntk.pixels import PixelPart, Pixels
from phimap.features.ntk.sketch_layers import PolynomialRecord, relu_series, step_series
from phimap.features.ntk.sketch_sizes import LayeredSizes
from phimap.ops import Array, Ops
from phimap.records import Record, of_floats, of_number
from phimap.sketches import SRHT, TensorSRHT
from phimap.sketches.srht import SRHTRecord, TensorSRHTRecord
from phimap.sketches.tree import sketched

# Least number of pixels processed at a time. With fewer pixels, the overhead of calls exceeds the computation.
_LEAST_PART = 64


@dataclass(frozen=True)
class PublishedLayer(Record):
    """Layer h of the recursion, with the symbols of the source.

    Attributes
    ----------
    relu : PolynomialRecord or None
        Map from the patch mu_h to the features phi_h of kappa_1; None in the last layer.
    step : PolynomialRecord or None
        Map from the patch to features of kappa_0; None in the first layer, where psi_0 = 0.
    reduction : SRHTRecord or None
        Sketch R, from the window of eta_{h-1} to psi_{h-1}; None in the first layer.
    product : TensorSRHTRecord or None
        Sketch Q2 of the tensor product of psi_{h-1} and the features of kappa_0; None in the first layer.
    """

    relu: PolynomialRecord | None
    step: PolynomialRecord | None
    reduction: SRHTRecord | None
    product: TensorSRHTRecord | None

    @property
    def n_features(self) -> int:
        """Width of the patches, the inputs of both polynomials."""
        part = self.relu or self.step
        return 0 if part is None else part.n_features

    @property
    def eta_width(self) -> int:
        """Number of features of eta_h: the features of the product and of phi_h."""
        return sum(part.n_components for part in (self.product, self.relu) if part is not None)

    @property
    def scratch_width(self) -> int:
        """Floats of scratch memory per pixel."""
        parts = [part for part in (self.relu, self.step, self.reduction, self.product) if part is not None]
        return self.n_features + sum(part.n_features + part.n_components + part.scratch_width for part in parts)


@dataclass(frozen=True)
class PublishedCNTKRecord(ImageRecord):
    """The published sketch, applied to images divided by their norms.

    Attributes
    ----------
    image_shape : tuple of int
        (height, width, channels).
    filter_size : int
        Height and width of the filters.
    entrance : SRHTRecord
        Sketch S, from the channels to phi_0.
    layers : tuple of PublishedLayer
        First to last layer, at least two.
    projection : ndarray of shape (s, n_components)
        Transpose of G: Gaussian entries with variance ``1 / n_components``.
    """

    image_shape: tuple[int, int, int] = field(metadata=of_number(least=1, most=LONGEST_SIDE))
    filter_size: int = field(metadata=of_number(least=1, most=LONGEST_SIDE))
    entrance: SRHTRecord
    layers: tuple[PublishedLayer, ...]
    projection: np.ndarray = field(metadata=of_floats("s", "m"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        first, *others = self.layers or (None,)
        yield first is not None and len(others) > 0, "two layers at least"
        assert first is not None
        places = self.filter_size**2
        yield self.filter_size % 2 == 1, "an odd size of its filters"
        yield self.entrance.n_features == self.image_shape[2], "an entrance of the channels"
        yield first.n_features == places * self.entrance.n_components, "patches of what enters"
        yield all(layer.relu is not None for layer in self.layers[:-1]), "features in all layers but the last"
        yield (first.step, first.reduction, first.product) == (None, None, None), "a first layer without products"
        for before, layer in zip(self.layers[:-1], others, strict=True):
            step, reduction, product = layer.step, layer.reduction, layer.product
            whole = step is not None and reduction is not None and product is not None and before.relu is not None
            yield whole, "products in all layers but the first"
            assert step is not None
            assert reduction is not None
            assert product is not None
            assert before.relu is not None
            widths = step.n_features, layer.n_features, reduction.n_features
            phi = places * before.relu.n_components
            yield widths == (phi, phi, places * before.eta_width), "windows of the features before them"
            yield product.n_features == reduction.n_components == step.n_components, "a product of its factors"
        last = self.layers[-1].product
        yield last is not None and self.projection.shape[0] == last.n_components, "a projection of its last layer"

    @classmethod
    def draw(
        cls, image_shape: Shape, depth: int, filter_size: int, sizes: LayeredSizes, rng: np.random.Generator
    ) -> PublishedCNTKRecord:
        """Draw the sketch for images of shape `image_shape`."""
        entrance_rng, layers_rng, projection_rng = rng.spawn(3)
        places, before = filter_size**2, None
        layers: list[PublishedLayer] = []
        for h, layer_rng in enumerate(layers_rng.spawn(depth), start=1):
            relu_rng, step_rng, reduction_rng, product_rng = layer_rng.spawn(4)
            n, relu, step, reduction, product = places * sizes.phi, None, None, None, None
            if h < depth:
                series = relu_series(sizes.relu_degree)
                relu = PolynomialRecord.draw(n, series, sizes.relu, sizes.phi, relu_rng)
            if before is not None:
                series = step_series(sizes.step_degree)
                step = PolynomialRecord.draw(n, series, sizes.step, sizes.psi, step_rng)
                reduction = SRHT(sizes.psi).sample(places * before.eta_width, reduction_rng)
                product = TensorSRHT(sizes.psi).sample_product((sizes.psi, sizes.psi), product_rng)
            before = PublishedLayer(relu, step, reduction, product)
            layers.append(before)
        entrance = SRHT(sizes.phi).sample(image_shape[2], entrance_rng)
        projection = projection_rng.standard_normal((sizes.psi, sizes.output)) * sizes.output**-0.5
        height, width, channels = image_shape
        return cls((height, width, channels), filter_size, entrance, tuple(layers), projection)

    @property
    def n_components(self) -> int:
        return self.projection.shape[1]

    @property
    def scratch_width(self) -> int:
        height, width, _ = self.image_shape
        stored = 2 * max(layer.eta_width + (layer.relu.n_components if layer.relu else 0) for layer in self.layers)
        return height * width * (self.entrance.n_components + stored)

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        X = ops.floating(ops.dense(X))
        norms, size = ops.row_norms(X), self.filter_size
        images = Pixels.of_images(ops.scale_rows(X, ops.reciprocal(norms)), self.image_shape)
        phi, eta = images.carrying(sketched(self.entrance, ops, images.rows)), None
        squares = images.carrying((images.rows * images.rows).sum(1)[:, None])
        pooled = ops.empty((X.shape[0], self.projection.shape[0]))
        ops.zero(pooled, 0, pooled.shape[1])
        for h, layer in enumerate(self.layers):
            # N_1 is a sum over windows of the squared norms of pixels. Every later N_h is a mean over windows of
            # N_{h-1}.
            squares = squares.carrying(squares.windows(ops, size).sum(1)[:, None] * (1 if h == 0 else size**-2))
            phi, eta = self._layer(ops, layer, phi, eta, squares.rows[:, 0] ** 0.5 * (1 / size), pooled)
        pooled = ops.matmul(pooled, self.projection)
        ops.scale_rows_in_place(pooled, norms * (1 / images.per_image))
        ops.copy(pooled, out, first)

    def _layer(
        self, ops: Ops, layer: PublishedLayer, phi: Pixels, eta: Pixels | None, gains: Array, pooled: Array
    ) -> tuple[Pixels, Pixels | None]:
        """Return phi_h and eta_h of all pixels for `gains` sqrt(N_h) / q; the last layer adds psi_h to `pooled`."""
        n_pixels, relu = phi.rows.shape[0], layer.relu
        new_phi = ops.empty((n_pixels, relu.n_components if relu else 0))
        new_eta = ops.empty((n_pixels, layer.eta_width))
        for part in phi.parts(max(_LEAST_PART, ops.tile_bytes // (ops.dtype.itemsize * layer.scratch_width))):
            patch = phi.windows(ops, self.filter_size, part.rows)
            # In the source, patches are divided by sqrt(N_h), which makes their length 1 on average. They are
            # normalised here, because the powers of longer patches would grow without bound.
            patch = ops.scale_rows(patch, ops.reciprocal(ops.row_norms(patch)))
            psi = None if eta is None else self._product(ops, layer, patch, eta, part)
            if relu is None:
                assert psi is not None
                pooled[part.images] += part.by_image(psi).sum(1)
                continue
            values = sketched(relu, ops, patch)
            ops.scale_rows_in_place(values, gains[part.rows])
            new_phi[part.rows] = values
            if psi is not None:
                new_eta[part.rows, : psi.shape[1]] = psi
            new_eta[part.rows, layer.eta_width - values.shape[1] :] = values
        return phi.carrying(new_phi), phi.carrying(new_eta)

    def _product(self, ops: Ops, layer: PublishedLayer, patch: Array, eta: Pixels, part: PixelPart) -> Array:
        """Return the sketched product of psi_{h-1} and the features of kappa_0, for the pixels in `part`."""
        assert layer.reduction is not None
        assert layer.product is not None
        assert layer.step is not None
        psi = sketched(layer.reduction, ops, eta.windows(ops, self.filter_size, part.rows))
        return layer.product.sketch_product(ops, psi, sketched(layer.step, ops, patch)) * (1 / self.filter_size)
