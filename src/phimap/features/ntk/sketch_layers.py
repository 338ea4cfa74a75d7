"""The layered sketch of neural tangent kernels.

Taylor polynomials of kappa_1 and kappa_0 are sketched at every layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import pi

import numpy as np

from phimap.features.ntk.sketch_sizes import LayeredSizes
from phimap.kernels.wide_layers import FoldedLayer
from phimap.ops import Array, Ops
from phimap.random_map import MapRecord
from phimap.records import Record, of_floats, of_number
from phimap.sketches import OSNAP, SRHT, PolySketch, TensorSRHT
from phimap.sketches.polysketch import PolySketchRecord
from phimap.sketches.srht import SRHTRecord, TensorSRHTRecord
from phimap.sketches.tree import sketched

# Inputs that are more than this many times as wide as the first sketch are hashed in O(nnz) time, as in PolySketch.
_WIDE = 8


def relu_series(degree: int) -> np.ndarray:
    """Taylor coefficients (degree + 1,) of kappa_1; `degree` must be even."""
    coefficients = np.zeros(degree + 1)
    i = np.arange(degree // 2)
    coefficients[:2] = 1 / pi, 0.5
    coefficients[2::2] = _binomials(i) / (pi * (2 * i + 1) * (2 * i + 2))
    return coefficients


def step_series(degree: int) -> np.ndarray:
    """Taylor coefficients (degree + 1,) of kappa_0; `degree` must be odd."""
    coefficients = np.zeros(degree + 1)
    i = np.arange((degree + 1) // 2)
    coefficients[0] = 0.5
    coefficients[1::2] = _binomials(i) / (pi * (2 * i + 1))
    return coefficients


def _binomials(i: np.ndarray) -> np.ndarray:
    """``(2 i)! / (2^i i!)^2`` for i = 0, 1, ..., by recurrence."""
    return np.cumprod(np.where(i == 0, 1.0, (2 * i - 1) / np.maximum(2 * i, 1)))


@dataclass(frozen=True)
class PolynomialRecord(MapRecord):
    """Features of a polynomial of the inner product: sketch T of the direct sum of ``sqrt(c_j) Q(x^j (x) e1^(p - j))``.

    The polynomial has the degree p and the coefficients c_j. Powers are tensor powers, (x) is the tensor product, and
    e1 is the first unit vector.

    Attributes
    ----------
    powers : PolySketchRecord
        The sketch Q of degree p.
    roots : tuple of float
        ``sqrt(c_j)`` for j = 0, ..., p.
    reduction : SRHTRecord
        The sketch T. Its input omits the powers with coefficient 0.
    """

    powers: PolySketchRecord
    roots: tuple[float, ...] = field(metadata=of_number(least=0))
    reduction: SRHTRecord

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield len(self.roots) == self.powers.degree + 1, "a coefficient for each power"
        width = self.powers.n_components * sum(root > 0 for root in self.roots)
        yield self.reduction.n_features == width, "a reduction of its powers"

    @classmethod
    def draw(
        cls, n_features: int, coefficients: np.ndarray, power_width: int, n_components: int, rng: np.random.Generator
    ) -> PolynomialRecord:
        powers_rng, reduction_rng = rng.spawn(2)
        powers = PolySketch(power_width, degree=len(coefficients) - 1).sample(n_features, powers_rng)
        reduction = SRHT(n_components).sample(int(np.count_nonzero(coefficients)) * power_width, reduction_rng)
        return cls(powers, tuple(float(root) for root in np.sqrt(coefficients)), reduction)

    @property
    def n_features(self) -> int:
        return self.powers.n_features

    @property
    def n_components(self) -> int:
        return self.reduction.n_components

    @property
    def scratch_width(self) -> int:
        return self.powers.scratch_width + self.reduction.n_features + self.reduction.scratch_width

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        direct_sum = ops.empty((X.shape[0], self.reduction.n_features))
        degree, width = len(self.roots) - 1, self.powers.n_components
        places = np.cumsum([0, *(width if root > 0 else 0 for root in self.roots)])
        for n_units, features in self.powers.cases(ops, X):
            j = degree - n_units
            if self.roots[j] > 0:
                direct_sum[:, places[j] : places[j] + width] = features * self.roots[j]
        self.reduction.apply(ops, direct_sum, out, first)


@dataclass(frozen=True)
class SketchedLayer(Record):
    """One layer of the recursion, see `NTKSketch`.

    Attributes
    ----------
    relu, step : PolynomialRecord
        Maps from phi_{l-1} to phi_l, and to the derivative's features phi'_l.
    product : TensorSRHTRecord
        Sketch Q'' of the tensor product of psi_{l-1} and phi'_l.
    reduction : SRHTRecord
        Sketch R of the direct sum of the product and phi_l.
    """

    relu: PolynomialRecord
    step: PolynomialRecord
    product: TensorSRHTRecord
    reduction: SRHTRecord

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.relu.n_features == self.step.n_features, "functions of the same inputs"
        width = self.product.n_components + self.relu.n_components
        yield self.reduction.n_features == width, "a reduction of its product and of its features"

    @property
    def scratch_width(self) -> int:
        """Floats of scratch memory per row for the layer's widest part, and for its inputs and outputs."""
        parts = (self.relu.scratch_width, self.step.scratch_width, self.product.scratch_width)
        return 2 * (self.relu.n_components + self.reduction.n_components) + self.reduction.scratch_width + max(parts)


