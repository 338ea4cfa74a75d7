"""Explicit tensor-product features of the neural tangent kernel: the published construction without its sketch."""

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

    With ``phi_0 = psi_0 = x / |x|`` a layer's rectified features of phi_{l-1} are phi_l, and ``psi_l = phi_l (+)
    (step features of phi_{l-1} (x) psi_{l-1})`` holds every product. The output is ``|x| psi_L``.

    Parameters
    ----------
    depth : int, default=1
        Number L of hidden layers, at least 1.
    width : int, default=8
        Rectified features m1, and step features m0, of each layer.
    sampling : {"gaussian", "leverage", "gibbs"}, default="gaussian"
        Law of the rectified features' directions, see `NTKFeatures`.
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
        All that was drawn; the output width is ``w + w^2 + ... + w^L + w^L d``, see `output_width`.
    n_features_in_ : int

    Notes
    -----
    **Error.** Unbiased at depth 1, biased by the order of 1 / w beyond; the error falls like ``1 / sqrt(w)``, which is
    the root of the output width to the power ``1 / L``.

    **Cost.** One multiplication for each output, exponentially many in the depth: `fit` refuses a width of which one
    row exceeds the byte budget. `NTKFeatures` sketches the products and keeps the width at will.

    **Differs from the source in** the input, normalised first and multiplied by its norm at the end, and in the
    projection, which is designed or structured unless ``projection="gaussian"`` asks for the published independent
    directions.

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
        """Width of the features of inputs with `n_features` columns, before `fit`."""
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
