"""The published recursion of neural tangent features, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from phimap.features.ntk.layer_options import SKETCHES, LayerOptions, LayerWidths
from phimap.features.random_layers.rectified import RectifiedRecord
from phimap.kernels import NNGP, NTK, Kernel
from phimap.kernels.spectral import SphereLaw, StandardGaussianLaw
from phimap.ops import Array, Ops
from phimap.ops.primitives.outer import outer
from phimap.random_map import MapRecord
from phimap.records import Record, of_number
from phimap.sketches import CountSketch
from phimap.sketches.countsketch import CountSketchRecord
from phimap.sketches.srht import TensorSRHTRecord
from phimap.sketches.tensorsketch import TensorSketchRecord

# The smallest error of the layers measured on any data set was ``_ERROR * depth^_GROWTH / sqrt(m)``, relative to the
# larger of 1 and the kernel's root mean square.
_ERROR, _GROWTH = 1.4, 0.6
# Upper bound on the width of a factor in model files: the product of two such factors would exceed any memory.
_WIDEST = 2**24


@dataclass(frozen=True)
class TensorProduct(Record):
    """The full tensor product of two vectors, without a sketch.

    Attributes
    ----------
    widths : tuple of int
        Lengths of the two vectors.
    """

    widths: tuple[int, int] = field(metadata=of_number(least=1, most=_WIDEST))

    @property
    def n_components(self) -> int:
        return self.widths[0] * self.widths[1]

    @property
    def scratch_width(self) -> int:
        return self.n_components

    def sketch_product(self, ops: Ops, X: Array, Y: Array) -> Array:
        """The products (r, n_components) of the rows of `X` and `Y`."""
        out = ops.empty((X.shape[0], self.n_components))
        outer(ops, X, Y, out)
        return out


@dataclass(frozen=True)
class NTKLayer(Record):
    """One layer of the recursion, see `NTKFeatures`.

    Attributes
    ----------
    relu : RectifiedRecord
        Map from phi_{l-1} to the rectified features phi_l.
    step : RectifiedRecord or None
        Map from phi_{l-1} to the step features, which estimate kappa_0; None, like `product`, for the NNGP kernel.
    product : TensorSRHTRecord, TensorSketchRecord, TensorProduct or None
        Tensor product of the step features and psi_{l-1}, sketched or not.
    """

    relu: RectifiedRecord
    step: RectifiedRecord | None
    product: TensorSRHTRecord | TensorSketchRecord | TensorProduct | None

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield (self.step is None) == (self.product is None), "a product where it has a derivative"
        yield self.step is None or self.step.n_features == self.relu.n_features, "a derivative of its inputs"

    @property
    def n_components(self) -> int:
        return self.relu.n_components + (self.product.n_components if self.product else 0)


@dataclass(frozen=True)
class NTKRecord(MapRecord):
    """The layers of the recursion, applied to rows divided by their norms.

    Attributes
    ----------
    layers : tuple of NTKLayer
        First to last layer.
    reduction : CountSketchRecord or None
        For a single component: a sketch that adds the two features of the last layer with random signs.
    """

    layers: tuple[NTKLayer, ...]
    reduction: CountSketchRecord | None

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield len(self.layers) > 0, "a layer"
        steps = zip(self.layers[:-1], self.layers[1:], strict=True)
        follow = all(one.relu.n_components == following.relu.n_features for one, following in steps)
        yield follow, "layers that follow each other"
        width = self.layers[-1].n_components
        yield self.reduction is None or self.reduction.n_features == width, "a reduction of its last layer"

    @classmethod
    def draw(
        cls,
        n_features: int,
        widths: Sequence[LayerWidths],
        options: LayerOptions,
        streams: dict[str, np.random.Generator],
        reduction: CountSketchRecord | None = None,
    ) -> NTKRecord:
        """Draw the layers with the generators ``relu``, ``step`` and ``sketch`` of `streams`."""
        layers = []
        phi_width = psi_width = n_features
        for width in widths:
            relu_law = (StandardGaussianLaw if options.sampling == "gaussian" else SphereLaw)(phi_width)
            relu_rng = streams["relu"].spawn(1)[0]
            relu = RectifiedRecord.draw(1, relu_law, width.relu, options.relu_projection, relu_rng)
            step = product = None
            if width.product != 0:
                step_law, step_rng = StandardGaussianLaw(phi_width), streams["step"].spawn(1)[0]
                step = RectifiedRecord.draw(0, step_law, width.step, options.projection, step_rng)
                pair = (width.step, psi_width)
                if width.product is None:
                    product = TensorProduct(pair)
                else:
                    sketch = SKETCHES[options.sketch](width.product)
                    product = sketch.sample_product(pair, streams["sketch"].spawn(1)[0])
            if relu.signature is not None or (step is not None and step.signature is not None):
                raise ValueError(
                    f"`projection` must give positive quadrature weights inside neural tangent features, got "
                    f"{options.projection!r}. Use projection='orthogonal'."
                )
            layers.append(NTKLayer(relu, step, product))
            phi_width, psi_width = width.relu, layers[-1].n_components
        return cls(tuple(layers), reduction)

    @property
    def n_features(self) -> int:
        return self.layers[0].relu.n_features

    @property
    def n_components(self) -> int:
        return self.reduction.n_components if self.reduction else self.layers[-1].n_components

    @property
    def scratch_width(self) -> int:
        widest = max(
            (layer.step.n_components + layer.product.scratch_width) if layer.step and layer.product else 0
            for layer in self.layers
        )
        return self.n_features + 2 * max(layer.n_components for layer in self.layers) + widest

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        norms = ops.row_norms(X)
        # phi and psi are the features of Sigma_l and K_l in the exact recursion; both start as x / |x|.
        phi = psi = ops.scale_rows(X, ops.reciprocal(norms))
        for layer in self.layers:
            last = layer is self.layers[-1] and self.reduction is None
            target, start = (out, first) if last else (ops.empty((X.shape[0], layer.n_components)), 0)
            relu_end = start + layer.relu.n_components
            if layer.step is not None and layer.product is not None:
                derivative = ops.empty((X.shape[0], layer.step.n_components))
                layer.step.apply(ops, phi, derivative)
                ops.copy(layer.product.sketch_product(ops, derivative, psi), target, relu_end)
            layer.relu.apply(ops, phi, target, start)
            phi, psi = target[:, start:relu_end], target
        if self.reduction is not None:
            self.reduction.apply(ops, psi, out, first)
        ops.scale_rows_in_place(out[:, first : first + self.n_components], norms)

    def truncated(self, n_components: int) -> tuple[np.ndarray, float] | None:
        # Keep the same share of both parts of the last layer, each of which remains unbiased.
        relu_width = self.layers[-1].relu.n_components
        whole = self.reduction or isinstance(self.layers[-1].product, TensorProduct)
        if whole or n_components * relu_width % self.n_components:
            return None
        part = n_components * relu_width // self.n_components
        columns = np.concatenate([np.arange(part), relu_width + np.arange(n_components - part)])
        return columns, (self.n_components / n_components) ** 0.5


@dataclass(frozen=True)
class LayersPlan:
    """A plan for the published layers of rectified features and sketched tensor products.

    Attributes
    ----------
    n_features, n_components, depth : int
        Input width, output width and number of layers.
    options : LayerOptions
        Parameters of the layers.
    kernel_size : float
        Root mean square of the kernel over pairs of rows.
    """

    n_features: int
    n_components: int
    depth: int
    options: LayerOptions
    kernel_size: float = 1.0

    @property
    def kernel(self) -> Kernel:
        """The kernel that the layers estimate: the NNGP kernel if there are no products, else the NTK."""
        widths = self.options.widths(self.n_features, self.n_components, self.depth)
        return (NNGP if widths[0].product == 0 else NTK)(depth=self.depth)

    def predicted_error(self) -> float:
        """The smallest error measured on any data set for layers of this depth and width."""
        return _ERROR * self.depth**_GROWTH / self.n_components**0.5 * max(self.kernel_size, 1.0)

    def draw(self, streams: dict[str, np.random.Generator]) -> NTKRecord:
        """Draw the layers with the generators ``relu``, ``step`` and ``sketch`` of `streams`."""
        self.options.check()
        widths = self.options.widths(self.n_features, self.n_components, self.depth)
        reduction = None
        if self.n_components == 1 and self.options.sketch != "none":
            reduction = CountSketch(1).sample(2, streams["sketch"].spawn(1)[0])
        return NTKRecord.draw(self.n_features, widths, self.options, streams, reduction)
