"""The dual kernel of a ternary function."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtr, owens_t

from phimap._validation import check_finite, check_real
from phimap.kernels.base import Kernel
from phimap.kernels.geometry import Rows, angles, row_norms

# Number of rows for which probabilities are computed at a time. It keeps temporaries smaller than a tile.
_ROWS = 16


class TernaryKernel(Kernel):
    r"""The dual kernel of a ternary function sigma: the kernel of an infinitely wide layer with the activation sigma.

    .. math:: k(x, y) = \mathbb{E}_{w \sim N(0, I)}\, \sigma(\langle w, x - c\rangle)\, \sigma(\langle w, y - c\rangle)

    with ``sigma(t) = height * (1 if t > upper, -1 if t < lower, else 0)``. With equal thresholds sigma is a sign
    function. For several functions, k is the weighted mean of their kernels.

    Parameters
    ----------
    lower, upper : float or array-like of shape (r,)
        Thresholds, ``lower <= upper``. With ``lower=-inf``, sigma has the values 0 and `height` only. Arrays define r
        functions.
    height : float, default=1.0
        Absolute value of sigma beyond the thresholds.
    shares : array-like of shape (r,) or None, default=None
        Weights of the r functions; None means equal weights.
    center : array-like of shape (d,) or None, default=None
        The point c; None means the origin.
    length_scale : float or array-like of shape (d,), default=1.0
        Length scale in the units of the columns, by which the centred rows are divided.

    Notes
    -----
    **Error.** About ``1e-15 height^2`` for each of the orthant probabilities, which use Owen's function T.

    **Cost.** One matrix product, and eight evaluations of T per entry and function.

    **Differs from the source in** nothing; the source gives the expectation without a closed form.

    References
    ----------
    Owen (1956), *Tables for computing bivariate normal probabilities*, Equation 2.1; Ali, Liao, Couillet (2022),
    *Random matrices in service of ML footprint: ternary random features with no performance loss*, Equation 3.

    Examples
    --------
    >>> from phimap.kernels import TernaryKernel
    >>> TernaryKernel(0.0, 0.0)([[1.0, 0.0], [0.0, 2.0]]).round(4)
    array([[1., 0.],
           [0., 1.]])
    """

    def __init__(
        self,
        lower: Any,
        upper: Any,
        height: float = 1.0,
        *,
        shares: Any = None,
        center: Any = None,
        length_scale: Any = 1.0,
    ):
        self.lower = lower
        self.upper = upper
        self.height = height
        self.shares = shares
        self.center = center
        self.length_scale = length_scale

    def _check_parameters(self, n_features: int) -> None:
        lowers, uppers = np.atleast_1d(self.lower), np.atleast_1d(self.upper)
        if lowers.shape != uppers.shape or lowers.ndim != 1:
            raise ValueError(f"`upper` must have the shape of `lower`, {lowers.shape}, got {uppers.shape}.")
        for lower, upper in zip(lowers.tolist(), uppers.tolist(), strict=True):
            if lower != -np.inf:
                check_real("lower", lower)
            if check_real("upper", upper) < lower:
                raise ValueError(f"`upper` must be at least `lower`={lower}, got {upper}.")
        if self.shares is not None and (np.shape(self.shares) != lowers.shape or not np.min(self.shares) >= 0):
            raise ValueError(f"`shares` must be {lowers.size} weights from 0 on, got {self.shares!r}.")
        check_real("height", self.height, above=0.0)
        for name, value in (("center", self.center), ("length_scale", self.length_scale)):
            if value is None:
                continue
            given = np.asarray(value, dtype=np.float64)
            if given.shape not in ((), (n_features,)):
                raise ValueError(f"`{name}` must have {n_features} entries, got shape {given.shape}.")
            check_finite(given.reshape(-1), name)
        if not np.min(self.length_scale) > 0:
            raise ValueError(f"`length_scale` must be positive, got {self.length_scale}.")

    def _functions(self) -> list[tuple[float, float, float]]:
        """Lower threshold, upper threshold and weight of each function."""
        lowers, uppers = np.atleast_1d(self.lower), np.atleast_1d(self.upper)
        shares = np.full(lowers.size, 1.0 / lowers.size) if self.shares is None else np.asarray(self.shares)
        return list(zip(lowers.tolist(), uppers.tolist(), shares.tolist(), strict=True))

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        X, Y = self._scaled(X), self._scaled(Y)
        between, norms, other_norms = angles(X, Y), row_norms(X), row_norms(Y)
        values = np.zeros_like(between)
        for lower, upper, share in self._functions():
            above, below = _standardised_thresholds(lower, upper, norms)
            other_above, other_below = _standardised_thresholds(lower, upper, other_norms)
            for start in range(0, values.shape[0], _ROWS):
                rows = slice(start, start + _ROWS)
                up, down, angle = above[rows, None], below[rows, None], between[rows]
                same = _orthant(up, other_above, angle) + _orthant(down, other_below, angle)
                other = _orthant(up, other_below, np.pi - angle) + _orthant(down, other_above, np.pi - angle)
                values[rows] += share * (same - other)
        values *= self.height**2
        return values

    def _diagonal(self, X: Rows) -> np.ndarray:
        norms = row_norms(self._scaled(X))
        total = np.zeros(norms.shape)
        for lower, upper, share in self._functions():
            above, below = _standardised_thresholds(lower, upper, norms)
            total += share * (ndtr(-above) + ndtr(-below))
        return self.height**2 * total

    def _scaled(self, X: Rows) -> Rows:
        if self.center is not None:
            X = (X.toarray() if sparse.issparse(X) else X) - np.asarray(self.center, dtype=np.float64)
        elif sparse.issparse(X) and np.ndim(self.length_scale):
            X = X.toarray()
        return X / np.asarray(self.length_scale, dtype=np.float64)


def _standardised_thresholds(lower: float, upper: float, norms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds h and k, both (n,), for which sigma is positive if ``z > h`` and negative if ``-z > k``.

    z is standard Gaussian; h and k are ``upper`` and ``-lower`` divided by the norms. For a zero row they are infinite.
    """
    always = (upper < 0, lower >= 0 if lower == upper else lower > 0)
    above, below = (
        np.where(norms > 0, threshold / np.where(norms > 0, norms, 1.0), -np.inf if certain else np.inf)
        for threshold, certain in zip((upper, -lower), always, strict=True)
    )
    return above, below


