"""Random features of what exact degrees leave of a kernel: functions of projections on unit rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from phimap.features.power_series.plan import monomials
from phimap.features.power_series.terms import SeriesRecord, SeriesTerm, n_monomials
from phimap.kernels.base import HomogeneousKernel
from phimap.kernels.spectral import DirectionLaw, SphereLaw
from phimap.kernels.zonal import (
    powers_to_zonal,
    zonal_coefficients,
    zonal_functions,
    zonal_polynomials,
    zonal_rule,
)
from phimap.ops import Array, Ops, host
from phimap.ops.primitives.activation import interpolate
from phimap.projections import Projection, as_projection
from phimap.projections.base import ProjectionRecord
from phimap.random_map import MapRecord

# Intervals of a table: several for each wave of the highest degree.
_INTERVALS = 2**12
# Projections of unit rows on directions of length sqrt(d) beyond this are met once in 1e15.
_REACH = 8.0
# Degrees of the square of the activation that the variance is summed over: pairs of rows hardly see others.
_SQUARE_DEGREE = 64
# Rows of the identity at a time, whose projections give the lengths of directions.
_ROWS = 256


@dataclass(frozen=True)
class TabulatedRecord(MapRecord):
    """``scale * f(g)`` for projections g on unit rows, by linear interpolation in a table of f.

    Attributes
    ----------
    projection : ProjectionRecord
    table : ndarray of shape (n_intervals + 1,)
        Values at evenly spaced points from ``-reach`` to ``reach``; beyond, f is constant.
    reach : float
    scale : ndarray of shape (n_components,)
    stretch : ndarray of shape (n_components,) or None
        Multiplies the projections; None is 1.
    """

    projection: ProjectionRecord
    table: np.ndarray
    reach: float
    scale: np.ndarray
    stretch: np.ndarray | None

    @property
    def n_features(self) -> int:
        return self.projection.n_features

    @property
    def n_components(self) -> int:
        return self.projection.n_directions

    @property
    def scratch_width(self) -> int:
        return self.n_features + self.projection.scratch_width

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        for columns, g in self.projection.blocks(ops, X):
            g = g if self.stretch is None else g * self.stretch[columns]
            interpolate(ops, g, self.table, self.reach, self.scale[columns], out, first + columns.start)


@dataclass(frozen=True)
class ZonalPlan:
    """A kernel of unit rows as powers that are carried exactly, and a rest with coefficients ``b_k`` of the P_k.

    Attributes
    ----------
    n_features, n_components : int
    powers : dict
        Coefficients of the exact powers, by degree.
    rest : ndarray
        The ``b_k`` of what is left, none negative; there may be nothing left.
    error : float
        Predicted root mean square error of the estimate with independent directions.
    """

    n_features: int
    n_components: int
    powers: dict[int, float]
    rest: np.ndarray
    error: float

    @property
    def exact_width(self) -> int:
        return sum(n_monomials(self.n_features, degree) for degree in self.powers)

    def record(self, projection: str | Projection, rng: np.random.Generator, power: int = 1) -> SeriesRecord:
        """The drawn map, for a kernel homogeneous of degree `power` in each row."""
        terms = self.draw(projection, rng)
        return SeriesRecord(self.n_features, "norm", None, None, None, terms, power)

    def draw(self, projection: str | Projection, rng: np.random.Generator) -> tuple[SeriesTerm, ...]:
        """Terms that take all components."""
        width = self.n_components - self.exact_width
        deviation = None
        if width and self.rest.any():
            directions, stretch = draw_directions(self.n_features, width, projection, not self.rest[1::2].any(), rng)
            reach = min(self.n_features**0.5, _REACH)
            table = activation_values(np.linspace(-reach, reach, _INTERVALS + 1), self.n_features, self.rest)
            deviation = TabulatedRecord(directions, table, reach, np.full(width, width**-0.5), stretch)
        return terms_of(self.n_features, self.n_components, self.powers, deviation)


def plan_zonal(
    kernel: HomogeneousKernel,
    n_features: int,
    n_components: int,
    degrees: Sequence[int],
    cosines: np.ndarray | None = None,
) -> ZonalPlan:
    """Carry the powers of these degrees exactly, as far as they have room.

    Given cosines (k,) of unit rows, predict the error, and carry more degrees exactly where that lowers it.
    """
    b = zonal_coefficients(kernel, n_features)

    def plan(chosen: Sequence[int]) -> ZonalPlan:
        powers, rest = remove_powers(b, n_features, chosen)
        found = ZonalPlan(n_features, n_components, powers, rest, 0.0)
        if cosines is None or n_features == 1 or not rest.any():
            return found
        width = n_components - found.exact_width
        return replace(found, error=rest_deviation(rest, n_features, cosines) / width**0.5)

    chosen = fitting_degrees(b, n_features, n_components, degrees)
    best = plan(chosen)
    if cosines is None or n_features == 1 or not chosen:
        return best
    for degree in range(2, len(b)):
        if degree in chosen or not b[degree]:
            continue
        more = fitting_degrees(b, n_features, n_components, (*chosen, degree))
        if degree not in more or len(more) <= len(chosen):
            break
        chosen = more
        best = min(best, plan(chosen), key=lambda one: one.error)
    return best


def fitting_degrees(b: np.ndarray, n_features: int, n_components: int, degrees: Sequence[int]) -> tuple[int, ...]:
    """Those degrees, from the lowest on, that have room beside one feature for what is left."""
    kept: list[int] = []
    width = 0
    for degree in sorted(set(degrees)):
        width += n_monomials(n_features, degree)
        left = remove_powers(b, n_features, (*kept, degree))[1].any()
        if width + bool(left) > n_components:
            break
        kept.append(degree)
    return tuple(kept)


def remove_powers(b: np.ndarray, n_features: int, degrees: Sequence[int]) -> tuple[dict[int, float], np.ndarray]:
    """The largest coefficients of powers, from the highest on, that leave no ``b_k`` negative; and what is left."""
    rest, powers = b.copy(), {}
    rounding = 1e-13 * b.sum()
    for degree in sorted(degrees, reverse=True):
        alone = np.zeros(degree + 2)
        alone[degree] = 1.0
        present = np.flatnonzero(power := powers_to_zonal(alone, n_features))
        c = 0.0 if present[-1] >= len(b) else float((rest[present] / power[present]).min())
        if c > rounding:
            powers[degree] = c
            rest[present] -= c * power[present]
            rest[rest < rounding] = 0.0
    return dict(sorted(powers.items())), rest


def activation_values(g: np.ndarray, n_features: int, rest: np.ndarray) -> np.ndarray:
    """``f(g) = sum_k (-1)^floor(k / 2) sqrt(b_k) p_k(g)``.

    The signs are those of a step's expansion. Any signs give the same mean; with these f stays small where projections
    are rare, and its square flat: the variance is all but the least, that of a constant square. All positive signs give
    ten times the deviation for one layer, fifty times for ten.
    """
    values = np.zeros_like(g)
    for k, p in enumerate(zonal_polynomials(g, n_features, len(rest) - 1)):
        if rest[k]:
            values += (-1) ** (k // 2) * rest[k] ** 0.5 * p
    return values


def rest_deviation(rest: np.ndarray, n_features: int, cosines: np.ndarray) -> float:
    """Root mean square deviation, over pairs of unit rows at these cosines, of a feature's product of a random w.

    ``E[f(w.x)^2 f(w.y)^2] - r(a)^2``, the first from the coefficients of ``f^2``.
    """
    nodes, weights = zonal_rule(n_features)
    squares = activation_values(nodes, n_features, rest) ** 2 * weights
    second = np.zeros_like(cosines)
    for p, function in zip(
        zonal_polynomials(nodes, n_features, _SQUARE_DEGREE),
        zonal_functions(cosines, n_features, _SQUARE_DEGREE),
        strict=True,
    ):
        second += (p @ squares) ** 2 * function
    mean = np.zeros_like(cosines)
    for coefficient, function in zip(rest, zonal_functions(cosines, n_features, len(rest) - 1), strict=True):
        mean += coefficient * function
    return float(np.sqrt(np.maximum(second - mean**2, 0.0).mean()))


def draw_directions(
    n_features: int, width: int, projection: str | Projection, even: bool, rng: np.random.Generator
) -> tuple[ProjectionRecord, np.ndarray | None]:
    """Directions of length ``sqrt(d)``, and what stretches those that are not so long."""
    law = (SphereLaw if even else DirectionLaw)(n_features)
    directions = as_projection(projection, law).sample(law, width, rng)
    if directions.weights is not None:
        raise ValueError(
            f"`projection` must draw rotation-invariant directions of equal weights for exact degrees, got "
            f"{projection!r}. Use projection='auto' or 'orthogonal'."
        )
    squares = np.zeros(width)
    ops = host()
    bound = directions.bind(ops)
    for first in range(0, n_features, _ROWS):
        rows = np.eye(min(_ROWS, n_features - first), n_features, first)
        squares += np.square(bound.apply(ops, rows)).sum(axis=0)
    # A direction can vanish on the few coordinates that are not padding; it then stays zero.
    stretch = np.sqrt(n_features / np.where(squares > 0, squares, n_features))
    return directions, None if np.allclose(stretch, 1.0, rtol=1e-12) else stretch


def terms_of(
    n_features: int, n_components: int, powers: dict[int, float], deviation: MapRecord | None
) -> tuple[SeriesTerm, ...]:
    """The exact powers, the features of the rest, and zeros in what is left of the width."""
    terms = []
    for degree, coefficient in powers.items():
        exact = None if degree == 0 else monomials(n_features, None, degree)
        terms.append(SeriesTerm(np.array([[coefficient**0.5]]), exact))
    if deviation is not None:
        terms.append(SeriesTerm(np.ones((1, 1)), deviation))
    unused = n_components - sum(term.n_components for term in terms)
    if unused:
        terms.append(SeriesTerm(np.zeros((1, unused)), None))
    return tuple(terms)
