"""Layers of rectified units, and random features for a part of the kernel of one layer.

Some powers of the cosine in this kernel may get exact features. The remainder is the kernel minus these powers. Its
random features apply an activation that has a closed form, so no table is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import gammaln

from phimap.features.power_series.terms import SeriesRecord
from phimap.features.random_layers.pointwise import PointwiseRecord
from phimap.features.random_layers.remainder import ActivationPlan, draw_directions, remove_powers
from phimap.kernels.spectral import SpectralLaw, StandardGaussianLaw
from phimap.kernels.zonal import raising_coefficient, zonal_degree
from phimap.ops import Array, Ops
from phimap.ops.primitives.activation import rectify
from phimap.projections import Projection, as_projection
from phimap.projections.base import ProjectionRecord
from phimap.random_map import MapRecord
from phimap.records import of_floats, of_number, with_lengths


@dataclass(frozen=True)
class RectifiedRecord(PointwiseRecord):
    """The map ``scale * step(Wx) (Wx)^order``, a power of the rectifier.

    Attributes
    ----------
    projection : ProjectionRecord
        The directions W.
    order : int
        0, 1 or 2.
    scale : ndarray of shape (n_components,)
        Factors of the features.
    """

    projection: ProjectionRecord = field(metadata=with_lengths(n_directions="s"))
    order: int = field(metadata=of_number(least=0, most=2))
    scale: np.ndarray = field(metadata=of_floats("s"))

    @classmethod
    def draw(
        cls,
        order: int,
        law: SpectralLaw,
        n_components: int,
        projection: str | Projection,
        rng: np.random.Generator,
    ) -> RectifiedRecord:
        """Draw directions from the Gaussian `law`, scaled so that the features estimate the arc-cosine kernel."""
        directions = as_projection(projection, law).sample(law, n_components, rng)
        return cls(directions, order, 2**0.5 * directions.weight_roots)

    def _respond(self, ops: Ops, projected: Array, columns: slice, out: Array, first: int) -> None:
        rectify(ops, projected, self.order, self.scale[columns], out, first)


@dataclass(frozen=True)
class LayeredRecord(MapRecord):
    """A network of rectified layers, each applied to the output of the previous one.

    Attributes
    ----------
    layers : tuple of RectifiedRecord
        At least one layer; all layers except the last have positive quadrature weights.
    """

    layers: tuple[RectifiedRecord, ...]

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield len(self.layers) > 0, "a layer"
        steps = zip(self.layers[:-1], self.layers[1:], strict=True)
        yield all(one.n_components == following.n_features for one, following in steps), "layers that follow each other"

    @classmethod
    def draw(
        cls,
        order: int,
        n_features: int,
        n_components: int,
        depth: int,
        projection: str | Projection,
        rng: np.random.Generator,
    ) -> LayeredRecord:
        """Draw `depth` layers of width `n_components`."""
        layers: list[RectifiedRecord] = []
        for _ in range(depth):
            if layers and layers[-1].signature is not None:
                raise ValueError(
                    f"`projection` must give positive quadrature weights for depth > 1, got {projection!r}. "
                    "Use projection='orthogonal' or 'sorf'."
                )
            law = StandardGaussianLaw(layers[-1].n_components if layers else n_features)
            layers.append(RectifiedRecord.draw(order, law, n_components, projection, rng))
        return cls(tuple(layers))

    @property
    def n_features(self) -> int:
        return self.layers[0].n_features

    @property
    def n_components(self) -> int:
        return self.layers[-1].n_components

    @property
    def signature(self) -> np.ndarray | None:
        return self.layers[-1].signature

    @property
    def n_flops(self) -> int | None:
        return sum(layer.projection.n_flops for layer in self.layers)

    @property
    def scratch_width(self) -> int:
        return sum(layer.scratch_width + layer.n_components for layer in self.layers)

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        for layer in self.layers[:-1]:
            hidden = ops.empty((X.shape[0], layer.n_components))
            layer.apply(ops, X, hidden)
            X = hidden
        self.layers[-1].apply(ops, X, out, first)


@dataclass(frozen=True)
class RectifiedRemainderRecord(PointwiseRecord):
    """The map ``scale * (sign(g) g^order + p(g))`` of projections g of unit rows, with a polynomial p.

    Attributes
    ----------
    projection : ProjectionRecord
        Directions; projections have unit variance.
    order : int
        0, 1 or 2.
    polynomial : tuple of float
        Coefficients of p, from degree 0 upwards.
    scale : float
        Factor of all features.
    stretch : ndarray of shape (n_components,) or None
        Factors of the projections; None is 1.
    """

    projection: ProjectionRecord = field(metadata=with_lengths(n_directions="s"))
    order: int = field(metadata=of_number(least=0, most=2))
    polynomial: tuple[float, ...]
    scale: float
    stretch: np.ndarray | None = field(default=None, metadata=of_floats("s"))

    def _respond(self, ops: Ops, projected: Array, columns: slice, out: Array, first: int) -> None:
        g = projected
        values = abs(g) if self.order == 1 else ops.activations["sign"](g)
        if self.order == 2:
            values = values * g * g
        for power, coefficient in enumerate(self.polynomial):
            if coefficient:
                values = values + coefficient * (g**power if power > 1 else g if power else 1.0)
        ops.copy(values * self.scale, out, first)


@dataclass(frozen=True)
class RectifiedPlan:
    """A plan for one rectified layer. The activation of its remainder has a closed form, so no table is needed.

    Attributes
    ----------
    order : int
        0, 1 or 2.
    tabulated : ActivationPlan
        The plan of the same kernel with a tabulated activation.
    """

    order: int
    tabulated: ActivationPlan

    def predicted_error(self) -> float:
        """The predicted error of `tabulated`, which has the same activation."""
        return self.tabulated.predicted_error()

    def draw(self, streams: dict[str, np.random.Generator]) -> SeriesRecord:
        """Draw the map with the generator ``streams["activation"]``."""
        plan = self.tabulated
        powers, polynomial, scale = rectified_remainder(self.order, plan.n_features, tuple(plan.powers))
        if not plan.is_sampled:
            return plan.record(powers, None)
        width = plan.sampled_width
        # sign(g) g^order has the opposite parity of g^order. If p has the same parity as sign(g) g^order, w and -w are
        # equivalent.
        even = not any(polynomial[self.order % 2 :: 2])
        rng = streams["activation"]
        directions, stretch = draw_directions(plan.n_features, width, plan.projection, even, rng)
        sampled = RectifiedRemainderRecord(directions, self.order, polynomial, scale * width**-0.5, stretch)
        return plan.record(powers, sampled)


def rectified_remainder(
    order: int, n_features: int, degrees: Sequence[int]
) -> tuple[dict[int, float], tuple[float, ...], float]:
    """The rectified unit ``sqrt(2) step(g) g^order`` minus the powers that are represented exactly, in closed form.

    Directions have length ``sqrt(d)``; for order 2 the factor ``sqrt((d + 2) / d)`` restores the fourth moment of
    Gaussian directions. The coefficients of the unit in the zonal polynomials p_k follow from the moments ``E|g|^j``.
    Their squares are the kernel's b_k, from which `remove_powers` subtracts the exact powers.

    Returns the coefficients of the exact powers, the polynomial p of the random features
    ``f = s (sign(g) g^order + p(g))``, and s.
    """
    d = n_features
    scale = 0.5**0.5 * ((d + 2) / d) ** 0.5 if order == 2 else 0.5**0.5
    basis = _polynomials(d, min(max(degrees, default=0), zonal_degree(d)))
    width = basis.shape[1]
    j = np.arange(width) + order
    moments = np.exp(0.5 * j * np.log(d) + gammaln(0.5 * (j + 1)) + gammaln(0.5 * d) - gammaln(0.5 * (d + j)))
    coefficients = scale * basis @ moments / np.pi**0.5
    powers, remainder = remove_powers(np.square(coefficients), d, degrees)
    removed = coefficients - np.copysign(np.sqrt(remainder), coefficients)
    polynomial = np.zeros(max(width, order + 1))
    polynomial[order] = 1.0
    polynomial[:width] -= removed @ basis / scale
    polynomial[np.abs(polynomial) < 1e-13] = 0.0
    return powers, tuple(polynomial.tolist()), scale


def _polynomials(d: int, degree: int) -> np.ndarray:
    """Coefficients (degree + 1, degree + 1) of the zonal polynomials ``p_0, ..., p_degree`` in powers of g."""
    # The three-term recursion of the p_k is applied to coefficients: multiplication by g shifts them.
    rows = [np.eye(1, degree + 1)[0]]
    lower, before = 0.0, np.zeros(degree + 1)
    for k in range(degree):
        raising = raising_coefficient(d, k)
        following = (np.append(0.0, rows[-1][:-1]) - lower * before) / raising
        before, lower = rows[-1], raising
        rows.append(following)
    return np.array(rows)
