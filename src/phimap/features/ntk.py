"""Random features of the neural tangent kernel of fully connected ReLU networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap._validation import check_choice, check_integer
from phimap.features.arccosine import RectifiedRecord
from phimap.features.base import FeatureMap
from phimap.kernels import NNGP, NTK, Kernel
from phimap.kernels.spectral import StandardGaussianLaw
from phimap.ops import Array, Ops
from phimap.projections import Projection
from phimap.random_map import MapRecord
from phimap.records import Record
from phimap.sketches import CountSketch, TensorSketch, TensorSRHT
from phimap.sketches.countsketch import CountSketchRecord
from phimap.sketches.srht import TensorSRHTRecord
from phimap.sketches.tensorsketch import TensorSketchRecord

_SKETCHES = {
    "tensorsrht": TensorSRHT,
    # The convolution of two count sketches: the sketch of a product of two vectors by CountSketch.
    "countsketch": TensorSketch,
}


@dataclass(frozen=True)
class NTKLayer(Record):
    """One layer of the recursion.

    Attributes
    ----------
    relu : RectifiedRecord
        phi_{l-1} -> phi_l.
    step : RectifiedRecord or None
        phi_{l-1} -> the derivative's features; None, like `product`, for the NNGP kernel.
    product : TensorSRHTRecord, TensorSketchRecord or None
        Sketch of their tensor product with psi_{l-1}.
    """

    relu: RectifiedRecord
    step: RectifiedRecord | None
    product: TensorSRHTRecord | TensorSketchRecord | None

    @property
    def n_components(self) -> int:
        return self.relu.n_components + (self.product.n_components if self.product else 0)


@dataclass(frozen=True)
class NTKRecord(MapRecord):
    """The layers, applied to normalised rows.

    Attributes
    ----------
    layers : tuple of NTKLayer
    reduction : CountSketchRecord or None
        For a single component: the sketch that adds the two parts of the last layer, of one feature each.
    """

    layers: tuple[NTKLayer, ...]
    reduction: CountSketchRecord | None

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
        return self.n_features + 2 * self.n_components + widest

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        norms = ops.row_norms(X)
        # phi, psi: the features of Sigma_l and K_l of the exact recursion; both start as the direction of x.
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

    def leading(self, n_components: int) -> tuple[np.ndarray, float] | None:
        # Fewer features of the last layer: both of its parts in proportion, each again an unbiased estimate.
        relu_width = self.layers[-1].relu.n_components
        if self.reduction or n_components * relu_width % self.n_components:
            return None
        part = n_components * relu_width // self.n_components
        columns = np.concatenate([np.arange(part), relu_width + np.arange(n_components - part)])
        return columns, (self.n_components / n_components) ** 0.5


class NTKFeatures(FeatureMap):
    """Random features of the ReLU neural tangent kernel of a network with `depth` hidden layers.

    The kernel is ``|x| |y| K_L(cos(x, y))`` with ``Sigma_0 = K_0 = a``, ``Sigma_l = kappa_1(Sigma_{l-1})`` and
    ``K_l = K_{l-1} kappa_0(Sigma_{l-1}) + kappa_1(Sigma_{l-1})``. The features follow the recursion: with
    ``phi_0 = psi_0 = x / |x|``, rectified random projections of phi_{l-1} give phi_l, their steps estimate the
    derivative's kernel kappa_0, and ``psi_l = phi_l (+) Q(step features (x) psi_{l-1})`` for a sketch Q of tensor
    products. The output is ``|x| psi_L``.

    Parameters
    ----------
    depth : int, default=1
        Number L of hidden layers, at least 1.
    n_components : int, default=1024
        Output width m = m1 + ms; for m = 1 the sum of one feature of each kind, with random signs.
    sketch : {"tensorsrht", "countsketch"}, default="tensorsrht"
        Sketch Q of the tensor product: `TensorSRHT` in its default form, or the convolution of count sketches.
    relu_components : int or None, default=None
        Width m1 of the rectified features of each layer; None is half of `n_components`. All of `n_components`
        leaves no room for the derivative: the map is then that of the NNGP kernel.
    step_components : int or None, default=None
        Width m0 of the step features of each layer; None is as wide as the sketch, ms.
    exact_degrees : tuple, default=()
        Degrees of the kernel's expansion that are carried exactly. Only ``()``, the published map, is offered so far.
    projection : str or Projection, default="auto"
        How directions are drawn inside: any rotation-invariant projection. Structured ones make wide layers cheap.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of the named streams; None is fresh entropy.
    n_jobs : int or None, default=None
        Threads; None is the configured number. Changes no bit of the result.

    Attributes
    ----------
    kernel_ : NTK or NNGP
        The exact kernel that ``Z @ Z.T`` estimates.
    record_ : NTKRecord
        All that was drawn.
    n_features_in_ : int

    Notes
    -----
    **Error.** The relative error falls like ``1 / sqrt(m)``. Depth 1 is unbiased; deeper maps have a bias of order
    ``1 / m1``, since the cosines of a layer are themselves estimated. [Z21] Theorem 2: relative error eps with
    ``m0 = O(L^2 / eps^2 log(L / delta))``, ``m1 = O(L^6 / eps^4 log(L / delta))``,
    ``ms = O(L^2 / eps^2 log^3(L / (eps delta)))``.

    **Cost.** Per row and layer: two projections of m1-vectors to m0 and m1 directions, and
    O((m0 + m) log m) for the sketch.

    **Differs from the source in** the projection, which is orthogonal unless ``projection="gaussian"`` asks for the
    published independent directions, and, for ``"countsketch"``, in dividing by the norm first, as [Z21] does.

    References
    ----------
    [Z21] Zandieh, Han, Avron, Shoham, Kim, Shin (2021), *Scaling neural tangent kernels via sketching and random
    features*, Algorithm 2; Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*,
    Algorithm 1 (``sketch="countsketch"``).

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((50, 5))
    >>> phi = pm.NTKFeatures(depth=1, n_components=8192, random_state=0).fit(X)
    >>> bool(pm.metrics.relative_error(phi, X) < 0.05)
    True
    """

    _roles = ("relu", "step", "sketch")

    def __init__(
        self,
        depth: int = 1,
        n_components: int = 1024,
        *,
        sketch: str = "tensorsrht",
        relu_components: int | None = None,
        step_components: int | None = None,
        exact_degrees: tuple[int, ...] = (),
        projection: str | Projection = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.depth = depth
        self.n_components = n_components
        self.sketch = sketch
        self.relu_components = relu_components
        self.step_components = step_components
        self.exact_degrees = exact_degrees
        self.projection = projection
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> NTKRecord:
        depth = check_integer("depth", self.depth, least=1)
        if tuple(self.exact_degrees) != ():
            raise ValueError(f"`exact_degrees` must be (), the published map, got {self.exact_degrees!r}. Use ().")
        reduction = None if self.n_components > 1 else CountSketch(1).sample(2, streams["sketch"].spawn(1)[0])
        relu_width, sketch_width, step_width = self._widths(max(self.n_components, 2))
        sketch = _SKETCHES[check_choice("sketch", self.sketch, tuple(_SKETCHES))](max(sketch_width, 1))
        self.kernel_: Kernel = NTK(depth=depth) if sketch_width else NNGP(depth=depth)
        layers = []
        phi_width = psi_width = X.shape[1]
        for _ in range(depth):
            law = StandardGaussianLaw(phi_width)
            relu = RectifiedRecord.draw(1, law, relu_width, self.projection, streams["relu"].spawn(1)[0])
            step = product = None
            if sketch_width:
                step = RectifiedRecord.draw(0, law, step_width, self.projection, streams["step"].spawn(1)[0])
                product = sketch.sample_product((step_width, psi_width), streams["sketch"].spawn(1)[0])
            if relu.signature is not None or (step is not None and step.signature is not None):
                raise ValueError(
                    f"`projection` must give positive quadrature weights inside NTKFeatures, got {self.projection!r}. "
                    "Use projection='orthogonal'."
                )
            layers.append(NTKLayer(relu, step, product))
            phi_width, psi_width = relu_width, relu_width + sketch_width
        return NTKRecord(tuple(layers), reduction)

    def _widths(self, width: int) -> tuple[int, int, int]:
        """Widths m1, ms, m0 of the rectified features, of the sketch and of the step features."""
        relu_width = width // 2
        if self.relu_components is not None:
            relu_width = check_integer("relu_components", self.relu_components, least=1)
        if relu_width > width:
            raise ValueError(f"`relu_components` must be at most `n_components`={width}, got {relu_width}.")
        sketch_width = width - relu_width
        step_width = sketch_width
        if self.step_components is not None:
            step_width = check_integer("step_components", self.step_components, least=1)
        return relu_width, sketch_width, step_width
