"""Records of maps of power series: exact terms, sketched terms, and their sum."""

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

# Upper bound on degrees in model files.
_MOST_DEGREE = 1024


@dataclass(frozen=True)
class MonomialsRecord(MapRecord):
    """Exact features of ``<P u, P v>^j`` for rows u and v; P projects onto the span of a basis, or is the identity.

    Attributes
    ----------
    n_features : int
        Input width.
    basis : ndarray of shape (n_features, k) or None
        Orthonormal columns; None is the identity.
    degree : int
        The power j, at least 1.
    weights : ndarray of shape (n_components,)
        Square roots of the multinomial coefficients of the monomials, in lexicographic order of their sorted factors.
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
        """The map to all monomials of a degree in the coordinates of a basis."""
        n_coordinates = n_features if basis is None else basis.shape[1]
        chosen = np.array(list(combinations_with_replacement(range(n_coordinates), degree)))
        weights, run = np.ones(len(chosen)), np.ones(len(chosen))
        # `run` counts equal factors. The product of (place + 1) / run over all places is the multinomial coefficient.
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
    """Number of monomials of a degree."""
    return comb(n_coordinates + degree - 1, degree)


def _raise(ops: Ops, coordinates: Array, lower: Array, degree: int, out: Array, first: int) -> None:
    """Write all monomials of `degree` into `out`, from the monomials `lower` of degree - 1.

    In lexicographic order, the monomials whose first factor is coordinate i are coordinate i times the last monomials
    of `lower`, which contain only the coordinates i, i + 1, ...
    """
    k = coordinates.shape[1]
    for i in range(k):
        following = lower[:, lower.shape[1] - n_monomials(k - i, degree - 1) :]
        outer(ops, coordinates[:, i : i + 1], following, out, first)
        first += following.shape[1]


@dataclass(frozen=True)
class RemainderRecord(MapRecord):
    """Sketch of the remainder of the first or second power, outside the leading principal directions.

    For rows u and v, let P be the projection onto the span of the basis, ``r = u - P u`` and ``s = v - P v``. The
    remainders are ``<u, v> - <P u, P v> = <r, s>`` and ``<u, v>^2 - <P u, P v>^2 = <r, s> <u', v'>`` with
    ``u' = r + sqrt(2) P u``.

    Attributes
    ----------
    basis, transposed : ndarrays of shape (n_features, k) and (k, n_features)
        Orthonormal columns, and their transpose.
    sketch : SRHTRecord or TensorSRHTRecord
        Sketch of r for the first power, of ``r (x) u'`` for the second.
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
    """Features of a part of the series: polynomials of the position, times features of the orthogonal part.

    `SeriesRecord` defines the position and the orthogonal part of a row.

    Attributes
    ----------
    polynomials : ndarray of shape (n_powers, 1) or (n_powers, n_components)
        Coefficients of one polynomial for all features, or of a polynomial for each feature.
    orthogonal : MapRecord or None
        Map of the orthogonal parts; None is the constant 1, so that the features are the polynomials.
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
    """Features of a sum of terms ``g_j(a b) <u, v>^j``, times a weight of each of the rows x and y.

    The rows are ``x = a e + u`` and ``y = b e + v``, where e is a unit vector, and u and v are orthogonal to e. The
    number a is called the position of x.

    Attributes
    ----------
    n_features : int
        Input width.
    weight : {"one", "unit", "norm", "gaussian"}
        Weight of a row. ``"one"``: 1. ``"unit"``: 1, with rows divided by their norms. ``"norm"``: the norm to the
        power `power`, with rows divided by their norms. ``"gaussian"``: ``exp(-|x|^2 / 2)``.
    shift : ndarray of shape (n_features,) or None
        Vector that is subtracted from rows first; None is 0.
    scale : ndarray of shape (n_features,) or None
        Factors of the columns, applied after the shift.
    direction : ndarray of shape (n_features,) or None
        The unit vector e; None means a = 1 and u = x.
    terms : tuple of SeriesTerm
        The terms, with features side by side.
    power : int
        Power of the norm for ``weight="norm"``. With power 0 the weight is 1 for nonzero rows and 0 for zero rows.
    norms : NormFunctions or None
        Functions of the norm of a row; None is the constant 1. If they are given, the polynomials of the terms have a
        coefficient for each product of a power of the position (outer index) and a function of the norm (inner index).
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
        """Number of powers of the position."""
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
        """Return parts u (r, d) orthogonal to the direction, and weighted powers of the positions a along it."""
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
    """All products (r, p Q) of powers (r, p) and functions of the norms (r, Q).

    The products of one power are adjacent.
    """
    if of_norms is None:
        return powers
    out = ops.empty((powers.shape[0], powers.shape[1] * of_norms.shape[1]))
    outer(ops, powers, of_norms, out)
    return out
