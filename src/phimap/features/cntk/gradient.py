"""Gradient features of convolutional networks: gradients of a random network of finite width."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phimap._validation import check_integer
from phimap.features.cntk.base import LONGEST_SIDE, ConvolutionalFeatures, ImageRecord
from phimap.features.cntk.pixels import Pixels
from phimap.ops import Array, Ops
from phimap.ops.primitives.activation import rectify
from phimap.records import of_floats, of_number


@dataclass(frozen=True)
class ConvolutionGradientRecord(ImageRecord):
    """The random weights of a convolutional network, whose gradients are the features.

    Attributes
    ----------
    image_shape : tuple of int
        (height, width, channels).
    filter_size : int
        Height and width of the filters.
    filters : tuple of ndarray of shape (filter_size^2 * n_inputs, width)
        Filters of the layers, first to last, for `n_inputs` channels into a layer and `width` channels out of it. Rows
        are ordered by pixel of the filter, then by input channel.
    readout : ndarray of shape (width,) or (height * image width, width)
        Weights of the output. The first shape has a weight for each channel of the mean over pixels, the second for
        each channel of every pixel.
    """

    image_shape: tuple[int, int, int] = field(metadata=of_number(least=1, most=LONGEST_SIDE))
    filter_size: int = field(metadata=of_number(least=1, most=LONGEST_SIDE))
    filters: tuple[np.ndarray, ...] = field(metadata=of_floats(None, "w"))
    readout: np.ndarray = field(metadata=of_floats())

    def requirements(self) -> Iterator[tuple[bool, str]]:
        (height, width, channels), units = self.image_shape, self.filters[-1].shape[1]
        yield len(self.filters) > 1, "two layers at least"
        yield self.readout.shape in ((units,), (height * width, units)), "a readout of the last layer"
        inputs = [channels, *[units] * (len(self.filters) - 1)]
        sizes = [self.filter_size**2 * n for n in inputs]
        yield [W.shape[0] for W in self.filters] == sizes, "filters that follow each other"
        yield self.filter_size % 2 == 1, "filters of an odd size"

    @property
    def n_components(self) -> int:
        return sum(W.shape[0] * W.shape[1] for W in self.filters[1:])

    @property
    def scratch_width(self) -> int:
        height, width, channels = self.image_shape
        patches = sum(W.shape[0] + 3 * W.shape[1] for W in self.filters)
        return height * width * (channels + patches + self.filters[-1].shape[0])

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        pixels = Pixels.of_images(ops.floating(ops.dense(X)), self.image_shape)
        width = self.readout.shape[-1]
        entering, slopes = self._forward(ops, pixels)
        pooled = 1 / pixels.per_image if self.readout.ndim == 1 else pixels.per_image**-0.5
        by_image = slopes.pop().reshape(pixels.n_images, pixels.per_image, width)
        signal = pixels.carrying((by_image * self.readout * pooled).reshape(-1, width))
        # Columns: gradients for the layers from last to second, in the order of backpropagation; the first layer is not
        # trained.
        for W in self.filters[:0:-1]:
            patches, columns = entering.pop(), slice(first, first + W.shape[0] * W.shape[1])
            for image, rows in enumerate(pixels.of_each_image()):
                gradient = ops.matmul(ops.contiguous(patches[rows].T), signal.rows[rows])
                out[image, columns] = gradient.reshape(-1)
            first = columns.stop
            # Backpropagation: a transposed convolution, with the filters reversed in space.
            turned = W.reshape(self.filter_size**2, -1, width).swapaxes(1, 2)
            turned = ops.contiguous(ops.reversed(turned)).reshape(-1, W.shape[0] // self.filter_size**2)
            signal = pixels.carrying(ops.matmul(signal.windows(ops, self.filter_size), turned) * slopes.pop())

    def _forward(self, ops: Ops, pixels: Pixels) -> tuple[list[Array], list[Array]]:
        """Return the windows of the inputs of each layer, and the derivatives of its activations.

        Their shapes are (pixels, inputs per window) and (pixels, width).
        """
        width = self.readout.shape[-1]
        # With the factor sqrt(2 / (q^2 width)) the activations have the covariance G_h of the kernel's recursion.
        gain = ops.constant(np.full(width, (2.0 / width) ** 0.5 / self.filter_size))
        entering, slopes = [], []
        for W in self.filters:
            entering.append(pixels.windows(ops, self.filter_size))
            projected = ops.matmul(entering[-1], W)
            slope, values = ops.empty(tuple(projected.shape)), ops.empty(tuple(projected.shape))
            rectify(ops, projected, 0, gain, slope, 0)
            rectify(ops, projected, 1, gain, values, 0)
            slopes.append(slope)
            pixels = pixels.carrying(values)
        return entering, slopes


class CNTKGradientFeatures(ConvolutionalFeatures):
    r"""Gradient features: the gradient of a random convolutional ReLU network with respect to its filters.

    .. math:: f(x) = \frac{1}{h w} \sum_p \langle v, a_L(p) \rangle, \quad
              a_l(p) = \sqrt{2 / (q^2 k)}\; \mathrm{ReLU}\Bigl(\sum_s W_{l,s}\, a_{l-1}(p + s)\Bigr), \quad a_0 = x

    with k channels per layer and standard normal filters. The gradient is with respect to ``W_2, ..., W_L``: in the
    recursion of the kernel the first layer and the output are not trained. As k grows, inner products of gradients
    tend to the convolutional tangent kernel.

    Parameters
    ----------
    depth : int, default=2
        Number L of convolutional layers, at least 2.
    filter_size : int, default=3
        Height and width q of the filters, odd.
    width : int, default=16
        Channels k of each layer.
    pooling : {"gap", "flatten"}, default="gap"
        Global average pooling, or separate output weights for every pixel.
    image_shape : tuple (height, width) or (height, width, channels), or None, default=None
        Shape of an image if the data are flat rows, as in `CNTKSketch`.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : CNTK
        The kernel of the infinitely wide network.
    record_ : ConvolutionGradientRecord
        The weights. The output width is ``(L - 1) q^2 k^2``, see `output_width`.
    n_features_in_ : int

    Notes
    -----
    **Error.** The bias is O(L / k). The error falls like ``sqrt(L / k)``, that is like ``m^(-1/4)`` in the output width
    m. These features are the baseline for `CNTKSketch`.

    **Cost.** O(L q^2 k^2) flops per pixel. Use `transform_batches` to process the features in batches.

    **Differs from the source in** nothing: the kernel is `phimap.kernels.CNTK`.

    References
    ----------
    Zandieh et al. (2021), *Scaling neural tangent kernels via sketching and random features*, Section 5.2 (GradRF);
    Arora, Du, Hu, Li, Salakhutdinov, Wang (2019), *On exact computation with an infinitely wide neural net*, Section 4.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> images = np.random.default_rng(0).standard_normal((3, 8, 8, 2))
    >>> phi = pm.CNTKGradientFeatures(depth=3, width=10, random_state=0).fit(images)
    >>> phi.transform(images).shape
    (3, 1800)
    """

    _roles = ("filters", "readout")

    def __init__(
        self,
        depth: int = 2,
        filter_size: int = 3,
        width: int = 16,
        *,
        pooling: str = "gap",
        image_shape: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.depth = depth
        self.filter_size = filter_size
        self.width = width
        self.pooling = pooling
        self.image_shape = image_shape
        self.random_state = random_state
        self.n_jobs = n_jobs

    def output_width(self, n_features: int) -> int:
        """Width of the features; can be called before `fit`."""
        return (self.depth - 1) * (self.filter_size * self.width) ** 2

    def _check_width(self) -> None:
        check_integer("width", self.width, least=1)

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> ConvolutionGradientRecord:
        shape = self._set_kernel(X.shape[1])
        inputs = [shape[2]] + [self.width] * (self.depth - 1)
        n_places = self.filter_size**2
        filters = tuple(streams["filters"].standard_normal((n_places * n, self.width)) for n in inputs)
        readout_shape = (self.width,) if self.pooling == "gap" else (shape[0] * shape[1], self.width)
        readout = streams["readout"].standard_normal(readout_shape)
        return ConvolutionGradientRecord(shape, self.filter_size, filters, readout)
