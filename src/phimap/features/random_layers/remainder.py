"""Random features of the remainder of a kernel beyond exact degrees: functions of projections on unit rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from phimap.features.power_series.terms import MonomialsRecord, SeriesRecord, SeriesTerm, n_monomials
from phimap.features.random_layers.pointwise import PointwiseRecord
from phimap.kernels.rotation_invariant import RotationInvariantKernel
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
from phimap.records import of_floats, of_number, with_lengths

# Intervals of a table: several for each wave of the highest degree.
_INTERVALS = 2**12
# Projections of unit rows on directions of length sqrt(d) beyond this are met once in 1e15.
_REACH = 8.0
# Degrees of the square of the activation that the variance is summed over: pairs of rows hardly see others.
_SQUARE_DEGREE = 64
# Rows of the identity at a time, whose projections give the lengths of directions.
_ROWS = 256


@dataclass(frozen=True)
class TabulatedRecord(PointwiseRecord):
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

    projection: ProjectionRecord = field(metadata=with_lengths(n_directions="s"))
    table: np.ndarray = field(metadata=of_floats("t"))
    reach: float = field(metadata=of_number(above=0))
    scale: np.ndarray = field(metadata=of_floats("s"))
    stretch: np.ndarray | None = field(metadata=of_floats("s"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.table.size > 1, "a table of two values at least"

    def _respond(self, ops: Ops, projected: Array, columns: slice, out: Array, first: int) -> None:
        interpolate(ops, projected, self.table, self.reach, self.scale[columns], out, first)


@dataclass(frozen=True)
class ActivationPlan:
    """Powers of the cosine that are carried exactly, and an activation whose kernel is the remainder.

    Attributes
    ----------
    n_features, n_components : int
    homogeneity : int
        Degree of homogeneity of the kernel in each row.
    projection : str or Projection
    powers : dict
        Coefficients of the exact powers, by degree.
    remainder : ndarray
        Its coefficients ``b_k`` of the P_k, none negative; they may all be 0.
    error : float
        Predicted root mean square error of the estimate with independent directions; 0 where nothing is known of the
        cosines.
    """

    n_features: int
    n_components: int
    homogeneity: int
    projection: str | Projection
    powers: dict[int, float]
    remainder: np.ndarray
    error: float = 0.0

    @classmethod
    def of(
        cls,
        kernel: RotationInvariantKernel,
        n_features: int,
        n_components: int,
        degrees: Sequence[int],
        projection: str | Projection = "auto",
        cosines: np.ndarray | None = None,
    ) -> ActivationPlan:
        """Carry the powers of these degrees exactly, as far as they have room.

        Given cosines (k,) of unit rows, predict the error, and carry more degrees exactly where that lowers it.
        """
        b = zonal_coefficients(kernel, n_features)

        def plan(chosen: Sequence[int]) -> ActivationPlan:
            powers, remainder = remove_powers(b, n_features, chosen)
            found = cls(n_features, n_components, kernel.homogeneity, projection, powers, remainder)
            if cosines is None or n_features == 1 or not remainder.any():
                return found
            deviation = remainder_standard_deviation(remainder, n_features, cosines)
            return replace(found, error=deviation / found.sampled_width**0.5)

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
            best = min(best, plan(chosen), key=lambda one: one.predicted_error())
        return best

    @property
    def sampled_width(self) -> int:
        """Features that the exact powers leave for the remainder."""
        return self.n_components - sum(n_monomials(self.n_features, degree) for degree in self.powers)

    @property
    def is_sampled(self) -> bool:
        """Whether there is a remainder, and a feature for it."""
        return bool(self.sampled_width and self.remainder.any())

    def predicted_error(self) -> float:
        """That of independent directions, see `error`."""
        return self.error

    def draw(self, streams: dict[str, np.random.Generator]) -> SeriesRecord:
        """Draw the map from the stream ``activation``."""
        if not self.is_sampled:
            return self.record(self.powers, None)
        d, width, even = self.n_features, self.sampled_width, not self.remainder[1::2].any()
        directions, stretch = draw_directions(d, width, self.projection, even, streams["activation"])
        reach = min(d**0.5, _REACH)
        table = activation_values(np.linspace(-reach, reach, _INTERVALS + 1), d, self.remainder)
        sampled = TabulatedRecord(directions, table, reach, np.full(width, width**-0.5), stretch)
        return self.record(self.powers, sampled)

    def record(self, powers: dict[int, float], sampled: MapRecord | None) -> SeriesRecord:
        """The map of exact powers with these coefficients, features of the remainder, and zeros in unused width."""
        terms = []
        for degree, coefficient in powers.items():
            exact = None if degree == 0 else MonomialsRecord.of(self.n_features, None, degree)
            terms.append(SeriesTerm(np.array([[coefficient**0.5]]), exact))
        if sampled is not None:
            terms.append(SeriesTerm(np.ones((1, 1)), sampled))
        unused = self.n_components - sum(term.n_components for term in terms)
        if unused:
            terms.append(SeriesTerm(np.zeros((1, unused)), None))
        return SeriesRecord(self.n_features, "norm", None, None, None, tuple(terms), self.homogeneity)


def fitting_degrees(b: np.ndarray, n_features: int, n_components: int, degrees: Sequence[int]) -> tuple[int, ...]:
    """Those degrees, from the lowest on, that have room beside one feature for the remainder."""
    kept: list[int] = []
    width = 0
    for degree in sorted(set(degrees)):
        width += n_monomials(n_features, degree)
        sampled = remove_powers(b, n_features, (*kept, degree))[1].any()
        if width + bool(sampled) > n_components:
            break
        kept.append(degree)
    return tuple(kept)


def remove_powers(b: np.ndarray, n_features: int, degrees: Sequence[int]) -> tuple[dict[int, float], np.ndarray]:
    """The largest coefficients of powers, from the highest on, that leave no ``b_k`` negative; and the remainder."""
    remainder, powers = b.copy(), {}
    rounding = 1e-13 * b.sum()
    for degree in sorted(degrees, reverse=True):
        alone = np.zeros(degree + 2)
        alone[degree] = 1.0
        present = np.flatnonzero(power := powers_to_zonal(alone, n_features))
        c = 0.0 if present[-1] >= len(b) else float((remainder[present] / power[present]).min())
        if c > rounding:
            powers[degree] = c
            remainder[present] -= c * power[present]
            remainder[remainder < rounding] = 0.0
    return dict(sorted(powers.items())), remainder


def activation_values(g: np.ndarray, n_features: int, remainder: np.ndarray) -> np.ndarray:
    """``f(g) = sum_k (-1)^floor(k / 2) sqrt(b_k) p_k(g)``.

    The signs are those of a step's expansion. Any signs give the same mean; with these f stays small where projections
    are rare, and its square flat: the variance is all but the least, that of a constant square.
    """
    values = np.zeros_like(g)
    for k, p in enumerate(zonal_polynomials(g, n_features, len(remainder) - 1)):
        if remainder[k]:
            values += (-1) ** (k // 2) * remainder[k] ** 0.5 * p
    return values


def remainder_standard_deviation(remainder: np.ndarray, n_features: int, cosines: np.ndarray) -> float:
    """Standard deviation of a feature's product over random w, in the root mean square over pairs at these cosines.

    ``E[f(w.x)^2 f(w.y)^2] - r(a)^2``, the first from the coefficients of ``f^2``.
    """
    nodes, weights = zonal_rule(n_features)
    squares = activation_values(nodes, n_features, remainder) ** 2 * weights
    second = np.zeros_like(cosines)
    for p, function in zip(
        zonal_polynomials(nodes, n_features, _SQUARE_DEGREE),
        zonal_functions(cosines, n_features, _SQUARE_DEGREE),
        strict=True,
    ):
        second += (p @ squares) ** 2 * function
    mean = np.zeros_like(cosines)
    functions = zonal_functions(cosines, n_features, len(remainder) - 1)
    for coefficient, function in zip(remainder, functions, strict=True):
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
