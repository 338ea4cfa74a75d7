"""The predictive variance of ridge regression as a Gaussian process, from leverages and a noise that may vary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from sklearn.neighbors import NearestNeighbors

from phimap.learn.blocks.centred_rows import CentredRows
from phimap.learn.blocks.triangle import packed_entries
from phimap.learn.ridge.cholesky import BlockedCholesky
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.weights import weighted_mean
from phimap.ops import single_threaded_blas


class Leverages(ABC):
    """Quadratic forms ``z^T (A + alpha I)^{-1} z`` of centred rows z, with A the centred Gram matrix.

    A training row of weight w has the leverage w times this form plus ``w / weight``. The last term is due to the
    intercept.

    Attributes
    ----------
    alpha : float
    mean : ndarray of shape (m,)
        Weighted mean of the features of the training rows, which centres all rows.
    weight : float
        Sum of the weights of the training rows.
    """

    alpha: float
    mean: np.ndarray
    weight: float

    @abstractmethod
    def half_forms(self, D: np.ndarray) -> np.ndarray:
        """Return an array S (k, r) with ``S^T S = D (A + alpha I)^{-1} D^T`` for centred rows `D` (r, m)."""

    @abstractmethod
    def solutions(self, D: np.ndarray) -> np.ndarray:
        """Return ``(A + alpha I)^{-1} D^T`` (m, r) for centred rows `D` (r, m)."""

    def quadratic_forms(self, D: np.ndarray) -> np.ndarray:
        """The quadratic forms (r,) of centred rows `D` (r, m), in float64 and never negative."""
        return np.square(self.half_forms(D)).sum(axis=0)


class PrimalLeverages(Leverages):
    """Quadratic forms from the sums over rows: ``|U^{-T} z|^2`` with ``A + alpha I = U^T U``.

    Parameters
    ----------
    statistics : RidgeStatistics
    alpha : float
    n_jobs : int or None
        Threads; the result does not depend on them.

    Notes
    -----
    **Error.** The errors of the Gram matrix and of its factorisation. A form is a sum of squares, without cancellation.

    **Cost.** m^3 / 3 multiply-adds and 4 m^2 bytes once, m^2 / 2 multiply-adds a row.

    **Differs from the source in** nothing.
    """

    def __init__(self, statistics: RidgeStatistics, alpha: float, n_jobs: int | None):
        self.alpha, self.weight = alpha, statistics.weight
        self.mean = statistics.sum_z / statistics.weight
        self._factor = BlockedCholesky(statistics.centred_gram(), alpha, n_jobs)

    @staticmethod
    def memory(m: int) -> int:
        """Bytes of the factor."""
        return 8 * packed_entries(m)

    def half_forms(self, D: np.ndarray) -> np.ndarray:
        return self._factor.solve_lower(D.T)

    def solutions(self, D: np.ndarray) -> np.ndarray:
        return self._factor.solve(D.T)


class DualLeverages(Leverages):
    r"""Quadratic forms from the training rows themselves, for fewer rows than features.

    .. math:: z^\top (A + \alpha I)^{-1} z = \min_a\; \tfrac{1}{\alpha} |z - Z_c^\top a|^2 + |a|^2,
              \qquad a = (K + \alpha I)^{-1} Z_c z

    Parameters
    ----------
    rows : CentredRows
        Z_c (n, m), the centred training rows times the roots of their weights, with ``K = Z_c Z_c^T``.
    alpha, weight : float
    n_jobs : int or None
        Threads; the result does not depend on them.

    Notes
    -----
    **Error.** The form is a minimum over a, so an error in a enters squared. If alpha is small, the usual difference
    ``(|z|^2 - z^T Z_c^T a) / alpha`` loses all digits.

    **Cost.** n^3 / 3 multiply-adds and ``8 n m + 4 n^2`` bytes once, ``2 n m + n^2`` multiply-adds a row.

    **Differs from the source in** nothing: this is the matrix inversion lemma.
    """

    def __init__(self, rows: CentredRows, alpha: float, weight: float, n_jobs: int | None):
        self.alpha, self.weight, self.mean = alpha, weight, rows.mean
        self._rows = rows
        self._factor = BlockedCholesky(rows.gram(), alpha, n_jobs)

    @staticmethod
    def memory(n: int, m: int) -> int:
        """Bytes of the factor and of the training rows."""
        return 8 * n * m + 8 * packed_entries(n)

    def half_forms(self, D: np.ndarray) -> np.ndarray:
        with single_threaded_blas():
            a, left = self._parts(D)
            return np.concatenate([left / np.sqrt(self.alpha), a])

    def solutions(self, D: np.ndarray) -> np.ndarray:
        with single_threaded_blas():
            return self._parts(D)[1] / self.alpha

    def _parts(self, D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        a = self._factor.solve(self._rows.products(D.T))
        return a, D.T - self._rows.combine(a)


# Number of neighbours in a local mean. The mean of this many squares has a relative error of about a fifth, and the
# neighbourhoods are still small.
_NEIGHBOURS = 100
#: Least number of rows for local noise. With fewer rows the noise counts as constant.
LEAST_ROWS = 20 * _NEIGHBOURS
#: Largest number of columns for local noise. With more columns the noise counts as constant: distances differ little,
#: and a tree does not speed up the search.
MOST_COLUMNS = 100


class LocalNoise:
    r"""Local means of squared errors, divided by the mean of all squared errors.

    .. math:: \rho(x) = \frac{\sum_i w_i s_i}{\sum_i w_i}, \qquad w_i = 1 - |x - x_i|^2 / r(x)^2

    over the 100 nearest rows i, with squares :math:`s_i` whose mean is 1 and r(x) the distance to the 100th.

    Parameters
    ----------
    rows : ndarray of shape (s, d)
        Scaled inputs.
    squares : ndarray of shape (s, t)
        Squared errors with mean 1.
    weights : ndarray of shape (s,) or None
        Weights of the rows.

    Notes
    -----
    **Error.** A relative standard deviation of about ``((kurtosis - 1) / 70)^{1/2}``, 0.17 for normal errors, and the
    bias of a local mean. The ratio is continuous in x, since the weight of the farthest neighbour is 0.

    **Cost.** A nearest-neighbour search in a k-d tree.

    **Differs from the source in** the use of nearest neighbours instead of a kernel of fixed width.

    References
    ----------
    Fan, Yao (1998), *Efficient estimation of conditional variance functions in stochastic regression*.
    """

    def __init__(self, rows: np.ndarray, squares: np.ndarray, weights: np.ndarray | None):
        self._squares, self._weights = squares, weights
        # The tree computes distances from differences of coordinates, so a distance does not depend on the batch of
        # rows.
        self._search = NearestNeighbors(n_neighbors=_NEIGHBOURS, algorithm="kd_tree").fit(rows)

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Local means (r, t), relative to the overall mean, at scaled inputs (r, d)."""
        return self._ratios(*self._search.kneighbors(rows))

    def leave_one_out(self) -> np.ndarray:
        """Local means (s, t) at the rows themselves, relative to the overall mean.

        The mean at a row omits its own error.
        """
        return self._ratios(*self._search.kneighbors())

    def _ratios(self, distances: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
        reach = distances[:, -1:]
        shares = 1 - np.square(np.divide(distances, reach, out=np.zeros_like(distances), where=reach > 0))
        # If all neighbours are equally far, they get the same weight.
        shares[shares.sum(axis=1) <= 0] = 1.0
        if self._weights is not None:
            shares = shares * self._weights[neighbours]
        return (shares[:, :, None] * self._squares[neighbours]).sum(axis=1) / shares.sum(axis=1)[:, None]


# Number of random probes that estimate the variance far from the data, see `FunctionVariance`.
_PROBES = 256
# Local noise is used if it improves the log likelihood of leave-one-out errors by more than this number of standard
# errors of the improvement.
_CLEAR = 3.0
# In a model with corrections, the variance of the function is multiplied by a share from a grid of `_SHARES` shares.
# The largest share is 1. With the smallest share, the variance at any row is at most `_NOTHING` times the noise.
_NOTHING, _SHARES = 1e-3, 40
# Least value of 1 minus a leverage, which rounding could make negative.
_LEAST_FREE = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Points:
    """Features and inputs of the rows for which predictive variances are computed.

    Attributes
    ----------
    features : ndarray of shape (r, m), float64
    inputs : ndarray of shape (r, d) or None
        Scaled inputs; None if there are too many columns for local noise.
    missing : ndarray of shape (r,)
        ``k(x, x) - |phi(x)|^2``, the prior variance that features of landmarks or of a truncated series lack; zeros for
        other maps.
    out_of_range : ndarray of shape (r,)
        Distance of a row from the data of the corrections, from 0 (within the data) to 1 (far outside); zeros without
        corrections.
    """

    features: np.ndarray
    inputs: np.ndarray | None
    missing: np.ndarray
    out_of_range: np.ndarray


class FunctionVariance:
    r"""``var f(x) / sigma^2`` for the posterior of a Gaussian process on features, with a flat prior of the intercept.

    .. math:: v(x) = \tfrac{1}{\tau}\, \phi_c^\top (A + \alpha I)^{-1} \phi_c + \tfrac{1}{N}
              + \tfrac{1}{\alpha} \bigl(k(x, x) - |\phi(x)|^2\bigr), \qquad \phi_c = \phi(x) - \bar\phi

    Parameters
    ----------
    leverages : Leverages
    spread : ndarray of shape (m,) or None
        Root mean square of each feature if all features are random features of a stationary kernel; else None.
    rng : Generator
        Generator of the probes.

    Attributes
    ----------
    open_share : float
        The ratio tau of the posterior to the prior variance of the features, at a point far from all data; 1 without
        `spread`.

    Notes
    -----
    A is the centred Gram matrix, and N is the sum of the weights of the training rows.

    Far from the data, the exact process has its prior variance ``k(x, x) / alpha``. With m features, the data determine
    some directions of R^m. The features of a far row point in a random direction, so a part of them seems to be
    determined by the data: ``E phi^T (A + alpha I)^{-1} phi = tau k(x, x) / alpha`` with tau = 1 - (degrees of freedom)
    / m if all features have the same spread. Division by tau restores the prior variance. Near the data, the division
    also moves the variance towards the variance of the exact process, because m features fit the rows more easily than
    the exact kernel.

    **Error.** The relative error of tau is ``1 / sqrt(128 r)``, with r the effective number of undetermined directions.

    **Cost.** The cost of the quadratic forms.

    **Differs from the source in** the division by tau.
    """

    def __init__(self, leverages: Leverages, spread: np.ndarray | None, rng: np.random.Generator):
        self._leverages = leverages
        self.open_share = 1.0
        prior = 0.0 if spread is None else float(np.square(spread).sum())
        if spread is not None and prior > 0:
            probes = spread * (2.0 * rng.integers(2, size=(_PROBES, spread.size)) - 1)
            self.open_share: float = float(leverages.quadratic_forms(probes).mean()) * leverages.alpha / prior

    def ratios(self, points: Points) -> np.ndarray:
        """``var f / sigma^2`` (r,) at new rows."""
        return self._total(self._raw(points), 1 / self._leverages.weight, points)

    def leave_one_out(self, points: Points, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return ``var f / sigma^2`` (r,) without the row, and 1 minus the leverage (r,), for weighted training rows.

        With ``v = 1 / N + phi_c^T (A + alpha I)^{-1} phi_c`` a row of weight w has the leverage ``w v``. In the fit
        without the row, by Sherman and Morrison, v becomes ``v / (1 - w v)`` and its error e becomes ``e / (1 - w v)``.
        """
        counted = np.ones(len(points.features)) if weights is None else weights
        own = self._raw(points) + 1 / self._leverages.weight
        free = np.maximum(1 - counted * own, _LEAST_FREE)
        constant = 1 / (self._leverages.weight * np.maximum(1 - counted / self._leverages.weight, _LEAST_FREE))
        return self._total(np.maximum(own / free - constant, 0), constant, points), free

    def _raw(self, points: Points) -> np.ndarray:
        return self._leverages.quadratic_forms(points.features - self._leverages.mean)

    def _total(self, raw: np.ndarray, constant: np.ndarray | float, points: Points) -> np.ndarray:
        return raw / self.open_share + constant + points.missing / self._leverages.alpha


@dataclass(frozen=True)
class Noise:
    """The variance of the noise: ``sigma^2 rho(x)``.

    Attributes
    ----------
    variance : ndarray of shape (t,)
        The number sigma^2. `FunctionVariance` gives the variance of f as a multiple of it.
    local : LocalNoise or None
        rho; None if it is 1 for every target.
    varies : ndarray of bool, shape (t,)
        Whether rho differs from 1, for each target.
    """

    variance: np.ndarray
    local: LocalNoise | None
    varies: np.ndarray

    @classmethod
    def of_errors(
        cls, errors: np.ndarray, ratios: np.ndarray, inputs: np.ndarray | None, weights: np.ndarray | None
    ) -> Noise:
        """Estimate the noise from leave-one-out errors (s, t), and from `ratios` (s,) of the variance of f to sigma^2.

        sigma^2 is chosen so that the errors, divided by their standard deviations, have a mean square of one. The noise
        of a target varies if a local estimate clearly improves the likelihood of the errors. This estimate at a row
        leaves out the row's own error.
        """
        squares = np.square(errors)
        variance = weighted_mean(squares / (1 + ratios)[:, None], weights)
        constant = cls(variance, None, np.zeros(variance.shape, dtype=bool))
        n_rows = squares.shape[0]
        if inputs is None or n_rows < LEAST_ROWS or not variance.any():
            return constant
        unit = np.where(variance > 0, variance, 1.0)
        squares = squares / unit
        local = LocalNoise(inputs, squares / (1 + ratios)[:, None], weights)
        found = local.leave_one_out() + ratios[:, None]
        scale = weighted_mean(squares / found, weights)
        scale = np.where(scale > 0, scale, 1.0)
        losses = [0.5 * (np.log(size) + squares / size) for size in (scale * found, 1 + ratios[:, None])]
        gain = losses[1] - losses[0]
        mean = weighted_mean(gain, weights)
        error = np.sqrt(weighted_mean(np.square(gain - mean), weights) / n_rows)
        varies = (mean > _CLEAR * error) & (variance > 0)
        return cls(np.where(varies, variance * scale, variance), local, varies) if varies.any() else constant

    def total(self, ratios: np.ndarray, inputs: np.ndarray | None) -> np.ndarray:
        """Variances (r, t) of targets at rows where the variance of f is sigma^2 times `ratios` (r,)."""
        noise = np.ones((ratios.size, self.variance.size))
        if self.local is not None and inputs is not None:
            noise = np.where(self.varies, self.local.at(inputs), 1.0)
        return self.variance * (ratios[:, None] + noise)


@dataclass(frozen=True)
class Corrected:
    """The variance of a function to which corrections or trees are added.

    Attributes
    ----------
    share : float
        Variance of the function with corrections and trees, divided by its variance without them.
    spread : ndarray of shape (t,)
        Variance of the targets. Far from all data, variances of predictions are at least this large.
    """

    share: float
    spread: np.ndarray

    @classmethod
    def of_errors(
        cls, errors: np.ndarray, ratios: np.ndarray, weights: np.ndarray | None, targets: np.ndarray
    ) -> Corrected:
        """Find the share of greatest likelihood, given errors (s, t), ratios (s,) of variances, and targets (s, t)."""
        squares = np.square(errors)
        spread = weighted_mean(np.square(targets - weighted_mean(targets, weights)), weights)

        def loss(share: float) -> float:
            found = (1 + share * ratios)[:, None]
            variance = np.maximum(weighted_mean(squares / found, weights), np.finfo(np.float64).tiny)
            return float(np.sum(np.log(variance) + weighted_mean(np.log(found), weights)))

        # At the smallest share, the variance of the function is negligible compared with the noise.
        shares = np.geomspace(min(1.0, _NOTHING / max(ratios.max(), _NOTHING)), 1.0, _SHARES)
        return cls(float(shares[np.argmin([loss(one) for one in shares])]), spread)


@dataclass(frozen=True)
class Predictive:
    """Predictive variances: the variance of the function plus the noise.

    Attributes
    ----------
    function : FunctionVariance
    noise : Noise
    corrected : Corrected or None
        None without corrections and trees.
    """

    function: FunctionVariance
    noise: Noise
    corrected: Corrected | None

    def variances(self, points: Points) -> np.ndarray:
        """Variances (r, t) of targets at points."""
        ratios = self.function.ratios(points)
        if self.corrected is None:
            return self.noise.total(ratios, points.inputs)
        total = self.noise.total(self.corrected.share * ratios, points.inputs)
        return np.maximum(total, points.out_of_range[:, None] * self.corrected.spread)
