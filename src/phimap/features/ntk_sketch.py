"""Sketched polynomials of the neural tangent kernel of fully connected ReLU networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phimap._validation import check_choice, check_integer
from phimap.features.base import FeatureMap
from phimap.features.dot_product import draw_series
from phimap.kernels import NTK
from phimap.ops import Array
from phimap.random_map import MapRecord


class NTKSketch(FeatureMap):
    """Sketches of a polynomial near the ReLU neural tangent kernel of a network with `depth` hidden layers.

    The kernel is ``|x| |y| K_L(cos(x, y))``. To K_L a polynomial with coefficients that are not negative is fitted,
    one for all layers together; its constant and its linear term are carried exactly, its other powers by one tree
    of sketches.

    Parameters
    ----------
    depth : int, default=1
        Number L of hidden layers, at least 1. Costs nothing in `transform`.
    n_components : int, default=1024
        Output width m.
    degree : int, default=8
        Degree of the polynomial.
    method : {"direct"}, default="direct"
        The polynomial is that of K_L itself.
    exact_degrees : tuple of int, default=(0, 1)
        Degrees carried exactly, see `DotProductFeatures`.
    adaptive : bool, default=True
        Use moments of the data in `fit`: the polynomial is fitted to the cosines that the data have, and the terms
        are split and chosen as in `DotProductFeatures`. Without them it is fitted on Chebyshev nodes, and the map
        depends on the data's width alone.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of the named streams; None is fresh entropy.
    n_jobs : int or None, default=None
        Threads; None is the configured number. Changes no bit of the result.

    Attributes
    ----------
    kernel_ : NTK
        The exact kernel that ``Z @ Z.T`` estimates.
    record_ : SeriesRecord
        The terms of the map.
    n_features_in_ : int

    Notes
    -----
    **Error.** Unbiased for the polynomial, whose own error does not fall with m. At degree 8 that is 0.001 of the
    kernel at depth 1 and 0.003 at depth 3 over 1,000 rows of MNIST divided by their norms. With the sketches' it is
    0.0036 and 0.0093 at m = 8192 (0.010 and 0.017 for ``adaptive=False``); on rows centred first 0.0113 and 0.0186.
    Data in few dimensions, whose cosines fill [-1, 1], are worth a higher `degree`.

    **Cost.** That of `DotProductFeatures`.

    **Differs from the source in** the fit to the data's cosines, the exact terms and the split, and in one output
    width for each power in place of a final projection.

    References
    ----------
    Zandieh, Han, Avron, Shoham, Kim, Shin (2021), *Scaling neural tangent kernels via sketching and random features*,
    Remark 1.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((200, 50))
    >>> phi = pm.NTKSketch(depth=3, n_components=4096, random_state=0).fit(X)
    >>> bool(pm.metrics.relative_error(phi, X) < 0.05)
    True
    """

    _roles = ("sketch",)

    def __init__(
        self,
        depth: int = 1,
        n_components: int = 1024,
        *,
        degree: int = 8,
        method: str = "direct",
        exact_degrees: tuple[int, ...] = (0, 1),
        adaptive: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.depth = depth
        self.n_components = n_components
        self.degree = degree
        self.method = method
        self.exact_degrees = exact_degrees
        self.adaptive = adaptive
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> MapRecord:
        check_integer("depth", self.depth, least=1)
        check_integer("degree", self.degree, least=1)
        draw = _DRAWS[check_choice("method", self.method, tuple(_DRAWS))]
        self.kernel_ = NTK(depth=self.depth)
        return draw(self, X, streams["sketch"])


def _draw_direct(sketch: NTKSketch, X: Array, rng: np.random.Generator) -> MapRecord:
    return draw_series(
        NTK(depth=sketch.depth),
        X,
        sketch.n_components,
        method="polysketch",
        degree=sketch.degree,
        exact_degrees=sketch.exact_degrees,
        adaptive=sketch.adaptive,
        rng=rng,
    )


_DRAWS: dict[str, Callable[[NTKSketch, Array, np.random.Generator], MapRecord]] = {"direct": _draw_direct}
