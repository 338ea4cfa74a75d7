"""Random features of the neural tangent kernel of fully connected ReLU networks."""

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

    For ReLU units the kernel is ``|x| |y| K_L(cos(x, y))`` with ``Sigma_0 = K_0 = a``, ``Sigma_l =
    kappa_1(Sigma_{l-1})`` and ``K_l = K_{l-1} kappa_0(Sigma_{l-1}) + kappa_1(Sigma_{l-1})``. By default the
    constant and the linear term of K_L are carried exactly, as the norm and x itself, and only the remainder is
    sampled: by one tree of sketches of the higher powers, or by a layer ``f(<w, x> / |x|)`` of random directions w.
    The published features, for ``exact_degrees=()``, follow the recursion instead: with ``phi_0 = psi_0 = x /
    |x|``, rectified random projections of phi_{l-1} give phi_l, their steps estimate the derivative's kernel
    kappa_0, and ``psi_l = phi_l (+) Q(step features (x) psi_{l-1})`` for a sketch Q of tensor products. The output
    is ``|x| psi_L``.

    Parameters
    ----------
    depth : int, default=1
        Number L of hidden layers, at least 1.
    n_components : int, default=1024
        Output width m; of the published layers m1 + ms, and for m = 1 the sum of one feature of each kind, with
        random signs.
    activation : str or callable, default="relu"
        The units' function: ``"abs"``, ``"cos"``, ``"erf"``, ``"gelu"``, ``"leaky-relu"``, ``"relu"``, ``"sin"``,
        ``"softplus"``, `LeakyReLU` or a function of arrays, which no model file can hold. Others than the ReLU have
        no published layers; see Notes for those whose kernel depends on the norms.
    exact_degrees : tuple of int, default=(0, 1)
        Degrees of K_L's power series that are carried exactly, see `DotProductFeatures`; only the others are sampled.
        ``()`` is the published map, from its layers. They also serve where any of the parameters below `remainder` is
        set, up to `projection`, and where the width has no room for the series, see Notes.
    adaptive : bool, default=True
        Use moments of the data in `fit`: the polynomial is fitted to the cosines that the data have, and its terms
        are split and chosen as in `DotProductFeatures`. Without them the map depends on the data's width alone and
        errs more where sketches serve, as they then do above 48 inputs. The layers never look at the data.
    remainder : {"auto", "sketch", "activation"}, default="auto"
        How the remainder beyond the exact degrees is sampled. ``"activation"`` takes ``|x| f(<w, x> / |x|)`` for random
        directions w, with the f whose kernel it is; it serves any `exact_degrees`, ``()`` included.
        Where it pays more degrees are exact. ``"auto"`` takes, of sketches and activation, what errs less on rows
        of `fit`.
    sketch : {"tensorsrht", "countsketch", "none"}, default="tensorsrht"
        Sketch Q of the tensor product: `TensorSRHT` in its default form, the convolution of count sketches, or the
        product itself, whose width multiplies from layer to layer.
    sampling : {"gaussian", "leverage", "gibbs"}, default="gaussian"
        Law of the rectified features' directions. ``"leverage"`` draws from the modified distribution ``|w|^2 N(w; 0,
        I)`` and divides by ``|w|``: exactly, as uniform directions of one length, by any rotation-invariant
        projection. ``"gibbs"`` does so by the published Markov chains, independent of each other.
    relu_components : int or None, default=None
        Width m1 of the rectified features of the last layer; None is half of `n_components`. All of `n_components`
        leaves no room for the derivative: the map is then that of the NNGP kernel. For ``sketch="none"`` that of all
        layers but the last, which fills what the products leave; None is m0.
    hidden_components : int or None, default=None
        Widths m1 and ms of every layer but the last; None is `n_components`, at least 256. Not used for
        ``sketch="none"``.
    step_components : int or None, default=None
        Width m0 of the step features of each layer; None is as wide as the sketch, ms. For ``sketch="none"`` None is
        the largest width whose products take at most half of the output, at least 1.
    gibbs_sweeps : int, default=1
        Passes T of each Markov chain over the coordinates.
    projection : str or Projection, default="auto"
        How directions are drawn inside: any rotation-invariant projection. Structured ones make wide layers cheap.
        For ``remainder="activation"`` the directions w.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : NTK or NNGP
        The exact kernel that ``Z @ Z.T`` estimates.
    record_ : SeriesRecord or NTKRecord
        All that was drawn: exact terms and those of the remainder, or the layers.
    n_features_in_ : int

    Notes
    -----
    **Error.** Of the activation, see ``remainder``: on the sphere of d dimensions ``K_L = sum_k b_k P_k`` with
    Gegenbauer's polynomials and ``b_k >= 0``; exact powers take the largest part of it that leaves no b_k negative,
    and ``f = sum_k (-1)^floor(k / 2) sqrt(b_k) p_k``, with p_k orthonormal for the law of a projection, has the
    remainder for its kernel. The mean is exactly K_L without the degrees beyond 256 (16 above 64 inputs), which count
    between rows that are all but parallel alone, and a table of 4,097 values of f. The variance is that of one layer,
    ``(E[f(w.x)^2 f(w.y)^2] - r(a)^2) / m`` with independent directions and less with designed ones.

    Of sketches the mean is a polynomial with coefficients that are not negative, fitted to K_L. Its degree is the
    power of two, up to 64, for which the predicted error of fit and sketches together is least. The guide's page on
    neural tangent kernels has what was measured.

    ReLU, leaky ReLU and abs are homogeneous. The kernels of other units are ``(|x| |y|)^p sum_j M_j(|x|, |y|)
    cos^j``, with p = 1 where the units are 0 at 0 and p = 0 elsewhere, and only sketches sample their remainder:
    the features of a degree are multiplied by functions of the norm, polynomials of ``(r - c) / (r + c)``, whose
    products are the M_j. As many as interpolation to 1e-4 of the kernel takes between the norms of the sample, and
    a tenth beyond; rows outside take the functions of the nearest norm inside. With ``adaptive=False`` norms are
    taken for at most 4 times the root of d. Where rows are long, erf, sin and cos have kernels that are all but
    diagonal, of which the error relative to all of the kernel is like the root of n / m: scale the data to norms of
    a few units.

    The layers serve instead, for ReLU units, where the predicted error of the series is above the least that was
    measured of them, ``1.4 L^0.6 / sqrt(m)`` of the kernel's root mean square, or of 1 if that is less: with a
    handful of components.

    **Error of the layers.** The relative error falls like ``1 / sqrt(m)``. Depth 1 is unbiased; deeper maps have a
    bias of order ``1 / m1``, since the cosines of a layer are themselves estimated. [Z21] Theorem 2: relative error
    eps with
    ``m0 = O(L^2 / eps^2 log(L / delta))``, ``m1 = O(L^6 / eps^4 log(L / delta))``,
    ``ms = O(L^2 / eps^2 log^3(L / (eps delta)))``.

    **Cost.** That of `DotProductFeatures`, at any depth; of the activation that of `ActivationFeatures`, with a table
    in place of the function. To compare both, `fit` draws both. Of the layers, per row and layer: two projections of
    m1-vectors to m0 and m1 directions, and O((m0 + m) log m) for the sketch. Directions are dense up to inputs of
    width 48 and structured beyond, or as `projection` says: with structured ones the whole map is O(L m log m) a
    row.

    **Differs from the source in** the exact degrees and what samples the remainder. For ``exact_degrees=()``: in the
    projection, which is designed or structured unless ``projection="gaussian"`` asks for the
    published independent directions, in the hidden layers, which have the published width for
    ``hidden_components=n_components // 2``, and, for ``"countsketch"``, in dividing by the norm first, as [Z21] does.

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
        layers = LayersPlan(X.shape[1], self.n_components, depth, self._layer_options())
        exact = ExactOptions(self.remainder, tuple(self.exact_degrees), self.adaptive, self.projection)
        kernel = NTK(depth, self.activation)
        kernel._check_parameters(X.shape[1])
        if not exact.apply_beside(layers.options):
            if not kernel.is_rectified:
                raise ValueError(
                    f"`activation` must be 'relu' for the published layers, got {self.activation!r}. Leave "
                    "`exact_degrees` and the parameters from `sketch` to `projection` at their defaults."
                )
            record = layers.draw(streams)
            self.kernel_: Kernel = layers.kernel
            return record
        self.kernel_ = kernel
        return draw_exact(kernel, X, self.n_components, exact, layers if kernel.is_rectified else None, streams)

    def _layer_options(self) -> LayerOptions:
        return LayerOptions(**{field.name: getattr(self, field.name) for field in fields(LayerOptions)})
