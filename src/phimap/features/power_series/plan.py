"""Which terms of a power series a map carries exactly, and how wide it sketches the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from scipy.special import binom

from phimap.features.power_series.moments import Moments
from phimap.features.power_series.powers import draw_powers, unit_variance
from phimap.features.power_series.terms import MonomialsRecord, RestRecord, SeriesTerm, n_monomials
from phimap.sketches import SRHT, TensorSRHT
from phimap.sketches.signs import fair_signs

# Factors of the position that the linear term is multiplied by exactly, at most: the first carries nearly all.
_MOST_FACTORS = 3
# Degrees asked for are exact whatever is predicted where a map is this many times as wide as they take.
_LARGE = 4
# Numbers of leading directions tried.
_LEADING = (5, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 128)


@dataclass(frozen=True)
class Piece:
    """What a sketch has to carry: ``sum_k p_k(a) p_k(b)`` times a power of the deviations, or times its rest.

    Attributes
    ----------
    degree : int
    polynomials : ndarray of shape (n_powers, n_factors)
        The p_k, a column each.
    leading : int
        Leading directions within which the power is carried exactly; 0 for the whole power.
    deviation : float
        Standard deviation of a sketch with a single feature, over pairs of rows.
    """

    degree: int
    polynomials: np.ndarray
    leading: int
    deviation: float


@dataclass(frozen=True)
class Option:
    """One way to carry a degree.

    Attributes
    ----------
    degree : int
    exact : ndarray of shape (n_powers, n_factors)
        Polynomials whose products with the power are exact; there may be none.
    leading : int
        Directions within which they are; 0 for all coordinates.
    width : int
        Exact features.
    pieces : tuple of Piece
        What is left.
    """

    degree: int
    exact: np.ndarray
    leading: int
    width: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Plan:
    """An option for each degree.

    Attributes
    ----------
    moments : Moments
    options : tuple of Option
    n_components : int
    """

    moments: Moments
    options: tuple[Option, ...]
    n_components: int

    @property
    def pieces(self) -> list[Piece]:
        return [piece for option in self.options for piece in option.pieces]

    @property
    def sketch_width(self) -> int:
        """Features left for sketches."""
        return self.n_components - sum(option.width for option in self.options)

    @property
    def error(self) -> float:
        """Predicted root mean square error of the kernel estimate over pairs of rows; infinite if it does not fit.

        Widths in proportion to the deviations s_i give the least variance ``sum s_i^2 / m_i``, ``(sum s_i)^2 / m``.
        """
        # Two features for each piece, so that no part of the kernel is left out.
        if self.sketch_width < 2 * len(self.pieces):
            return np.inf
        return sum(piece.deviation for piece in self.pieces) / max(self.sketch_width, 1) ** 0.5


def make_plan(
    coefficients: np.ndarray, candidates: list[Moments], n_components: int, method: str, exact_degrees: Sequence[int]
) -> Plan:
    """The plan of the least predicted error for a series with these coefficients (J + 1,), none negative."""
    plans = [_Planner(coefficients, moments, method, exact_degrees).plan(n_components) for moments in candidates]
    return min(plans, key=lambda plan: plan.error)


class _Planner:
    """The options for one split of the rows."""

    def __init__(self, coefficients: np.ndarray, moments: Moments, method: str, exact_degrees: Sequence[int]):
        self._coefficients, self._moments = coefficients, moments
        self._method, self._exact_degrees = method, exact_degrees
        self._cosines = moments.squared_cosines()

    def plan(self, n_components: int) -> Plan:
        """Choose degree by degree, given the choices for the others, until none changes."""
        options = [list(self._options(degree, n_components)) for degree in range(len(self._coefficients))]
        chosen = [min(of_degree, key=lambda option: option.width) for of_degree in options]
        while True:
            before = list(chosen)
            for degree, of_degree in enumerate(options):
                plans = [
                    Plan(self._moments, (*chosen[:degree], option, *chosen[degree + 1 :]), n_components)
                    for option in of_degree
                ]
                chosen = list(min(plans, key=lambda plan: plan.error).options)
            if all(one is other for one, other in zip(chosen, before, strict=True)):
                return Plan(self._moments, tuple(chosen), n_components)

    def _options(self, degree: int, n_components: int) -> Iterator[Option]:
        factors = self._factors(degree)
        n_factors, d = factors.shape[1], self._moments.n_features
        if degree == 0:
            yield Option(0, factors, 0, n_factors, ())
            return
        width = n_monomials(d, degree)
        asked = degree in self._exact_degrees
        if n_factors and (asked or self._moments.known) and width <= n_components:
            for kept in range(1, min(n_factors, _MOST_FACTORS if degree == 1 else 1) + 1):
                left = self._sketched(degree, factors[:, kept:])
                yield Option(degree, factors[:, :kept], 0, kept * width, left)
            if asked and _LARGE * width <= n_components:
                return
        yield Option(degree, factors[:, :0], 0, 0, self._sketched(degree, factors))
        if n_factors and degree <= 2:
            for k in _LEADING:
                width = n_monomials(k, degree)
                if k > self._moments.basis.shape[1] or k >= d or width > n_components:
                    break
                rest = Piece(degree, factors[:, :1], k, self._rest_deviation(degree, factors[:, :1], k))
                left = (rest, *self._sketched(degree, factors[:, 1:]))
                yield Option(degree, factors[:, :1], k, width, left)

    def _factors(self, degree: int) -> np.ndarray:
        """Polynomials p_k (n_powers, n_factors) with ``sum_k p_k(a) p_k(b) = g_j(a b)``, by size.

        ``g_j(t) = sum_p c_p binom(p, j) t^(p - j)`` is the series around ``t = a b``. Its monomials are rotated to
        the principal axes of their values at the positions, which vary little: the first factor has most of them.
        """
        if self._moments.direction is None:
            return np.full((1, 1 if self._coefficients[degree] > 0 else 0), self._coefficients[degree] ** 0.5)
        last = len(self._coefficients) - 1
        terms = [p for p in range(degree, last + 1) if self._coefficients[p] > 0]
        monomials = np.zeros((last + 1, len(terms)))
        for column, p in enumerate(terms):
            monomials[p - degree, column] = (self._coefficients[p] * binom(p, degree)) ** 0.5
        values = np.vander(self._moments.positions, last + 1, increasing=True) @ monomials
        return monomials @ np.linalg.svd(values, full_matrices=len(values) < len(terms))[2].T

    def _squared_factors(self, factors: np.ndarray) -> np.ndarray:
        """``(sum_k p_k(a) p_k(b))^2`` for the pairs of rows (r, r)."""
        values = np.vander(self._moments.positions, factors.shape[0], increasing=True) @ factors
        return np.square(values @ values.T)

    def _sketched(self, degree: int, factors: np.ndarray) -> tuple[Piece, ...]:
        """The power times factors, as a piece, if there are factors."""
        if factors.shape[1] == 0:
            return ()
        variance = self._moments.squares**degree * unit_variance(self._method, degree, self._cosines)
        return (Piece(degree, factors, 0, self._moments.deviation(self._squared_factors(factors), variance)),)

    def _rest_deviation(self, degree: int, factors: np.ndarray, k: int) -> float:
        inside, rest = self._moments.split(k)
        second = rest + 2 * inside if degree == 2 else np.ones_like(rest)
        return self._moments.deviation(self._squared_factors(factors), np.multiply.outer(rest * second, rest * second))


def draw_terms(plan: Plan, method: str, rng: np.random.Generator) -> tuple[SeriesTerm, ...]:
    """Draw the terms of a map by a plan, as many features in all as the plan has."""
    if not np.isfinite(plan.error):
        return _scattered_terms(plan, method, rng)
    rest_rng, power_rng = rng.spawn(2)
    moments = plan.moments
    terms = [term for option in plan.options for term in _exact_terms(option, moments)]
    drawn = list(zip(plan.pieces, _proportional_widths(plan), strict=True))
    for piece, width in drawn:
        if piece.leading:
            basis = np.ascontiguousarray(moments.basis[:, : piece.leading])
            terms.append(SeriesTerm(piece.polynomials, _draw_rest(basis, piece.degree, width, rest_rng)))
    terms += _power_terms(
        [(piece, width, width) for piece, width in drawn if not piece.leading], plan, method, power_rng
    )
    unused = plan.n_components - sum(term.n_components for term in terms)
    if unused:
        terms.append(SeriesTerm(np.zeros((plan.options[0].exact.shape[0], unused)), None))
    return tuple(terms)


def _exact_terms(option: Option, moments: Moments) -> Iterator[SeriesTerm]:
    if not option.width:
        return
    if option.degree == 0:
        yield SeriesTerm(option.exact, None)
        return
    basis = np.ascontiguousarray(moments.basis[:, : option.leading]) if option.leading else None
    features = monomials(moments.n_features, basis, option.degree)
    for factor in option.exact.T:
        yield SeriesTerm(factor[:, None], features)


def monomials(n_features: int, basis: np.ndarray | None, degree: int) -> MonomialsRecord:
    """All monomials of a degree in the coordinates of a basis, with the roots of their multinomial coefficients."""
    n_coordinates = n_features if basis is None else basis.shape[1]
    chosen = np.array(list(combinations_with_replacement(range(n_coordinates), degree)))
    weights, run = np.ones(len(chosen)), np.ones(len(chosen))
    # A factor's place within its run of equal ones: the product over places is the factorial of the run's length.
    for place in range(1, degree):
        run = np.where(chosen[:, place] == chosen[:, place - 1], run + 1, 1.0)
        weights *= (place + 1) / run
    return MonomialsRecord(n_features, basis, degree, np.sqrt(weights))


def _draw_rest(basis: np.ndarray, degree: int, width: int, rng: np.random.Generator) -> RestRecord:
    d = basis.shape[0]
    child = rng.spawn(1)[0]
    sketch = SRHT(width).sample(d, child) if degree == 1 else TensorSRHT(width).sample_product((d, d), child)
    return RestRecord(basis, np.ascontiguousarray(basis.T), sketch)


def _power_terms(
    drawn: list[tuple[Piece, int, float]], plan: Plan, method: str, rng: np.random.Generator
) -> list[SeriesTerm]:
    """Sketches of whole powers: of each piece its width, and the width that it would have on average."""
    if not drawn:
        return []
    sketch_rng, sign_rng = rng.spawn(2)
    polynomials = []
    for piece, width, share in drawn:
        # Random signs between the factors, a set for each feature: what they mix has mean zero.
        signs = fair_signs(sign_rng, (piece.polynomials.shape[1], width))
        polynomials.append(piece.polynomials @ signs * (width / share) ** 0.5)
    degrees, widths = [piece.degree for piece, _, _ in drawn], [width for _, width, _ in drawn]
    squared_cosine = float(plan.moments.squared_cosines().mean())
    deviation = draw_powers(method, plan.moments.n_features, degrees, widths, squared_cosine, sketch_rng)
    return [SeriesTerm(np.concatenate(polynomials, axis=1), deviation)]


def _proportional_widths(plan: Plan) -> list[int]:
    """Widths of the pieces, at least 2, else in proportion to their deviations."""
    pieces = plan.pieces
    if not pieces:
        return []
    deviations = np.array([piece.deviation for piece in pieces])
    if not deviations.any():
        deviations = np.ones(len(pieces))
    widths = np.zeros(len(pieces), dtype=int)
    floored = np.zeros(len(pieces), dtype=bool)
    while True:
        left = plan.sketch_width - 2 * floored.sum()
        shares = np.where(floored, 2.0, left * deviations / max(deviations[~floored].sum(), np.finfo(float).tiny))
        small = ~floored & (shares < 2)
        if not small.any():
            break
        floored |= small
    widths = np.floor(shares).astype(int)
    widths[np.argmax(widths)] += plan.sketch_width - widths.sum()
    return widths.tolist()


def _scattered_terms(plan: Plan, method: str, rng: np.random.Generator) -> tuple[SeriesTerm, ...]:
    """Terms where there are fewer features than parts: chance decides which get them, and the mean stays the kernel.

    By systematic sampling a part with a share q < 1 of a feature gets one with probability q, and weighs ``1 / q``.
    """
    shift_rng, power_rng = rng.spawn(2)
    pieces = [Piece(0, plan.options[0].exact, 0, float(np.square(plan.options[0].exact).sum())), *plan.pieces]
    pieces = [piece for piece in pieces if piece.polynomials.shape[1]]
    deviations = np.array([piece.deviation for piece in pieces])
    # No part may have the probability 0, whatever the sample of rows says of it.
    deviations += max(deviations.mean(), 1.0) / 64
    shares = plan.n_components * deviations / deviations.sum()
    ends = np.floor(np.cumsum(shares) + shift_rng.random()).astype(int)
    ends[-1] = plan.n_components
    drawn = [
        (piece, width, width if share >= 1 else share)
        for piece, width, share in zip(pieces, np.diff(ends, prepend=0).tolist(), shares, strict=True)
        if width
    ]
    constant = [
        SeriesTerm(np.repeat(piece.polynomials, width, axis=1) * share**-0.5, None)
        for piece, width, share in drawn
        if piece.degree == 0
    ]
    return (*constant, *_power_terms([part for part in drawn if part[0].degree], plan, method, power_rng))
