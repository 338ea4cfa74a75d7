"""What exact degrees leave of rectified units, in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from phimap.features.random_layers.zonal import remove_powers
from phimap.kernels.zonal import raising_coefficient, zonal_degree
from phimap.ops import Array, Ops
from phimap.projections.base import ProjectionRecord
from phimap.random_map import MapRecord


@dataclass(frozen=True)
class ResidualRecord(MapRecord):
    """``scale * (sign(g) g^order + p(g))`` for projections g on unit rows, of unit variance, and a polynomial p.

    Attributes
    ----------
    projection : ProjectionRecord
    order : int
        0, 1 or 2.
    polynomial : tuple of float
        Coefficients from degree 0 on.
    scale : float
    stretch : ndarray of shape (n_components,) or None
        Multiplies the projections; None is 1.
    """

    projection: ProjectionRecord
    order: int
    polynomial: tuple[float, ...]
    scale: float
    stretch: np.ndarray | None = None

    @property
    def n_features(self) -> int:
        return self.projection.n_features

    @property
    def n_components(self) -> int:
        return self.projection.n_directions

    @property
    def scratch_width(self) -> int:
        return self.n_features + self.projection.scratch_width

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        for columns, g in self.projection.blocks(ops, X):
            g = g if self.stretch is None else g * self.stretch[columns]
            values = abs(g) if self.order == 1 else ops.activations["sign"](g)
            if self.order == 2:
                values = values * g * g
            for power, coefficient in enumerate(self.polynomial):
                if coefficient:
                    values = values + coefficient * (g**power if power > 1 else g if power else 1.0)
            ops.copy(values * self.scale, out, first + columns.start)


def rectified_rest(
    order: int, n_features: int, degrees: Sequence[int]
) -> tuple[dict[int, float], tuple[float, ...], float]:
    """The rectified unit ``sqrt(2) step(g) g^order`` less powers that are carried exactly, in closed form.

    Directions have the length ``sqrt(d)`` and, for order 2, ``sqrt((d + 2) / d)`` makes up for the fourth moment of
    longer ones. The coefficient of the unit in p_k comes from ``E|g|^j``; what exact powers leave of its square b_k
    stays. Returned are the coefficients of the powers, the polynomial p with ``f = s (sign(g) g^order + p(g))``, and s.
    """
    d = n_features
    scale = 0.5**0.5 * ((d + 2) / d) ** 0.5 if order == 2 else 0.5**0.5
    basis = _polynomials(d, min(max(degrees, default=0), zonal_degree(d)))
    width = basis.shape[1]
    j = np.arange(width) + order
    moments = np.exp(0.5 * j * np.log(d) + gammaln(0.5 * (j + 1)) + gammaln(0.5 * d) - gammaln(0.5 * (d + j)))
    coefficients = scale * basis @ moments / np.pi**0.5
    powers, rest = remove_powers(np.square(coefficients), d, degrees)
    removed = coefficients - np.copysign(np.sqrt(rest), coefficients)
    polynomial = np.zeros(max(width, order + 1))
    polynomial[order] = 1.0
    polynomial[:width] -= removed @ basis / scale
    polynomial[np.abs(polynomial) < 1e-13] = 0.0
    return powers, tuple(polynomial.tolist()), scale


def _polynomials(d: int, degree: int) -> np.ndarray:
    """Coefficients (degree + 1, degree + 1) of ``p_0, ..., p_degree`` in powers."""
    # Multiplication by g shifts coefficients: the recursion is that of the values.
    rows = [np.eye(1, degree + 1)[0]]
    lower, before = 0.0, np.zeros(degree + 1)
    for k in range(degree):
        raising = raising_coefficient(d, k)
        following = (np.append(0.0, rows[-1][:-1]) - lower * before) / raising
        before, lower = rows[-1], raising
        rows.append(following)
    return np.array(rows)
