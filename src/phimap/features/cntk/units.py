r"""The activations of `CNTKSketch`: coefficients of their duals in degrees 0 and 1, and features of other degrees.

For a pair of pixels with inputs u and v of standard deviations r and r', Mehler's formula gives both duals,
with the factor c that normalises the activation,

.. math:: c\, \mathbb{E}\, \sigma(u)\, \sigma(v) = \sum_k h_k(r)\, h_k(r') \cos^k, \quad
          c\, \mathbb{E}\, \sigma'(u)\, \sigma'(v) = \sum_k d_k(r)\, d_k(r') \cos^k

with the Hermite coefficients h_k of :math:`\sqrt c\, \sigma(r z)` and d_k of :math:`\sqrt c\, \sigma'(r z)`. Degree 0
is exact with the single feature h_0(r), degree 1 with the unit patch times h_1(r); for the second dual, d_k replace
h_k. For a Gaussian direction w and a patch p of length r,
:math:`\sqrt c\, \sigma(w \cdot p) - h_0(r) - h_1(r)\, w \cdot p / r` is a random feature of all other degrees.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import pi
from typing import Any, NamedTuple

import numpy as np

from phimap.features.cntk.parts import WIDEST_DENSE, draw_remainder
from phimap.features.projected import ProjectedRecord
from phimap.kernels.spectral import StandardGaussianLaw
from phimap.kernels.wide_layers import FoldedLayer, WideLayer
from phimap.ops import Array, Ops
from phimap.ops.activations import NAMES
from phimap.projections import SORF, Orthogonal
from phimap.projections.base import ProjectionRecord
from phimap.random_map import MapRecord
from phimap.records import Record, of_number, with_lengths

# Quadrature rule for moments of an activation: evenly spaced points up to 8 standard deviations. Their number is even,
# so that no point is at 0, where activations may have a kink.
_POINTS, _REACH = 128, 8.0
# Step of the central differences that approximate derivatives of activations. Their errors are about 1e-5. The step is
# a power of two, so that scaling by it is exact.
_STEP = 2.0**-7


class ActivationMoments(NamedTuple):
    """Hermite coefficients and energies of an activation at the standard deviation of each pixel, shape (pixels,).

    The module's docstring defines the symbols.

    Attributes
    ----------
    value, linear_value : array
        h_0 and h_1.
    slope, linear_slope : array
        d_0 and d_1.
    energy, slope_energy : array
        Sums over k of h_k^2, and of d_k^2.
    """

    value: Array
    linear_value: Array
    slope: Array
    linear_slope: Array
    energy: Array
    slope_energy: Array

    def of(self, part: slice) -> ActivationMoments:
        """The moments of the pixels in `part`."""
        return ActivationMoments(*(numbers[part] for numbers in self))


class Units(Record):
    """The operations of an activation that the layers of a sketch need."""

    #: Whether the activation is homogeneous: scaling an image scales its features.
    is_homogeneous: bool

    @abstractmethod
    def moments(self, ops: Ops, roots: Array) -> ActivationMoments:
        """Moments of pixels whose patches have lengths `roots` (r,)."""

    @abstractmethod
    def entering(self, ops: Ops, patch: Array, roots: Array) -> Array:
        """Inputs (r, k) of the map that `draw` returns, made from unit patches (r, k).

        They are the unit patches for a homogeneous activation, else patches of lengths `roots`.
        """

    @abstractmethod
    def scale_values(self, ops: Ops, features: Array, roots: Array) -> None:
        """Scale features (r, k) from the map that `draw` returns, in place, to patches of lengths `roots`."""

    @abstractmethod
    def draw(self, order: int, n_features: int, n_components: int, rng: np.random.Generator) -> MapRecord | None:
        """Random features of degrees 2 and above, for the activation's dual (order 1) or the derivative's (order 0)."""


@dataclass(frozen=True)
class FoldedUnits(Units):
    """The activation ``sqrt(1 - fold) t + sqrt(fold) |t|``; ``fold=0.5`` is sqrt(2) times the ReLU.

    Attributes
    ----------
    fold : float
        Share of the absolute value, between 0 and 1.
    """

    fold: float = field(metadata=of_number(least=0, most=1))

    is_homogeneous = True

    def moments(self, ops: Ops, roots: Array) -> ActivationMoments:
        folded, linear = (2.0 * self.fold / pi) ** 0.5, (1.0 - self.fold) ** 0.5
        ones = 0.0 * roots + 1.0
        return ActivationMoments(roots * folded, roots * linear, ones * linear, ones * folded, roots * roots, ones)

    def entering(self, ops: Ops, patch: Array, roots: Array) -> Array:
        return patch

    def scale_values(self, ops: Ops, features: Array, roots: Array) -> None:
        ops.scale_rows_in_place(features, roots)

    def draw(self, order: int, n_features: int, n_components: int, rng: np.random.Generator) -> MapRecord | None:
        if self.fold == 0:
            return None
        record = draw_remainder(order, n_features, n_components, rng)
        return replace(record, scale=record.scale * (2.0 * self.fold) ** 0.5)


@dataclass(frozen=True)
class PointwiseUnits(Units):
    """Any activation, whose moments are computed by quadrature from its values.

    Attributes
    ----------
    activation : str or callable
        A callable cannot be written to a model file.
    gain : float
        The factor c of the duals.
    """

    activation: str | Callable[[Any], Any]
    gain: float = field(metadata=of_number(above=0))

    is_homogeneous = False

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.activation in NAMES, "an activation that has a name"

    def values(self, ops: Ops, projected: Array) -> Array:
        """Values of the activation times sqrt(gain)."""
        function = ops.activations[self.activation] if isinstance(self.activation, str) else self.activation
        return function(projected) * self.gain**0.5

    def slopes(self, ops: Ops, projected: Array) -> Array:
        """Derivatives of the activation times sqrt(gain)."""
        return (self.values(ops, projected + _STEP) - self.values(ops, projected - _STEP)) * (0.5 / _STEP)

    def moments(self, ops: Ops, roots: Array) -> ActivationMoments:
        found = ops.empty((roots.shape[0], 6))
        step = max(1, ops.tile_bytes // (4 * _POINTS * ops.dtype.itemsize))
        for first in range(0, roots.shape[0], step):
            part = slice(first, first + step)
            for column, function in enumerate((self.values, self.slopes)):
                of_part = _hermite_moments(ops, lambda x, function=function: function(ops, x), roots[part])
                found[part, 2 * column], found[part, 2 * column + 1], found[part, 4 + column] = of_part
        return ActivationMoments(*(found[:, column] for column in range(6)))

    def entering(self, ops: Ops, patch: Array, roots: Array) -> Array:
        return ops.scale_rows(patch, roots)

    def scale_values(self, ops: Ops, features: Array, roots: Array) -> None:
        pass

    def draw(self, order: int, n_features: int, n_components: int, rng: np.random.Generator) -> MapRecord | None:
        # Up to this width, a dense product is as fast as three Hadamard transforms. These transforms give nearly
        # Gaussian projections only for many inputs.
        projection = SORF() if n_features > WIDEST_DENSE else Orthogonal()
        directions = projection.sample(StandardGaussianLaw(n_features), n_components, rng)
        return PointwiseRemainderRecord(directions, self, order)


def _hermite_moments(ops: Ops, function: Callable[[Array], Array], roots: Array) -> tuple[Array, Array, Array]:
    """``E f(r z)``, ``E f(r z) z`` and ``E f(r z)^2`` for standard Gaussian z and each r in `roots`."""
    nodes = (np.arange(_POINTS) + 0.5) * (2.0 * _REACH / _POINTS) - _REACH
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum()
    values = function(ops.matmul(roots[:, None], ops.constant(nodes[None])))
    both = ops.matmul(values, ops.constant(np.stack([weights, weights * nodes], axis=1)))
    return both[:, 0], both[:, 1], ops.matmul(values * values, ops.constant(weights[:, None]))[:, 0]


@dataclass(frozen=True)
class PointwiseRemainderRecord(ProjectedRecord):
    """The map ``(f(g) - h_0(r) - h_1(r) g / r) / sqrt(k)`` of k projections g of rows of length r.

    The function f is the activation or its derivative, and h_0, h_1 are its first Hermite coefficients.

    Attributes
    ----------
    projection : ProjectionRecord
        Gaussian directions.
    units : PointwiseUnits
        The activation.
    order : int
        1 for the activation, 0 for its derivative.
    """

    projection: ProjectionRecord = field(metadata=with_lengths(n_directions="s"))
    units: PointwiseUnits
    order: int = field(metadata=of_number(least=0, most=1))

    @property
    def n_components(self) -> int:
        return self.projection.n_directions

    @property
    def scratch_width(self) -> int:
        return self.n_features + 3 * self.projection.scratch_width + 3 * _POINTS

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        function = self.units.values if self.order else self.units.slopes
        norms = ops.row_norms(X)
        constant, linear, _ = _hermite_moments(ops, lambda x: function(ops, x), norms)
        # Zero rows have zero projections, so their linear coefficient does not matter.
        linear = linear * ops.reciprocal(norms)
        for columns, projected in self.projection.blocks(ops, X):
            values = function(ops, projected) - constant[:, None] - linear[:, None] * projected
            ops.copy(values * self.n_components**-0.5, out, first + columns.start)


def units_of(layer: WideLayer, activation: str | Callable[[Any], Any]) -> Units:
    """The `Units` of an activation with the dual `layer`."""
    return FoldedUnits(layer.fold) if isinstance(layer, FoldedLayer) else PointwiseUnits(activation, layer.gain)
