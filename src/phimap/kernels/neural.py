"""Kernels of infinitely wide, fully connected networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phimap._validation import check_integer
from phimap.kernels.rotation_invariant import RotationInvariantKernel, times_norms
from phimap.kernels.wide_layers import FoldedLayer, WideLayer, tangent_layer, wide_layer
from phimap.ops import ops_for
from phimap.ops.primitives.folded_layers import folded_layers


class _WideNetwork(RotationInvariantKernel):
    """Common base of the NNGP and NTK kernels: parameters and properties of the network."""

    def __init__(self, depth: int = 1, activation: str | Callable[[Any], Any] = "relu"):
        self.depth = depth
        self.activation = activation

    @property
    def is_homogeneous(self) -> bool:
        """Whether the kernel is ``|x| |y|`` times a function of the angle; true for ReLU, leaky ReLU and abs."""
        return isinstance(wide_layer(self.activation), FoldedLayer)

    @property
    def is_rectified(self) -> bool:
        """Whether the activation is the ReLU, under any name."""
        layer = wide_layer(self.activation)
        return isinstance(layer, FoldedLayer) and layer.is_relu

    @property
    def homogeneity(self) -> int:
        """The power of the norms: 1 if the kernel is homogeneous, else 0."""
        return int(self.is_homogeneous)

    @property
    def norm_power(self) -> int | None:
        """Power p of the norms: 1 if the activation is 0 at 0, else 0; None for step and sign."""
        return wide_layer(self.activation).norm_power

    def _check_parameters(self, n_features: int) -> None:
        check_integer("depth", self.depth, least=1)
        self._layer()

    def _layer(self) -> WideLayer:
        """Return the layer of the activation; raise if the kernel is not defined for this activation."""
        return wide_layer(self.activation)


class NNGP(_WideNetwork):
    r"""The covariance of the outputs of an infinitely wide network with random weights.

    .. math:: k(x, y) = \Sigma_L(x, y), \quad \Sigma_0 = \langle x, y \rangle, \quad
              \Sigma_l(x, y) = c\, \mathbb{E}\, \sigma(u)\, \sigma(v), \quad c = 1 / \mathbb{E}\, \sigma(z)^2

    for Gaussians u and v with the variances :math:`\Sigma_{l-1}(x, x)`, :math:`\Sigma_{l-1}(y, y)` and the covariance
    :math:`\Sigma_{l-1}(x, y)`, and a standard Gaussian z. ReLU, leaky ReLU and abs preserve all norms: the kernel is
    ``|x| |y|`` times a function of the cosine. For the ReLU this function is ``kappa_1`` applied L times.

    Parameters
    ----------
    depth : int, default=1
        Number L of hidden layers, at least 1.
    activation : str or callable, default="relu"
        The activation sigma, see `ActivationKernel`.

    Notes
    -----
    **Error.** For ReLU, leaky ReLU and abs: a few eps per layer, relative to ``|x| |y|``. For erf, GELU, sin and cos: a
    few eps per layer, relative to ``(k(x, x) k(y, y))^(1/2)``, times the squared norm if that exceeds 1. For step and
    sign, every layer replaces the rounding error of nearly parallel rows by its square root. Softplus and callables use
    a truncated expansion, see `ActivationKernel`.

    **Cost.** One matrix product, 2 n m d operations, and about three elementary functions per entry and layer, or up to
    256 multiplications for expansions.

    **Differs from the source.** The weights have the variance c / width, so that norm 1 is preserved. For the ReLU, the
    kernel equals ``ArcCosine(order=1, depth=L)``.

    References
    ----------
    Zandieh et al., Scaling Neural Tangent Kernels via Sketching and Random Features, 2021, Definition 1 and Equation
    18.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import NNGP
    >>> NNGP(depth=2)(np.array([[1.0, 0.0], [0.0, 1.0]])).round(4)
    array([[1.    , 0.4937],
           [0.4937, 1.    ]])
    """

    def _of_polar(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        layer = self._layer()
        if isinstance(layer, FoldedLayer):
            return times_norms(folded_layers(ops_for(angle), angle, layer.fold, self.depth, False), x, y, 1)
        covariance = layer.gain * layer.covariance(x, y, angle)
        for _ in range(1, self.depth):
            x, y, angle = layer.following(x, y, covariance)
            covariance = layer.gain * layer.covariance(x, y, angle)
        return covariance


class NTK(_WideNetwork):
    r"""The neural tangent kernel of an infinitely wide network.

    .. math:: k(x, y) = K_L(x, y), \quad K_0 = \Sigma_0 = \langle x, y \rangle, \quad
              K_l = K_{l-1} \dot\Sigma_l + \Sigma_l

    .. math:: \Sigma_l(x, y) = c\, \mathbb{E}\, \sigma(u)\, \sigma(v), \quad
              \dot\Sigma_l(x, y) = c\, \mathbb{E}\, \sigma'(u)\, \sigma'(v), \quad c = 1 / \mathbb{E}\, \sigma(z)^2

    for Gaussians u and v with the variances :math:`\Sigma_{l-1}(x, x)`, :math:`\Sigma_{l-1}(y, y)` and the covariance
    :math:`\Sigma_{l-1}(x, y)`, and a standard Gaussian z. For the ReLU, with a the cosine of x and y,

    .. math:: k(x, y) = |x| |y| K_L(a), \quad K_0 = \Sigma_0 = a, \quad
              K_l = K_{l-1}\, \kappa_0(\Sigma_{l-1}) + \kappa_1(\Sigma_{l-1}), \quad
              \Sigma_l = \kappa_1(\Sigma_{l-1})

    Leaky ReLU and abs are homogeneous, too, with other functions in place of ``kappa_0`` and ``kappa_1``.

    Parameters
    ----------
    depth : int, default=1
        Number L of hidden layers, at least 1.
    activation : str or callable, default="relu"
        The activation sigma, see `ActivationKernel`. Step and sign raise an error: their derivative is 0 almost
        everywhere.

    Notes
    -----
    **Error.** For ReLU, leaky ReLU and abs: a few eps per layer, relative to ``k(x, x)``, also for close rows, because
    angles are computed instead of cosines. ``K_L(1) = L + 1`` exactly. For erf, GELU, sin and cos: a few eps per layer,
    relative to ``(k(x, x) k(y, y))^(1/2)``, times the squared norm if that exceeds 1.

    Softplus and callables use a truncated Hermite expansion, see `ActivationKernel`. By Stein's lemma, the derivative
    of a callable has the coefficients ``(k + 1)^(1/2) c_(k+1)(x) / |x|``. The error is about 1e-13 if the expansion
    converges within 256 terms. If it does not, as for a kink, the error of the derivative's dual is at most
    ``2 (r(x) r(y))^(1/2) |cos(x, y)|^256``, where r is the energy of the derivative beyond the 256 terms (1/18 for a
    ReLU). This error matters for nearly parallel rows only. A callable with a jump raises an error. So does a callable
    that is too steep for the norms of the rows, such as tanh at norms above 40.

    **Cost.** One matrix product, 2 n m d operations, and about six elementary functions per entry and layer, or up to
    512 multiplications for expansions.

    **Differs from the source.** Nothing; [2]_ gives the same kernel with a different normalisation in the recursion.

    References
    ----------
    .. [1] Zandieh et al., Scaling Neural Tangent Kernels via Sketching and Random Features, 2021, Eqs. 5 and 18-20.
    .. [2] Han et al., Random Features for the Neural Tangent Kernel, 2021, Eq. 5.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import NTK
    >>> NTK(depth=1)(np.array([[1.0, 0.0], [0.0, 2.0]])).round(4)
    array([[2.    , 0.6366],
           [0.6366, 8.    ]])
    >>> NTK(depth=2, activation="gelu")(np.array([[1.0, 0.0], [0.0, 2.0]])).round(4)
    array([[ 3.2213,  1.1345],
           [ 1.1345, 16.2772]])
    """

    def _layer(self) -> WideLayer:
        return tangent_layer(self.activation)

    def _of_polar(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        layer = self._layer()
        if isinstance(layer, FoldedLayer):
            return times_norms(folded_layers(ops_for(angle), angle, layer.fold, self.depth, True), x, y, 1)
        tangent = x * y * np.cos(angle)
        for number in range(1, self.depth + 1):
            tangent = tangent * layer.slopes(x, y, angle)
            tangent *= layer.gain
            covariance = layer.gain * layer.covariance(x, y, angle)
            tangent += covariance
            if number < self.depth:
                x, y, angle = layer.following(x, y, covariance)
                del covariance
        return tangent