@dataclass(frozen=True)
class NTKSketchRecord(MapRecord):
    """The layered sketch, applied to rows divided by their norms, with the symbols of the source.

    Attributes
    ----------
    entrance : MapRecord
        Sketch Q1, from rows to phi_0.
    tangent : SRHTRecord
        Sketch V, from phi_0 to psi_0.
    layers : tuple of SketchedLayer
        First to last layer.
    projection : ndarray of shape (s, n_components)
        Transpose of G: Gaussian entries with variance ``1 / n_components``.
    normalized : bool
        Whether every phi_l is divided by its norm.
    """

    entrance: MapRecord
    tangent: SRHTRecord
    layers: tuple[SketchedLayer, ...]
    projection: np.ndarray = field(metadata=of_floats("s", "m"))
    normalized: bool

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield len(self.layers) > 0, "a layer"
        widths = [self.entrance.n_components, *(layer.relu.n_components for layer in self.layers)]
        yield self.tangent.n_features == widths[0], "a tangent of what enters"
        inputs = [layer.relu.n_features for layer in self.layers]
        yield widths[:-1] == inputs, "layers that follow each other"
        yield self.projection.shape[0] == self.layers[-1].reduction.n_components, "a projection of its last layer"

    @classmethod
    def draw(
        cls,
        n_features: int,
        depth: int,
        sizes: LayeredSizes,
        rng: np.random.Generator,
        units: FoldedLayer,
        *,
        normalized: bool = True,
    ) -> NTKSketchRecord:
        """Draw the layered sketch for inputs of width `n_features` and a network with the activation `units`."""
        entrance_rng, tangent_rng, layers_rng, projection_rng = rng.spawn(4)
        entrance = (OSNAP if n_features > _WIDE * sizes.phi else SRHT)(sizes.phi).sample(n_features, entrance_rng)
        tangent = SRHT(sizes.psi).sample(sizes.phi, tangent_rng)
        # The activation is a combination of a ReLU and a linear unit. Its dual is a multiple of the ReLU's series plus
        # a linear term. The dual of its derivative is a multiple of the step's series plus a constant. All coefficients
        # are nonnegative.
        relu_coefficients = 2.0 * units.fold * relu_series(sizes.relu_degree)
        step_coefficients = 2.0 * units.fold * step_series(sizes.step_degree)
        relu_coefficients[1] += 1.0 - 2.0 * units.fold
        step_coefficients[0] += 1.0 - 2.0 * units.fold
        layers = []
        for layer_rng in layers_rng.spawn(depth):
            relu_rng, step_rng, product_rng, reduction_rng = layer_rng.spawn(4)
            layers.append(
                SketchedLayer(
                    PolynomialRecord.draw(sizes.phi, relu_coefficients, sizes.relu, sizes.phi, relu_rng),
                    PolynomialRecord.draw(sizes.phi, step_coefficients, sizes.step, sizes.psi, step_rng),
                    TensorSRHT(sizes.psi).sample_product((sizes.psi, sizes.psi), product_rng),
                    SRHT(sizes.psi).sample(sizes.psi + sizes.phi, reduction_rng),
                )
            )
        projection = projection_rng.standard_normal((sizes.psi, sizes.output)) * sizes.output**-0.5
        return cls(entrance, tangent, tuple(layers), projection, normalized)

    @property
    def n_features(self) -> int:
        return self.entrance.n_features

    @property
    def n_components(self) -> int:
        return self.projection.shape[1]

    @property
    def scratch_width(self) -> int:
        layers = max(layer.scratch_width for layer in self.layers)
        return max(self.entrance.scratch_width, layers) + self.entrance.n_components + self.n_components

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        norms = ops.row_norms(X)
        # The first sketch is linear. So norms are divided out after it, and sparse rows need not be copied.
        phi = sketched(self.entrance, ops, X)
        ops.scale_rows_in_place(phi, ops.reciprocal(ops.row_norms(phi) if self.normalized else norms))
        psi = sketched(self.tangent, ops, phi)
        for layer in self.layers:
            product = layer.product.sketch_product(ops, psi, sketched(layer.step, ops, phi))
            phi = sketched(layer.relu, ops, phi)
            if self.normalized:
                ops.scale_rows_in_place(phi, ops.reciprocal(ops.row_norms(phi)))
            direct_sum = ops.empty((X.shape[0], layer.reduction.n_features))
            ops.copy(product, direct_sum)
            ops.copy(phi, direct_sum, product.shape[1])
            psi = sketched(layer.reduction, ops, direct_sum)
        ops.copy(ops.matmul(psi, self.projection), out, first)
        ops.scale_rows_in_place(out[:, first : first + self.n_components], norms)
