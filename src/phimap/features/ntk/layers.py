"""The published recursion of neural tangent features, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phimap.features.ntk.layer_options import SKETCHES, LayerOptions, LayerWidths
from phimap.features.random_layers.activation import ActivationRecord
from phimap.features.random_layers.rectified import RectifiedRecord
from phimap.kernels import NNGP, NTK, Kernel
from phimap.kernels.spectral import SpectralLaw, SphereLaw, StandardGaussianLaw
from phimap.kernels.wide_layers import tangent_layer
from phimap.ops import Array, Ops
from phimap.ops.activations import SLOPES
from phimap.ops.primitives.outer import outer
from phimap.projections import Projection, as_projection
from phimap.random_map import MapRecord
from phimap.records import Record, of_number
from phimap.sketches import CountSketch
from phimap.sketches.countsketch import CountSketchRecord
from phimap.sketches.srht import TensorSRHTRecord
from phimap.sketches.tensorsketch import TensorSketchRecord

# The smallest error of the layers that was measured on any data set is ``_ERROR * depth^_GROWTH / sqrt(m)``, relative
# to the kernel's root mean square or to 1 if that is larger.
_ERROR, _GROWTH = 1.4, 0.6
# Upper bound on the width of a factor in model files: a product of two factors of this width would not fit into memory.
_WIDEST = 2**24


@dataclass(frozen=True)
class TensorProduct(Record):
    """The full tensor product of two vectors, which is not sketched.

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
        """Return the tensor products (r, n_components) of the rows of `X` and `Y`."""
        out = ops.empty((X.shape[0], self.n_components))
        outer(ops, X, Y, out)
        return out


@dataclass(frozen=True)
class NTKLayer(Record):
    """One layer of the recursion, see `NTKFeatures`.

    Attributes
    ----------
    relu : RectifiedRecord or ActivationRecord
        Map from phi_{l-1} to phi_l: the rectified features, or the features of another activation.
    step : RectifiedRecord, ActivationRecord or None
        Map from phi_{l-1} to the features of the derivative, which are step features for ReLU units; None, like
        `product`, for the NNGP kernel.
    product : TensorSRHTRecord, TensorSketchRecord, TensorProduct or None
        Tensor product of the step features and psi_{l-1}, sketched or not.
    """

    relu: RectifiedRecord | ActivationRecord
    step: RectifiedRecord | ActivationRecord | None
    product: TensorSRHTRecord | TensorSketchRecord | TensorProduct | None

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield (self.step is None) == (self.product is None), "a product where it has a derivative"
        yield self.step is None or self.step.n_features == self.relu.n_features, "a derivative of its inputs"

    @property
    def n_components(self) -> int:
        return self.relu.n_components + (self.product.n_components if self.product else 0)


@dataclass(frozen=True)
class CentralDifference:
    """Derivative of a function of arrays, by a difference whose error is about ``eps^(2/3)``."""

    function: Callable[[Any], Any]

    def __call__(self, x: Any) -> Any:
        # The name of a dtype, of NumPy or torch, contains the name of the NumPy dtype.
        step = float(np.finfo("float32" if "float32" in str(x.dtype) else "float64").eps) ** (1 / 3)
        return (self.function(x + step) - self.function(x - step)) / (2 * step)


def draw_units(
    activation: Any, slope: bool, law: SpectralLaw, width: int, projection: str | Projection, rng: np.random.Generator
) -> RectifiedRecord | ActivationRecord:
    """Draw features of one layer's covariance or, if `slope` is true, of the covariance of its derivative."""
    if activation == "relu":
        return RectifiedRecord.draw(0 if slope else 1, law, width, projection, rng)
    function = activation
    if slope:
        function = SLOPES[activation] if isinstance(activation, str) else CentralDifference(activation)
    directions = as_projection(projection, law).sample(law, width, rng)
    return ActivationRecord(directions, function, tangent_layer(activation).gain ** 0.5 * directions.weight_roots)


@dataclass(frozen=True)
class NTKRecord(MapRecord):
    """The layers of the recursion, applied to rows divided by their norms, or to the rows themselves.

    Attributes
    ----------
    layers : tuple of NTKLayer
        First to last layer.
    reduction : CountSketchRecord or None
        For an output width of 1: a sketch that adds the two features of the last layer with random signs.
    normalizes : bool
        Whether rows are divided by their norms, and outputs multiplied by the norms; only for homogeneous kernels.
    """

    layers: tuple[NTKLayer, ...]
    reduction: CountSketchRecord | None
    normalizes: bool = True

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
        activation: Any = "relu",
    ) -> NTKRecord:
        """Draw the layers with the generators ``relu``, ``step`` and ``sketch`` of `streams`."""
        layers = []
        phi_width = psi_width = n_features
        for width in widths:
            relu_law = (StandardGaussianLaw if options.sampling == "gaussian" else SphereLaw)(phi_width)
            relu_rng = streams["relu"].spawn(1)[0]
            relu = draw_units(activation, False, relu_law, width.relu, options.relu_projection, relu_rng)
            step = product = None
            if width.product != 0:
                step_law, step_rng = StandardGaussianLaw(phi_width), streams["step"].spawn(1)[0]
                step = draw_units(activation, True, step_law, width.step, options.projection, step_rng)
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
        return cls(tuple(layers), reduction, activation == "relu")

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
        # phi and psi are the features of Sigma_l and K_l in the exact recursion; both start as x / |x| or x.
        norms = ops.row_norms(X) if self.normalizes else None
        phi = psi = ops.dense(X) if norms is None else ops.scale_rows(X, ops.reciprocal(norms))
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
        if norms is not None:
            ops.scale_rows_in_place(out[:, first : first + self.n_components], norms)

    def truncated(self, n_components: int) -> tuple[np.ndarray, float] | None:
        # Rectified features and products of the last layer keep the same share of features. Each part remains unbiased.
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
    activation : str or callable
        ``"relu"``, or another activation that has a derivative.
    kernel_size : float
        Root mean square of the kernel over pairs of rows.
    """

    n_features: int
    n_components: int
    depth: int
    options: LayerOptions
    activation: Any = "relu"
    kernel_size: float = 1.0

    @property
    def kernel(self) -> Kernel:
        """The kernel that the layers estimate: the NNGP kernel if there are no products, else the NTK."""
        widths = self.options.widths(self.n_features, self.n_components, self.depth)
        return (NNGP if widths[0].product == 0 else NTK)(self.depth, self.activation)

    def predicted_error(self) -> float:
        """The smallest error that was measured on any data set for layers of this depth and width."""
        return _ERROR * self.depth**_GROWTH / self.n_components**0.5 * max(self.kernel_size, 1.0)

    def draw(self, streams: dict[str, np.random.Generator]) -> NTKRecord:
        """Draw the layers with the generators ``relu``, ``step`` and ``sketch`` of `streams`."""
        self.options.check()
        if self.activation != "relu" and self.options.sampling != "gaussian":
            raise ValueError(
                f"`sampling` must be 'gaussian' for activation={self.activation!r}, got {self.options.sampling!r}. Its "
                "densities are those of rectified features."
            )
        widths = self.options.widths(self.n_features, self.n_components, self.depth)
        reduction = None
        if self.n_components == 1 and self.options.sketch != "none":
            reduction = CountSketch(1).sample(2, streams["sketch"].spawn(1)[0])
        return NTKRecord.draw(self.n_features, widths, self.options, streams, reduction, self.activation)
