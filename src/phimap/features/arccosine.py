"""Random features of the arc-cosine kernels: powers of rectified projections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap._validation import check_integer
from phimap.features.base import FeatureMap
from phimap.features.pointwise import PointwiseRecord
from phimap.kernels import ArcCosine
from phimap.kernels.spectral import SpectralLaw, StandardGaussianLaw
from phimap.ops import Array, Ops
from phimap.projections import Projection, as_projection
from phimap.projections.base import ProjectionRecord


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


class ArcCosineFeatures(FeatureMap):
    """Random features of the arc-cosine kernel: ``phi(x) = sqrt(2 / m) step(Wx) (Wx)^order``, W Gaussian.

    Parameters
    ----------
    order : {0, 1, 2}, default=1
        0 gives steps, 1 rectified linear units, 2 their squares.
    n_components : int, default=1024
        Output width m.
    projection : str or Projection, default="auto"
        How directions are drawn: any rotation-invariant projection.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of the named streams; None is fresh entropy.
    n_jobs : int or None, default=None
        Threads; None is the configured number. Changes no bit of the result.

    Attributes
    ----------
    kernel_ : ArcCosine
        The exact kernel that ``Z @ Z.T`` estimates.
    record_ : RectifiedRecord
        All that was drawn.
    signature_ : ndarray of int8, shape (n_components,), or None
        Signs of the features where a quadrature rule has negative weights, see `FourierFeatures`.
    n_features_in_ : int

    Notes
    -----
    **Error.** Unbiased. With independent directions the variance is ``(E[4 f(w)^2] - k^2) / m`` for
    ``f(w) = step(w.x) step(w.y) (w.x w.y)^order``: for order 0 exactly ``k (2 - k) / m``; for order 1 at most
    ``(6 |x|^2 |y|^2 - k^2) / m``, reached at x = y.

    **Cost.** As for `FourierFeatures` with m directions.

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
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.order = order
        self.n_components = n_components
        self.projection = projection
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> RectifiedRecord:
        order = check_integer("order", self.order, least=0)
        if order > 2:
            raise ValueError(f"`order` must be 0, 1 or 2, got {order}.")
        self.kernel_ = ArcCosine(order=order)
        law = StandardGaussianLaw(X.shape[1])
        return RectifiedRecord.draw(order, law, self.n_components, self.projection, streams["directions"])
