"""The kernel of infinitely wide convolutional networks."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from phimap._progress import Stages
from phimap._validation import Shape, as_image_shape, check_choice, check_integer, flat_images
from phimap.config import memory_budget, thread_count
from phimap.kernels.base import Kernel, check_range
from phimap.kernels.cost import KernelCost
from phimap.kernels.images import checked_images, inverse_roots, planes_of
from phimap.kernels.pixel_covariances import MOST_KEPT, covariance_pairs
from phimap.kernels.wide_layers import ExpandedLayer, FoldedLayer, WideLayer, tangent_layer
from phimap.ops import Array, host, is_tensor, ops_for, run_tasks
from phimap.ops.primitives.pixel_pairs import pixel_pairs

# On the CPU, maximum number of pairs of pixels in a tile, which take about a second, and maximum number of images on a
# side of a tile.
_PIXEL_PAIRS = 2**26
_MOST_TILE = 128
# Maximum number of images on a side of a tile of tensors; the byte budget may allow fewer.
_MOST_TENSOR_TILE = 64
# Maximum number of Hermite coefficients per pixel and layer: 256 and two remainders, of an activation and of its
# derivative.
_EXPANSIONS = 2 * 258
# The time of a call is estimated from the time of a smaller tile, whose sides are shorter by this factor.
_SAMPLED = 6
# Number of image pairs that the CPU processes at a time. One side of the timed tile has at least as many images.
_GROUP = 8
# For tensors, number of arrays in memory for each pair of images, with a number for each pixel. Temporaries are
# included.
_PLANES = 24
# A call warns if its estimated time in seconds exceeds this.
_LONG_SECONDS = 300.0


class CNTK(Kernel):
    r"""The neural tangent kernel of an infinitely wide convolutional network.

    For ReLU units, let :math:`W` be the sum over the filter window, with the same shift for both pixels and zeros
    outside the image. Then

    .. math:: N_0 = q^2 \sum_l x_{\cdot\cdot l}^2, \quad N_h(p) = \tfrac{1}{q^2} \sum_{s} N_{h-1}(p + s), \quad
              G_0(p, p') = \sum_l x_{pl}\, y_{p'l}, \quad
              r_h = \frac{W(G_{h-1})}{\sqrt{N_h(x)\, N_h(y)}}

    .. math:: G_h = \frac{\sqrt{N_h(x)\, N_h(y)}}{q^2} \kappa_1(r_h), \quad
              \dot G_h = \frac{1}{q^2} \kappa_0(r_h), \quad
              P_h = W(P_{h-1} \dot G_h + G_h), \quad P_L = P_{L-1} \dot G_L

    and the kernel is the mean of :math:`P_L` over all pairs of pixels (pooling "gap"), or over pairs of equal pixels
    ("flatten"). For other activations sigma, the duals of sigma and its derivative replace kappa_1 and kappa_0,

    .. math:: G_h = \tfrac{c}{q^2} \mathbb{E}\, \sigma(u)\, \sigma(v), \quad
              \dot G_h = \tfrac{c}{q^2} \mathbb{E}\, \sigma'(u)\, \sigma'(v), \quad c = 1 / \mathbb{E}\, \sigma(z)^2

    for a standard Gaussian z and Gaussians u and v with covariance :math:`W(G_{h-1})` and variances :math:`N_h(x)` and
    :math:`N_h(y)`. Here :math:`N_h(x)` is :math:`W(G_{h-1})` for x = y and equal pixels.

    Parameters
    ----------
    depth : int, default=2
        Number L of convolutional layers, at least 2; for L = 1 the definition gives the zero kernel.
    filter_size : int, default=3
        Height and width q of the filters. It must be odd, because an even window has no middle pixel.
    pooling : {"gap", "flatten"}, default="gap"
        Global average pooling, or no pooling.
    activation : str or callable, default="relu"
        The activation sigma, see `ActivationKernel`. Step and sign raise an error, as in `NTK`.
    image_shape : tuple (height, width) or (height, width, channels), or None, default=None
        Shape of an image if the data are flat rows. None treats a row as an image of height 1 with one channel. Not
        needed for data with four axes.
    verbose : bool, default=False
        Show progress on standard error.

    Notes
    -----
    **Error.** A few eps per layer. Arrays of any dtype are computed in float64, tensors in their own dtype. Patches
    that agree up to rounding count as equal. For nearly equal patches kappa_0 turns a rounding error into its square
    root: about 1e-7 in float64, 1e-3 in float32. Activations other than ReLU, leaky ReLU and abs are computed in
    float64 on the host. Smooth ones stay accurate for nearly equal patches; errors are relative to the variances, and
    to their squares if they exceed 1. Softplus and callables use truncated expansions, as in `NTK`.

    **Cost.** ``O(h^2 w^2 (L q + c))`` operations per pair of images of h x w pixels and c channels with pooling "gap",
    ``O(h w (L q + c))`` with "flatten"; half of the pairs for ``Y=None``. Memory: the result, and one tile of images
    per thread. `cost` estimates the time of a call; a call that will take more than five minutes warns. Activations
    that are not homogeneous take two arctangents or exponentials per pixel pair and layer, some 40 times the time of
    the ReLU. Expansions take up to 512 multiplications per pixel pair and layer, and store 512 numbers per pixel and
    layer.

    **Differs from the source in** the order of operations only. The recursion never combines pixel pairs of different
    displacements. The pairs of one displacement are therefore processed as one plane, and all windows are box sums. A
    window of zeros contributes 0.

    References
    ----------
    Zandieh et al. (2021), *Scaling neural tangent kernels via sketching and random features*, Definition 2; Arora, Du,
    Hu, Li, Salakhutdinov, Wang (2019), *On exact computation with an infinitely wide neural net*, Section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import CNTK
    >>> images = np.random.default_rng(0).standard_normal((3, 6, 6, 2))
    >>> K = CNTK(depth=3)(images)
    >>> K.shape, bool(np.linalg.eigvalsh(K)[0] > 0)
    ((3, 3), True)
    """

    def __init__(
        self,
        depth: int = 2,
        filter_size: int = 3,
        pooling: str = "gap",
        *,
        activation: str | Callable[[Any], Any] = "relu",
        image_shape: Any = None,
        verbose: bool = False,
    ):
        self.depth = depth
        self.filter_size = filter_size
        self.pooling = pooling
        self.activation = activation
        self.image_shape = image_shape
        self.verbose = verbose

    def __call__(self, X: Any, Y: Any = None) -> Any:
        """Evaluate the kernel between all images of `X` and all images of `Y`.

        Parameters
        ----------
        X : array, CSR matrix or torch.Tensor of shape (n, height, width, channels) or (n, n_features)
            uint8 and float32 give a float32 result; all other numeric dtypes give float64.
        Y : the same of shape (m, ...), optional
            None means `X`: the result is then exactly symmetric and its diagonal is ``diag(X)``.

        Returns
        -------
        array of shape (n, m)
            If `X` is a tensor, a tensor on the same device.

        Raises
        ------
        ValueError
            If an input is not finite or not a set of images, the shapes differ, or a parameter is out of range.
        TypeError
            If a parameter is of the wrong kind, or only one of the inputs is a tensor.
        MemoryError
            If the result would exceed the byte budget; nothing has been allocated then.
        """
        left, right, shape = self._pair(X, Y)
        dtype = np.result_type(ops_for(left).dtype, ops_for(right).dtype)
        cost = self._cost(left, right, shape, symmetric=Y is None)
        self._check_budget(left.shape[0], right.shape[0], 8)
        if cost.seconds > _LONG_SECONDS and not self.verbose:
            warnings.warn(
                f"{self!r} takes a while: {cost}. CNTKSketch approximates it at a cost linear in images and pixels; "
                "verbose=True shows progress.",
                stacklevel=2,
            )
        ops, tile = ops_for(left), self._tile(left, shape)
        rows, columns = (range(0, images.shape[0], tile) for images in (left, right))
        tasks = [(i, j) for i in rows for j in columns if Y is not None or i <= j]
        result = np.empty((left.shape[0], right.shape[0]), dtype)

        def fill(start: tuple[int, int]) -> None:
            of_left, of_right = (slice(first, first + tile) for first in start)
            block = result[of_left, of_right]
            pairs = np.argwhere(np.ones(block.shape, dtype=bool))
            if Y is None and start[0] == start[1]:
                pairs = pairs[pairs[:, 0] <= pairs[:, 1]]
            with np.errstate(over="ignore"):
                block[pairs[:, 0], pairs[:, 1]] = self._values(left[of_left], right[of_right], shape, pairs)
            if Y is None:
                result[of_right, of_left][pairs[:, 1], pairs[:, 0]] = block[pairs[:, 0], pairs[:, 1]]
            check_range(block, start)
            advance(len(pairs))

        with Stages(bool(self.verbose)).stage(f"exact kernel, {cost.seconds:.0f} s", cost.n_pairs) as advance:
            run_tasks(fill, tasks, None if ops.threaded else 1)
        return ops.constant(result) if is_tensor(left) else result

    def diag(self, X: Any) -> Any:
        """Evaluate the kernel of each image with itself.

        Parameters
        ----------
        X : array, CSR matrix or torch.Tensor of shape (n, height, width, channels) or (n, n_features)

        Returns
        -------
        array of shape (n,)
            The dtype follows the same rule as a call.

        Raises
        ------
        ValueError, TypeError
            As for a call.
        """
        images, _, shape = self._pair(X, None)
        ops, tile = ops_for(images), self._tile(images, shape)
        result = np.empty(images.shape[0], ops_for(images).dtype)

        def fill(start: int) -> None:
            part = slice(start, start + tile)
            pairs = np.repeat(np.arange(result[part].shape[0]), 2).reshape(-1, 2)
            with np.errstate(over="ignore"):
                result[part] = self._values(images[part], images[part], shape, pairs)
            check_range(result[part], (start,))

        run_tasks(fill, range(0, images.shape[0], tile), None if ops.threaded else 1)
        return ops.constant(result) if is_tensor(images) else result

    def cost(self, X: Any, Y: Any = None) -> KernelCost:
        """Estimate the time and memory of a call, by timing a few pairs.

        Parameters
        ----------
        X, Y : as for a call

        Returns
        -------
        KernelCost
        """
        left, right, shape = self._pair(X, Y)
        return self._cost(left, right, shape, symmetric=Y is None)

    def _cost(self, left: Array, right: Array, shape: Shape, *, symmetric: bool) -> KernelCost:
        n, m = left.shape[0], right.shape[0]
        n_pairs = n * (n + 1) // 2 if symmetric else n * m
        ops, side = ops_for(left), max(1, self._tile(left, shape) // _SAMPLED)
        wide = max(side, _GROUP)
        sample = np.argwhere(np.ones((min(n, side), min(m, wide)), dtype=bool))
        seconds = 0.0
        # The tile runs twice, and the second time counts, because the first run may compile. Short calls are not timed.
        for _ in range(2 if n_pairs > 10 * len(sample) else 0):
            start = time.perf_counter()
            self._values(left[:side], right[:wide], shape, sample)
            seconds = time.perf_counter() - start
        n_threads = thread_count() if ops.threaded else 1
        return KernelCost(n_pairs, seconds * n_pairs / len(sample) / n_threads, 8 * n * m)

    def _pair(self, X: Any, Y: Any) -> tuple[Array, Array, Shape]:
        """Checked rows of `X` and of `Y` (`X` if None), and the shape of an image."""
        left, shape = flat_images(X, self.image_shape)
        right, shape_y = (left, shape) if Y is None else flat_images(Y, self.image_shape)
        if is_tensor(left) != is_tensor(right):
            raise TypeError("`X` and `Y` must both be tensors or both be arrays, got one of each. Convert one.")
        left = checked_images(left, "X")
        right = left if Y is None else checked_images(right, "Y")
        if left.shape[1] != right.shape[1] or (shape and shape_y and tuple(shape) != tuple(shape_y)):
            raise ValueError(
                f"`Y` must have as many features as `X`, got {right.shape[1]} and {left.shape[1]} (image shapes "
                f"{shape_y} and {shape}). Pass images of one shape."
            )
        self._check_parameters(left.shape[1])
        return left, right, as_image_shape(shape or shape_y, left.shape[1])

    def _values(self, X: Array, Y: Array, shape: Shape, pairs: np.ndarray) -> np.ndarray:
        """Kernel values (r,) in float64; `pairs` (r, 2) holds a row of `X` and a row of `Y` for each value."""
        size, depth, flat = int(self.filter_size), int(self.depth), self.pooling == "flatten"
        (left, peaks_x), (right, peaks_y) = (planes_of(rows, shape) for rows in (X, Y))
        layer, n_pairs = self._layer(), (shape[0] * shape[1]) ** (1 if flat else 2)
        if not isinstance(layer, FoldedLayer):
            left, right = (images * peaks[:, None, None, None] for images, peaks in ((left, peaks_x), (right, peaks_y)))
            return covariance_pairs(layer, left, right, depth, size, flat, pairs) / n_pairs
        ops = ops_for(X) if is_tensor(X) else host()
        inverse_x, inverse_y = (ops.constant(inverse_roots(images, depth, size)) for images in (left, right))
        left, right = ops.constant(left), ops.constant(right)
        sums = pixel_pairs(ops, left, right, inverse_x, inverse_y, size, flat, layer.fold, pairs)
        # `planes_of` divided the images by their peaks, so that squares do not overflow. The result is multiplied by
        # the peaks again.
        with np.errstate(over="ignore"):
            return sums / n_pairs * peaks_x[pairs[:, 0]] * peaks_y[pairs[:, 1]]

    def _layer(self) -> WideLayer:
        return tangent_layer(self.activation)

    def _tile(self, rows: Array, shape: Shape) -> int:
        """Number of images on a side of a tile."""
        n_pixels = shape[0] * shape[1]
        layer = self._layer()
        if is_tensor(rows) and isinstance(layer, FoldedLayer):
            fitting = memory_budget() / (n_pixels * _PLANES * ops_for(rows).dtype.itemsize)
            return int(np.clip(fitting**0.5, 1, _MOST_TENSOR_TILE))
        pairs = _PIXEL_PAIRS / (n_pixels if self.pooling == "flatten" else n_pixels**2)
        most = _MOST_TILE
        if isinstance(layer, ExpandedLayer):
            most = max(1, min(most, MOST_KEPT // (n_pixels * int(self.depth) * _EXPANSIONS)))
        return int(np.clip(pairs**0.5, 1, most))

    def _check_parameters(self, n_features: int) -> None:
        if check_integer("depth", self.depth, least=1) < 2:
            raise ValueError(
                f"`depth` must be at least 2, got {self.depth}: the definition gives 0 at depth 1. Use 2 or more."
            )
        check_filter_size(self.filter_size)
        check_choice("pooling", self.pooling, ("gap", "flatten"))
        self._layer()

    def _evaluate(self, X: Any, Y: Any) -> np.ndarray:
        return self(X, Y)

    def _diagonal(self, X: Any) -> np.ndarray:
        return self.diag(X)


def check_filter_size(filter_size: Any) -> int:
    """`filter_size` as an int, checked to be odd and at least 1."""
    if check_integer("filter_size", filter_size, least=1) % 2 == 0:
        raise ValueError(
            f"`filter_size` must be odd, got {filter_size}: an even window has no middle pixel. "
            f"Use {filter_size - 1} or {filter_size + 1}."
        )
    return int(filter_size)
