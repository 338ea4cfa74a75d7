"""Random Maclaurin features as published. Each feature is a sketch of one power, whose degree is random."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from phimap.features.power_series.preparation import SeriesPreparation
from phimap.features.power_series.row_sample import RowSample
from phimap.features.power_series.terms import MonomialsRecord, SeriesRecord, SeriesTerm, n_monomials
from phimap.kernels import Kernel, RotationInvariantKernel
from phimap.kernels.expansion import fitted_coefficients
from phimap.ops import Array, Ops
from phimap.random_map import MapRecord
from phimap.records import of_floats, of_number
from phimap.sketches.signs import fair_factors

RANDOM_DEGREES = "random-maclaurin"
"""Name of this method in `DotProductFeatures`."""

# The probability of degree n is proportional to ``_BASE ** -(n + 1)``, as in the source.
_BASE = 2.0
# Default degree of a polynomial fitted to a function of the cosine, as in `NTKSketch`.
_FITTED_DEGREE = 8
# A degree is exact only if its monomials take at most 1 / _LARGE of all features.
_LARGE = 4


@dataclass(frozen=True)
class RandomDegreesRecord(MapRecord):
    """Products of projections onto independent random signs; the number of factors differs between features.

    Attributes
    ----------
    matrix : ndarray of shape (n_features, n_factors)
        The signs: first factors of all features, then second factors of the features that have one, and so on.
    counts : tuple of int
        Number of features with a first factor, with a second factor, and so on. Features are sorted by descending
        degree, so that these are always the first features.
    """

    matrix: np.ndarray = field(metadata=of_floats("d", "f"))
    counts: tuple[int, ...] = field(metadata=of_number(least=1))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield len(self.counts) > 0, "a factor"
        yield sum(self.counts) == self.matrix.shape[1], "as many factors as are counted"
        yield list(self.counts) == sorted(self.counts, reverse=True), "a factor before the next"

    @classmethod
    def draw(cls, n_features: int, degrees: np.ndarray, rng: np.random.Generator) -> RandomDegreesRecord:
        """Draw signs for features of `degrees` (m,), which are at least 1 and in descending order."""
        counts = tuple(int((degrees > factor).sum()) for factor in range(degrees[0]))
        return cls(fair_factors(rng, (sum(counts), n_features)).T.copy(), counts)

    @property
    def n_features(self) -> int:
        return self.matrix.shape[0]

    @property
    def n_components(self) -> int:
        return self.counts[0]

    @property
    def n_flops(self) -> int | None:
        return 2 * self.matrix.size

    @property
    def scratch_width(self) -> int:
        return self.n_features + self.matrix.shape[1]

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        projected = ops.matmul(X, self.matrix)
        start = self.counts[0]
        ops.copy(projected[:, :start], out, first)
        for count in self.counts[1:]:
            out[:, first : first + count] *= projected[:, start : start + count]
            start += count


def draw_random_degrees(
    kernel: Kernel,
    width: int,
    n_features: int,
    degree: int | None,
    exact_degrees: tuple[int, ...],
    sample: RowSample | None,
    rng: np.random.Generator,
) -> SeriesRecord:
    """Draw a map with `width` features: some degrees are exact, all other features have random degrees."""
    prepared = SeriesPreparation.of(kernel, n_features, sample)
    known = sample if sample is not None and sample.suffices else None
    if isinstance(kernel, RotationInvariantKernel):
        if not kernel.is_homogeneous:
            raise ValueError(
                "`method` must be another than 'random-maclaurin' for a kernel that is not homogeneous, got "
                f"{kernel!r}. Use method='polysketch'."
            )
        cosines = None if known is None else known.cosines
        coefficients = fitted_coefficients(kernel.kappa, degree or _FITTED_DEGREE, cosines)
    else:
        coefficients = prepared.coefficients(degree, None if known is None else prepared.rows(known), n_features)
    exact = [
        j
        for j in range(len(coefficients))
        if j in exact_degrees and coefficients[j] > 0 and _LARGE * n_monomials(n_features, j) <= width
    ]
    terms = [_exact_term(n_features, j, coefficients[j]) for j in exact]
    left = width - sum(term.n_components for term in terms)
    chances = np.where(coefficients > 0, _BASE ** -np.arange(1.0, len(coefficients) + 1), 0.0)
    chances[exact] = 0.0
    if not chances.any():
        # All terms of the series are exact, so the remaining features are zeros.
        terms.append(SeriesTerm(np.zeros((1, left)), None))
    else:
        terms += _random_terms(n_features, coefficients, chances / chances.sum(), left, rng)
    return SeriesRecord(n_features, prepared.weight, prepared.shift, prepared.scale, None, tuple(terms))


def _exact_term(n_features: int, degree: int, coefficient: float) -> SeriesTerm:
    monomials = MonomialsRecord.of(n_features, None, degree) if degree else None
    return SeriesTerm(np.full((1, 1), coefficient**0.5), monomials)


def _random_terms(
    n_features: int, coefficients: np.ndarray, chances: np.ndarray, width: int, rng: np.random.Generator
) -> Iterator[SeriesTerm]:
    """Features of degrees drawn with probabilities `chances`, weighted by the root of coefficient over probability."""
    degree_rng, sign_rng = rng.spawn(2)
    degrees = np.sort(degree_rng.choice(len(chances), width, p=chances))[::-1]
    weights = np.sqrt(coefficients[degrees] / (width * chances[degrees]))[None]
    n_powers = int((degrees > 0).sum())
    if n_powers:
        powers = RandomDegreesRecord.draw(n_features, degrees[:n_powers], sign_rng)
        yield SeriesTerm(weights[:, :n_powers], powers)
    if n_powers < width:
        yield SeriesTerm(weights[:, n_powers:], None)
