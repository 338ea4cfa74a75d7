"""Dual kernels of activations: infinitely wide layers with any activation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phimap.kernels.geometry import Rows, row_norms
from phimap.kernels.rotation_invariant import RotationInvariantKernel
from phimap.kernels.wide_layers import wide_layer


class ActivationKernel(RotationInvariantKernel):
    r"""The dual kernel of an activation: the kernel of an infinitely wide layer.

    .. math:: k(x, y) = \mathbb{E}_{w \sim N(0, I)}\, \sigma(\langle w, x \rangle)\, \sigma(\langle w, y \rangle)

    Parameters
    ----------
    activation : str or callable, default="relu"
        The function sigma: ``"abs"``, ``"cos"``, ``"erf"``, ``"gelu"``, ``"leaky-relu"``, ``"relu"``, ``"sign"``,
        ``"sin"``, ``"softplus"``, ``"step"``, a `LeakyReLU`, or a function of arrays. A function takes a float64 array
        and returns one real number per entry. Step and sign are 0 at 0.

    Notes
    -----
    **Error.** All named activations except softplus have closed forms in norms and angles, with an absolute error of a
    few eps times ``(k(x, x) k(y, y))^(1/2)``. Softplus and callables use 256 terms of the Hermite expansion of
    ``sigma(|x| z)``. Two more terms hold the remainder, whose energy is ``r(x) <= k(x, x)``. The error is at most
    ``2 (r(x) r(y))^(1/2) |cos(x, y)|^256``, plus the error of a quadrature whose points are ``0.024 |x|`` apart in the
    argument of sigma.

    **Cost.** One matrix product, 2 n m d operations, and a few elementary functions per entry for closed forms.
    Expansions take up to 256 multiplications per entry, fewer for smooth activations, and 1,024 evaluations of sigma
    per row and tile.

    **Differs from the source in** the integral. One-dimensional integrals per row, which give positive semidefinite
    matrices, replace a two-dimensional integral per pair. The closed form for GELU comes from integration by parts.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, Equation 4.29 (erf); Cho and Saul, Kernel
    Methods for Deep Learning, 2009, Equations 4 and 6 (step, ReLU); Rahimi and Recht, Random Features for
    Large-Scale Kernel Machines, 2007 (sin, cos); Zandieh et al., Scaling Neural Tangent Kernels via Sketching and
    Random Features, 2021, Equations 18-20.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import ActivationKernel
    >>> X = np.array([[1.0, 0.0], [0.6, 0.8]])
    >>> ActivationKernel("erf")(X).round(4)
    array([[0.4646, 0.262 ],
           [0.262 , 0.4646]])
    >>> ActivationKernel(np.tanh)(X).round(4)
    array([[0.3943, 0.2252],
           [0.2252, 0.3943]])
    """

    def __init__(self, activation: str | Callable[[Any], Any] = "relu"):
        self.activation = activation

    @property
    def norm_power(self) -> int | None:
        """Power p of the norms: 1 if the activation is 0 at 0, else 0; None for step and sign."""
        return wide_layer(self.activation).norm_power

    def _check_parameters(self, n_features: int) -> None:
        wide_layer(self.activation)

    def _of_polar(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        return wide_layer(self.activation).covariance(x, y, angle)

    def _diagonal(self, X: Rows) -> np.ndarray:
        return wide_layer(self.activation).energy(row_norms(X))
