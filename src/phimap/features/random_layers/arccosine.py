"""Random features of the arc-cosine kernels: powers of rectified projections."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap._validation import check_integer
from phimap.features.base import FeatureMap
from phimap.features.power_series.terms import SeriesRecord
from phimap.features.random_layers.rectified import LayeredRecord, RectifiedPlan, RectifiedRecord
from phimap.features.random_layers.remainder import ActivationPlan
from phimap.kernels import ArcCosine
from phimap.ops import Array
from phimap.projections import Projection


class ArcCosineFeatures(FeatureMap):
    """Random features of the arc-cosine kernel: ``phi(x) = sqrt(2 / m) step(Wx) (Wx)^order``, W Gaussian.

    At depth L the map is applied L times, each time with new directions: a random network of L layers of width m.

    Parameters
    ----------
    order : {0, 1, 2}, default=1
        0 for step functions, 1 for rectified linear units, 2 for their squares.
    n_components : int, default=1024
        Output width m.
    projection : str or Projection, default="auto"
        How directions are drawn: any rotation-invariant projection.
    depth : int, default=1
        Number of layers L. With exact degrees, the features of any depth are a single layer for the composed kernel.
    exact_degrees : tuple of int, default=()
        Degrees of the power series in the cosine that are represented exactly: degree 0 by a constant, degree 1 by the
        row itself, and others by products of its entries. Random features estimate the remainder, see Notes. Degree 1
        takes d components. Degrees that do not fit into m next to one random feature are dropped, the highest first.
        ``()`` is the published map.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : ArcCosine
        The exact kernel that ``Z @ Z.T`` estimates.
    record_ : RectifiedRecord, LayeredRecord or SeriesRecord
        The drawn map.
    signature_ : ndarray of int8, shape (n_components,), or None
        Signs of the features if a quadrature rule has negative weights, see `FourierFeatures`.
    n_features_in_ : int

    Notes
    -----
    **Error.** Unbiased. With independent directions the variance is ``(E[4 f(w)^2] - k^2) / m`` for
    ``f(w) = step(w.x) step(w.y) (w.x w.y)^order``: for order 0 exactly ``k (2 - k) / m``; for order 1 at most
    ``(6 |x|^2 |y|^2 - k^2) / m``, reached at x = y.

    Depth > 1: bias O(1/m) and error O(``m^(-1/2)``). For order 0, whose kernel has a kink at parallel rows, bias and
    error decrease more slowly for nearly parallel rows.

    **Exact degrees.** Let w be uniform on the sphere of radius ``sqrt(d)``, ``g = <w, x> / |x|``, a the cosine of two
    rows and ``c = E|g| = (d / pi)^(1/2) Gamma(d / 2) / Gamma((d + 1) / 2)``. After degrees (0, 1) are represented
    exactly, the random features are

    - order 1, ``kappa_1 = c^2 / 2 + a / 2 + ...``: ``|x| (|g| - c) / sqrt(2)``;
    - order 0, ``kappa_0 = 1 / 2 + c^2 a / 2 + ...``: ``(sign(g) - c g) / sqrt(2)``;
    - order 2: ``|x|^2 ((d + 2) / d / 2)^(1/2) (sign(g) g^2 - c_3 g + g^2 - 1)`` with ``c_3 = E|g|^3``.

    The mean of the product of two such features is the remainder of the kernel. So the estimate is unbiased at any
    depth, for every projection whose directions are uniform, and for any lengths of the directions. Its variance comes
    only from the remainder. The exact constant is the largest for which the remainder is positive semidefinite; it
    exceeds the constant of the power series. At depth > 1 the random features are values of a tabulated function, see
    `NTKFeatures`. Zero rows have zero features.

    **Cost.** As for `FourierFeatures` with m directions; each further layer adds 2 m^2 flops per row, O(m log m) with
    a structured projection.

    **Differs from the source in** nothing for independent directions and without exact degrees.

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
        exact_degrees: tuple[int, ...] = (),
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.order = order
        self.n_components = n_components
        self.projection = projection
        self.depth = depth
        self.exact_degrees = exact_degrees
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw(
        self, X: Array, streams: dict[str, np.random.Generator]
    ) -> RectifiedRecord | LayeredRecord | SeriesRecord:
        kernel = ArcCosine(order=self.order, depth=self.depth)
        kernel._check_parameters(X.shape[1])
        self.kernel_ = kernel
        if self.exact_degrees:
            for degree in self.exact_degrees:
                check_integer("exact_degrees", degree, least=0)
            plan = ActivationPlan.of(kernel, X.shape[1], self.n_components, self.exact_degrees, self.projection)
            closed = RectifiedPlan(self.order, plan) if self.depth == 1 else plan
            return closed.draw({"activation": streams["directions"]})
        width, rng = self.n_components, streams["directions"]
        layered = LayeredRecord.draw(self.order, X.shape[1], width, self.depth, self.projection, rng)
        return layered.layers[0] if self.depth == 1 else layered
