"""The predictive variance of ridge regression as a Gaussian process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap.learn.ridge.leverages import Leverages
from phimap.learn.ridge.local_noise import LEAST_ROWS, LocalNoise
from phimap.learn.rows.weights import weighted_mean

# Random signs by which the variance far from the data is known, see `FunctionVariance`: few beside the rows left out.
_PROBES = 256
# Standard errors by which local noise must better the likelihood of errors on rows left out: nothing by chance.
_CLEAR = 3.0
# Shares of the function's variance that are tried: from where the largest is this much of the noise, up to all of it.
_NOTHING, _SHARES = 1e-3, 40
_LEAST_FREE = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Points:
    """Rows at which variances are wanted, or known.

    Attributes
    ----------
    features : ndarray of shape (r, m), float64
    inputs : ndarray of shape (r, d) or None
        Scaled; None where the columns are too many to tell near rows from far ones.
    missing : ndarray of shape (r,)
        ``k(x, x) - |phi(x)|^2``, what features of landmarks or a series cut off leave out; zeros for other maps.
    beyond : ndarray of shape (r,)
        How far rows lie beyond the data that corrections know, from 0 to 1; zeros where there are no corrections.
    """

    features: np.ndarray
    inputs: np.ndarray | None
    missing: np.ndarray
    beyond: np.ndarray


class FunctionVariance:
    r"""``var f(x) / sigma^2`` for the posterior of a Gaussian process on features, with a flat prior of the intercept.

    .. math:: v(x) = \tfrac{1}{\tau}\, \phi_c^\top (A + \alpha I)^{-1} \phi_c + \tfrac{1}{N}
              + \tfrac{1}{\alpha} \bigl(k(x, x) - |\phi(x)|^2\bigr), \qquad \phi_c = \phi(x) - \bar\phi

    Parameters
    ----------
    leverages : Leverages
    spread : ndarray of shape (m,) or None
        Root mean square of each feature where all features are draws for a stationary kernel; else None.
    rng : Generator
        Of the probes.

    Attributes
    ----------
    open_share : float
        tau, the share of the prior variance that the features leave at a place far from all data; 1 without `spread`.

    Notes
    -----
    Far from the data the exact process has its prior variance ``k(x, x) / alpha``. With m features the data determine
    directions of R^m; of a far row, whose features point anywhere, they seem to know the share of these:
    ``E phi^T (A + alpha I)^{-1} phi = tau k(x, x) / alpha`` with tau = 1 - (degrees of freedom) / m where all features
    have the same spread. Division by tau brings the prior back. Near the data it moves the variance towards that of the
    exact process as well: m coordinates are fitted by the rows better than the kernel is.

    **Error.** tau is known to ``1 / sqrt(128 r)`` relative, r the effective number of directions left open.

    **Cost.** That of the leverages.

    **Differs from the source in** the division by tau.
    """

    def __init__(self, leverages: Leverages, spread: np.ndarray | None, rng: np.random.Generator):
        self._leverages = leverages
        self.open_share = 1.0
        prior = 0.0 if spread is None else float(np.square(spread).sum())
        if spread is not None and prior > 0:
            probes = spread * (2.0 * rng.integers(2, size=(_PROBES, spread.size)) - 1)
            self.open_share: float = float(leverages.of(probes).mean()) * leverages.alpha / prior

    def of(self, points: Points) -> np.ndarray:
        """The ratio (r,) for new rows."""
        return self._total(self._raw(points), 1 / self._leverages.weight, points)

    def left_out(self, points: Points, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """For rows of the training, of these weights: the ratio (r,) without each, and 1 less its leverage (r,).

        With ``v = 1 / N + phi_c^T (A + alpha I)^{-1} phi_c`` a row of weight w has the leverage ``w v``; without it
        v is ``v / (1 - w v)`` by Sherman and Morrison, and the error at it is that of the fit over ``1 - w v``.
        """
        counted = np.ones(len(points.features)) if weights is None else weights
        own = self._raw(points) + 1 / self._leverages.weight
        free = np.maximum(1 - counted * own, _LEAST_FREE)
        constant = 1 / (self._leverages.weight * np.maximum(1 - counted / self._leverages.weight, _LEAST_FREE))
        return self._total(np.maximum(own / free - constant, 0), constant, points), free

    def _raw(self, points: Points) -> np.ndarray:
        return self._leverages.of(points.features - self._leverages.mean)

    def _total(self, raw: np.ndarray, constant: np.ndarray | float, points: Points) -> np.ndarray:
        return raw / self.open_share + constant + points.missing / self._leverages.alpha


@dataclass(frozen=True)
class Noise:
    """The variance of the noise: ``sigma^2 rho(x)``.

    Attributes
    ----------
    variance : ndarray of shape (t,)
        sigma^2, which is also the unit of `FunctionVariance`.
    local : LocalNoise or None
        rho; None where it is 1 for every target.
    varies : ndarray of bool, shape (t,)
        For which targets rho is not 1.
    """

    variance: np.ndarray
    local: LocalNoise | None
    varies: np.ndarray

    @classmethod
    def of_errors(
        cls, errors: np.ndarray, ratios: np.ndarray, inputs: np.ndarray | None, weights: np.ndarray | None
    ) -> Noise:
        """From errors (s, t) at rows left out, whose function has the variances sigma^2 `ratios` (s,).

        sigma^2 makes the mean square of the errors one, over their standard deviations. The noise varies where this
        betters the likelihood of the errors clearly, each judged by those of other rows.
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
        found = local.left_out() + ratios[:, None]
        scale = weighted_mean(squares / found, weights)
        scale = np.where(scale > 0, scale, 1.0)
        losses = [0.5 * (np.log(size) + squares / size) for size in (scale * found, 1 + ratios[:, None])]
        gain = losses[1] - losses[0]
        mean = weighted_mean(gain, weights)
        error = np.sqrt(weighted_mean(np.square(gain - mean), weights) / n_rows)
        varies = (mean > _CLEAR * error) & (variance > 0)
        return cls(np.where(varies, variance * scale, variance), local, varies) if varies.any() else constant

    def total(self, ratios: np.ndarray, inputs: np.ndarray | None) -> np.ndarray:
        """Variances (r, t) of targets at rows where the function has sigma^2 `ratios` (r,)."""
        noise = np.ones((ratios.size, self.variance.size))
        if self.local is not None and inputs is not None:
            noise = np.where(self.varies, self.local.at(inputs), 1.0)
        return self.variance * (ratios[:, None] + noise)


