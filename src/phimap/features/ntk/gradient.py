"""Gradient features: gradients of a random ReLU network of finite width with respect to its weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phimap._validation import check_integer
from phimap.features.base import FeatureMap
from phimap.kernels import NTK
from phimap.ops import Array, Ops
from phimap.ops.primitives.activation import rectify
from phimap.ops.primitives.outer import outer
from phimap.random_map import MapRecord
from phimap.records import of_floats


@dataclass(frozen=True)
class GradientRecord(MapRecord):
    """The random weights of a network, whose gradients are the features.

    Attributes
    ----------
    weights : tuple of ndarray of shape (n_inputs, width)
        Transposed weight matrices of the hidden layers, first to last.
    readout : ndarray of shape (width,)
        Weights of the linear output.
    """

    weights: tuple[np.ndarray, ...] = field(metadata=of_floats(None, "w"))
    readout: np.ndarray = field(metadata=of_floats("w"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield len(self.weights) > 0, "a layer"
        yield all(W.shape[0] == W.shape[1] for W in self.weights[1:]), "layers that follow each other"

    @property
    def n_features(self) -> int:
        return self.weights[0].shape[0]

    @property
    def n_components(self) -> int:
        return self.readout.shape[0] + sum(W.shape[0] * W.shape[1] for W in self.weights)

    @property
    def scratch_width(self) -> int:
        return self.n_features + (3 * len(self.weights) + 2) * self.readout.shape[0]

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        width = self.readout.shape[0]
        # The factor sqrt(2 / width) preserves the mean squared norm from layer to layer.
        gain = ops.constant(np.full(width, (2.0 / width) ** 0.5))
        entering, slopes = [X], []
        for W in self.weights:
            projected = ops.matmul(entering[-1], W)
            slope, activation = ops.empty((X.shape[0], width)), ops.empty((X.shape[0], width))
            rectify(ops, projected, 0, gain, slope, 0)
            rectify(ops, projected, 1, gain, activation, 0)
            slopes.append(slope)
            entering.append(activation)
        # Columns: gradients for the readout, then for the layers from last to first, in the order of backpropagation.
        ops.copy(entering.pop(), out, first)
        column = first + width
        signal = self.readout
        for W, slope in zip(self.weights[::-1], slopes[::-1], strict=True):
            inputs = entering.pop()
            signal = signal * slope
            outer(ops, signal, inputs, out, column)
            column += W.shape[0] * W.shape[1]
            if entering:
                signal = ops.matmul(signal, W.T)


class NTKGradientFeatures(FeatureMap):
    r"""Gradient features: the gradient of a random ReLU network's output with respect to all its weights.

    .. math:: f(x) = \langle v, h_L \rangle, \quad h_l = \sqrt{2 / w}\; \mathrm{ReLU}(W_l h_{l-1}), \quad h_0 = x

    with standard normal weights. The gradient is ``h_L`` for v and ``delta_l (x) h_{l-1}`` for ``W_l``, where
    ``delta_L = sqrt(2 / w) v * step(W_L h_{L-1})`` and ``delta_{l-1} = sqrt(2 / w) (W_l^T delta_l) * step(W_{l-1}
    h_{l-2})``. As the width w grows, inner products of gradients tend to the neural tangent kernel.

    Parameters
    ----------
    depth : int, default=1
        Number L of hidden layers, at least 1.
    width : int, default=64
        Width w of each hidden layer.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : NTK
        The kernel of the infinitely wide network.
    record_ : GradientRecord
        The weights. The output width is ``w (d + 1 + (L - 1) w)``, see `output_width`.
    n_features_in_ : int

    Notes
    -----
    **Error.** Unbiased at depth 1; deeper maps have a bias O(L / w). The error falls like ``sqrt(L / w)``; at depth 1
    this is about ``sqrt(d / m)`` for the output width m. These features are the baseline for random features of the
    kernel.

    **Cost.** O(L w^2 + w d) flops per row, and as many features. Use `transform_batches` to process the features in
    batches.

    **Differs from the source in** nothing: the kernel is scaled as in `phimap.kernels.NTK`, with ``K_L(1) = L + 1``.

    References
    ----------
    Arora, Du, Hu, Li, Salakhutdinov, Wang (2019), *On exact computation with an infinitely wide neural net*, Section 3;
    Zandieh et al. (2021), *Scaling neural tangent kernels via sketching and random features*, Section 5.1 (GradRF).

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.eye(3)
    >>> phi = pm.NTKGradientFeatures(depth=2, width=10, random_state=0).fit(X)
    >>> phi.transform(X).shape
    (3, 140)
    """

    _roles = ("weights", "readout")

    def __init__(self, depth: int = 1, width: int = 64, *, random_state: Any = None, n_jobs: int | None = None):
        self.depth = depth
        self.width = width
        self.random_state = random_state
        self.n_jobs = n_jobs

    def output_width(self, n_features: int) -> int:
        """Width of the features for inputs with `n_features` columns; can be called before `fit`."""
        return self.width * (n_features + 1 + (self.depth - 1) * self.width)

    def _check_width(self) -> None:
        check_integer("depth", self.depth, least=1)
        check_integer("width", self.width, least=1)

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> GradientRecord:
        self.kernel_ = NTK(depth=self.depth)
        inputs = [X.shape[1]] + [self.width] * (self.depth - 1)
        weights = tuple(streams["weights"].standard_normal((entering, self.width)) for entering in inputs)
        return GradientRecord(weights, streams["readout"].standard_normal(self.width))
