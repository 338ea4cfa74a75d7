"""Random features of the remainder of a kernel after exact degrees: functions of the projections of unit rows.

The zonal polynomials p_k and P_k, and the coefficients b_k of a kernel, are defined in `phimap.kernels.zonal`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

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

# Number of intervals of a table of function values. Each oscillation of the polynomial of the highest degree covers
# several intervals.
_INTERVALS = 2**12
# Largest projection in a table. Projections of unit rows on directions of length sqrt(d) exceed it with a probability
# of about 1e-15.
_REACH = 8.0
# Highest degree in the expansion of the squared activation, from which the variance is computed. Higher degrees are
# negligible except for nearly parallel rows.
_SQUARE_DEGREE = 64
# Number of rows of the identity matrix that are projected at a time to compute the lengths of directions.
_ROWS = 256


@dataclass(frozen=True)
class TabulatedRecord(PointwiseRecord):
    """The map ``scale * f(g)`` of projections g of unit rows, with f linearly interpolated in a table.

    Attributes
    ----------
    projection : ProjectionRecord
        The directions.
    table : ndarray of shape (n_intervals + 1,)
        Values of f at evenly spaced points from ``-reach`` to ``reach``; outside this interval f is constant.
    reach : float
        Largest tabulated projection.
    scale : ndarray of shape (n_components,)
        Factors of the features.
    stretch : ndarray of shape (n_components,) or None
        Factors of the projections; None is 1.
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
    """A plan with some exact powers of the cosine, and an activation whose kernel is the remainder.

    Attributes
    ----------
    n_features, n_components : int
        Input and output width.
    homogeneity : int
        Degree of homogeneity of the kernel in each row.
    projection : str or Projection
        How directions are drawn.
    powers : dict
        Coefficients of the exact powers, by degree.
    remainder : ndarray
        Nonnegative coefficients ``b_k`` of the remainder in the P_k; all may be 0.
    error : float
        Predicted root mean square error of the estimate with independent directions; 0 if the cosines of the rows are
        not known.
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
        """Return the plan that represents the powers of `degrees` exactly, as far as they fit into the width.

        Given the `cosines` (k,) of pairs of rows, the error is predicted, and further powers are represented exactly if
        this lowers the predicted error.
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
        """Number of features for the remainder: the width minus the features of the exact powers."""
        return self.n_components - sum(n_monomials(self.n_features, degree) for degree in self.powers)

    @property
    def is_sampled(self) -> bool:
        """Whether the remainder is nonzero and there are features left for it."""
        return bool(self.sampled_width and self.remainder.any())

    def predicted_error(self) -> float:
        """Predicted error with independent directions, see `error`."""
        return self.error

    def draw(self, streams: dict[str, np.random.Generator]) -> SeriesRecord:
        """Draw the map with the generator ``streams["activation"]``."""
        if not self.is_sampled:
            return self.record(self.powers, None)
        d, width, even = self.n_features, self.sampled_width, not self.remainder[1::2].any()
        directions, stretch = draw_directions(d, width, self.projection, even, streams["activation"])
        reach = min(d**0.5, _REACH)
        table = _activation_table(self.remainder.tobytes(), d, reach).copy()
        sampled = TabulatedRecord(directions, table, reach, np.full(width, width**-0.5), stretch)
        return self.record(self.powers, sampled)

    def record(self, powers: dict[int, float], sampled: MapRecord | None) -> SeriesRecord:
        """The map of exact powers with the given coefficients, the features `sampled` of the remainder, and zeros."""
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
    """Return the lowest of `degrees` whose exact features fit into the width, next to one feature for the remainder."""
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
    """The largest coefficients of the powers for which no ``b_k`` becomes negative, and the remaining b_k.

    Coefficients are maximised from the highest degree down.
    """
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
    """The activation ``f(g) = sum_k (-1)^floor(k / 2) sqrt(b_k) p_k(g)``.

    The kernel is the same for any signs. The chosen signs are the signs in the expansion of a step function. With them,
    f is small where projections are rare, and f^2 is nearly constant. The variance is therefore close to its minimum,
    which a constant f^2 would reach.
    """
    values = np.zeros_like(g)
    for k, p in enumerate(zonal_polynomials(g, n_features, len(remainder) - 1)):
        if remainder[k]:
            values += (-1) ** (k // 2) * remainder[k] ** 0.5 * p
    return values


def remainder_standard_deviation(remainder: np.ndarray, n_features: int, cosines: np.ndarray) -> float:
    """Standard deviation of ``f(w.x) f(w.y)`` over random w, as a root mean square over pairs with these cosines.

    The variance at cosine a is ``E[f(w.x)^2 f(w.y)^2] - r(a)^2``, r the remainder kernel; the expectation is computed
    from the zonal coefficients of ``f^2``.
    """
    second = np.zeros_like(cosines)
    of_square = _square_coefficients(remainder.tobytes(), n_features)
    for coefficient, function in zip(of_square, zonal_functions(cosines, n_features, _SQUARE_DEGREE), strict=True):
        second += coefficient**2 * function
    mean = np.zeros_like(cosines)
    functions = zonal_functions(cosines, n_features, len(remainder) - 1)
    for coefficient, function in zip(remainder, functions, strict=True):
        mean += coefficient * function
    return float(np.sqrt(np.maximum(second - mean**2, 0.0).mean()))


# Both depend on the kernel, the number of columns and the exact degrees alone, so other seeds and rows find them here.
@lru_cache(maxsize=64)
def _square_coefficients(remainder: bytes, n_features: int) -> np.ndarray:
    """Coefficients of the squared activation in the zonal polynomials, for coefficients `remainder` in float64."""
    nodes, weights = zonal_rule(n_features)
    squares = activation_values(nodes, n_features, np.frombuffer(remainder)) ** 2 * weights
    return np.array([p @ squares for p in zonal_polynomials(nodes, n_features, _SQUARE_DEGREE)])


@lru_cache(maxsize=64)
def _activation_table(remainder: bytes, n_features: int, reach: float) -> np.ndarray:
    """Values of the activation at equal distances within `reach`, for coefficients `remainder` in float64."""
    return activation_values(np.linspace(-reach, reach, _INTERVALS + 1), n_features, np.frombuffer(remainder))


def draw_directions(
    n_features: int, width: int, projection: str | Projection, even: bool, rng: np.random.Generator
) -> tuple[ProjectionRecord, np.ndarray | None]:
    """Directions, and the factors that stretch them to length ``sqrt(d)``; None if no direction needs a factor.

    With `even` the features are even functions of the projections, so that w and -w are equivalent.
    """
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
    # If all nonzero entries of a structured direction fall on the padding, the direction is zero on the inputs. Such a
    # direction is not changed.
    stretch = np.sqrt(n_features / np.where(squares > 0, squares, n_features))
    return directions, None if np.allclose(stretch, 1.0, rtol=1e-12) else stretch
