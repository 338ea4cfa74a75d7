"""Features of the pixels of images, and regions and parts of images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from phimap.ops import Array, Ops
from phimap.ops.primitives.windows import windows


class Region(NamedTuple):
    """A rectangle of pixels of an image."""

    rows: slice
    columns: slice

    def widened(self, reach: int, shape: tuple[int, int]) -> Region:
        """The region extended by `reach` pixels on every side, within an image of `shape`."""
        rows, columns = (
            slice(max(0, part.start - reach), min(size, part.stop + reach))
            for part, size in zip(self, shape, strict=True)
        )
        return Region(rows, columns)

    def places(self) -> np.ndarray:
        """Row and column of each pixel (h w, 2), in row-major order."""
        first, last = np.transpose([(part.start, part.stop) for part in self])
        return np.argwhere(np.ones(last - first, dtype=bool)) + first

    def holds(self, places: np.ndarray) -> np.ndarray:
        """Whether the region contains each of the pixels at `places` (r, 2)."""
        first, last = np.transpose([(part.start, part.stop) for part in self])
        return ((places >= first) & (places < last)).all(axis=1)


class PixelPart(NamedTuple):
    """A part of the pixels of several images: either all pixels of some images, or some pixels of one image.

    Attributes
    ----------
    images : slice
        The images.
    pixels : slice
        The pixels within each of these images.
    rows : slice
        The rows of `Pixels.rows` that hold these pixels.
    """

    images: slice
    pixels: slice
    rows: slice

    def by_image(self, rows: Array) -> Array:
        """Features (r, d) of the pixels of the part, reshaped to (n, r / n, d) for its n images."""
        return rows.reshape(self.images.stop - self.images.start, -1, rows.shape[1])


@dataclass(frozen=True)
class Pixels:
    """Features of all pixels of n images with the same shape.

    Attributes
    ----------
    shape : tuple of int
        (height, width) of an image.
    rows : array of shape (n height width, d)
        One row per pixel, ordered by image, then by row and column.
    """

    shape: tuple[int, int]
    rows: Array

    @classmethod
    def of_images(cls, X: Array, image_shape: tuple[int, int, int]) -> Pixels:
        """The pixels of the images in the rows of `X`; their features are the channels."""
        height, width, channels = image_shape
        return cls((height, width), X.reshape(X.shape[0] * height * width, channels))

    @property
    def per_image(self) -> int:
        """Number of pixels of an image."""
        return prod(self.shape)

    @property
    def n_images(self) -> int:
        return self.rows.shape[0] // self.per_image

    def carrying(self, rows: Array) -> Pixels:
        """Return the same pixels with other features."""
        return Pixels(self.shape, rows)

    def within(self, ops: Ops, region: Region) -> Pixels:
        """Return the pixels of the same region in every image."""
        images = self.rows.reshape(self.n_images, *self.shape, -1)[:, region.rows, region.columns]
        shape = images.shape[1], images.shape[2]
        return Pixels(shape, ops.contiguous(images.reshape(-1, self.rows.shape[1])))

    def windows(
        self,
        ops: Ops,
        filter_size: int,
        part: slice = slice(None),
        *,
        exact: int | None = None,
        signs: Array | None = None,
        folded: int = 0,
    ) -> Array:
        """Direct sums (r, filter_size^2 exact + folded) of features over the windows around the pixels in `part`.

        Pixels outside the image are zeros. The first `exact` features (default: all) are concatenated over the window;
        the others are folded to `folded` features with `signs`, see the primitive `windows`.
        """
        exact = int(self.rows.shape[1]) if exact is None else exact
        signs = ops.empty((filter_size**2, 0)) if signs is None else signs
        return windows(ops, ops.contiguous(self.rows), self.shape, part, filter_size, exact, signs, folded)

    def of_each_image(self) -> Iterator[slice]:
        """Slices of `rows`, one for each image in turn."""
        return (slice(first, first + self.per_image) for first in range(0, self.rows.shape[0], self.per_image))

    def parts(self, most: int) -> Iterator[PixelPart]:
        """Parts of up to `most` pixels: as many whole images as fit, or parts of one image if none fits."""
        size = self.per_image
        together = max(1, most // size)
        for first in range(0, self.n_images, together):
            images = slice(first, min(first + together, self.n_images))
            step = size if most >= size else most
            for start in range(0, size, step):
                pixels = slice(start, min(start + step, size))
                rows = slice(first * size + start, (images.stop - 1) * size + pixels.stop)
                yield PixelPart(images, pixels, rows)