@dataclass(frozen=True)
class Corrected:
    """What corrections leave of the variance of the function: a share of it, and all of it beyond the data.

    Attributes
    ----------
    share : float
        Of the variance of the function without corrections.
    spread : ndarray of shape (t,)
        Variance of the targets, which that of predictions is at the least far from all data.
    """

    share: float
    spread: np.ndarray

    @classmethod
    def of_errors(
        cls, errors: np.ndarray, ratios: np.ndarray, weights: np.ndarray | None, targets: np.ndarray
    ) -> Corrected:
        """The share that is likeliest for errors (s, t) at rows left out, where the function has `ratios` (s,)."""
        squares = np.square(errors)
        spread = weighted_mean(np.square(targets - weighted_mean(targets, weights)), weights)

        def loss(share: float) -> float:
            found = (1 + share * ratios)[:, None]
            variance = np.maximum(weighted_mean(squares / found, weights), np.finfo(np.float64).tiny)
            return float(np.sum(np.log(variance) + weighted_mean(np.log(found), weights)))

        # From here on the function's variance is lost in that of the noise.
        shares = np.geomspace(min(1.0, _NOTHING / max(ratios.max(), _NOTHING)), 1.0, _SHARES)
        return cls(float(shares[np.argmin([loss(one) for one in shares])]), spread)


@dataclass(frozen=True)
class Predictive:
    """What predictive variances need: those of the function, and the noise.

    Attributes
    ----------
    function : FunctionVariance
    noise : Noise
    corrected : Corrected or None
        None where there are no corrections.
    """

    function: FunctionVariance
    noise: Noise
    corrected: Corrected | None

    def variances(self, points: Points) -> np.ndarray:
        """Variances (r, t) of targets at rows."""
        ratios = self.function.of(points)
        if self.corrected is None:
            return self.noise.total(ratios, points.inputs)
        total = self.noise.total(self.corrected.share * ratios, points.inputs)
        return np.maximum(total, points.beyond[:, None] * self.corrected.spread)
