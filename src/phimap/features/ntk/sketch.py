"""Sketches of polynomial approximations of the neural tangent kernel of fully connected networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from phimap._validation import check_choice, check_integer
from phimap.features.base import FeatureMap
from phimap.features.ntk.sketch_layers import NTKSketchRecord
from phimap.features.ntk.sketch_sizes import LayeredOptions
from phimap.features.power_series.row_sample import RowSample
from phimap.features.power_series.series import SeriesOptions, SeriesPlan
from phimap.kernels import NTK
from phimap.kernels.wide_layers import FoldedLayer, wide_layer
from phimap.ops import Array
from phimap.random_map import MapRecord


class NTKSketch(FeatureMap):
    """Sketches of a polynomial approximation of the neural tangent kernel of a network with `depth` hidden layers.

    For ReLU units the kernel is ``|x| |y| K_L(cos(x, y))``. The direct form fits one polynomial with nonnegative
    coefficients to K_L. The constant and the linear term are exact; other powers are sketched by one tree. The layered
    form sketches the Taylor polynomials of kappa_1 and kappa_0, with the coefficients c_j and b_j, at every layer:
    ``phi_l = T (sum_j sqrt(c_j) Q phi_{l-1}^j)``, ``phi'_l = W (sum_j sqrt(b_j) Q' phi_{l-1}^j)`` and
    ``psi_l = R (Q''(psi_{l-1} (x) phi'_l) (+) phi_l)``. Here T, W, R, Q, Q' and Q'' are sketches, sums are direct sums,
    and powers are tensor powers. Its output is ``|x| G psi_L`` with a Gaussian matrix G.

    Parameters
    ----------
    depth : int, default=1
        Number L of hidden layers, at least 1. The cost of `transform` of the direct form does not depend on it.
    n_components : int, default=1024
        Output width m; not used if `epsilon` is given, see `output_width`.
    activation : str or callable, default="relu"
        Activation of the network, see `NTKFeatures`. If the kernel depends on the norms, the coefficients of the
        polynomial do, too. The layered form supports ReLU, leaky ReLU and abs.
    degree : int, default=8
        Degree of the polynomial. In the layered form it is at least 2: the polynomial of kappa_1 has the largest even
        degree up to `degree`, the polynomial of kappa_0 the largest odd degree.
    method : {"direct", "layered"}, default="direct"
        ``"direct"`` is one polynomial for K_L. ``"layered"`` is Algorithm 1 of the source, which has more error and
        takes longer.
    exact_degrees : tuple of int, default=(0, 1)
        Degrees to represent exactly, see `DotProductFeatures`. Only for the direct form.
    adaptive : bool, default=True
        Use moments of the data in `fit`: the polynomial is fitted to the cosines in the data, and the terms are split
        and chosen as in `DotProductFeatures`. If False, it is fitted on Chebyshev nodes, and the map depends only on
        the number of inputs. Only for the direct form; the layered form never uses the data.
    phi_components : int or None, default=None
        Width r of the features phi_l of the layered form; None is half of the output width.
    psi_components : int or None, default=None
        Width s of the features psi_l of the layered form; None is the output width.
    relu_components, step_components : int or None, default=None
        Widths m and n1 of the sketch of each power in kappa_1 and in kappa_0 of the layered form; None is half of the
        output width.
    normalize : bool, default=True
        Whether every phi_l of the layered form is divided by its norm, whose mean is 1. False is the published form: in
        narrow and deep maps, powers of norms above 1 then grow without bound.
    epsilon, delta : float or None, default=None
        For the layered form: the relative error, and the probability of failure for a pair of points. If given, both
        must be given. They determine the output width, all inner widths and both degrees by the orders of the source's
        Theorem 1, with all constants set to 1. `n_components` and `degree` are then ignored; other widths, if given,
        are used.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : NTK
        The exact kernel that ``Z @ Z.T`` estimates.
    record_ : SeriesRecord or NTKSketchRecord
        The terms of the map, or its layers.
    n_features_in_ : int

    Notes
    -----
    **Error.** Unbiased for the polynomial, whose own error does not fall with m. For data in few dimensions, whose
    cosines fill [-1, 1], a higher `degree` is better. In the layered form, the errors of its sketches and of the Taylor
    polynomials add up; Taylor polynomials converge slowly for nearly parallel rows. Measurements are on the guide's
    page on neural tangent kernels.

    **Cost.** As for `DotProductFeatures`; O(nnz) for wide sparse rows. The layered form takes, per layer, O(p)
    transforms of width m and n1 for polynomials of degree p, and finally O(s m) flops per row for G, whose s m entries
    are stored. The orders of Theorem 1 grow fast: for L = 2, epsilon = 0.5 and delta = 0.1 one inner width is half a
    million. Rows wider than 8 r are hashed by OSNAP, in O(nnz); narrower rows are transformed in O(r log r).

    **Differs from the source in** the following. The direct form fits the data's cosines, has exact terms and the
    split, and gives each power its own output width instead of a final projection. The layered form differs in the
    norms, see `normalize`; in the differences of `PolySketch`; in SRHT without replacement, which also replaces
    OSNAP for rows of up to 8 r features; and in omitting powers with coefficient zero.

    References
    ----------
    Zandieh, Han, Avron, Shoham, Kim, Shin (2021), *Scaling neural tangent kernels via sketching and random features*,
    Algorithm 1, Theorem 1 and Remark 1.

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
        activation: str | Callable[[Any], Any] = "relu",
        degree: int = 8,
        method: str = "direct",
        exact_degrees: tuple[int, ...] = (0, 1),
        adaptive: bool = True,
        phi_components: int | None = None,
        psi_components: int | None = None,
        relu_components: int | None = None,
        step_components: int | None = None,
        normalize: bool = True,
        epsilon: float | None = None,
        delta: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.depth = depth
        self.n_components = n_components
        self.activation = activation
        self.degree = degree
        self.method = method
        self.exact_degrees = exact_degrees
        self.adaptive = adaptive
        self.phi_components = phi_components
        self.psi_components = psi_components
        self.relu_components = relu_components
        self.step_components = step_components
        self.normalize = normalize
        self.epsilon = epsilon
        self.delta = delta
        self.random_state = random_state
        self.n_jobs = n_jobs

    def output_width(self, n_features: int) -> int:
        """Width of the features for inputs with `n_features` columns; can be called before `fit`."""
        bound = self._layered_options().bound()
        return self.n_components if bound is None else bound.output

    def _check_width(self) -> None:
        if self._layered_options().bound() is None:
            super()._check_width()

    def _layered_options(self) -> LayeredOptions:
        given = [value for value in (self.epsilon, self.delta) if value is not None]
        if len(given) == 1 or (given and self.method != "layered"):
            raise ValueError(
                "`epsilon` and `delta` must be given together and for method='layered', got "
                f"epsilon={self.epsilon}, delta={self.delta}, method={self.method!r}. Use `degree` instead."
            )
        return LayeredOptions(**{field.name: getattr(self, field.name) for field in fields(LayeredOptions)})

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> MapRecord:
        check_integer("depth", self.depth, least=1)
        check_integer("degree", self.degree, least=1)
        method = check_choice("method", self.method, ("direct", "layered"))
        self.kernel_ = NTK(self.depth, self.activation)
        self.kernel_._check_parameters(X.shape[1])
        if method == "layered":
            layer = wide_layer(self.activation)
            if not isinstance(layer, FoldedLayer):
                raise ValueError(
                    f"`activation` must be 'relu', 'leaky-relu', 'abs' or LeakyReLU for method='layered', got "
                    f"{self.activation!r}. Use method='direct'."
                )
            sizes, normalized = self._layered_options().sizes(), bool(self.normalize)
            rng, depth = streams["sketch"], int(self.depth)
            return NTKSketchRecord.draw(X.shape[1], depth, sizes, rng, layer, normalized=normalized)
        options = SeriesOptions(degree=self.degree, exact_degrees=self.exact_degrees)
        sample = RowSample.of(X, self.n_components) if self.adaptive else None
        plan = SeriesPlan.of(self.kernel_, X.shape[1], self.n_components, options, sample)
        return plan.draw({"series": streams["sketch"]})
