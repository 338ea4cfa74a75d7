"""Landmarks of additive kernels, and of their products with each other and with product kernels.

Let k_j, l_j and g_j be values of one-dimensional kernels in column j. The sum of ``prod_{j in S} k_j`` over all subsets
S of q columns is the coefficient of ``s^q`` in ``prod_j (1 + s k_j)``. Multiply this sum by the same sum for l_j and
subsets of r columns, and by ``prod_j g_j``. The result is the coefficient of ``s^q u^r`` in
``prod_j g_j (1 + s k_j) (1 + u l_j)``. Each player contributes the polynomial of its own columns, and only powers up to
q and r are kept. All terms are positive, so no digits cancel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from math import comb, prod
from operator import add

import numpy as np

from phimap.explain.forms.base import Form, FormEffects, OfTile, Players, half_rule, over_blocks, term_blocks
from phimap.explain.forms.components import Component, of_column

# Polynomials are arrays (P, ...), whose first axis holds the coefficients of the P monomials of a `Monomials`.


class Monomials:
    """The monomials in several variables whose powers are at most `orders`, with the highest powers last.

    Parameters
    ----------
    orders : sequence of int
        Largest power of each variable.
    constant : bool
        Whether the difference of a player's polynomials at two rows has a constant term. If not, products with such a
        difference do not need the last monomial of the other players.
    """

    def __init__(self, orders: Sequence[int], *, constant: bool):
        powers = np.array(list(product(*(range(order + 1) for order in orders))))
        #: For each variable, the increase of a monomial's index if the monomial is multiplied by the variable.
        self.steps = [int(np.prod([order + 1 for order in orders[i + 1 :]])) for i in range(len(orders))]
        #: For each variable, the indices of the monomials that contain it, in descending order.
        self.with_power = [np.flatnonzero(powers[:, i])[::-1].tolist() for i in range(len(orders))]
        self.count, self.degree = len(powers), sum(orders)
        first = 0 if constant else 1
        #: Products of the other players need only the first `kept` monomials.
        self.kept = self.count - first
        # The index of a product of monomials is the sum of their indices.
        divides = (powers[:, None] <= powers).all(axis=2)
        self._pairs = [(a, b - a) for a, b in zip(*np.nonzero(divides), strict=True)]
        last = self.count - 1
        #: Indices of monomials whose product is the last monomial. `singles` has pairs: the monomial of one player's
        #: difference, and the monomial of the other players. `doubles` has triples, with the differences of two
        #: players.
        self.singles = [(a, last - a) for a in range(first, self.count)]
        self.doubles = [(a, b, last - a - b) for a, b in self._pairs if min(a, b) >= first]

    @property
    def n_products(self) -> int:
        """Number of multiplications in a product of two polynomials."""
        return len(self._pairs)

    def times(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """The product of two polynomials, cut off after the monomials of `one`."""
        result = np.zeros(np.broadcast_shapes(one.shape, other.shape))
        for a, b in self._pairs:
            if a + b < len(one):
                result[a + b] += one[a] * other[b]
        return result

    def without_one(self, polynomials: list[np.ndarray]) -> list[np.ndarray]:
        """For each polynomial, the product of all others."""
        if not polynomials:
            return []
        one = np.zeros_like(polynomials[0])
        one[0] = 1.0
        before, after = [one], [one]
        for polynomial in polynomials[:-1]:
            before.append(self.times(before[-1], polynomial))
        for polynomial in polynomials[:0:-1]:
            after.append(self.times(after[-1], polynomial))
        return [self.times(left, right) for left, right in zip(before, reversed(after), strict=True)]

    def single(self, difference: np.ndarray, others: np.ndarray) -> np.ndarray:
        """The last coefficient of the product of a player's difference and the other players' polynomials."""
        return sum(difference[a] * others[b] for a, b in self.singles)  # pyright: ignore[reportReturnType]

    def double(self, left: np.ndarray, right: np.ndarray, others: np.ndarray) -> np.ndarray:
        """The last coefficient of the product of two players' differences and the other players' polynomials."""
        result = np.zeros(np.broadcast_shapes(left.shape[1:], right.shape[1:], others.shape[1:]))
        for a, b, c in self.doubles:
            result += left[a] * right[b] * others[c]
        return result


class SymmetricForm(Form):
    """A sum over landmarks of products of elementary symmetric polynomials of one-dimensional kernels.

    Parameters
    ----------
    component : Component
        A component with subsets.
    landmarks, coefs, scale
        As for `LandmarkForm`.
    """

    def __init__(self, component: Component, landmarks: np.ndarray, coefs: np.ndarray, scale: np.ndarray | None = None):
        orders = [order for _, order in component.subsets]
        self._component = component
        self._monomials = Monomials(orders, constant=bool(component.kernels))
        self.n_terms = len(landmarks) * self._monomials.n_products
        self._landmarks, self._scale = landmarks, scale
        self._coefs = coefs * (component.weight / prod(comb(landmarks.shape[1], order) for order in orders))

    def outputs(self, rows: np.ndarray) -> np.ndarray:
        columns, result = [np.arange(rows.shape[1])], np.zeros((len(rows), self._coefs.shape[1]))
        for part in self._blocks(8 * self._monomials.count * len(rows)):
            result += self._polynomials(rows, columns, part)[-1, :, 0] @ self._coefs[part]
        return result

    def _sums(
        self, rows: np.ndarray, background: np.ndarray, players: Players, n_jobs: int | None, *, pairs: bool
    ) -> np.ndarray:
        of_row = self._pairs_of_row if pairs else self._of_row

        def of_block(part: slice) -> OfTile:
            table, coefs = self._polynomials(background, players, part), self._coefs[part]

            def of_tile(tile: slice) -> np.ndarray:
                own = self._polynomials(rows[tile], players, part)
                return np.stack([of_row(own[:, place, None], table) @ coefs for place in range(own.shape[1])])

            return of_tile

        bytes_of_term = 6 * 8 * self._monomials.count * len(background) * len(players)
        shape = len(rows), *[len(players)] * (1 + pairs), self._coefs.shape[1]
        return over_blocks(of_block, self._blocks(bytes_of_term), shape, n_jobs)

    def effects(self, levels: np.ndarray, players: Players, chosen: np.ndarray) -> FormEffects:
        bytes_of_term = 8 * self._monomials.count * (2 * len(levels) * len(players) + len(chosen))
        return reduce(add, (self._effects_of(levels, players, chosen, part) for part in self._blocks(bytes_of_term)))

    def _of_row(self, own: np.ndarray, table: np.ndarray) -> np.ndarray:
        """Sum the Shapley values (p, M) of one row over B background rows.

        `own` (P, 1, p, M) holds the polynomials of the row, and `table` (P, B, p, M) those of the background rows, for
        M landmarks.
        """
        monomials, p = self._monomials, table.shape[2]
        middle, half = 0.5 * (own + table), 0.5 * (own - table)
        result = np.zeros(table.shape[2:])
        for node, weight in zip(*half_rule(self._degree(p, 1)), strict=True):
            for t in (node, -node):
                mixed = (middle[: monomials.kept] + t * half[: monomials.kept]).transpose(2, 0, 1, 3)
                for j, others in enumerate(monomials.without_one(list(mixed))):
                    result[j] += weight * monomials.single(half[:, :, j], others).sum(axis=0)
        return result

    def _pairs_of_row(self, own: np.ndarray, table: np.ndarray) -> np.ndarray:
        """Sum the interaction indices (p, p, M) over the background, for one row. Arguments are as in `_of_row`."""
        monomials, p = self._monomials, table.shape[2]
        middle, half = 0.5 * (own + table), 0.5 * (own - table)
        result = np.zeros((p, p, table.shape[3]))
        for node, weight in zip(*half_rule(self._degree(p, 2)), strict=True):
            for t in (node, -node):
                mixed = (middle[: monomials.kept] + t * half[: monomials.kept]).transpose(2, 0, 1, 3)
                for j, k, others in _without_two(monomials, list(mixed)):
                    both = monomials.double(half[:, :, j], half[:, :, k], others)
                    result[j, k] += 2 * weight * both.sum(axis=0)
        return result

    def _effects_of(self, levels: np.ndarray, players: Players, chosen: np.ndarray, part: slice) -> FormEffects:
        monomials, p, coefs = self._monomials, len(players), self._coefs[part]
        table = self._polynomials(levels, players, part)
        means = table.mean(axis=1)
        centred = table - means[:, None]
        plain = list(means[: monomials.kept].transpose(1, 0, 2))
        first = np.stack(
            [
                monomials.single(centred[:, :, j], others[:, None]) @ coefs
                for j, others in enumerate(monomials.without_one(plain))
            ]
        )
        second = np.zeros((p, p, len(levels), len(levels), coefs.shape[1]))
        for j, k, others in _without_two(monomials, plain):
            if k > j:
                second[j, k] = monomials.double(centred[:, :, None, j], centred[:, None, :, k], others) @ coefs
        values = np.zeros((monomials.count, len(chosen), table.shape[3]))
        values[0] = 1.0
        for j in range(p):
            values = monomials.times(values, table[:, chosen[:, j], j])
        return FormEffects(first, second, values[-1] @ coefs)

    def _degree(self, n_players: int, n_differences: int) -> int:
        """Degree in t of the integrand; its one or two differences of polynomials do not depend on t."""
        if self._component.kernels:
            return max(n_players - n_differences, 0)
        return max(min(self._monomials.degree, n_players) - n_differences, 0)

    def _polynomials(self, rows: np.ndarray, players: Players, part: slice) -> np.ndarray:
        """Return the polynomial (P, n, p, M) of each player for the landmarks of a block."""
        scaled, landmarks = rows if self._scale is None else rows * self._scale, self._landmarks[part]
        monomials, kernels = self._monomials, self._component.kernels
        result = np.zeros((monomials.count, len(rows), len(players), len(landmarks)))
        result[0] = 1.0
        for place, columns in enumerate(players):
            for column in columns:
                if kernels:
                    result[:, :, place] *= of_column(kernels, scaled, landmarks, column)
                for variable, (base, _) in enumerate(self._component.subsets):
                    values = of_column(base, scaled, landmarks, column)
                    for a in monomials.with_power[variable]:
                        result[a, :, place] += values * result[a - monomials.steps[variable], :, place]
        return result

    def _blocks(self, bytes_of_term: int) -> list[slice]:
        return term_blocks(len(self._landmarks), bytes_of_term)


def _without_two(monomials: Monomials, polynomials: list[np.ndarray]) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield each pair of players with the product of all others; nothing if products of two differences vanish."""
    for j in range(len(polynomials) if monomials.doubles else 0):
        places = [k for k in range(len(polynomials)) if k != j]
        for k, others in zip(places, monomials.without_one([polynomials[k] for k in places]), strict=True):
            yield j, k, others
