r"""Infinitely wide layers: the duals of an activation and of its derivative.

For a layer of units sigma whose inputs are Gaussians u, v of standard deviations x, y at an angle, these are
``E[sigma(u) sigma(v)]`` and ``E[sigma'(u) sigma'(v)]``. By Price's theorem the second is the derivative of the first
with respect to the covariance of u and v, at fixed variances.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special
from sklearn.base import BaseEstimator

from phimap._validation import check_choice, check_real
from phimap.kernels import duals
from phimap.kernels.arccosine import step_dual
from phimap.kernels.hermite import hermite_moment, paired_expansions, second_moment, slope_moment
from phimap.ops import host
from phimap.ops.activations import FUNCTIONS, NAMES, leaky_relu
from phimap.ops.primitives.folded_layers import folded_layers
from phimap.ops.primitives.power_sums import power_sums


class LeakyReLU(BaseEstimator):
    """The activation that is x where x is positive and ``slope x`` elsewhere, for kernels of wide networks.

    Parameters
    ----------
    slope : float, default=0.01
        0 is the ReLU, -1 the absolute value. The name ``"leaky-relu"`` stands for the default.

    Notes
    -----
    **Error.** None: networks of such units have closed forms, those of the ReLU among them.

    **Cost.** Two comparisons and a product a number.

    **Differs from the source.** Nothing.

    References
    ----------
    Maas, Hannun, Ng, Rectifier Nonlinearities Improve Neural Network Acoustic Models, 2013, Equation 3.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import NTK, LeakyReLU
    >>> LeakyReLU(0.2)(np.array([-1.0, 2.0]))
    array([-0.2,  2. ])
    >>> NTK(depth=1, activation=LeakyReLU(0.2))(np.array([[1.0, 0.0], [0.0, 2.0]])).round(4)
    array([[2.    , 0.3918],
           [0.3918, 8.    ]])
    """

    def __init__(self, slope: float = 0.01):
        self.slope = slope

    def __call__(self, x: Any) -> Any:
        """Apply the activation to an array or a tensor.

        Parameters
        ----------
        x : array

        Returns
        -------
        array of the same shape
        """
        return leaky_relu(x, check_real("slope", self.slope))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LeakyReLU) and self.slope == other.slope

    def __hash__(self) -> int:
        return hash((LeakyReLU, self.slope))


class WideLayer(ABC):
    """An infinitely wide layer of one activation; all arguments are arrays that broadcast to one shape."""

    #: What the activation is called in messages.
    name: str

    @property
    def has_slope(self) -> bool:
        """Whether the derivative is other than 0."""
        return True

    @abstractmethod
    def covariance(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        """``E[sigma(u) sigma(v)]`` for standard deviations x and y of u and v, and angles."""

    @abstractmethod
    def slopes(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        """``E[sigma'(u) sigma'(v)]``."""

    def energy(self, x: np.ndarray) -> np.ndarray:
        """``E[sigma(u)^2]``."""
        return self.covariance(x, x, np.zeros_like(x))

    def prepared(self, x: np.ndarray, y: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """What `pair_covariance` and `pair_slopes` take of many pairs of some deviations x and y.

        Arrays whose first axes are those of x, and of y: entries of these axes may be taken from all of them alike.
        """
        return [x], [y]

    def pair_covariance(self, of_x: list[np.ndarray], of_y: list[np.ndarray], cosine: np.ndarray) -> np.ndarray:
        """`covariance` of what `prepared` gave for planes of pairs, and of cosines (r, h, w); a new array."""
        x, y = _contiguous(of_x, of_y)
        return self.covariance(x, y, np.arccos(cosine))

    def pair_slopes(self, of_x: list[np.ndarray], of_y: list[np.ndarray], cosine: np.ndarray) -> np.ndarray:
        """`slopes` of the same."""
        x, y = _contiguous(of_x, of_y)
        return self.slopes(x, y, np.arccos(cosine))

    @property
    def norm_power(self) -> int | None:
        """The power of the norms by which the dual vanishes at 0; None for units that jump."""
        if not self.has_slope:
            return None
        return int(float(self.energy(np.zeros(1))[0]) == 0.0)

    @cached_property
    def gain(self) -> float:
        """``1 / E[sigma(z)^2]`` for standard Gaussian z, by which the outputs of a layer are multiplied."""
        energy = float(self.energy(np.ones(1))[0])
        if not (np.isfinite(energy) and energy > 0):
            raise ValueError(
                f"`activation` must have a positive second moment under the standard Gaussian law, got {energy}."
            )
        return 1.0 / energy

    def following(
        self, x: np.ndarray, y: np.ndarray, covariance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Standard deviations and angles behind the layer, whose outputs have this covariance, gain included.

        From a cosine an angle has the error of a root of eps near 0 and pi. Smooth duals are functions of its cosine
        and of its squared sine, which keep their digits.
        """
        x, y = (np.sqrt(self.gain * self.energy(sizes)) for sizes in (x, y))
        lengths = x * y
        cosine = np.divide(covariance, lengths, out=np.zeros_like(covariance), where=lengths > 0)
        return x, y, np.arccos(np.clip(cosine, -1.0, 1.0))


