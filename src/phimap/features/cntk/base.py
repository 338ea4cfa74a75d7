"""Base classes of maps of images: they hold the image shape and the kernel of a convolutional network."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

from phimap._validation import Shape, as_image_shape
from phimap.features.base import FeatureMap
from phimap.kernels import CNTK
from phimap.random_map import MapRecord

#: Upper bound on side lengths and numbers of channels, of images and filters in model files.
LONGEST_SIDE = 2**20


class ImageRecord(MapRecord):
    """A map of images, each of which is one row.

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
        # A single image is enough work for a tile.
        return 1


class ConvolutionalFeatures(FeatureMap):
    """Base class of features of the tangent kernel of a convolutional network."""

    depth: int
    filter_size: int
    pooling: str
    image_shape: Any

    _takes_bytes: ClassVar[bool] = True

    def _set_kernel(self, n_features: int) -> Shape:
        """Check the parameters, set ``kernel_`` for rows of width `n_features`, and return the shape of an image."""
        shape = as_image_shape(getattr(self, "image_shape_", None) or self.image_shape, n_features)
        activation = getattr(self, "activation", "relu")
        kernel = CNTK(self.depth, self.filter_size, self.pooling, activation=activation, image_shape=shape)
        kernel._check_parameters(n_features)
        self.kernel_ = kernel
        return shape
