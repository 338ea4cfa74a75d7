r"""Series of kernels that depend on the norms: powers of the cosine with factors that are functions of the norm.

A kernel of norms and angle is ``k(x, y) = (|x| |y|)^p sum_j M_j(|x|, |y|) cos^j``, with M_j a kernel of norms. Through
nodes r_1, ..., r_Q of the norm and their Lagrange polynomials l,

.. math:: M_j(r, s) \approx \sum_{a, b} l_a(r)\, M_j(r_a, r_b)\, l_b(s) = \sum_i g_{ji}(r)\, g_{ji}(s)

is positive semidefinite where the matrices of the M_j at the nodes are, and the ``g_ji`` are polynomials.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from phimap.kernels import RotationInvariantKernel
from phimap.kernels.expansion import fitted_coefficients, fitting_nodes, root_mean_square, semidefinite_fit
from phimap.kernels.geometry import row_norms
from phimap.ops import Array, Ops, host, single_threaded_blas
from phimap.records import Record, of_number

# Nodes of the norm: the first of these numbers at which interpolation errs by less than the tolerance, relative to the
# root of the kernel of both rows with themselves.
_NODES, _TOLERANCE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), 1e-4
_MOST_NODES = 64
# Norms that fits are judged at, of which some decide which powers serve, and the least share of a power that does.
_JUDGES, _SUPPORTS, _LEAST_COEFFICIENT = 20, 5, 1e-6
# Weight of the nodes of the norm beside the norms of the sample, so that others are not forgotten.
_ELSEWHERE = 0.1
# Norms and cosines that interpolation is tested at.
_TESTED, _COSINES = 9, np.array([-1.0, -0.5, 0.0, 0.5, 0.9, 1.0])
# Norms of rows to come are up to this many times those of the sample, and without one up to so many times the root of
# the number of features.
_MARGIN, _REACH = 1.1, 4.0
# Fits that are remembered, of a few megabytes each: maps of one data set differ in width or in seed.
_REMEMBERED = 4
# Factors below this share of the largest matrix's trace are rounding.
_ROUNDING = 1e-10


@dataclass(frozen=True)
class NormFunctions(Record):
    """Chebyshev polynomials of ``(r - c) / (r + c)`` for a norm r, scaled to an interval; beyond it they are constant.

    Attributes
    ----------
    centre : float
        The norm c.
    low, high : float
        The interval, within [-1, 1].
    n_functions : int
        Polynomials of the degrees 0, ..., Q - 1.
    """

    centre: float = field(metadata=of_number(above=0))
    low: float = field(metadata=of_number(least=-1, most=1))
    high: float = field(metadata=of_number(least=-1, most=1))
    n_functions: int = field(metadata=of_number(least=1, most=_MOST_NODES))

    def requirements(self):
        """The interval is not empty."""
        yield self.low < self.high, "an interval of norms"

    def columns(self, ops: Ops, norms: Array) -> Array:
        """The functions (r, Q) of norms (r,)."""
        places = (norms - self.centre) / (norms + self.centre)
        places = ((places - 0.5 * (self.low + self.high)) * (2.0 / (self.high - self.low))).clip(-1.0, 1.0)
        out = ops.empty((norms.shape[0], self.n_functions))
        out[:, 0] = 1.0
        if self.n_functions > 1:
            out[:, 1] = places
        for q in range(2, self.n_functions):
            out[:, q] = 2.0 * places * out[:, q - 1] - out[:, q - 2]
        return out

    def nodes(self) -> np.ndarray:
        """The norms (Q,) of Chebyshev's nodes."""
        places = np.cos(np.pi * (np.arange(self.n_functions) + 0.5) / self.n_functions)
        places = 0.5 * (self.low + self.high) + 0.5 * (self.high - self.low) * places
        return self.centre * (1.0 + places) / (1.0 - places)


@dataclass(frozen=True)
class NormSeries:
    """Coefficients of the powers of the cosine, and for each degree the functions of the norm that it comes with.

    Attributes
    ----------
    functions : NormFunctions
    coefficients : ndarray of shape (J + 1,)
        Means over the norms of the sample.
    factors : tuple of ndarray of shape (Q, n_factors)
        For each degree the g_ji in the functions, divided by the root of the coefficient; none where it is 0.
    values : ndarray of shape (n_rows, Q)
        The functions at the norms of rows of the sample, times what these rows weigh in errors.
    fit_error : float
        Root mean square, over pairs of norms and cosines, of what the series errs by.
    """

    functions: NormFunctions
    coefficients: np.ndarray
    factors: tuple[np.ndarray, ...]
    values: np.ndarray
    fit_error: float


