"""Maps of kernels with a power series: some terms of it carried exactly, the others by sketches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from math import comb

import numpy as np

from phimap.features.power_series.norms import NormFunctions
from phimap.ops import Array, Ops
from phimap.ops.primitives.outer import outer
from phimap.random_map import MapRecord
from phimap.records import Record, of_floats, of_number, one_of, with_lengths
from phimap.sketches import SRHT, TensorSRHT
from phimap.sketches.srht import SRHTRecord, TensorSRHTRecord

# No series has more degrees, and no map more factors of a monomial.
_MOST_DEGREE = 1024


@dataclass(frozen=True)
class MonomialsRecord(MapRecord):
    """Exact features of ``<P u, P v>^j``, with P the projection onto the span of a basis or the identity.

    Attributes
    ----------
    n_features : int
    basis : ndarray of shape (n_features, k) or None
        Orthonormal columns; None is the identity.
    degree : int
        The power j, at least 1.
    weights : ndarray of shape (n_components,)
        Roots of the multinomial coefficients of the monomials, in lexicographic order of their sorted factors.
    """

    n_features: int = field(metadata=of_number(length="d"))
    basis: np.ndarray | None = field(metadata=of_floats("d", "k"))
    degree: int = field(metadata=of_number(least=1, most=_MOST_DEGREE))
    weights: np.ndarray = field(metadata=of_floats("m"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        n_coordinates = self.n_features if self.basis is None else self.basis.shape[1]
        yield self.n_components == n_monomials(n_coordinates, self.degree), "a weight for each monomial"

    @classmethod
    def of(cls, n_features: int, basis: np.ndarray | None, degree: int) -> MonomialsRecord:
        """All monomials of a degree in the coordinates of a basis, with the roots of their multinomial coefficients."""
        n_coordinates = n_features if basis is None else basis.shape[1]
        chosen = np.array(list(combinations_with_replacement(range(n_coordinates), degree)))
        weights, run = np.ones(len(chosen)), np.ones(len(chosen))
        # A factor's place within its run of equal ones: the product over places is the factorial of the run's length.
        for place in range(1, degree):
            run = np.where(chosen[:, place] == chosen[:, place - 1], run + 1, 1.0)
            weights *= (place + 1) / run
        return cls(n_features, basis, degree, np.sqrt(weights))

    @property
    def n_components(self) -> int:
        return self.weights.shape[0]

    @property
    def scratch_width(self) -> int:
        return 2 * self.n_features + 2 * self.n_components

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        coordinates = X if self.basis is None else ops.matmul(X, self.basis)
        if self.degree == 1:
            ops.copy(coordinates, out, first)
            return
        lower = coordinates = ops.dense(coordinates)
        for degree in range(2, self.degree):
            higher = ops.empty((X.shape[0], n_monomials(coordinates.shape[1], degree)))
            _raise(ops, coordinates, lower, degree, higher, 0)
            lower = higher
        _raise(ops, coordinates, lower, self.degree, out, first)
        product = out[:, first : first + self.n_components]
        product *= self.weights


def n_monomials(n_coordinates: int, degree: int) -> int:
    """How many monomials have that degree."""
    return comb(n_coordinates + degree - 1, degree)


def _raise(ops: Ops, coordinates: Array, lower: Array, degree: int, out: Array, first: int) -> None:
    """Write all monomials of a degree, from those of the degree before.

    In lexicographic order, those whose first factor is coordinate i are i times the last ones of the degree before:
    all of the coordinates from i on.
    """
    k = coordinates.shape[1]
    for i in range(k):
        following = lower[:, lower.shape[1] - n_monomials(k - i, degree - 1) :]
        outer(ops, coordinates[:, i : i + 1], following, out, first)
        first += following.shape[1]


@dataclass(frozen=True)
class RemainderRecord(MapRecord):
    """Sketch of the remainder of the first or second power, beyond the leading principal coordinates.

    With P the projection onto the span of the basis and r = u - P u, ``<u, v> - <P u, P v> = <r, s>`` and
    ``<u, v>^2 - <P u, P v>^2 = <r, s> <u', v'>`` with ``u' = r + sqrt(2) P u``.

    Attributes
    ----------
    basis, transposed : ndarrays of shape (n_features, k) and (k, n_features)
    sketch : SRHTRecord or TensorSRHTRecord
        Of r for the first power; of ``r (x) u'`` for the second.
    """

    basis: np.ndarray = field(metadata=of_floats("d", "k"))
    transposed: np.ndarray = field(metadata=of_floats("k", "d"))
    sketch: SRHTRecord | TensorSRHTRecord = field(metadata=with_lengths(n_features="d"))

    @classmethod
    def draw(cls, basis: np.ndarray, degree: int, n_components: int, rng: np.random.Generator) -> RemainderRecord:
        d = basis.shape[0]
        child = rng.spawn(1)[0]
        sketch = (
            SRHT(n_components).sample(d, child)
            if degree == 1
            else TensorSRHT(n_components).sample_product((d, d), child)
        )
        return cls(basis, np.ascontiguousarray(basis.T), sketch)

    @property
    def n_features(self) -> int:
        return self.basis.shape[0]

    @property
    def n_components(self) -> int:
        return self.sketch.n_components

    @property
    def scratch_width(self) -> int:
        return 3 * self.n_features + self.sketch.scratch_width

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        X = ops.dense(X)
        within = ops.matmul(ops.matmul(X, self.basis), self.transposed)
        remainder = X - within
        if isinstance(self.sketch, SRHTRecord):
            self.sketch.apply(ops, remainder, out, first)
        else:
            self.sketch.write_product(ops, remainder, remainder + 2**0.5 * within, out, first)


@dataclass(frozen=True)
class SeriesTerm(Record):
    """Features of one part of the series: polynomials of the position times features of the orthogonal part.

    Attributes
    ----------
    polynomials : ndarray of shape (n_powers, 1) or (n_powers, n_components)
        Of all features, or of each.
    orthogonal : MapRecord or None
        Applied to the orthogonal parts; None is the constant 1, whose features are the polynomials.
    """

    polynomials: np.ndarray = field(metadata=of_floats("q", "m"))
    orthogonal: MapRecord | None

    def requirements(self) -> Iterator[tuple[bool, str]]:
        widths = (1, self.n_components)
        yield (
            self.orthogonal is None or self.polynomials.shape[1] in widths,
            "a polynomial for all features or for each",
        )

    @property
    def n_components(self) -> int:
        return self.polynomials.shape[1] if self.orthogonal is None else self.orthogonal.n_components


@dataclass(frozen=True)
class SeriesRecord(MapRecord):
    """A sum of terms ``g_j(a b) <u, v>^j`` of rows ``x = a e + u``, times a weight of each row.

    Attributes
    ----------
    n_features : int
    weight : {"one", "unit", "norm", "gaussian"}
        1; 1, or a power of the norm, with rows divided by it first; ``exp(-|x|^2 / 2)``.
    shift : ndarray of shape (n_features,) or None
        Subtracted from rows before anything else.
    scale : ndarray of shape (n_features,) or None
        Multiplies rows, column by column, next.
    direction : ndarray of shape (n_features,) or None
        The unit vector e; without it a = 1 and u = x.
    terms : tuple of SeriesTerm
    power : int
        Of the norm; 0 is 1 for all rows but zeros.
    norms : NormFunctions or None
        Functions of the norm that multiply all powers of the position, in the order of their products; None is 1.
    """

    n_features: int = field(metadata=of_number(length="d"))
    weight: str = field(metadata=one_of("one", "unit", "norm", "gaussian"))
    shift: np.ndarray | None = field(metadata=of_floats("d"))
    scale: np.ndarray | None = field(metadata=of_floats("d"))
    direction: np.ndarray | None = field(metadata=of_floats("d"))
    terms: tuple[SeriesTerm, ...]
    power: int = field(default=1, metadata=of_number(least=0, most=_MOST_DEGREE))
    norms: NormFunctions | None = None

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield len(self.terms) > 0, "a term"
        yield len({term.polynomials.shape[0] for term in self.terms}) == 1, "as many powers in all terms"
        yield self.norms is None or self.weight in ("unit", "norm"), "rows that its norms are divided by"
        yield self.terms[0].polynomials.shape[0] % self._n_functions == 0, "all functions of the norm for each power"
        yield self.direction is not None or self._n_powers == 1, "a direction for its powers"
        parts = [term.orthogonal for term in self.terms if term.orthogonal is not None]
        yield all(part.n_features == self.n_features for part in parts), "terms of its inputs"

    @property
    def n_components(self) -> int:
        return sum(term.n_components for term in self.terms)

    @property
    def scratch_width(self) -> int:
        widest = max((term.orthogonal.scratch_width for term in self.terms if term.orthogonal is not None), default=0)
        factors = 0 if self.norms is None else 2 * self.terms[0].polynomials.shape[0]
        return 2 * self.n_features + widest + factors

    @property
    def _n_functions(self) -> int:
        return 1 if self.norms is None else self.norms.n_functions

    @property
    def _n_powers(self) -> int:
        """Powers of the position."""
        return self.terms[0].polynomials.shape[0] // self._n_functions

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        orthogonal, powers = self._split(ops, X)
        for term in self.terms:
            factors = ops.matmul(powers, term.polynomials)
            if term.orthogonal is None:
                ops.copy(factors, out, first)
            else:
                term.orthogonal.apply(ops, orthogonal, out, first)
                out[:, first : first + term.n_components] *= factors
            first += term.n_components

    def _split(self, ops: Ops, X: Array) -> tuple[Array, Array]:
        """Orthogonal parts u (r, d), and powers of the positions a, each times the row's weight and its functions."""
        if self.shift is not None:
            X = ops.dense(X) - self.shift
        if self.scale is not None:
            X = ops.scale_columns(X, self.scale)
        n_powers, of_norms = self._n_powers, None
        powers = ops.empty((X.shape[0], n_powers))
        powers[:, 0] = 1.0
        if self.weight in ("norm", "unit"):
            norms = ops.row_norms(X)
            X = ops.scale_rows(X, ops.reciprocal(norms))
            if self.weight == "norm":
                powers[:, 0] = norms**self.power if self.power else norms * ops.reciprocal(norms)
            if self.norms is not None:
                of_norms = self.norms.columns(ops, norms)
        elif self.weight == "gaussian":
            powers[:, 0] = ops.exp(-0.5 * ops.row_norms(X) ** 2)
        if self.direction is None:
            return X, _times_functions(ops, powers, of_norms)
        positions = ops.matmul(X, self.direction[:, None])
        for k in range(1, n_powers):
            powers[:, k] = powers[:, k - 1] * positions[:, 0]
        return ops.dense(X) - positions * self.direction, _times_functions(ops, powers, of_norms)


def _times_functions(ops: Ops, powers: Array, of_norms: Array | None) -> Array:
    """Powers (r, p) times functions of the norms (r, Q): all products, those of a power side by side."""
    if of_norms is None:
        return powers
    out = ops.empty((powers.shape[0], powers.shape[1] * of_norms.shape[1]))
    outer(ops, powers, of_norms, out)
    return out
