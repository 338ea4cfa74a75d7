"""The choice of exact terms of a power series, and the widths of the sketches of all other terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import binom

from phimap.features.power_series.moments import RowMoments
from phimap.features.power_series.norms import NormSeries
from phimap.features.power_series.powers import unit_variance
from phimap.features.power_series.terms import n_monomials

# Maximum number of factors (see `_Allocator._factors`) with which an exact linear term is multiplied. The first factor
# dominates.
_MOST_FACTORS = 3
# A degree in `exact_degrees` is represented exactly, whatever its predicted error, if its monomials take at most
# 1 / _LARGE of all features.
_LARGE = 4
# Factors are dropped if their mean square over the sample is below this share of the sum of the coefficients.
_NEGLIGIBLE = 1e-7
# Numbers of leading directions that are tried.
_LEADING = (5, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 128)


@dataclass(frozen=True)
class Piece:
    """A part of the series that is sketched: ``sum_k p_k(a) p_k(b) <u, v>^degree``, or the remainder of this power.

    The remainder is the difference between this power and the same power within some leading directions, which is
    represented exactly. See `RowMoments` for the positions a, b and the orthogonal parts u, v of two rows.

    Attributes
    ----------
    degree : int
        The power of ``<u, v>``.
    polynomials : ndarray of shape (n_powers, n_factors)
        Coefficients of the p_k, one column for each k.
    leading : int
        Number of leading directions within which the power is exact; 0 if the whole power is sketched.
    standard_deviation : float
        Standard deviation of a sketch with one feature, as a root mean square over pairs of rows.
    """

    degree: int
    polynomials: np.ndarray
    leading: int
    standard_deviation: float


@dataclass(frozen=True)
class WidthOption:
    """One way to represent a degree, partly by exact features and partly by sketches.

    Attributes
    ----------
    degree : int
        The power of the inner product.
    exact : ndarray of shape (n_powers, n_factors)
        Polynomials of the position whose products with the power are exact; there may be no columns.
    leading : int
        Number of leading directions within which these products are exact; 0 means all coordinates.
    width : int
        Number of exact features.
    pieces : tuple of Piece
        The parts that are sketched.
    """

    degree: int
    exact: np.ndarray
    leading: int
    width: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Allocation:
    """One option for each degree, and the division of the width among the options.

    Attributes
    ----------
    moments : RowMoments
        Moments of the row sample, for one split of the rows.
    options : tuple of WidthOption
        One option for each degree from 0 upwards.
    n_components : int
        Width of the map.
    """

    moments: RowMoments
    options: tuple[WidthOption, ...]
    n_components: int

    @property
    def pieces(self) -> list[Piece]:
        return [piece for option in self.options for piece in option.pieces]

    @property
    def sketch_width(self) -> int:
        """Total number of features of the sketches."""
        return self.n_components - sum(option.width for option in self.options)

    def predicted_error(self) -> float:
        """Root mean square error of the kernel estimate over pairs of rows; infinite if the width is too small.

        Let s_i be the standard deviation of sketch i. Widths m_i proportional to the s_i minimise the variance ``sum
        s_i^2 / m_i``, and the minimum is ``(sum s_i)^2 / m``.
        """
        # Every piece gets at least two features, so that every part of the kernel is represented.
        if self.sketch_width < 2 * len(self.pieces):
            return np.inf
        return sum(piece.standard_deviation for piece in self.pieces) / max(self.sketch_width, 1) ** 0.5

    def sketch_widths(self) -> list[int]:
        """Widths of the sketches of the pieces: at least 2, otherwise proportional to the standard deviations."""
        pieces = self.pieces
        if not pieces:
            return []
        deviations = np.array([piece.standard_deviation for piece in pieces])
        if not deviations.any():
            deviations = np.ones(len(pieces))
        floored = np.zeros(len(pieces), dtype=bool)
        while True:
            shared = self.sketch_width - 2 * floored.sum()
            shares = np.where(floored, 2.0, shared * deviations / max(deviations[~floored].sum(), np.finfo(float).tiny))
            small = ~floored & (shares < 2)
            if not small.any():
                break
            floored |= small
        widths = np.floor(shares).astype(int)
        widths[np.argmax(widths)] += self.sketch_width - widths.sum()
        return widths.tolist()


def is_exact(degree: int, n_features: int, n_components: int, exact_degrees: Sequence[int]) -> bool:
    """Whether a degree is exact whatever its predicted error: degree 0, and small degrees among `exact_degrees`."""
    return degree == 0 or (degree in exact_degrees and _LARGE * n_monomials(n_features, degree) <= n_components)


def best_allocation(
    coefficients: np.ndarray,
    splits: list[RowMoments],
    n_components: int,
    method: str,
    exact_degrees: Sequence[int],
    norms: NormSeries | None = None,
) -> Allocation:
    """The allocation with the least predicted error, for a series with nonnegative `coefficients` (J + 1,).

    If the coefficients of the kernel are functions of the norms, `norms` gives these functions and `coefficients` are
    their means.
    """
    found = [
        _Allocator(coefficients, moments, method, exact_degrees, norms).allocate(n_components) for moments in splits
    ]
    return min(found, key=lambda allocation: allocation.predicted_error())


class _Allocator:
    """Chooses an option for each degree, for one split of the rows."""

    def __init__(
        self,
        coefficients: np.ndarray,
        moments: RowMoments,
        method: str,
        exact_degrees: Sequence[int],
        norms: NormSeries | None = None,
    ):
        self._coefficients, self._moments, self._norms = coefficients, moments, norms
        self._method, self._exact_degrees = method, exact_degrees
        self._cosines = moments.squared_cosines()

    def allocate(self, n_components: int) -> Allocation:
        """Optimise the option of each degree in turn, with all other options fixed, until no option changes."""
        options = [list(self._options(degree, n_components)) for degree in range(len(self._coefficients))]
        chosen = [min(of_degree, key=lambda option: option.width) for of_degree in options]
        while True:
            before = list(chosen)
            for degree, of_degree in enumerate(options):
                found = [
                    Allocation(self._moments, (*chosen[:degree], option, *chosen[degree + 1 :]), n_components)
                    for option in of_degree
                ]
                chosen = list(min(found, key=lambda allocation: allocation.predicted_error()).options)
            if all(one is other for one, other in zip(chosen, before, strict=True)):
                return Allocation(self._moments, tuple(chosen), n_components)

    def _options(self, degree: int, n_components: int) -> Iterator[WidthOption]:
        factors = self._factors(degree)
        n_factors, d = factors.shape[1], self._moments.n_features
        if degree == 0:
            yield WidthOption(0, factors, 0, n_factors, ())
            return
        width = n_monomials(d, degree)
        asked = degree in self._exact_degrees
        if n_factors and (asked or self._moments.known) and width <= n_components:
            for kept in range(1, min(n_factors, _MOST_FACTORS if degree == 1 else 1) + 1):
                sketched = self._sketched(degree, factors[:, kept:])
                yield WidthOption(degree, factors[:, :kept], 0, kept * width, sketched)
            if is_exact(degree, d, n_components, self._exact_degrees):
                return
        yield WidthOption(degree, factors[:, :0], 0, 0, self._sketched(degree, factors))
        if n_factors and degree <= 2:
            for k in _LEADING:
                width = n_monomials(k, degree)
                if k > self._moments.basis.shape[1] or k >= d or width > n_components:
                    break
                remainder = self._remainder(degree, factors[:, :1], k)
                sketched = (remainder, *self._sketched(degree, factors[:, 1:]))
                yield WidthOption(degree, factors[:, :1], k, width, sketched)

    def _factors(self, degree: int) -> np.ndarray:
        """Polynomials p_k (n_powers, n_factors) with ``sum_k p_k(a) p_k(b) = g_j(a b)`` for degree j, largest first.

        ``g_j(t) = sum_p c_p binom(p, j) t^(p - j)``. The monomials of g_j are evaluated at the sample's positions and
        rotated to their principal axes. Positions vary little, so nearly all of the norm is in the first factor.
        """
        if self._norms is not None:
            return self._factors_of_norms(self._norms, degree)
        if self._moments.direction is None:
            return np.full((1, 1 if self._coefficients[degree] > 0 else 0), self._coefficients[degree] ** 0.5)
        last = len(self._coefficients) - 1
        terms = [p for p in range(degree, last + 1) if self._coefficients[p] > 0]
        monomials = np.zeros((last + 1, len(terms)))
        for column, p in enumerate(terms):
            monomials[p - degree, column] = (self._coefficients[p] * binom(p, degree)) ** 0.5
        values = np.vander(self._moments.positions, last + 1, increasing=True) @ monomials
        return monomials @ np.linalg.svd(values, full_matrices=len(values) < len(terms))[2].T

    def _factors_of_norms(self, norms: NormSeries, degree: int) -> np.ndarray:
        """As `_factors`, if the c_p are functions of the norms: polynomials of the position times these functions."""
        split, n_functions = self._moments.direction is not None, norms.functions.n_functions
        last = len(self._coefficients) - 1
        blocks = []
        for p in range(degree, last + 1 if split else degree + 1):
            block = np.zeros((last + 1 if split else 1, n_functions, norms.factors[p].shape[1]))
            block[p - degree] = (self._coefficients[p] * binom(p, degree)) ** 0.5 * norms.factors[p]
            blocks.append(block.reshape(block.shape[0] * n_functions, block.shape[2]))
        products = np.concatenate(blocks, axis=1)
        values = self._values(products.shape[0]) @ products
        _, sizes, axes = np.linalg.svd(values, full_matrices=False)
        kept = np.square(sizes) > _NEGLIGIBLE * len(values) * self._coefficients.sum()
        return products @ axes[kept].T

    def _values(self, n_rows: int) -> np.ndarray:
        """Values (r, n_rows) of the basis of all factors at r sample rows.

        The `n_rows` basis functions are powers of the position, times functions of the norm if there are any.
        """
        positions = self._moments.positions
        if self._norms is None:
            return np.vander(positions, n_rows, increasing=True)
        functions = self._norms.values[self._moments.chosen]
        powers = np.vander(positions, n_rows // functions.shape[1], increasing=True)
        return (powers[:, :, None] * functions[:, None, :]).reshape(len(positions), n_rows)

    def _squared_factors(self, factors: np.ndarray) -> np.ndarray:
        """``(sum_k p_k(a) p_k(b))^2`` for the pairs of rows (r, r)."""
        values = self._values(factors.shape[0]) @ factors
        return np.square(values @ values.T)

    def _sketched(self, degree: int, factors: np.ndarray) -> tuple[Piece, ...]:
        """A piece that sketches the whole power times `factors`; empty if there are no factors."""
        if factors.shape[1] == 0:
            return ()
        variance = self._moments.squares**degree * unit_variance(self._method, degree, self._cosines)
        deviation = self._moments.standard_deviation(self._squared_factors(factors), variance)
        return (Piece(degree, factors, 0, deviation),)

    def _remainder(self, degree: int, factors: np.ndarray, k: int) -> Piece:
        """The piece that sketches the remainder of the power outside the k leading directions, times `factors`."""
        inside, outside = self._moments.split(k)
        length = outside * (outside + 2 * inside if degree == 2 else np.ones_like(outside))
        variance = np.multiply.outer(length, length)
        deviation = self._moments.standard_deviation(self._squared_factors(factors), variance)
        return Piece(degree, factors, k, deviation)