class NormFit:
    """Fits of a kernel by powers of the cosine, over the norms of a sample."""

    @classmethod
    def of(
        cls, kernel: RotationInvariantKernel, n_features: int, rows: Any = None, cosines: np.ndarray | None = None
    ) -> NormFit:
        """The fit for rows of a sample, or for unknown ones: the same as before where kernel, norms and cosines are."""
        norms = None if rows is None else row_norms(rows)
        options = tuple(sorted(kernel.get_params(deep=False).items()))
        if not all(isinstance(value, str | int | float) for _, value in options):
            # A function may give other values in a second call.
            return cls(kernel, n_features, norms, cosines)
        known = (None if numbers is None else np.asarray(numbers, np.float64).tobytes() for numbers in (norms, cosines))
        return _fit_of(type(kernel), options, n_features, *known)

    def __init__(
        self,
        kernel: RotationInvariantKernel,
        n_features: int,
        norms: np.ndarray | None = None,
        cosines: np.ndarray | None = None,
    ):
        power = kernel.norm_power
        assert power is not None  # others have no such series
        self._kernel, self._power = kernel, power
        # Unknown norms: between 1, of rows that were divided by them, and the root of d, of standardised columns.
        known = norms is not None
        norms = norms if known else np.full(2, n_features**0.25)
        positive = norms[norms > 0]
        centre = float(np.sqrt(np.square(positive).mean())) if positive.size else 1.0
        low, high = (centre / _MARGIN, centre * _MARGIN) if known else (0.0, _REACH * centre**2)
        if known and positive.size:
            low, high = positive.min() / _MARGIN, positive.max() * _MARGIN
        if power == 0:
            # Such a kernel is not 0 at rows of zeros.
            low = 0.0
        ends = ((low - centre) / (low + centre), (high - centre) / (high + centre))
        # Errors count as they do in a kernel matrix, those of long rows more; where no norm is known they count alike.
        self._weight = power if known else 0
        self._judges = np.quantile(positive if positive.size else [centre], (np.arange(_JUDGES) + 0.5) / _JUDGES)
        if not known:
            places = ends[0] + (ends[1] - ends[0]) * (np.arange(_JUDGES) + 0.5) / _JUDGES
            self._judges = centre * (1.0 + places) / (1.0 - places)
        # Between the ends, where the kernel may have no value: at a norm of 0.
        tested = np.linspace(low, high, _TESTED + 2)[1:-1]
        for n_nodes in _NODES:
            self.functions = NormFunctions(centre, float(ends[0]), float(ends[1]), n_nodes)
            if self._interpolation_error(tested) < _TOLERANCE:
                break
        self._cosines, (self._places, self._weights) = cosines, fitting_nodes(cosines)
        self._at_nodes = _mirrored(self._at_pairs(self.functions.nodes(), self._places))
        self._at_judges = self._at_pairs(self._judges, self._places)
        self._values = self.functions.columns(host(), norms) * self._sizes(norms)[:, None]
        self._found: dict[int, NormSeries] = {}

    def of_degree(self, degree: int) -> NormSeries:
        """The series of powers up to a degree: those that serve some of the norms, with matrices fitted to all."""
        if degree not in self._found:
            self._found[degree] = self._fitted(degree)
        return self._found[degree]

    def _fitted(self, degree: int) -> NormSeries:
        nodes = self.functions.nodes()
        coefficients = np.zeros(degree + 1)
        first, second = np.triu_indices(len(self._judges))
        for own in self._at_judges[first == second][:: len(self._judges) // _SUPPORTS]:
            found = fitted_coefficients(lambda _, own=own: own, degree, self._cosines)
            coefficients = np.maximum(coefficients, found)
        powers = np.flatnonzero(coefficients > _LEAST_COEFFICIENT * coefficients.sum())
        to_nodes = np.linalg.inv(self.functions.columns(host(), nodes))
        metric = self._metric(self.functions.columns(host(), self._judges) @ to_nodes)
        values = np.einsum("ia,abk,jb->ijk", metric, self._at_nodes, metric, optimize=True)
        # Hundreds of small eigenproblems: threads would wait for each other most of the time.
        with single_threaded_blas():
            matrices = semidefinite_fit(self._places[:, None] ** powers, values, self._weights)
        back = to_nodes @ np.linalg.inv(metric)
        sizes, vectors = np.linalg.eigh(matrices)
        least = _ROUNDING * sizes.sum(axis=1).max(initial=0.0)
        factors = [np.zeros((len(nodes), 0))] * (degree + 1)
        for power, eigenvalues, axes in zip(powers, sizes, vectors, strict=True):
            kept = eigenvalues > least
            factors[power] = back @ (axes[:, kept] * np.sqrt(eigenvalues[kept]))
        columns = self.functions.columns(host(), self._judges)
        # The factors of a degree are divided by what it holds on average.
        shares = np.array([np.square(columns @ factor).sum(axis=1).mean() for factor in factors])
        factors = [factor / share**0.5 if share else factor for factor, share in zip(factors, shares, strict=True)]
        return NormSeries(self.functions, shares, tuple(factors), self._values, self._fit_error(shares, factors))

    def _metric(self, lagrange: np.ndarray) -> np.ndarray:
        """R (Q, Q) with ``|R E R^T|`` the size of an error E at the nodes, mostly at the norms of the sample.

        `lagrange` (r, Q) gives values at the judges from those at the nodes.
        """
        at_judges = lagrange * self._sizes(self._judges)[:, None] / len(lagrange) ** 0.5
        at_nodes = _ELSEWHERE * np.diag(self._sizes(self.functions.nodes())) / lagrange.shape[1] ** 0.5
        return np.linalg.qr(np.concatenate([at_judges, at_nodes]))[1]

    def _sizes(self, norms: np.ndarray) -> np.ndarray:
        """The weights (n,) of rows of these norms."""
        return (norms / self.functions.centre) ** self._weight

    def _at_pairs(self, norms: np.ndarray, cosines: np.ndarray) -> np.ndarray:
        """The kernel (n (n + 1) / 2, k) of pairs of norms (n,), row by row of the upper triangle, and cosines (k,).

        It is divided by the power of the norms.
        """
        first, second = np.triu_indices(norms.size)
        x, y = norms[first][:, None], norms[second][:, None]
        angle = np.broadcast_to(np.arccos(cosines), (first.size, cosines.size)).copy()
        values = self._kernel._of_polar(x, y, angle)
        return values / (x * y) ** self._power

    def _interpolation_error(self, norms: np.ndarray) -> float:
        nodes, ops = self.functions.nodes(), host()
        lagrange = self.functions.columns(ops, norms) @ np.linalg.inv(self.functions.columns(ops, nodes))
        exact, at_nodes = (_mirrored(self._at_pairs(places, _COSINES)) for places in (norms, nodes))
        found = np.einsum("ra,abk,sb->rsk", lagrange, at_nodes, lagrange, optimize=True)
        roots = np.sqrt(np.diagonal(exact[:, :, -1]))
        return float(np.abs((found - exact) / np.multiply.outer(roots, roots)[:, :, None]).max())

    def _fit_error(self, coefficients: np.ndarray, factors: list[np.ndarray]) -> float:
        sized = self.functions.columns(host(), self._judges) * self._sizes(self._judges)[:, None]
        first, second = np.triu_indices(len(self._judges))
        powers = np.flatnonzero(coefficients)
        values = [sized @ factors[power] for power in powers]
        matrices = np.array([(own @ own.T)[first, second] for own in values]).reshape(len(powers), first.size)
        weights = np.prod(self._sizes(self._judges)[np.array([first, second])], axis=0)
        error = self._at_judges * weights[:, None]
        error -= (matrices.T * coefficients[powers]) @ self._places ** powers[:, None]
        # Pairs of two judges count twice.
        counts = np.where(first == second, 1.0, 2.0) / len(self._judges) ** 2
        distances = np.sqrt(counts @ np.square(error, out=error))
        return root_mean_square(lambda _: distances, self._cosines)


@lru_cache(maxsize=_REMEMBERED)
def _fit_of(
    kernel: type[RotationInvariantKernel],
    options: tuple[tuple[str, Any], ...],
    n_features: int,
    norms: bytes | None,
    cosines: bytes | None,
) -> NormFit:
    """The fit of a kernel with such parameters, for norms and cosines in float64."""
    known = (None if numbers is None else np.frombuffer(numbers) for numbers in (norms, cosines))
    return NormFit(kernel(**dict(options)), n_features, *known)


def _mirrored(pairs: np.ndarray) -> np.ndarray:
    """Symmetric matrices (n, n, k) of the rows (n (n + 1) / 2, k) of their upper triangles."""
    n = int((2 * len(pairs)) ** 0.5)
    whole = np.empty((n, n, pairs.shape[1]))
    first, second = np.triu_indices(n)
    whole[first, second] = whole[second, first] = pairs
    return whole
