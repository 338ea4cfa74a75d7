"""Kernels of infinitely wide, fully connected ReLU networks."""

from __future__ import annotations

import numpy as np

from phimap._validation import check_integer
from phimap.kernels.arccosine import next_angle, relu_dual, step_dual
from phimap.kernels.base import HomogeneousKernel


class _WideReLU(HomogeneousKernel):
    """What the two kernels of a ReLU network of a given depth share."""

    def __init__(self, depth: int = 1):
        self.depth = depth

    @property
    def homogeneity(self) -> int:
        """The power of the norms: 1."""
        return 1

    def _check_parameters(self, n_features: int) -> None:
        check_integer("depth", self.depth, least=1)


class NNGP(_WideReLU):
    r"""The covariance of the outputs of an infinitely wide ReLU network at random weights.

    .. math:: k(x, y) = |x| |y| \Sigma_L(a), \quad \Sigma_0 = a = \frac{\langle x, y \rangle}{|x| |y|}, \quad
              \Sigma_l = \kappa_1(\Sigma_{l-1})

    Parameters
    ----------
    depth : int, default=1
        Number L of hidden layers, at least 1.

    Notes
    -----
    **Error.** A few eps a layer, relative to ``|x| |y|``.

    **Cost.** One matrix product, 2 n m d operations, and about three elementary functions an entry and layer.

    **Differs from the source.** The weights have the variance 2 / width, so that norms are kept. This is
    ``ArcCosine(order=1, depth=L)``.

    References
    ----------
    Zandieh et al., Scaling Neural Tangent Kernels via Sketching and Random Features, 2021, Definition 1.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import NNGP
    >>> NNGP(depth=2)(np.array([[1.0, 0.0], [0.0, 1.0]])).round(4)
    array([[1.    , 0.4937],
           [0.4937, 1.    ]])
    """

    def _of_angle(self, angle: np.ndarray) -> np.ndarray:
        for _ in range(1, self.depth):
            angle = next_angle(1, angle)
        return relu_dual(angle)


class NTK(_WideReLU):
    r"""The neural tangent kernel of an infinitely wide ReLU network.

    .. math:: k(x, y) = |x| |y| K_L(a), \quad K_0 = \Sigma_0 = a, \quad
              K_l = K_{l-1}\, \kappa_0(\Sigma_{l-1}) + \kappa_1(\Sigma_{l-1}), \quad
              \Sigma_l = \kappa_1(\Sigma_{l-1})

    Parameters
    ----------
    depth : int, default=1
        Number L of hidden layers, at least 1.

    Notes
    -----
    **Error.** A few eps a layer, relative to ``k(x, x)``; close rows lose nothing, because angles are kept in
    place of cosines. ``K_L(1) = L + 1`` exactly.

    **Cost.** One matrix product, 2 n m d operations, and about six elementary functions an entry and layer.

    **Differs from the source.** Nothing; [2]_ gives the same kernel in another normalisation of its
    recursion.

    References
    ----------
    .. [1] Zandieh et al., Scaling Neural Tangent Kernels via Sketching and Random Features, 2021, Eq. 5.
    .. [2] Han et al., Random Features for the Neural Tangent Kernel, 2021, Eq. 5.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import NTK
    >>> NTK(depth=1)(np.array([[1.0, 0.0], [0.0, 2.0]])).round(4)
    array([[2.    , 0.6366],
           [0.6366, 8.    ]])
    """

    def _of_angle(self, angle: np.ndarray) -> np.ndarray:
        tangent = np.cos(angle)
        for layer in range(self.depth):
            if layer:
                angle = next_angle(1, angle)
            tangent *= step_dual(angle)
            tangent += relu_dual(angle)
        return tangent
