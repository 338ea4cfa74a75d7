"""Random features of the neural tangent kernel of fully connected networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from phimap._validation import check_integer
from phimap.features.base import FeatureMap
from phimap.features.ntk.exact import ExactOptions, draw_exact
from phimap.features.ntk.layer_options import LayerOptions
from phimap.features.ntk.layers import LayersPlan
from phimap.kernels import NTK, Kernel
from phimap.ops import Array
from phimap.projections import Projection
from phimap.random_map import MapRecord


class NTKFeatures(FeatureMap):
    """Random features of the neural tangent kernel of a network with `depth` hidden layers.

    For ReLU units the kernel is ``|x| |y| K_L(a)``, where a is the cosine of x and y. It follows from ``Sigma_0 = K_0 =
    a``, ``Sigma_l = kappa_1(Sigma_{l-1})`` and ``K_l = K_{l-1} kappa_0(Sigma_{l-1}) + kappa_1(Sigma_{l-1})``. By
    default, the constant and the linear term of K_L are represented exactly, by the norm and by x itself. Only the
    remainder is random. It is estimated either by one tree of sketches of the higher powers, or by a layer ``f(<w, x> /
    |x|)`` with random directions w, which is called the activation.

    With ``exact_degrees=()`` the published layers follow the recursion instead. They start with
    ``phi_0 = psi_0 = x / |x|``. In layer l, rectified random projections of phi_{l-1} give phi_l, step functions of
    random projections of phi_{l-1} estimate kappa_0, and ``psi_l = phi_l (+) Q(step features (x) psi_{l-1})`` for a
    sketch Q of tensor products, where (+) is the direct sum and (x) the tensor product. The output is ``|x| psi_L``.
    For other activations sigma the layers start with x itself; sigma replaces the rectifier, and the derivative of
    sigma replaces the step function.

    Parameters
    ----------
    depth : int, default=1
        Number L of hidden layers, at least 1.
    n_components : int, default=1024
        Output width m. For the published layers, m = m1 + ms: the rectified features and the sketched products of the
        last layer. For m = 1, the feature is the sum of one feature of each kind, with random signs.
    activation : str or callable, default="relu"
        Activation of the network: ``"abs"``, ``"cos"``, ``"erf"``, ``"gelu"``, ``"leaky-relu"``, ``"relu"``, ``"sin"``,
        ``"softplus"``, `LeakyReLU` or a function of arrays (which cannot be saved to a model file). See Notes for
        activations whose kernel depends on the norms.
    exact_degrees : tuple of int, default=(0, 1)
        Degrees of K_L's power series that are represented exactly, see `DotProductFeatures`. ``()`` selects the
        published layers. The layers are also used if any of the parameters from `sketch` to `projection` is set, or if
        the width is too small for the series, see Notes.
    adaptive : bool, default=True
        Use moments of the data in `fit`: the polynomial is fitted to the cosines in the data, and its terms are split
        and chosen as in `DotProductFeatures`. If False, the map depends only on the number of inputs; the remainder is
        then sketched above 48 inputs, and sketches have more error. The layers never use the data.
    remainder : {"auto", "sketch", "activation"}, default="auto"
        Method that estimates the remainder after the exact degrees. ``"activation"`` uses ``|x| f(<w, x> / |x|)`` with
        random directions w and the function f whose kernel is the remainder. It allows any `exact_degrees`, including
        ``()``, and makes further degrees exact if this lowers the predicted error. ``"auto"`` takes the method with the
        smaller error on the rows of `fit`.
    sketch : {"tensorsrht", "countsketch", "none"}, default="tensorsrht"
        Sketch Q of the tensor product in the layers: `TensorSRHT` in its default form, the convolution of count
        sketches, or the full product, whose width grows by a factor in each layer.
    sampling : {"gaussian", "leverage", "gibbs"}, default="gaussian"
        Distribution of the rectified features' directions in the layers. ``"leverage"`` draws from the density
        ``|w|^2 N(w; 0, I)`` and divides by ``|w|``. This equals uniform directions of one length, which any
        rotation-invariant projection draws exactly. ``"gibbs"`` uses the published, independent Markov chains instead.
    relu_components : int or None, default=None
        Width m1 of the rectified features of the last layer; None is half of `n_components`. With m1 = m there are no
        products, and the map estimates the NNGP kernel. For ``sketch="none"``, m1 is the width of the rectified
        features of all layers except the last, and None is m0. The last layer then has m minus the number of products
        rectified features.
    hidden_components : int or None, default=None
        Widths m1 and ms of every layer except the last; None is `n_components`, at least 256. Not used for
        ``sketch="none"``.
    step_components : int or None, default=None
        Width m0 of the step features of each layer; None is the width ms of the last layer's sketch. For
        ``sketch="none"`` None is the largest width whose products take at most half of the output, at least 1.
    gibbs_sweeps : int, default=1
        Number of passes of each Markov chain over the coordinates.
    projection : str or Projection, default="auto"
        How directions are drawn in the layers, or the directions w of ``remainder="activation"``: any
        rotation-invariant projection. Structured projections make wide layers cheap.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : NTK or NNGP
        The exact kernel that ``Z @ Z.T`` estimates.
    record_ : SeriesRecord or NTKRecord
        The exact terms and the terms of the remainder, or the layers.
    n_features_in_ : int

    Notes
    -----
    **Error with the activation.** On the sphere in d dimensions ``K_L = sum_k b_k P_k`` with Gegenbauer polynomials P_k
    and ``b_k >= 0``. The exact powers get the largest coefficients for which no b_k becomes negative. The function
    ``f = sum_k (-1)^floor(k / 2) sqrt(b_k) p_k`` of the remaining b_k, with p_k orthonormal for the distribution of
    ``<w, x> / |x|``, has the remainder r as its kernel. The mean of the estimate is K_L up to two approximations.
    Degrees above 256 (above 16 for more than 64 inputs) are dropped, which matters only for nearly parallel rows. The
    function f is interpolated in a table of 4,097 values. The variance is the variance of one layer,
    ``(E[f(w.x)^2 f(w.y)^2] - r(a)^2) / m``, for independent directions, and less for designed ones.

    **Error with sketches.** The mean of the estimate is a polynomial with nonnegative coefficients, fitted to K_L. Its
    degree is the power of two, up to 64, with the least predicted error of fit and sketches together. Measurements are
    on the guide's page on neural tangent kernels.

    **Kernels that depend on the norms.** ReLU, leaky ReLU and abs have homogeneous kernels. The kernels of other
    activations are ``(|x| |y|)^p sum_j M_j(|x|, |y|) cos^j``, with p = 1 if the activation is 0 at 0, else p = 0. Their
    remainder can only be sketched: features of degree j are multiplied by functions of the norm r, polynomials in
    ``(r - c) / (r + c)``, whose products give M_j. The number of polynomials is chosen for an interpolation error
    of 1e-4 relative to the kernel, over the norms of the sample and a tenth beyond. Rows outside this interval use
    the functions at the nearest norm inside it. With ``adaptive=False`` norms are assumed to be at most
    ``4 sqrt(d)``. For rows of large norm the kernels of erf, sin and cos are almost diagonal, and the relative error is
    about ``sqrt(n / m)`` for n rows: scale the data to norms of a few units. A part of the diagonal is then left out
    if its estimate would add more error to pairs of rows than it removes. No map that is independent of the rows can
    do much better, see the bound on the guide's page on units other than ReLU.

    **Choice of the layers.** For ReLU units, the layers are used if the predicted error of the series exceeds ``1.4
    L^0.6 / sqrt(m)``, relative to the larger of 1 and the kernel's root mean square. This threshold is the smallest
    error of the layers that was measured. The error of the series exceeds it only with very few components.

    **Error of the layers.** The relative error falls like ``1 / sqrt(m)``. Depth 1 is unbiased; deeper maps have a
    bias of order ``1 / m1``, since the cosines of a layer are themselves estimated. The derivative of a callable is a
    central difference. By Theorem 2 of [Z21] the relative error is eps with probability 1 - delta, if
    ``m0 = O(L^2 / eps^2 log(L / delta))``, ``m1 = O(L^6 / eps^4 log(L / delta))``,
    ``ms = O(L^2 / eps^2 log^3(L / (eps delta)))``.

    **Cost.** With sketches, the cost is as for `DotProductFeatures`, at any depth. With the activation, it is as for
    `ActivationFeatures`; the function is a table lookup. For ``remainder="auto"`` `fit` draws both. For the layers, per
    row and layer: two projections of vectors of length m1, onto m0 and m1 directions, and O((m0 + m) log m) for the
    sketch. By default directions are dense for inputs up to width 48 and structured for wider ones; with structured
    directions the layers take O(L m log m) per row.

    **Differs from the source in** the exact degrees and the estimate of the remainder. For ``exact_degrees=()``: in the
    other activations, for which the source has the kernel (Equations 18 to 20) and no layers; in the
    projection (the published independent directions are ``projection="gaussian"``); in the width of the hidden layers
    (the published width is ``hidden_components=n_components // 2``); and, for ``"countsketch"``, in dividing rows by
    their norms first, as [Z21] does.

    References
    ----------
    [Z21] Zandieh, Han, Avron, Shoham, Kim, Shin (2021), *Scaling neural tangent kernels via sketching and random
    features*, Algorithm 2; Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*,
    Algorithm 1 (``sketch="countsketch"``).

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((50, 5))
    >>> phi = pm.NTKFeatures(depth=1, n_components=1024, random_state=0).fit(X)
    >>> bool(pm.metrics.relative_error(phi, X) < 0.02)
    True
    """

    _roles = ("relu", "step", "sketch", "series", "activation")

    def __init__(
        self,
        depth: int = 1,
        n_components: int = 1024,
        *,
        activation: str | Callable[[Any], Any] = "relu",
        exact_degrees: tuple[int, ...] = (0, 1),
        adaptive: bool = True,
        remainder: str = "auto",
        sketch: str = "tensorsrht",
        sampling: str = "gaussian",
        relu_components: int | None = None,
        hidden_components: int | None = None,
        step_components: int | None = None,
        gibbs_sweeps: int = 1,
        projection: str | Projection = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.depth = depth
        self.n_components = n_components
        self.activation = activation
        self.exact_degrees = exact_degrees
        self.adaptive = adaptive
        self.remainder = remainder
        self.sketch = sketch
        self.sampling = sampling
        self.relu_components = relu_components
        self.hidden_components = hidden_components
        self.step_components = step_components
        self.gibbs_sweeps = gibbs_sweeps
        self.projection = projection
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> MapRecord:
        depth = check_integer("depth", self.depth, least=1)
        exact = ExactOptions(self.remainder, tuple(self.exact_degrees), self.adaptive, self.projection)
        kernel = NTK(depth, self.activation)
        kernel._check_parameters(X.shape[1])
        activation = "relu" if kernel.is_rectified else self.activation
        layers = LayersPlan(X.shape[1], self.n_components, depth, self._layer_options(), activation)
        if not exact.apply_beside(layers.options):
            record = layers.draw(streams)
            self.kernel_: Kernel = layers.kernel
            return record
        self.kernel_ = kernel
        return draw_exact(kernel, X, self.n_components, exact, layers if kernel.is_rectified else None, streams)

    def _layer_options(self) -> LayerOptions:
        return LayerOptions(**{field.name: getattr(self, field.name) for field in fields(LayerOptions)})
