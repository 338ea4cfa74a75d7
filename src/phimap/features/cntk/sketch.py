"""Sketches of the convolutional neural tangent kernel: `CNTKSketch`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phimap._validation import Shape, check_choice, check_integer
from phimap.features.cntk.base import ConvolutionalFeatures, ImageRecord
from phimap.features.cntk.layers import ConvolutionLayer
from phimap.features.cntk.network import CNTKRecord
from phimap.features.cntk.parts import ProductRecord, WindowRecord
from phimap.features.cntk.powers import remainder_powers
from phimap.features.cntk.published import PublishedCNTKRecord
from phimap.features.cntk.units import FoldedUnits, Units, units_of
from phimap.features.ntk.sketch_sizes import LayeredOptions
from phimap.kernels.wide_layers import wide_layer
from phimap.ops import Array
from phimap.random_map import MapRecord
from phimap.sketches.signs import fair_signs
from phimap.sketches.transform_rows import padded_width

# Names of the parameters that apply only to the published construction.
_PUBLISHED = ("phi_components", "psi_components", "relu_components", "step_components", "epsilon", "delta")
_PUBLISHED_DEGREE = 8
# Least default number of hidden features, if it is at most half of the output width. Up to this number, further hidden
# features clearly reduce the error.
_LEAST_HIDDEN = 1024


class CNTKSketch(ConvolutionalFeatures):
    r"""Features of the convolutional tangent kernel, at a cost linear in the number of pixels.

    Every pixel p has features phi_h of :math:`G_h` and psi_h of :math:`P_h`, the recursions of `CNTK`. With the patch
    :math:`\mu_h(p) = \bigoplus_s \phi_{h-1}(p + s) / \sqrt{N_h(p)}` over the window of the filter,

    .. math:: \phi_h = \tfrac{\sqrt{N_h}}{q}\, \Phi_1(\mu_h), \quad
              \dot\phi_h = \tfrac{1}{q}\, \Phi_0(\mu_h), \quad
              \eta_h = Q(\psi_{h-1} \otimes \dot\phi_h) \oplus \phi_h, \quad
              \psi_h(p) = \bigoplus_s \eta_h(p + s)

    where Phi_1 and Phi_0 are features of kappa_1 and kappa_0 (for other activations, of the duals at the lengths of the
    patches), and Q is a sketch. The last layer has :math:`\psi_L = Q(\psi_{L-1} \otimes \dot\phi_L)`. The output is the
    mean of psi_L over the pixels, or without pooling a sketch of psi_L at all pixels.

    Parameters
    ----------
    depth : int, default=2
        Number L of convolutional layers, at least 2.
    filter_size : int, default=3
        Height and width q of the filters, odd.
    n_components : int, default=1024
        Output width m.
    pooling : {"gap", "flatten"}, default="gap"
        Global average pooling, or no pooling.
    activation : str or callable, default="relu"
        Activation of the network, see `CNTK`; a callable cannot be saved to a model file. `degree` is supported only
        for ReLU, leaky ReLU and abs, the published form only for the ReLU.
    degree : int or None, default=None
        Method that estimates the degrees of kappa_1 and kappa_0 above 1. None uses random features for all these
        degrees together. An integer of at least 2 uses sketches of the powers up to `degree`, with nonnegative weights
        fitted on the range of cosines in each layer. In the published form, it is the degree of both Taylor
        polynomials, and None means 8.
    hidden_components : int or None, default=None
        Number w of random features per pixel and layer. None is half of `n_components` but at most 1024, or a quarter
        of `n_components` if that is more.
    construction : {"improved", "published"}, default="improved"
        ``"published"`` is Definition 3 of the source: Taylor polynomials of kappa_1 and kappa_0 by `PolySketch` at
        every pixel, sketches of windows and products, and a Gaussian projection. The published form has more error and
        takes far longer.
    phi_components, psi_components : int or None, default=None
        Widths r and s of the features phi_h and psi_h of the published form; None is half of the output width for r,
        and the output width for s.
    relu_components, step_components : int or None, default=None
        Widths m and n1 of the sketch of each power in kappa_1 and in kappa_0 of the published form; None is twice the
        output width, as these sketches cause most of the error but take little of the time.
    epsilon, delta : float or None, default=None
        For the published form. If given, both must be given. They then determine all widths and degrees by the orders
        of Theorem 4, with all constants set to 1; `n_components` and `degree` are ignored. The orders grow fast.
    image_shape : tuple (height, width) or (height, width, channels), or None, default=None
        Shape of an image if the data are flat rows. None reads a row as a signal: an image of height 1 with one
        channel. Not needed for data with four axes.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : CNTK
        The exact kernel that ``Z @ Z.T`` estimates.
    record_ : CNTKRecord or PublishedCNTKRecord
        The drawn layers.
    n_features_in_ : int

    Notes
    -----
    **Error.** The relative error falls like ``1 / sqrt(m)`` if w is proportional to m. Patches are estimates
    themselves, which causes a bias O(1/w). All pixels share the same projections, so the mean over pixels does not
    reduce the error.

    For activations that are not homogeneous, errors are similar to the errors of the ReLU at equal widths if patches
    have norms of at most a few units. Their derivatives are central differences over 1/64, with a bias of about 1e-5.

    In the published form the errors of its sketches and of the Taylor polynomials add up: for equal patches, at degree
    8 and any widths, kappa_1 is wrong by 0.003 and kappa_0 by 0.1.

    **Cost.** ``O(q^2 w + m log m)`` operations per pixel and layer. Scratch memory is one image per thread; images are
    processed in parts if the scratch memory exceeds a quarter of the byte budget.

    **Differs from the source in** the following. Degrees 0 and 1 of kappa_1 and degree 0 of kappa_0 are exact, so only
    the remainder is noisy. Direct sums over windows keep the features that are linear in the image, and add up the
    other features with random signs on cosine waves. Random features ``|w.mu|`` or ``sign(w.mu)``, without degrees 0
    and 1, estimate the remainder of kappa, unless `degree` is given. Patches, features of P_h and their sketched
    products are scaled to their exact lengths. The linear part is averaged over pixels before it is sketched. The
    published form differs in patches of length 1, in independent sketches for each layer, in SRHT without replacement,
    and in the differences of `PolySketch`.

    References
    ----------
    Zandieh et al. (2021), *Scaling neural tangent kernels via sketching and random features*, Definition 3, Theorem 4.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> images = np.random.default_rng(0).standard_normal((20, 6, 6, 2))
    >>> phi = pm.CNTKSketch(depth=3, n_components=2048, random_state=0).fit(images)
    >>> Z, K = phi.transform(images), phi.kernel_(images)
    >>> Z.shape, bool(np.linalg.norm(Z @ Z.T - K) < 0.1 * np.linalg.norm(K))
    ((20, 2048), True)
    """

    _roles = ("windows", "tangent windows", "relu", "step", "products", "pixels", "published")

    def __init__(
        self,
        depth: int = 2,
        filter_size: int = 3,
        n_components: int = 1024,
        *,
        pooling: str = "gap",
        activation: str | Callable[[Any], Any] = "relu",
        degree: int | None = None,
        hidden_components: int | None = None,
        construction: str = "improved",
        phi_components: int | None = None,
        psi_components: int | None = None,
        relu_components: int | None = None,
        step_components: int | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        image_shape: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.depth = depth
        self.filter_size = filter_size
        self.n_components = n_components
        self.pooling = pooling
        self.activation = activation
        self.degree = degree
        self.hidden_components = hidden_components
        self.construction = construction
        self.phi_components = phi_components
        self.psi_components = psi_components
        self.relu_components = relu_components
        self.step_components = step_components
        self.epsilon = epsilon
        self.delta = delta
        self.image_shape = image_shape
        self.random_state = random_state
        self.n_jobs = n_jobs

    def output_width(self, n_features: int) -> int:
        """Width of the features for inputs with `n_features` columns; can be called before `fit`."""
        bound = self._published_options().bound()
        return self.n_components if bound is None else bound.output

    def _check_width(self) -> None:
        if self._published_options().bound() is None:
            super()._check_width()

    def _published_options(self) -> LayeredOptions:
        given = {name: value for name in _PUBLISHED if (value := getattr(self, name)) is not None}
        if given and self.construction != "published":
            name, value = next(iter(given.items()))
            raise ValueError(f"`{name}` is of construction='published' alone, got {value!r}. Leave it out.")
        if len({"epsilon", "delta"} & given.keys()) == 1:
            raise ValueError(
                f"`epsilon` and `delta` must be given together, got epsilon={self.epsilon}, delta={self.delta}. Use "
                "`degree` instead."
            )
        if self.epsilon is None:
            given = dict.fromkeys(("relu_components", "step_components"), 2 * self.n_components) | given
        degree = _PUBLISHED_DEGREE if self.degree is None else self.degree
        return LayeredOptions(self.depth, self.n_components, degree, **{name: given.get(name) for name in _PUBLISHED})

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> ImageRecord:
        shape = self._set_kernel(X.shape[1])
        units = units_of(wide_layer(self.activation), self.activation)
        if check_choice("construction", self.construction, ("improved", "published")) == "published":
            if units != FoldedUnits(0.5):
                raise ValueError(
                    f"`activation` must be 'relu' for construction='published', got {self.activation!r}. "
                    "Use construction='improved'."
                )
            return self._draw_published(shape, streams["published"])
        return self._draw_improved(shape, units, streams)

    def _draw_published(self, shape: Shape, rng: np.random.Generator) -> PublishedCNTKRecord:
        if self.pooling != "gap":
            raise ValueError(f"`pooling` must be 'gap' for construction='published', got {self.pooling!r}.")
        if self.hidden_components is not None:
            raise ValueError(
                "`hidden_components` is of construction='improved' alone, got "
                f"{self.hidden_components!r}. Use phi_components and the like."
            )
        sizes = self._published_options().sizes(shape[0] * shape[1])
        return PublishedCNTKRecord.draw(shape, int(self.depth), int(self.filter_size), sizes, rng)

    def _draw_improved(self, shape: Shape, units: Units, streams: dict[str, np.random.Generator]) -> CNTKRecord:
        if self.degree is not None:
            check_integer("degree", self.degree, least=2)
            if not isinstance(units, FoldedUnits):
                raise ValueError(
                    f"`degree` must be None for activation={self.activation!r}, which is not homogeneous, got "
                    f"{self.degree}. Leave it out."
                )
        hidden = max(1, self.n_components // 4, min(self.n_components // 2, _LEAST_HIDDEN))
        if self.hidden_components is not None:
            hidden = check_integer("hidden_components", self.hidden_components, least=1)
        size = int(self.filter_size)
        layers = self._layers(shape[2], hidden, units, streams)
        plain = WindowRecord(size, 0, 1, np.ones((size**2, 1)), None)
        signs = None
        if check_choice("pooling", self.pooling, ("gap", "flatten")) == "flatten":
            rng = streams["pixels"]
            signs = tuple(fair_signs(rng, (length, self.n_components)) for length in shape[:2])
        return CNTKRecord(shape, layers, plain, signs, self.n_components, units)  # pyright: ignore[reportArgumentType]

    def _layers(
        self, channels: int, hidden: int, units: Units, streams: dict[str, np.random.Generator]
    ) -> tuple[ConvolutionLayer, ...]:
        """Draw the layers for images with `channels` channels."""
        size, depth = int(self.filter_size), int(self.depth)
        # If a window had more exact features than this, all its features would be rotated and folded.
        widest = max(self.n_components, 2 * hidden)
        layers: list[ConvolutionLayer] = []
        phi = eta = (channels, channels)
        for layer in range(1, depth + 1):
            rngs = {role: streams[role].spawn(1)[0] for role in self._roles}
            window = WindowRecord.draw(size, *phi, widest, hidden, rngs["windows"])
            tangent_window = None
            if layer > 2:
                tangent_window = WindowRecord.draw(size, *eta, widest, hidden, rngs["tangent windows"])
            width, psi_width = window.n_components, (tangent_window or window).n_components
            relu = step = product = None
            if layer < depth:
                relu = self._remainder(units, 1, layer, width, hidden, rngs["relu"])
            if layer > 1:
                step = self._remainder(units, 0, layer, width, hidden, rngs["step"])
                slopes = width + (step.n_components if step else 0)
                n_products, n_linear = 2 * hidden, 0
                if layer == depth:
                    n_linear = min(self.n_components - self.n_components // 2, padded_width(psi_width))
                    n_products = max(1, self.n_components - n_linear)
                product = ProductRecord.draw((psi_width, slopes), n_products, n_linear, rngs["products"])
            layers.append(ConvolutionLayer(window, tangent_window, relu, step, product))
            phi, eta = layers[-1].phi_widths, layers[-1].eta_widths
        return tuple(layers)

    def _remainder(
        self, units: Units, order: int, layer: int, n_features: int, n_components: int, rng: np.random.Generator
    ) -> MapRecord | None:
        """Features above degree 1 of the dual (order 1) or the derivative's dual (order 0); None if there are none."""
        if self.degree is None or not isinstance(units, FoldedUnits):
            return units.draw(order, n_features, n_components, rng)
        return remainder_powers(order, layer, int(self.degree), units.fold, n_features, n_components, rng)
