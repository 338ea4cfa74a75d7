"""Explicit tensor-product features of the neural tangent kernel.

This is the published construction without its sketch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap._validation import check_integer
from phimap.config import memory_budget, size_text
from phimap.features.base import FeatureMap
from phimap.features.ntk.layer_options import LayerOptions, LayerWidths, tensor_width
from phimap.features.ntk.layers import NTKRecord
from phimap.kernels import NTK
from phimap.ops import Array
from phimap.projections import Projection


class NTKTensorFeatures(FeatureMap):
    """Features of the neural tangent kernel by explicit tensor products, without a sketch.

    Start with ``phi_0 = psi_0 = x / |x|``. In layer l, phi_l are the rectified features of phi_{l-1}, and ``psi_l =
    phi_l (+) (step features of phi_{l-1} (x) psi_{l-1})`` contains all products. The output is ``|x| psi_L``.

    Parameters
    ----------
    depth : int, default=1
        Number L of hidden layers, at least 1.
    width : int, default=8
        Number w of rectified features, and of step features, of each layer.
    sampling : {"gaussian", "leverage", "gibbs"}, default="gaussian"
        Distribution of the rectified features' directions, see `NTKFeatures`.
    projection : str or Projection, default="auto"
        How directions are drawn: any rotation-invariant projection.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : NTK
        The exact kernel that ``Z @ Z.T`` estimates.
    record_ : NTKRecord
        The drawn layers. The output width is ``w + w^2 + ... + w^L + w^L d``, see `output_width`.
    n_features_in_ : int

    Notes
    -----
    **Error.** Unbiased at depth 1; deeper maps have a bias O(1 / w). The error falls like ``1 / sqrt(w)``, that is
    like ``m^(-1 / (2 L))`` in the output width m.

    **Cost.** One multiplication for each output. The number of outputs grows exponentially with the depth. `fit` raises
    MemoryError if the features of one row exceed the byte budget. `NTKFeatures` sketches the products to any width.

    **Differs from the source in** the input and the projection. The input is normalised first, and the features are
    multiplied by its norm at the end. The published independent directions are ``projection="gaussian"``.

    References
    ----------
    Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*, Equation 12 (Naive-RF);
    Bietti, Mairal (2019), *On the inductive bias of neural tangent kernels*.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> phi = pm.NTKTensorFeatures(depth=2, width=4, random_state=0).fit(np.eye(3))
    >>> phi.transform(np.eye(3)).shape
    (3, 68)
    """

    _roles = ("relu", "step", "sketch")

    def __init__(
        self,
        depth: int = 1,
        width: int = 8,
        *,
        sampling: str = "gaussian",
        projection: str | Projection = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.depth = depth
        self.width = width
        self.sampling = sampling
        self.projection = projection
        self.random_state = random_state
        self.n_jobs = n_jobs

    def output_width(self, n_features: int) -> int:
        """Width of the features for inputs with `n_features` columns; can be called before `fit`."""
        return tensor_width(n_features, [self.width] * self.depth, [self.width] * self.depth)

    def _check_width(self) -> None:
        check_integer("depth", self.depth, least=1)
        check_integer("width", self.width, least=1)

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> NTKRecord:
        n_components = self.output_width(X.shape[1])
        if 8 * n_components > memory_budget():
            raise MemoryError(
                f"`width`={self.width} at `depth`={self.depth} gives {n_components:,} components for {X.shape[1]} "
                f"inputs: one row takes {size_text(8 * n_components)}, over the budget of "
                f"{size_text(memory_budget())}. Use NTKFeatures, which sketches the products, or a smaller width."
            )
        self.kernel_ = NTK(depth=self.depth)
        widths = [LayerWidths(self.width, self.width, None)] * self.depth
        options = LayerOptions("none", self.sampling, projection=self.projection)
        options.check()
        return NTKRecord.draw(X.shape[1], widths, options, streams)
