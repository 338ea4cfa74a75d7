r"""Series of kernels that depend on norms and angle: powers of the cosine times functions of the norms.

Such a kernel is ``k(x, y) = (|x| |y|)^p sum_j M_j(|x|, |y|) cos^j``, where each M_j is a kernel of the two norms. It is
interpolated between nodes r_1, ..., r_Q of the norm with Lagrange polynomials l:

.. math:: M_j(r, s) \approx \sum_{a, b} l_a(r)\, M_j(r_a, r_b)\, l_b(s) = \sum_i g_{ji}(r)\, g_{ji}(s)

The interpolant is positive semidefinite if the matrices of the M_j at the nodes are, and the ``g_ji`` are polynomials.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from phimap.kernels import RotationInvariantKernel
from phimap.kernels.expansion import fitting_nodes, nonnegative_fit, root_mean_square, semidefinite_fit
from phimap.kernels.geometry import row_norms
from phimap.ops import Array, Ops, host, single_threaded_blas
from phimap.records import Record, of_number

# Numbers of norms at which functions of the norm are interpolated. They are tried in this order, until the error of the
# interpolation is below the tolerance. The error is relative to ``sqrt(k(x, x) k(y, y))``.
_NODES, _TOLERANCE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), 1e-4
# Upper bound on the number of functions of the norm in model files.
_MOST_NODES = 64
# The error of the fit is measured at `_TEST_NORMS` norms, and powers of the cosine are selected at `_SUPPORTS` of them.
# A power is selected if its coefficient is more than `_LEAST_COEFFICIENT` times the sum of all coefficients.
_TEST_NORMS, _SUPPORTS, _LEAST_COEFFICIENT = 20, 5, 1e-6
# Weight of errors at the nodes relative to errors at the sample's norms, so that the fit covers the whole interval.
_ELSEWHERE = 0.1
# Number of norms at which the interpolation error is measured, and the cosines at which it is measured.
_TESTED, _COSINES = 9, np.array([-1.0, -0.5, 0.0, 0.5, 0.9, 1.0])
# Largest number of rows in the kernel matrix for which error and noise are balanced. It is also the number of rows that
# is assumed if the data are unknown.
_MOST_ROWS = 500
# The assumed largest norm of new rows is `_MARGIN` times the largest norm of the sample. Without a sample it is
# `_REACH` times sqrt(d), for d columns.
_MARGIN, _REACH = 1.1, 4.0
# Number of cached fits of a few megabytes each. Maps on the same data that differ in width or seed share one fit.
_REMEMBERED = 4
# Eigenvalues below this share of the largest matrix's trace are rounding errors.
_ROUNDING = 1e-10


@dataclass(frozen=True)
class NormFunctions(Record):
    """Chebyshev polynomials of ``(r - c) / (r + c)`` for a norm r, on an interval. Outside, the functions are constant.

    Attributes
    ----------
    centre : float
        The norm c.
    low, high : float
        Ends of the interval of ``(r - c) / (r + c)``, within [-1, 1].
    n_functions : int
        Number Q of polynomials, of degrees 0, ..., Q - 1.
    """

    centre: float = field(metadata=of_number(above=0))
    low: float = field(metadata=of_number(least=-1, most=1))
    high: float = field(metadata=of_number(least=-1, most=1))
    n_functions: int = field(metadata=of_number(least=1, most=_MOST_NODES))

    def requirements(self):
        """Conditions on a record read from a file, see `Record.requirements`."""
        yield self.low < self.high, "an interval of norms"

    def columns(self, ops: Ops, norms: Array) -> Array:
        """Values (r, Q) of the functions at norms (r,)."""
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
        """The norms (Q,) at the Chebyshev nodes."""
        places = np.cos(np.pi * (np.arange(self.n_functions) + 0.5) / self.n_functions)
        places = 0.5 * (self.low + self.high) + 0.5 * (self.high - self.low) * places
        return self.centre * (1.0 + places) / (1.0 - places)


@dataclass(frozen=True)
class NormSeries:
    """A fitted series: coefficients of the powers of the cosine, and the functions of the norm that multiply them.

    Attributes
    ----------
    functions : NormFunctions
        Basis of the functions of the norm.
    coefficients : ndarray of shape (J + 1,)
        Mean coefficient of each power over the norms of the sample.
    factors : tuple of ndarray of shape (Q, n_factors)
        For each degree the g_ji in the basis `functions`, divided by the root of the coefficient; no columns if the
        coefficient is 0.
    values : ndarray of shape (n_rows, Q)
        Values of the basis at the norms of the sample rows, times the weights of these rows in errors.
    fit_error : float
        Root mean square error of the series over pairs of norms and cosines.
    """

    functions: NormFunctions
    coefficients: np.ndarray
    factors: tuple[np.ndarray, ...]
    values: np.ndarray
    fit_error: float


class NormFit:
    """Fits of a kernel by powers of the cosine and functions of the norms.

    The fits are made for the norms of a sample.
    """

    @classmethod
    def of(
        cls, kernel: RotationInvariantKernel, n_features: int, rows: Any = None, cosines: np.ndarray | None = None
    ) -> NormFit:
        """Return the fit for sample rows, or for unknown rows. Fits are cached by kernel, norms and cosines."""
        norms = None if rows is None else row_norms(rows)
        options = tuple(sorted(kernel.get_params(deep=False).items()))
        if not all(isinstance(value, str | int | float) for _, value in options):
            # Kernels with function parameters are not cached, because the values of the functions may change between
            # calls.
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
        assert power is not None  # other kernels have no such series
        self._kernel, self._power = kernel, power
        # Guess for unknown norms: between 1 (normalised rows) and sqrt(d) (standardised columns).
        known = norms is not None
        norms = norms if known else np.full(2, n_features**0.25)
        positive = norms[norms > 0]
        centre = float(np.sqrt(np.square(positive).mean())) if positive.size else 1.0
        low, high = (centre / _MARGIN, centre * _MARGIN) if known else (0.0, _REACH * centre**2)
        if known and positive.size:
            low, high = positive.min() / _MARGIN, positive.max() * _MARGIN
        if power == 0:
            # With power 0 the kernel does not vanish at zero rows, so the interval must contain the norm 0.
            low = 0.0
        ends = ((low - centre) / (low + centre), (high - centre) / (high + centre))
        # Errors are weighted as in a kernel matrix, in which rows of large norm count more. If the norms are unknown,
        # all weights are equal.
        self._weight = power if known else 0
        shares = (np.arange(_TEST_NORMS) + 0.5) / _TEST_NORMS
        self._test_norms = np.quantile(positive if positive.size else [centre], shares)
        if not known:
            places = ends[0] + (ends[1] - ends[0]) * shares
            self._test_norms = centre * (1.0 + places) / (1.0 - places)
        # Only interior points are used, because the kernel may be undefined at norm 0.
        tested = np.linspace(low, high, _TESTED + 2)[1:-1]
        for n_nodes in _NODES:
            self.functions = NormFunctions(centre, float(ends[0]), float(ends[1]), n_nodes)
            if self._interpolation_error(tested) < _TOLERANCE:
                break
        self._cosines, (self._places, self._weights) = cosines, fitting_nodes(cosines)
        self._at_nodes = _mirrored(self._at_pairs(self.functions.nodes(), self._places))
        self._at_test_norms = self._at_pairs(self._test_norms, self._places)
        self._values = self.functions.columns(host(), norms) * self._sizes(norms)[:, None]
        self._n_rows = min(norms.size, _MOST_ROWS) if known else _MOST_ROWS
        self._found: dict[tuple[int, bytes | None], NormSeries] = {}

    def of_degree(self, degree: int, noise: np.ndarray | None = None) -> NormSeries:
        """The fitted series up to a degree, given the standard deviations (degree + 1,) of estimates of the powers.

        With coefficients c and `noise` s, the estimate of the kernel has the variance ``(sum_j s_j c_j)^2``. The fit
        minimises the sum of this variance and of the mean squared error of the series in the kernel matrix of the
        sample. So a power gets a smaller coefficient if its noise would exceed the error that it removes. Without
        noise, the fit minimises the error alone.

        Powers are selected at some of the norms. Their matrices M_j are then fitted to all norms.
        """
        key = degree, None if noise is None else noise.tobytes()
        if key not in self._found:
            self._found[key] = self._fitted(degree, noise)
        return self._found[key]

    def _fitted(self, degree: int, noise: np.ndarray | None) -> NormSeries:
        nodes = self.functions.nodes()
        coefficients = np.zeros(degree + 1)
        design, weights = np.vander(self._places, degree + 1, increasing=True), self._weights.copy()
        if noise is not None:
            # The last node is the cosine 1, the diagonal. The noise adds one equation: the sum of the coefficients
            # times the noise should be 0.
            weights[-1] = 1 / self._n_rows
            design, weights = np.vstack([design, noise]), np.append(weights, 1.0)
        first, second = np.triu_indices(len(self._test_norms))
        for own in self._at_test_norms[first == second][:: len(self._test_norms) // _SUPPORTS]:
            wanted = np.append(own, np.zeros(len(weights) - len(own)))
            found = nonnegative_fit(design, wanted, np.sqrt(weights))
            coefficients = np.maximum(coefficients, found)
        powers = np.flatnonzero(coefficients > _LEAST_COEFFICIENT * coefficients.sum())
        to_nodes = np.linalg.inv(self.functions.columns(host(), nodes))
        metric = self._metric(self.functions.columns(host(), self._test_norms) @ to_nodes)
        values = np.einsum("ia,abk,jb->ijk", metric, self._at_nodes, metric, optimize=True)
        # There are hundreds of small eigenproblems. Threads would mostly wait for each other.
        with single_threaded_blas():
            added = len(weights) - values.shape[2]
            values = np.concatenate([values, np.zeros((*values.shape[:2], added))], axis=2)
            matrices = semidefinite_fit(design[:, powers], values, weights)
        back = to_nodes @ np.linalg.inv(metric)
        sizes, vectors = np.linalg.eigh(matrices)
        least = _ROUNDING * sizes.sum(axis=1).max(initial=0.0)
        factors = [np.zeros((len(nodes), 0))] * (degree + 1)
        for power, eigenvalues, axes in zip(powers, sizes, vectors, strict=True):
            kept = eigenvalues > least
            factors[power] = back @ (axes[:, kept] * np.sqrt(eigenvalues[kept]))
        columns = self.functions.columns(host(), self._test_norms)
        # A `NormSeries` holds factors divided by the root of their mean coefficient.
        shares = np.array([np.square(columns @ factor).sum(axis=1).mean() for factor in factors])
        factors = [factor / share**0.5 if share else factor for factor, share in zip(factors, shares, strict=True)]
        return NormSeries(self.functions, shares, tuple(factors), self._values, self._fit_error(shares, factors))

    def _metric(self, lagrange: np.ndarray) -> np.ndarray:
        """Matrix R (Q, Q) such that ``|R E R^T|`` is the size of an error E (Q, Q) given at the nodes.

        `lagrange` (r, Q) interpolates from the nodes to r test norms, which are norms of the sample. The size mostly
        measures the interpolated error at the test norms, and to a small part the error at the nodes.
        """
        at_test_norms = lagrange * self._sizes(self._test_norms)[:, None] / len(lagrange) ** 0.5
        at_nodes = _ELSEWHERE * np.diag(self._sizes(self.functions.nodes())) / lagrange.shape[1] ** 0.5
        return np.linalg.qr(np.concatenate([at_test_norms, at_nodes]))[1]

    def _sizes(self, norms: np.ndarray) -> np.ndarray:
        """Return the factors (n,) that weight errors at rows with these norms (n,).

        An error at a pair of rows is multiplied by the factors of both rows. They are ``(norm / centre)^p`` with the
        kernel's power p of the norms, or 1 if the norms of the data are unknown.
        """
        return (norms / self.functions.centre) ** self._weight

    def _at_pairs(self, norms: np.ndarray, cosines: np.ndarray) -> np.ndarray:
        """Kernel values (n (n + 1) / 2, k) at pairs of norms (n,) and cosines (k,), divided by ``(|x| |y|)^p``.

        Pairs are in the order of the rows of an upper triangle.
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
        sized = self.functions.columns(host(), self._test_norms) * self._sizes(self._test_norms)[:, None]
        first, second = np.triu_indices(len(self._test_norms))
        powers = np.flatnonzero(coefficients)
        values = [sized @ factors[power] for power in powers]
        matrices = np.array([(own @ own.T)[first, second] for own in values]).reshape(len(powers), first.size)
        weights = np.prod(self._sizes(self._test_norms)[np.array([first, second])], axis=0)
        error = self._at_test_norms * weights[:, None]
        error -= (matrices.T * coefficients[powers]) @ self._places ** powers[:, None]
        # Pairs of two different test norms count twice, because only the upper triangle is stored.
        counts = np.where(first == second, 1.0, 2.0) / len(self._test_norms) ** 2
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
    """`NormFit` with hashable arguments, for the cache: `norms` and `cosines` are the bytes of float64 arrays."""
    known = (None if numbers is None else np.frombuffer(numbers) for numbers in (norms, cosines))
    return NormFit(kernel(**dict(options)), n_features, *known)


def _mirrored(pairs: np.ndarray) -> np.ndarray:
    """Symmetric matrices (n, n, k) from their upper triangles (n (n + 1) / 2, k)."""
    n = int((2 * len(pairs)) ** 0.5)
    whole = np.empty((n, n, pairs.shape[1]))
    first, second = np.triu_indices(n)
    whole[first, second] = whole[second, first] = pairs
    return whole