@dataclass(frozen=True)
class FoldedLayer(WideLayer):
    r"""Units ``max(t, 0) + slope min(t, 0)``: homogeneous, so that a gain of ``2 / (1 + slope^2)`` keeps all norms.

    With ``f = (1 - slope)^2 / (2 (1 + slope^2))`` such a unit is the root of ``1 - f`` times t and that of f times
    ``|t|``, whose products have mean zero. The normalised duals of unit rows at an angle t are

    .. math:: \kappa(t) = (1 - 2 f) \cos t + 2 f \kappa_1(\cos t), \quad
              \dot\kappa(t) = 1 - 2 f + 2 f \kappa_0(\cos t)

    and f is 1/2 for the ReLU, 1 for the absolute value.

    Attributes
    ----------
    name : str
    slope : float
    """

    name: str
    slope: float

    @property
    def fold(self) -> float:
        """The share f of the absolute value."""
        return 0.5 * (1.0 - self.slope) ** 2 / (1.0 + self.slope**2)

    @property
    def is_relu(self) -> bool:
        """Whether the units are those of the ReLU."""
        return self.slope == 0

    @property
    def gain(self) -> float:
        """``2 / (1 + slope^2)``."""
        return 2.0 / (1.0 + self.slope**2)

    def dual(self, angle: np.ndarray) -> np.ndarray:
        """The dual of unit rows times the gain."""
        return folded_layers(host(), angle, self.fold, 1, False)

    def slope_dual(self, angle: np.ndarray) -> np.ndarray:
        """The derivative's dual times the gain."""
        return (1.0 - 2.0 * self.fold) + 2.0 * self.fold * step_dual(angle)

    def covariance(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        return self.dual(angle) / self.gain * x * y

    def slopes(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        return self.slope_dual(angle) / self.gain * (x > 0) * (y > 0)

    def energy(self, x: np.ndarray) -> np.ndarray:
        return np.square(x) / self.gain


@dataclass(frozen=True)
class ClosedLayer(WideLayer):
    """Units with a closed form of the dual and, but for those that are constant in pieces, of the derivative's."""

    name: str
    dual: duals.Dual
    slope_dual: duals.Dual | None

    @property
    def has_slope(self) -> bool:
        return self.slope_dual is not None

    def covariance(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        return self.dual(x, y, angle)

    def slopes(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        assert self.slope_dual is not None  # see has_slope
        return self.slope_dual(x, y, angle)


@dataclass(frozen=True)
class ExpandedLayer(WideLayer):
    """Units without a closed form, by Hermite expansions of the activation and, where it is given, the derivative."""

    name: str
    function: Callable[[Any], Any]
    derivative: Callable[[Any], Any] | None = None

    def covariance(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        return hermite_moment(self.function, x, y, angle)

    def slopes(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        if self.derivative is None:
            return slope_moment(self.function, x, y, angle)
        return hermite_moment(self.derivative, x, y, angle)

    def energy(self, x: np.ndarray) -> np.ndarray:
        return second_moment(self.function, x)

    def prepared(self, x: np.ndarray, y: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        return paired_expansions(self.function, self.derivative, x, y)

    def pair_covariance(self, of_x: list[np.ndarray], of_y: list[np.ndarray], cosine: np.ndarray) -> np.ndarray:
        return power_sums(host(), of_x[0], of_y[0], cosine)

    def pair_slopes(self, of_x: list[np.ndarray], of_y: list[np.ndarray], cosine: np.ndarray) -> np.ndarray:
        return power_sums(host(), of_x[1], of_y[1], cosine)


def _contiguous(of_x: list[np.ndarray], of_y: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Both deviations as arrays of their own: the same numbers then meet the same instructions wherever they lay."""
    return np.ascontiguousarray(of_x[0]), np.ascontiguousarray(of_y[0])


_NAMED: dict[str, WideLayer] = {
    layer.name: layer
    for layer in (
        FoldedLayer("abs", -1.0),
        ClosedLayer("cos", duals.cos_dual, duals.sin_dual),
        ClosedLayer("erf", duals.erf_dual, duals.erf_slope_dual),
        ClosedLayer("gelu", duals.gelu_dual, duals.gelu_slope_dual),
        FoldedLayer("leaky-relu", 0.01),
        FoldedLayer("relu", 0.0),
        ClosedLayer("sign", duals.sign_dual, None),
        ClosedLayer("sin", duals.sin_dual, duals.cos_dual),
        ExpandedLayer("softplus", FUNCTIONS["softplus"], special.expit),
        ClosedLayer("step", duals.half_step_dual, None),
    )
}


def wide_layer(activation: Any) -> WideLayer:
    """The layer of an activation: a name, `LeakyReLU`, or a function of arrays."""
    if isinstance(activation, str):
        return _NAMED[check_choice("activation", activation, NAMES)]
    if isinstance(activation, LeakyReLU):
        return FoldedLayer(repr(activation), check_real("slope", activation.slope))
    if not callable(activation):
        raise TypeError(f"`activation` must be a name or a callable, got {type(activation).__name__}.")
    return ExpandedLayer(getattr(activation, "__name__", repr(activation)), activation)


def tangent_layer(activation: Any) -> WideLayer:
    """The same for a tangent kernel, checked to have a derivative."""
    layer = wide_layer(activation)
    if not layer.has_slope:
        raise ValueError(
            f"`activation` must have a derivative for a tangent kernel, got {layer.name!r}, whose derivative is 0 "
            "almost everywhere. Use NNGP, or 'erf' or 'relu'."
        )
    return layer
