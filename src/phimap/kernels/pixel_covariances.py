r"""The convolutional tangent kernel of units that are not homogeneous.

The recursion needs three numbers per pair of pixels: two variances, each of which depends on one image only, and the
covariance. As for homogeneous units, the recursion never combines pixel pairs of different displacements, so the pairs
of one displacement are processed as one plane.
"""

from __future__ import annotations

import numpy as np

from phimap.kernels.images import window_sums
from phimap.kernels.wide_layers import WideLayer

# Limits on the pairs of images that are processed at a time. An array with one number for each pair of images and each
# pixel has at most `_PLANE` numbers, so that it fits the L2 cache with temporaries. At most `_KEPT` numbers are
# prepared for the pixels.
_PLANE, _KEPT = 2**12, 2**18
#: Maximum count of numbers prepared for the pixels on one side of a tile; they take 32 MiB.
MOST_KEPT = 2**22


def deviations(layer: WideLayer, images: np.ndarray, depth: int, filter_size: int) -> np.ndarray:
    """Standard deviations (n, depth, h, w) of the inputs of units in layers 1, ..., depth, for images (n, c, h, w)."""
    squares = np.square(images).sum(axis=1)
    found = np.empty((images.shape[0], depth, *images.shape[2:]))
    for number in range(depth):
        found[:, number] = np.sqrt(window_sums(squares, filter_size))
        squares = layer.energy(found[:, number]) * (layer.gain / filter_size**2)
    return found


def covariance_pairs(
    layer: WideLayer, X: np.ndarray, Y: np.ndarray, depth: int, filter_size: int, flat: bool, pairs: np.ndarray
) -> np.ndarray:
    """Sums (r,) of P_L (see `CNTK`) over the pixel pairs of images ``X[pairs[:, 0]]`` and ``Y[pairs[:, 1]]``.

    If `flat`, the sums are over equal pixels only.
    """
    sides = [deviations(layer, images, depth, filter_size) for images in (X, Y)]
    kept_x, kept_y = layer.prepared(*sides)
    inverse_x, inverse_y = (np.divide(1.0, x, out=np.zeros_like(x), where=x > 0) for x in sides)
    height, width = X.shape[2:]
    numbers = height * width * depth * sum(int(np.prod(kept.shape[4:])) for kept in kept_x)
    step = max(1, min(_PLANE // (height * width), _KEPT // numbers))
    total = np.empty(pairs.shape[0])
    for start in range(0, pairs.shape[0], step):
        first, second = pairs[start : start + step].T
        left = [X[first], inverse_x[first], *(kept[first] for kept in kept_x)]
        right = [Y[second], inverse_y[second], *(kept[second] for kept in kept_y)]
        total[start : start + step] = _sums(layer, left, right, filter_size, flat)
    return total


def _sums(
    layer: WideLayer, left: list[np.ndarray], right: list[np.ndarray], filter_size: int, flat: bool
) -> np.ndarray:
    """Sums (r,) of P_L (see `CNTK`) over the pixel pairs of r image pairs.

    `left` and `right` hold the images (r, c, h, w), the inverse standard deviations, and the arrays that
    ``layer.prepared`` returned. The shapes of all arrays except the images begin with (r, L, h, w).
    """
    height, width = left[0].shape[2:]
    reach_y, reach_x = (0, 0) if flat else (height - 1, width - 1)
    total = np.zeros(left[0].shape[0])
    for down in range(-reach_y, reach_y + 1):
        for right_by in range(-reach_x, reach_x + 1):
            of_x = (slice(None), slice(None), _overlap(height, down), _overlap(width, right_by))
            of_y = (slice(None), slice(None), _overlap(height, -down), _overlap(width, -right_by))
            planes = _recursion(layer, [x[of_x] for x in left], [y[of_y] for y in right], filter_size)
            total += planes.reshape(total.shape[0], -1).sum(axis=1)
    return total


def _recursion(layer: WideLayer, left: list[np.ndarray], right: list[np.ndarray], filter_size: int) -> np.ndarray:
    """P_L (r, h, w) for the pixel pairs of one displacement."""
    share = layer.gain / filter_size**2
    values = (left[0] * right[0]).sum(axis=1)
    depth, tangent = left[1].shape[1], np.zeros_like(values)
    for number in range(depth):
        (inverse_x, *of_x), (inverse_y, *of_y) = ([kept[:, number] for kept in side[1:]] for side in (left, right))
        cosine = window_sums(values, filter_size)
        cosine *= inverse_x
        cosine *= inverse_y
        np.clip(cosine, -1.0, 1.0, out=cosine)
        if number:
            # P_0 = 0, so the first layer does not need slopes.
            tangent *= layer.pair_slopes(of_x, of_y, cosine)
            tangent *= share
        if number < depth - 1:
            values = layer.pair_covariance(of_x, of_y, cosine)
            values *= share
            tangent = window_sums(tangent + values, filter_size)
    return tangent


def _overlap(size: int, shift: int) -> slice:
    """Slice of the pixels p on an axis for which p + shift is inside the image."""
    return slice(max(0, -shift), size - max(0, shift))
