"""Base classes of maps of images: they hold the image shape and the kernel of a convolutional network."""

from __future__ import annotations

import warnings
from math import prod
from typing import Any, ClassVar, Self

import numpy as np

from phimap._validation import Shape, as_image_shape
from phimap._warnings import caller_level
from phimap.features.base import FeatureMap
from phimap.kernels import CNTK
from phimap.random_map import MapRecord

#: Upper bound on side lengths and numbers of channels, of images and filters in model files.
LONGEST_SIDE = 2**20
# Usual numbers of channels: 1 for grey images, 3 for colour, and 4 for colour with transparency.
_CHANNELS = (1, 3, 4)


class ImageRecord(MapRecord):
    """Base class of records of maps of images. Each input row holds one image.

    Attributes
    ----------
    image_shape : tuple of int
        (height, width, channels).
    """

    image_shape: tuple[int, int, int]

    @property
    def n_features(self) -> int:
        return prod(self.image_shape)

    @property
    def least_tile_rows(self) -> int:
        # A single image is enough work for one task.
        return 1


class ConvolutionalFeatures(FeatureMap):
    """Base class of features of the tangent kernel of a convolutional network."""

    depth: int
    filter_size: int
    pooling: str
    image_shape: Any

    _takes_bytes: ClassVar[bool] = True

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the map for images.

        Parameters
        ----------
        X : array-like of shape (n, h, w, c), or of flat rows with `image_shape`
            Images: rows, height, width, channels. A warning is given if channels seem to come first: 1, 3, 4 or many
            channels, before two sides of similar length.
        y : ignored

        Returns
        -------
        self : object
        """
        shape = tuple(X.shape) if hasattr(X, "shape") else np.asarray(X).shape
        if len(shape) == 3:
            raise ValueError(
                f"`X` must hold images (n, h, w, c), got shape {shape}. Give X[..., None] if they have one channel."
            )
        if len(shape) == 4 and _has_channels_first(*shape[1:]):
            warnings.warn(
                f"`X` must hold images (n, h, w, c), got shape {shape}, whose channels seem to come first. Give "
                "X.transpose(0, 2, 3, 1).",
                stacklevel=caller_level(),
            )
        return super().fit(X, y)

    def _set_kernel(self, n_features: int) -> Shape:
        """Check the parameters, set ``kernel_`` for rows of width `n_features`, and return the shape of an image."""
        shape = as_image_shape(getattr(self, "image_shape_", None) or self.image_shape, n_features)
        activation = getattr(self, "activation", "relu")
        kernel = CNTK(self.depth, self.filter_size, self.pooling, activation=activation, image_shape=shape)
        kernel._check_parameters(n_features)
        self.kernel_ = kernel
        return shape


def _has_channels_first(first: int, second: int, third: int) -> bool:
    """Whether the axes of an image seem to be channels, height and width.

    Three conditions must hold. The length of the last axis is not a usual number of channels. The last two axes have
    similar lengths, like the sides of an image. The length of the first axis is a usual number of channels, or at least
    twice the other lengths.
    """
    short, long = sorted((second, third))
    if third in _CHANNELS or long > 2 * short:
        return False
    few = first in _CHANNELS and (short == long or (first > 1 and first < short))
    return (few and first != second) or first >= 2 * long
