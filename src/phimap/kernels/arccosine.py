"""Arc-cosine kernels, and the dual functions kappa of the step, the ReLU and the squared ReLU."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap._validation import check_integer
from phimap.kernels.rotation_invariant import HomogeneousKernel, of_cosine
from phimap.ops import ops_for
from phimap.ops.primitives.folded_layers import folded_layers


def kappa0(cosine: Any) -> Any:
    r"""Evaluate the dual of the step function, ``2 E[step(w.x) step(w.y)]`` for unit x and y.

    .. math:: \kappa_0(a) = 1 - \arccos(a) / \pi

    Parameters
    ----------
    cosine : float or array-like
        ``a = <x, y>``, clipped to [-1, 1].

    Returns
    -------
    float or ndarray
        Values in [0, 1] with the shape of `cosine`; float32 for float32 input, else float64.

    Notes
    -----
    **Error.** Ill-conditioned at +-1: an error eps in the cosine becomes ``sqrt(2 eps) / pi``. The kernels
    avoid this by working with angles.

    **Cost.** One arc cosine per entry.

    **Differs from the source.** Nothing.

    References
    ----------
    Cho and Saul, Kernel Methods for Deep Learning, 2009, Eq. 4 (n = 0).

    Examples
    --------
    >>> from phimap.kernels import kappa0
    >>> kappa0([-1.0, 0.0, 1.0])
    array([0. , 0.5, 1. ])
    """
    return of_cosine(step_dual, cosine)


def kappa1(cosine: Any) -> Any:
    r"""Evaluate the dual of the ReLU, ``2 E[relu(w.x) relu(w.y)]`` for unit x and y.

    .. math:: \kappa_1(a) = \bigl(\sqrt{1 - a^2} + a (\pi - \arccos a)\bigr) / \pi

    Parameters
    ----------
    cosine : float or array-like
        ``a = <x, y>``, clipped to [-1, 1].

    Returns
    -------
    float or ndarray
        Values in [0, 1] with the shape of `cosine`; float32 for float32 input, else float64.

    Notes
    -----
    **Error.** A few eps.

    **Cost.** An arc cosine, a sine and a cosine per entry.

    **Differs from the source.** Scaled so that ``kappa1(1) = 1``.

    References
    ----------
    Cho and Saul, Kernel Methods for Deep Learning, 2009, Eq. 6 (n = 1).

    Examples
    --------
    >>> from phimap.kernels import kappa1
    >>> kappa1([-1.0, 0.0, 1.0]).round(4)
    array([0.    , 0.3183, 1.    ])
    """
    return of_cosine(relu_dual, cosine)


def kappa2(cosine: Any) -> Any:
    r"""Evaluate the dual of the squared ReLU, ``2 E[relu(w.x)^2 relu(w.y)^2]`` for unit x and y.

    .. math:: \kappa_2(a) = \bigl((\pi - t)(1 + 2 \cos^2 t) + 3 \sin t \cos t\bigr) / \pi, \quad t = \arccos a

    Parameters
    ----------
    cosine : float or array-like
        ``a = <x, y>``, clipped to [-1, 1].

    Returns
    -------
    float or ndarray
        Values in [0, 3] with the shape of `cosine`; float32 for float32 input, else float64.

    Notes
    -----
    **Error.** A few eps.

    **Cost.** An arc cosine, a sine and a cosine per entry.

    **Differs from the source.** Nothing: ``kappa2(1) = 3``, the fourth moment of a Gaussian.

    References
    ----------
    Cho and Saul, Kernel Methods for Deep Learning, 2009, Eq. 7 (n = 2).

    Examples
    --------
    >>> from phimap.kernels import kappa2
    >>> kappa2([-1.0, 0.0, 1.0])
    array([0. , 0.5, 3. ])
    """
    return of_cosine(squared_relu_dual, cosine)


def step_dual(angle: np.ndarray) -> np.ndarray:
    """``kappa0(cos(angle))`` for angles in [0, pi]."""
    return (np.pi - angle) / np.pi


def relu_dual(angle: np.ndarray) -> np.ndarray:
    """``kappa1(cos(angle))`` for angles in [0, pi]."""
    # In this form, in terms of pi - angle, the value at pi is exactly 0.
    supplement = np.pi - angle
    return np.maximum(np.sin(supplement) - supplement * np.cos(supplement), 0.0) / np.pi


def squared_relu_dual(angle: np.ndarray) -> np.ndarray:
    """``kappa2(cos(angle))`` for angles in [0, pi]."""
    supplement = np.pi - angle
    sine, cosine = np.sin(supplement), np.cos(supplement)
    return np.maximum(supplement * (1.0 + 2.0 * cosine * cosine) - 3.0 * sine * cosine, 0.0) / np.pi


def next_angle(order: int, angle: np.ndarray) -> np.ndarray:
    """Angle after a layer of order 0 or 2 for two rows at `angle`: ``arccos(kappa(cos(angle)) / kappa(1))``.

    The angle is computed from ``1 - kappa(cos(angle)) / kappa(1)``, which has a closed form without cancellation. An
    arc cosine would lose half of the digits of small angles in every layer.
    """
    if order == 0:
        complement = angle / np.pi
    else:
        sine, cosine = np.sin(angle), np.cos(angle)
        bracket = angle * (1.0 + 2.0 * cosine * cosine) - 3.0 * sine * cosine
        complement = (2.0 * np.pi * sine * sine + bracket) / (3.0 * np.pi)
    return 2.0 * np.arcsin(np.sqrt(np.clip(0.5 * complement, 0.0, 1.0)))


class ArcCosine(HomogeneousKernel):
    r"""The arc-cosine kernel: one or more infinitely wide layers of step, ReLU or squared ReLU units.

    .. math:: k_0 = \langle x, y \rangle, \qquad
              k_l(x, y) = \bigl(k_{l-1}(x, x)\, k_{l-1}(y, y)\bigr)^{n/2}
              \kappa_n\Bigl(k_{l-1}(x, y) / \sqrt{k_{l-1}(x, x)\, k_{l-1}(y, y)}\Bigr)

    The functions kappa_n are `kappa0`, `kappa1` and `kappa2`.

    Parameters
    ----------
    order : {0, 1, 2}, default=1
        The power n of the units ``max(w.x, 0)^n``.
    depth : int, default=1
        Number of layers, at least 1.

    Notes
    -----
    **Error.** A few eps times ``kappa(1)`` per layer for orders 1 and 2. Each layer of order 0 takes a
    square root of small angles, so for depth > 1 it magnifies the rounding errors of nearly parallel rows.

    **Cost.** One matrix product, 2 n m d operations, and about three elementary functions per entry and layer.

    **Differs from the source.** A zero row has cosine 0 with every row: k = 0 for order >= 1, and the value at cosine 0
    for order 0. Order 2 with depth 1 has ``k(x, x) = 3 |x|^4``, as its features ``sqrt(2/s) relu(w.x)^2`` have.

    References
    ----------
    Cho and Saul, Kernel Methods for Deep Learning, 2009, Eqs. 3-12.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import ArcCosine
    >>> ArcCosine(order=1)(np.array([[2.0, 0.0], [0.0, 1.0]])).round(4)
    array([[4.    , 0.6366],
           [0.6366, 1.    ]])
    """

    def __init__(self, order: int = 1, depth: int = 1):
        self.order = order
        self.depth = depth

    @property
    def homogeneity(self) -> int:
        """The power of the norms: 0 for order 0, 1 for order 1, ``2^depth`` for order 2."""
        return int(self.order) ** int(self.depth)

    def _check_parameters(self, n_features: int) -> None:
        if check_integer("order", self.order, least=0) > 2:
            raise ValueError(f"`order` must be 0, 1 or 2, got {self.order}.")
        check_integer("depth", self.depth, least=1)

    def _of_angle(self, angle: np.ndarray) -> np.ndarray:
        if self.order == 1:
            return folded_layers(ops_for(angle), angle, 0.5, self.depth, False)
        for _ in range(1, self.depth):
            angle = next_angle(self.order, angle)
        if self.order == 0:
            return step_dual(angle)
        # Every layer l before the last maps norms to |phi_l(x)|^2 = 3 |phi_(l-1)(x)|^4.
        return squared_relu_dual(angle) * np.power(3.0, self.homogeneity - 2)
