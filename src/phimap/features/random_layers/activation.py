"""Random features of the dual kernels of activations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phimap.features.base import FeatureMap
from phimap.features.random_layers.pointwise import PointwiseRecord
from phimap.kernels import ActivationKernel
from phimap.kernels.spectral import StandardGaussianLaw
from phimap.ops import Array, Ops
from phimap.ops.activations import NAMES, SLOPES
from phimap.ops.primitives.activation import activate
from phimap.projections import Projection, as_projection
from phimap.projections.base import ProjectionRecord
from phimap.records import of_floats, with_lengths


@dataclass(frozen=True)
class ActivationRecord(PointwiseRecord):
    """The map ``scale * activation(Wx)``.

    Attributes
    ----------
    projection : ProjectionRecord
        The directions W.
    activation : str or callable
        Name of an activation or of the derivative of one. A callable cannot be written to a model file.
    scale : ndarray of shape (n_components,)
        Factors of the features.
    """

    projection: ProjectionRecord = field(metadata=with_lengths(n_directions="s"))
    activation: str | Callable[[Any], Any]
    scale: np.ndarray = field(metadata=of_floats("s"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.activation in {*NAMES, *SLOPES.values()}, "an activation that has a name"

    def _respond(self, ops: Ops, projected: Array, columns: slice, out: Array, first: int) -> None:
        activate(ops, projected, self.activation, self.scale[columns], out, first)


class ActivationFeatures(FeatureMap):
    r"""Random features of an activation's dual kernel: one random layer ``phi(x) = sigma(W x) / sqrt(m)``.

    .. math:: k(x, y) = \mathbb{E}_{w \sim N(0, I)}\, \sigma(\langle w, x \rangle)\, \sigma(\langle w, y \rangle)

    Parameters
    ----------
    activation : {"abs", "cos", "erf", "gelu", "relu", "sign", "sin", "softplus", "step"} or callable, default="relu"
        The function sigma. A callable is given an array of projections (a tensor if the input is a tensor) and returns
        one real number for each; it must not write to its argument. Step and sign are 0 at 0.
    n_components : int, default=1024
        Output width m.
    projection : str or Projection, default="auto"
        How directions are drawn: any projection for the standard Gaussian distribution.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : ActivationKernel
        The exact kernel that ``Z @ Z.T`` estimates. To evaluate it, a callable must accept NumPy arrays.
    record_ : ActivationRecord
        The drawn directions and scales.
    signature_ : ndarray of int8, shape (n_components,), or None
        Signs of the features if a quadrature rule has negative weights, see `FourierFeatures`.
    n_features_in_ : int

    Raises
    ------
    ValueError
        If there is no activation of that name, or a callable does not return one real number for each projection.
    TypeError
        If `activation` is neither text nor callable. `phimap.save` raises it for a callable, which cannot be saved.

    Notes
    -----
    **Error.** Unbiased for every projection whose directions are Gaussian. With independent directions the variance is
    ``(E[sigma(w.x)^2 sigma(w.y)^2] - k^2) / m``: at most ``(1 - k^2) / m`` for activations between -1 and 1.

    **Cost.** As for `FourierFeatures` with m directions. Relu and step are one compiled pass over the tile; other
    activations are array functions applied to blocks of projections that fit into the cache.

    **Differs from the source in** nothing for independent directions. ``relu`` and ``step`` are the arc-cosine features
    of order 1 and 0 without their factor ``sqrt(2)``.

    References
    ----------
    Rahimi, Recht (2008), *Weighted sums of random kitchen sinks*, Section 2; Liu, Huang, Chen, Suykens (2021), *Random
    features for kernel approximation*, Section 2.2; Zandieh et al. (2021), *Scaling neural tangent kernels via
    sketching and random features*, Equations 18-20.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> phi = pm.ActivationFeatures("erf", n_components=4096, random_state=0)
    >>> Z = phi.fit_transform(X)
    >>> bool(np.abs(Z @ Z.T - phi.kernel_(X)).max() < 5 / np.sqrt(4096))
    True
    """

    _roles = ("directions",)

    def __init__(
        self,
        activation: str | Callable[[Any], Any] = "relu",
        n_components: int = 1024,
        *,
        projection: str | Projection = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.activation = activation
        self.n_components = n_components
        self.projection = projection
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> ActivationRecord:
        self.kernel_ = ActivationKernel(self.activation)
        self.kernel_._check_parameters(X.shape[1])
        law = StandardGaussianLaw(X.shape[1])
        projection = as_projection(self.projection, law)
        directions = projection.sample(law, self.n_components, streams["directions"])
        return ActivationRecord(directions, self.activation, directions.weight_roots)
