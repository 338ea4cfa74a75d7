"""Random features of the arc-cosine kernels: powers of rectified projections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap.features.base import FeatureMap
from phimap.features.pointwise import PointwiseRecord
from phimap.kernels import ArcCosine
from phimap.kernels.spectral import SpectralLaw, StandardGaussianLaw
from phimap.ops import Array, Ops
from phimap.projections import Projection, as_projection
from phimap.projections.base import ProjectionRecord
from phimap.random_map import MapRecord


@dataclass(frozen=True)
class RectifiedRecord(PointwiseRecord):
    """``scale * step(Wx) (Wx)^order``.

    Attributes
    ----------
    projection : ProjectionRecord
    order : int
    scale : ndarray of shape (n_components,)
    """

    projection: ProjectionRecord
    order: int
    scale: np.ndarray

    @classmethod
    def draw(
        cls,
        order: int,
        law: SpectralLaw,
        n_components: int,
        projection: str | Projection,
        rng: np.random.Generator,
    ) -> RectifiedRecord:
        """Draw directions from a Gaussian law, and weight them so that they estimate the arc-cosine kernel."""
        directions = as_projection(projection, law).sample(law, n_components, rng)
        return cls(directions, order, 2**0.5 * directions.weight_roots)

    def _respond(self, ops: Ops, projected: Array, scale: Array, out: Array, first: int) -> None:
        ops.rectify(projected, self.order, scale, out, first)


@dataclass(frozen=True)
class LayeredRecord(MapRecord):
    """Layers of rectified features, each of those before it.

    Attributes
    ----------
    layers : tuple of RectifiedRecord
        At least one; all but the last have positive weights.
    """

    layers: tuple[RectifiedRecord, ...]

    @property
    def n_features(self) -> int:
        return self.layers[0].n_features

    @property
    def n_components(self) -> int:
        return self.layers[-1].n_components

    @property
    def signature(self) -> np.ndarray | None:
        """Signs of the components, int8 (n_components,), or None where no weight is negative."""
        return self.layers[-1].signature

    @property
    def scratch_width(self) -> int:
        return sum(layer.scratch_width + layer.n_components for layer in self.layers)

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        for layer in self.layers[:-1]:
            hidden = ops.empty((X.shape[0], layer.n_components))
            layer.apply(ops, X, hidden)
            X = hidden
        self.layers[-1].apply(ops, X, out, first)


class ArcCosineFeatures(FeatureMap):
    """Random features of the arc-cosine kernel: ``phi(x) = sqrt(2 / m) step(Wx) (Wx)^order``, W Gaussian.

    At depth L the map is applied L times, each time with new directions: a random network of L layers of width m.

    Parameters
    ----------
    order : {0, 1, 2}, default=1
        0 gives steps, 1 rectified linear units, 2 their squares.
    n_components : int, default=1024
        Output width m.
    projection : str or Projection, default="auto"
        How directions are drawn: any rotation-invariant projection.
    depth : int, default=1
        Number of layers L.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of the named streams; None is fresh entropy.
    n_jobs : int or None, default=None
        Threads; None is the configured number. Changes no bit of the result.

    Attributes
    ----------
    kernel_ : ArcCosine
        The exact kernel that ``Z @ Z.T`` estimates.
    record_ : RectifiedRecord or LayeredRecord
        All that was drawn.
    signature_ : ndarray of int8, shape (n_components,), or None
        Signs of the features where a quadrature rule has negative weights, see `FourierFeatures`.
    n_features_in_ : int

    Notes
    -----
    **Error.** Unbiased. With independent directions the variance is ``(E[4 f(w)^2] - k^2) / m`` for
    ``f(w) = step(w.x) step(w.y) (w.x w.y)^order``: for order 0 exactly ``k (2 - k) / m``; for order 1 at most
    ``(6 |x|^2 |y|^2 - k^2) / m``, reached at x = y.

    Depth > 1: biased by the order of 1/m, with an error of the order of ``m^(-1/2)``; for order 0, whose kernel has a
    kink at parallel rows, both fall more slowly near them.

    **Cost.** As for `FourierFeatures` with m directions; each further layer adds 2 m^2 flops a row, O(m log m) with a
    structured projection.

    **Differs from the source in** nothing for independent directions.

    References
    ----------
    Cho, Saul (2009), *Kernel methods for deep learning*, Equations 1-6; Zandieh et al. (2021), *Scaling neural
    tangent kernels via sketching and random features*, Equation 11.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> phi = pm.ArcCosineFeatures(order=0, n_components=4096, random_state=0)
    >>> Z = phi.fit_transform(X)
    >>> bool(np.abs(Z @ Z.T - phi.kernel_(X)).max() < 5 / np.sqrt(4096))
    True
    """

    _roles = ("directions",)

    def __init__(
        self,
        order: int = 1,
        n_components: int = 1024,
        *,
        projection: str | Projection = "auto",
        depth: int = 1,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.order = order
        self.n_components = n_components
        self.projection = projection
        self.depth = depth
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> RectifiedRecord | LayeredRecord:
        self.kernel_ = ArcCosine(order=self.order, depth=self.depth)
        self.kernel_._check_parameters(X.shape[1])
        layers: list[RectifiedRecord] = []
        for _ in range(self.depth):
            if layers and layers[-1].signature is not None:
                raise ValueError(
                    f"`projection` must give positive quadrature weights for depth > 1, got {self.projection!r}. "
                    "Use projection='orthogonal' or 'sorf'."
                )
            law = StandardGaussianLaw(layers[-1].n_components if layers else X.shape[1])
            rng = streams["directions"]
            layers.append(RectifiedRecord.draw(self.order, law, self.n_components, self.projection, rng))
        return layers[0] if self.depth == 1 else LayeredRecord(tuple(layers))
