r"""Infinitely wide layers: the duals of an activation and of its derivative.

Let the inputs u and v of units sigma be Gaussians with standard deviations x and y and correlation ``cos(angle)``. The
duals are ``E[sigma(u) sigma(v)]`` and ``E[sigma'(u) sigma'(v)]``. By Price's theorem the second is the derivative of
the first with respect to the covariance of u and v, at fixed variances.
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
from phimap.ops import host, ops_for
from phimap.ops.activations import FUNCTIONS, NAMES, leaky_relu
from phimap.ops.primitives.folded_layers import folded_layers
from phimap.ops.primitives.power_sums import power_sums


class LeakyReLU(BaseEstimator):
    """The leaky ReLU: x for positive x and ``slope x`` otherwise, as an activation for kernels of wide networks.

    Parameters
    ----------
    slope : float, default=0.01
        Slope for negative x: 0 is the ReLU, -1 the absolute value. The name ``"leaky-relu"`` means the default slope.

    Notes
    -----
    **Error.** None: kernels of networks with these units have closed forms.

    **Cost.** Two comparisons and one product per entry.

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
    """An infinitely wide layer with one activation; all arguments of methods are arrays that broadcast to one shape."""

    #: Name of the activation in messages.
    name: str

    @property
    def has_slope(self) -> bool:
        """False if the derivative of the activation is 0 almost everywhere, else True."""
        return True

    @abstractmethod
    def covariance(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        """``E[sigma(u) sigma(v)]`` for u and v with standard deviations x and y and correlation ``cos(angle)``."""

    @abstractmethod
    def slopes(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        """``E[sigma'(u) sigma'(v)]`` for the same arguments as `covariance`."""

    def energy(self, x: np.ndarray) -> np.ndarray:
        """``E[sigma(u)^2]`` for u with standard deviation x."""
        return self.covariance(x, x, np.zeros_like(x))

    def prepared(self, x: np.ndarray, y: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Precomputed arrays for `pair_covariance` and `pair_slopes`, from standard deviations x and y.

        The first axes of the arrays in the first list are the axes of x; in the second list, they are the axes of y. To
        select pairs, index these axes in all arrays of a list.
        """
        return [x], [y]

    def pair_covariance(self, of_x: list[np.ndarray], of_y: list[np.ndarray], cosine: np.ndarray) -> np.ndarray:
        """`covariance` for pairs with cosines (r, h, w), as a new array; `of_x` and `of_y` come from `prepared`."""
        x, y = _contiguous(of_x, of_y)
        return self.covariance(x, y, np.arccos(cosine))

    def pair_slopes(self, of_x: list[np.ndarray], of_y: list[np.ndarray], cosine: np.ndarray) -> np.ndarray:
        """`slopes` for the same arguments as `pair_covariance`."""
        x, y = _contiguous(of_x, of_y)
        return self.slopes(x, y, np.arccos(cosine))

    @property
    def norm_power(self) -> int | None:
        """Power p of the norms: 1 if the activation is 0 at 0, else 0; None for step and sign."""
        if not self.has_slope:
            return None
        return int(float(self.energy(np.zeros(1))[0]) == 0.0)

    @cached_property
    def gain(self) -> float:
        """The factor of the duals of a layer: ``1 / E[sigma(z)^2]`` for standard Gaussian z."""
        energy = float(self.energy(np.ones(1))[0])
        if not (np.isfinite(energy) and energy > 0):
            raise ValueError(
                f"`activation` must have a positive second moment under the standard Gaussian law, got {energy}."
            )
        return 1.0 / energy

    def following(
        self, x: np.ndarray, y: np.ndarray, covariance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Standard deviations and angles of the layer's outputs, given their `covariance`, which includes the gain.

        Near 0 and pi an angle computed from its cosine has an error of about ``eps^(1/2)``. This is acceptable: smooth
        duals depend on the cosine and the squared sine only, which stay accurate.
        """
        x, y = (np.sqrt(self.gain * self.energy(sizes)) for sizes in (x, y))
        lengths = x * y
        cosine = np.divide(covariance, lengths, out=np.zeros_like(covariance), where=lengths > 0)
        return x, y, np.arccos(np.clip(cosine, -1.0, 1.0))


@dataclass(frozen=True)
class FoldedLayer(WideLayer):
    r"""Homogeneous units ``max(t, 0) + slope min(t, 0)``; a gain of ``2 / (1 + slope^2)`` preserves all norms.

    Let ``f = (1 - slope)^2 / (2 (1 + slope^2))``. Up to a factor, such a unit is the sum of ``(1 - f)^(1/2) t`` and
    ``f^(1/2) |t|``, which are uncorrelated. The normalised duals of unit rows at an angle t are

    .. math:: \kappa(t) = (1 - 2 f) \cos t + 2 f \kappa_1(\cos t), \quad
              \dot\kappa(t) = 1 - 2 f + 2 f \kappa_0(\cos t)

    where f is 1/2 for the ReLU and 1 for the absolute value.

    Attributes
    ----------
    name : str
        Name of the activation in messages.
    slope : float
        Slope for negative t: 0 is the ReLU, -1 the absolute value.
    """

    name: str
    slope: float

    @property
    def fold(self) -> float:
        """The weight f of the absolute value."""
        return 0.5 * (1.0 - self.slope) ** 2 / (1.0 + self.slope**2)

    @property
    def is_relu(self) -> bool:
        """Whether the activation is the ReLU."""
        return self.slope == 0

    @property
    def gain(self) -> float:
        """The factor ``2 / (1 + slope^2)`` of the duals, which preserves all norms."""
        return 2.0 / (1.0 + self.slope**2)

    def dual(self, angle: np.ndarray) -> np.ndarray:
        """The normalised dual of unit rows: gain times `covariance`."""
        return folded_layers(ops_for(angle), angle, self.fold, 1, False)

    def slope_dual(self, angle: np.ndarray) -> np.ndarray:
        """The normalised dual of the derivative: gain times `slopes`."""
        return (1.0 - 2.0 * self.fold) + 2.0 * self.fold * step_dual(angle)

    def covariance(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        return self.dual(angle) / self.gain * x * y

    def slopes(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        return self.slope_dual(angle) / self.gain * (x > 0) * (y > 0)

    def energy(self, x: np.ndarray) -> np.ndarray:
        return np.square(x) / self.gain


@dataclass(frozen=True)
class ClosedLayer(WideLayer):
    """Units whose dual has a closed form; so has the derivative's dual, unless the units are piecewise constant."""

    name: str
    dual: duals.Dual
    slope_dual: duals.Dual | None

    @property
    def has_slope(self) -> bool:
        return self.slope_dual is not None

    def covariance(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        return self.dual(x, y, angle)

    def slopes(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        assert self.slope_dual is not None  # callers check `has_slope`
        return self.slope_dual(x, y, angle)


@dataclass(frozen=True)
class ExpandedLayer(WideLayer):
    """Units without a closed form: the duals use Hermite expansions of the activation and, if given, its derivative."""

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
    """Return contiguous copies of both standard deviations, so that results do not depend on the memory layout."""
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
    """The layer of an activation, which is a name, a `LeakyReLU`, or a function of arrays."""
    if isinstance(activation, str):
        return _NAMED[check_choice("activation", activation, NAMES)]
    if isinstance(activation, LeakyReLU):
        return FoldedLayer(repr(activation), check_real("slope", activation.slope))
    if not callable(activation):
        raise TypeError(f"`activation` must be a name or a callable, got {type(activation).__name__}.")
    return ExpandedLayer(getattr(activation, "__name__", repr(activation)), activation)


def tangent_layer(activation: Any) -> WideLayer:
    """Return the layer of an activation for a tangent kernel; raise if its derivative is 0 almost everywhere."""
    layer = wide_layer(activation)
    if not layer.has_slope:
        raise ValueError(
            f"`activation` must have a derivative for a tangent kernel, got {layer.name!r}, whose derivative is 0 "
            "almost everywhere. Use NNGP, or 'erf' or 'relu'."
        )
    return layer
