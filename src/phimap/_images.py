"""How images enter: arrays (n, h, w, c), or flat rows of them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

Shape = tuple[int, int, int]


def as_image_shape(image_shape: Any, n_features: int) -> Shape:
    """The shape (height, width, channels) that `image_shape` gives to rows of `n_features` numbers.

    None stands for signals: images of height 1 with one channel, as long as the rows are.
    """
    if image_shape is None:
        return 1, n_features, 1
    if np.ndim(image_shape) != 1 or len(image_shape) not in (2, 3):
        raise ValueError(
            f"`image_shape` must be (height, width) or (height, width, channels), got {image_shape!r}. "
            "Name the shape of one image."
        )
    height, width, *rest = (int(size) for size in image_shape)
    shape = (height, width, rest[0] if rest else 1)
    if prod(shape) != n_features:
        raise ValueError(
            f"`image_shape` must hold as many numbers as a row of X, got {shape} with {prod(shape)} for rows of "
            f"{n_features}. Name the shape of one image."
        )
    return shape


def flat_images(X: Any, image_shape: Any = None) -> tuple[Any, Any]:
    """Rows of the images `X` (n, h, w, c), and their shape; anything but four axes is handed on as it is.

    Raises
    ------
    ValueError
        If the images have another shape than `image_shape`, where that is given.
    """
    if getattr(X, "ndim", 2) != 4:
        # Data frames among them, whose names of columns are still to be read.
        return X, image_shape
    X = X if hasattr(X, "reshape") else np.asarray(X)
    shape = tuple(int(size) for size in X.shape[1:])
    if image_shape is not None and shape != as_image_shape(image_shape, prod(image_shape)):
        raise ValueError(f"`X` must hold images of shape {tuple(image_shape)}, got {shape}. Resize the images.")
    return X.reshape(X.shape[0], -1), shape
