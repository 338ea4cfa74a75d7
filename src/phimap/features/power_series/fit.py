"""From a kernel and rows of data to a power series, and to the plan of its map."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from phimap._validation import check_choice, check_integer
from phimap.features.power_series.moments import Moments, spaced_rows
from phimap.features.power_series.plan import Plan, draw_terms, make_plan
from phimap.features.power_series.powers import METHODS
from phimap.features.power_series.terms import SeriesRecord
from phimap.kernels import DotProductKernel, Exponential, Gaussian, HomogeneousKernel, Kernel, Polynomial, Taylor
from phimap.kernels.expansion import checked_coefficients, fit_error, fitted_coefficients
from phimap.kernels.geometry import squared_norms, unit_rows
from phimap.ops import Array, ops_for, single_threaded_blas

# Degrees of the polynomial fitted to a function of the cosine. Few of its coefficients are not 0, whatever the degree.
_FITTED_DEGREES = (1, 2, 4, 8, 16, 32, 64)
# Share of the error that is left, at most, where twice the degree is worth it.
_GAIN = 0.95
# Degrees of an infinite series: until what is left is below this share of the largest row's kernel with itself.
_TRUNCATION, _MOST_DEGREE = 1e-3, 32
# Rows that moments are computed from at least, and numbers in the sample of rows at most.
_LEAST_SAMPLE, _SAMPLE_SIZE = 8, 2**23
# Rows are never written out where they are this many times as wide as the map, and at most one entry in so many is
# not zero.
_WIDE, _SPARSE = 8, 16


@dataclass(frozen=True)
class Preparation:
    """How a kernel becomes a power series of the inner products of prepared rows.

    Attributes
    ----------
    kernel : Kernel
    weight, shift, scale : see SeriesRecord
    """

    kernel: Kernel
    weight: str
    shift: np.ndarray | None
    scale: np.ndarray | None

    @classmethod
    def of(cls, kernel: Kernel, sample: Any, n_features: int) -> Preparation:
        """For a kernel, and a sample of the data, dense or CSR, where they may be used."""
        if isinstance(kernel, Gaussian):
            shift = None if sample is None or sparse.issparse(sample) else sample.mean(axis=0)
            return cls(kernel, "gaussian", shift, np.ones(n_features) * kernel._inverse_length_scale(n_features))
        if isinstance(kernel, HomogeneousKernel) and kernel.homogeneity == 1:
            return cls(kernel, "norm", None, None)
        if isinstance(kernel, DotProductKernel):
            return cls(kernel, "norm" if kernel.homogeneous else "one", None, None)
        raise TypeError(
            "`kernel` must be a dot-product kernel, Gaussian, or homogeneous of degree 1 in each row, got "
            f"{kernel!r}. Use FourierFeatures or NystroemFeatures for others."
        )

    def rows(self, sample: Any) -> Any:
        """Prepared rows (r, d), dense or CSR as the sample is."""
        if self.shift is not None:
            sample = sample - self.shift
        if self.scale is not None:
            sample = sample.multiply(self.scale).tocsr() if sparse.issparse(sample) else sample * self.scale
        return unit_rows(sample) if self.weight == "norm" else sample

    def coefficients(self, degree: int | None, rows: Any, n_features: int) -> np.ndarray:
        """Coefficients (J + 1,) of the series, up to a degree or up to one that suffices for these prepared rows."""
        kernel = Exponential() if isinstance(self.kernel, Gaussian) else self.kernel
        assert isinstance(kernel, DotProductKernel)  # others are fitted
        if degree is not None:
            return checked_coefficients(kernel, degree, n_features)
        if isinstance(kernel, Polynomial):
            return checked_coefficients(kernel, kernel.degree, n_features)
        if isinstance(kernel, Taylor):
            return checked_coefficients(kernel, np.size(kernel.coefficients) - 1, n_features)
        # Twice the degrees, so that what the last one leaves is seen.
        coefficients = checked_coefficients(kernel, 2 * _MOST_DEGREE, n_features)
        radius = 1.0 if rows is None else float(squared_norms(rows).max())
        with np.errstate(divide="ignore"):
            logarithms = np.log(coefficients) + np.arange(len(coefficients)) * np.log(radius or 1.0)
        sizes = np.exp(logarithms - logarithms.max())
        left = 1 - np.cumsum(sizes) / sizes.sum()
        last = int(np.argmax(left <= _TRUNCATION))
        if last > _MOST_DEGREE:
            warnings.warn(
                f"the power series of {self.kernel!r} leaves {left[_MOST_DEGREE]:.0%} of the largest row's kernel with "
                f"itself beyond degree {_MOST_DEGREE}. Raise its length scale, or use FourierFeatures.",
                stacklevel=5,
            )
        return coefficients[: min(last, _MOST_DEGREE) + 1]


@dataclass(frozen=True)
class SeriesPlan:
    """A prepared kernel, and the plan of its map.

    Attributes
    ----------
    n_features : int
    preparation : Preparation
    method : str
    plan : Plan
    error : float or None
        Predicted error of a fitted polynomial and of its sketches, relative to the kernel, over pairs of rows; None
        for other series. Infinite where the width has no room for the terms.
    size : float or None
        Root mean square of the kernel over these pairs.
    """

    n_features: int
    preparation: Preparation
    method: str
    plan: Plan
    error: float | None = None
    size: float | None = None

    @property
    def hashed(self) -> bool:
        """Whether rows are sparse and too wide to be written out: nothing is known of their directions."""
        return self.plan.moments.known and self.plan.moments.basis.shape[1] == 0

    def draw(self, rng: np.random.Generator) -> SeriesRecord:
        terms = draw_terms(self.plan, self.method, rng)
        prepared, direction = self.preparation, self.plan.moments.direction
        return SeriesRecord(self.n_features, prepared.weight, prepared.shift, prepared.scale, direction, terms)


def plan_series(
    kernel: Kernel,
    X: Array,
    n_components: int,
    *,
    method: str,
    degree: int | None,
    exact_degrees: tuple[int, ...],
    adaptive: bool,
) -> SeriesPlan:
    """Check the parameters, then plan the map of a kernel for data like `X` (n, d)."""
    check_choice("method", method, METHODS)
    if degree is not None:
        check_integer("degree", degree, least=1)
    for exact in exact_degrees:
        check_integer("exact_degrees", exact, least=0)
    d = X.shape[1]
    sample = _series_sample(X, n_components) if adaptive else None
    prepared = Preparation.of(kernel, sample, d)
    rows = None if sample is None or sample.shape[0] < _LEAST_SAMPLE else prepared.rows(sample)
    candidates = [Moments.unknown(d)] if rows is None else Moments.of_rows(rows)
    if not isinstance(kernel, HomogeneousKernel):
        coefficients = prepared.coefficients(degree, rows, d)
        plan = make_plan(coefficients, candidates, n_components, method, exact_degrees)
        return SeriesPlan(d, prepared, method, plan)
    cosines = None if rows is None else cosines_of(rows)
    best, least = None, np.inf
    for candidate in _FITTED_DEGREES if degree is None else (degree,):
        coefficients = fitted_coefficients(kernel.kappa, candidate, cosines)
        plan = make_plan(coefficients, candidates, n_components, method, exact_degrees)
        fit, size = fit_error(kernel.kappa, coefficients, cosines)
        error = float(np.hypot(fit, plan.error)) / size
        # A higher degree costs time: it has to pay.
        if best is not None and error >= _GAIN * least:
            break
        best, least = SeriesPlan(d, prepared, method, plan, error, size), error
    assert best is not None  # there is a degree
    return best


def draw_series(
    kernel: Kernel,
    X: Array,
    n_components: int,
    *,
    method: str,
    degree: int | None,
    exact_degrees: tuple[int, ...],
    adaptive: bool,
    rng: np.random.Generator,
) -> SeriesRecord:
    """Check the parameters, then draw the map of a kernel for data like `X` (n, d)."""
    options = {"method": method, "degree": degree, "exact_degrees": exact_degrees, "adaptive": adaptive}
    return plan_series(kernel, X, n_components, **options).draw(rng)


def unit_sample(X: Array) -> np.ndarray | None:
    """Evenly spaced rows of `X` (n, d) divided by their norms; None of too few rows to say much of those to come."""
    sample = _sample(X)
    return None if len(sample) < _LEAST_SAMPLE else unit_rows(sample)


def cosines_of(rows: Any) -> np.ndarray:
    """Of pairs of distinct unit rows, at most 256 of them."""
    chosen = rows[spaced_rows(rows.shape[0], 256)]
    # Threads would cost more than the product.
    with single_threaded_blas():
        products = chosen @ chosen.T
    products = products.toarray() if sparse.issparse(products) else products
    return products[np.triu_indices(len(products), 1)]


def _sample(X: Array) -> np.ndarray:
    """Evenly spaced rows of `X` (n, d), in float64 on the host."""
    ops = ops_for(X)
    return np.asarray(ops.to_host(ops.dense(_spaced(X))), dtype=np.float64)


def _series_sample(X: Array, n_components: int) -> Any:
    """What `_sample` gives, but CSR where rows are sparse and too wide to be written out.

    What counts is the values, not how they are given: the same rows get the same map.
    """
    ops = ops_for(X)
    if X.shape[1] > _WIDE * n_components:
        rows = _spaced(X)
        n_entries = rows.shape[0] * rows.shape[1]
        rows = rows if ops.is_sparse(rows) else ops.to_host(rows)
        rows = sparse.csr_array(rows, dtype=np.float64)
        if _SPARSE * rows.count_nonzero() <= n_entries:
            return rows
    return _sample(X)


def _spaced(X: Array) -> Array:
    return X[spaced_rows(X.shape[0], max(64, min(1024, _SAMPLE_SIZE // X.shape[1])))]