def _orthant(h: np.ndarray, k: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Probability that two standard Gaussians with correlation ``cos(angle)`` exceed h and k.

    h and k broadcast to the shape of `angle`.
    """
    h, k = np.broadcast_arrays(h, k)
    finite = np.isfinite(h) & np.isfinite(k)
    tiny = np.finfo(np.float64).tiny
    first, second = (np.where(finite, np.where(u == 0, tiny, u), 1.0) for u in (h, k))
    total = 0.5 * (ndtr(-first) + ndtr(-second))
    total -= owens_t(first, _slope(first, second, angle)) + owens_t(second, _slope(second, first, angle))
    total -= 0.5 * ((np.signbit(first) != np.signbit(second)).astype(np.float64))
    return np.where(finite, np.maximum(total, 0.0), ndtr(-h) * ndtr(-k))


def _slope(h: np.ndarray, k: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``(k - h cos(angle)) / (h sin(angle))`` for thresholds h and k, without cancellation at angles near 0 or pi."""
    sine = np.sin(angle)
    near = angle < 0.5 * np.pi
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        part = np.where(near, k - h, k + h) / (h * sine)
        slope = np.where(near, part + np.tan(0.5 * angle), part - 1.0 / np.tan(0.5 * angle))
    return np.where(np.isnan(slope), 0.0, slope)
