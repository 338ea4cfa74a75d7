"""Folders of images, decoded by Pillow one file at a time."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from phimap._files import DataError, one_line
from phimap.io.columns import check_row, numbered_names
from phimap.io.formats import IMAGES, files_below
from phimap.io.rows import Table
from phimap.io.skipped import Skipped
from phimap.io.source import TableSource

#: Name of the target: the class of an image is the name of its subfolder.
LABEL = "class"

# Only these formats are decoded; the suffix of a file plays no role. Files of these formats cannot contain programs.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
_GREY = ("1", "L", "LA", "La", "I;16", "I;16B", "I;16L", "I;16N")
_TOO_DEEP = ("I", "F")
# Largest number of bytes of images that are decoded at a time. It is small, because memory holds the decoded block in
# addition to the batch.
_BLOCK_BYTES = 2**24


class UnreadableImageError(DataError):
    """A file is damaged, or its image has another type than the other images."""


class ImageTable(Table):
    """Images below a folder in the order of their sorted paths, all of one shape (h, w, c), with values in bytes.

    With the target ``"class"`` the folder must contain one subfolder for each class, and no images outside of them. If
    bad rows are skipped, unreadable images and coloured images among grey images are skipped, too.
    """

    _unusable = "being damaged or of another kind"

    def __init__(self, source: TableSource) -> None:
        names = _image_names(source.path)
        if source.target not in (None, LABEL):
            raise DataError(
                f"{source.where}: images in folders have one target, {LABEL!r}, got {source.target!r}. Leave it out."
            )
        if source.columns is not None:
            raise DataError(f"{source.where}: images have no columns to choose from. Leave columns=... out.")
        if source.drop:
            raise DataError(f"{source.where}: images have no columns to drop. Leave drop=... out.")
        self._names, self._folder = names, source.path
        self._size, self._channels = source.size, source.channels
        self._labels = _labels(source.path, names) if source.target == LABEL else None
        # The first image determines the size and the channels unless the user chooses them.
        self._unreadable: set[int] = set()
        first = self._first(skip=source.bad_rows.ragged == "skip")
        check_row(source.where, first.size, 1, "choose a smaller size=...")
        super().__init__(
            source,
            numbered_names(first.size),
            source.target,
            n_rows=len(names),
            sample_shape=first.shape,
            row_names=names,
            dtype=np.uint8,
        )

    def _blocks(self, rows: int, skipped: Skipped) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        n_block = max(1, min(rows, _BLOCK_BYTES // self.n_features))
        for start in range(0, len(self._names), n_block):
            part = slice(start, start + n_block)
            X = np.stack([self._pixels_of(number) for number in range(start, min(start + n_block, len(self._names)))])
            yield X, None if self._labels is None else self._labels[part]

    def _pixels_of(self, place: int) -> np.ndarray:
        """Return the pixels of an image as a vector; zeros if the image is left out."""
        try:
            return self._decoded(self._names[place], self.sample_shape).reshape(-1)
        except UnreadableImageError:
            if self.source.bad_rows.ragged != "skip":
                raise
        self._unreadable.add(place + 1)
        return np.zeros(self.n_features, dtype=np.uint8)

    def _finish_block(self, X: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        X, usable = super()._finish_block(X, numbers)
        bad = np.isin(numbers, list(self._unreadable))
        return X, ~bad if bad.any() else usable

    def _first(self, *, skip: bool) -> np.ndarray:
        """Return the pixels of the first image; with `skip`, of the first image that can be read."""
        for name in self._names:
            try:
                return self._decoded(name)
            except UnreadableImageError:
                if not skip:
                    raise
        raise DataError(f"{self._folder}: none of its {len(self._names):,} images can be read. Save them again.")

    def _decoded(self, name: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """Return the pixels (h, w, c) of an image in bytes; raise if the image has another shape than `shape`."""
        file = self._folder / name
        image = _upright(file, self._size)
        if image.mode in _TOO_DEEP:
            raise UnreadableImageError(
                f"{file}: has pixels of mode {image.mode!r}. Save it with 8 or 16 bits a channel."
            )
        channels = self._channels or (shape[2] if shape else 1 if image.mode in _GREY else 3)
        if channels == 1 and self._channels is None and image.mode not in _GREY:
            raise UnreadableImageError(
                f"{file}: is in colour, the first image is grey. Choose channels=3, or channels=1 for grey."
            )
        pixels = _pixels(image, channels, self._size)
        if shape is not None and pixels.shape != shape:
            raise DataError(
                f"{file}: has {times(pixels.shape[:2])} pixels (height x width), the first image has "
                f"{times(shape[:2])}. Bring all images to one size with size=..."
            )
        return pixels


def _image_names(folder: Path) -> tuple[str, ...]:
    """Relative paths of the images below `folder`, sorted folder by folder; other files are ignored."""
    names = tuple(name for name in files_below(folder) if name.lower().endswith(IMAGES))
    if not names:
        raise DataError(
            f"{folder}: holds no images ({', '.join(IMAGES)}). Give a folder of images or of tables, or the path of a "
            "file."
        )
    return names


def _labels(folder: Path, names: Sequence[str]) -> np.ndarray:
    """The class of each image, which is the first folder of its path."""
    loose = next((name for name in names if "/" not in name), None)
    if loose is not None:
        raise DataError(f"{folder / loose}: lies in no class folder. Give each class a folder: CLASS/{loose}.")
    labels = [name.partition("/")[0] for name in names]
    classes = {entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith(".")}
    empty = sorted(classes.difference(labels))
    if empty:
        raise DataError(f"{folder / empty[0]}: is a class without images. Remove the folder, or put images into it.")
    return np.array(labels)


def _upright(file: Path, size: tuple[int, int] | None) -> Any:
    """Decode an image, and rotate it upright by the orientation in the file; a damaged file raises a one-line error.

    Large photographs are decoded at a lower resolution if `size` (h, w) is small.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ImportError(f"{file}: images are read by Pillow. Install it: pip install pillow.") from error
    # Opening a named pipe would block forever.
    if not file.is_file():
        raise DataError(f"{file}: is no file. Remove it, or the broken link.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=_FORMATS) as image:
                if size is not None:
                    # JPEG can be decoded at 1/2, 1/4 and 1/8 of its size. `_pixels` does the rest of the reduction.
                    side = 2 * max(size)
                    image.draft(None, (side, side))
                return ImageOps.exif_transpose(image)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UnreadableImageError(f"{file}: is too large ({one_line(error)}). Make it smaller.") from None
    except MemoryError:
        raise
    # Decoders raise many exceptions on damaged bytes: SyntaxError, struct.error, IndexError and more.
    except Exception as error:
        raise UnreadableImageError(
            f"{file}: damaged or no image ({one_line(error)}). Save it again, or remove it."
        ) from None


def _pixels(image: Any, channels: int, size: tuple[int, int] | None) -> np.ndarray:
    """Convert an image to grey values (h, w, 1) or colours (h, w, 3) in bytes; transparent parts become white."""
    from PIL import Image

    if image.mode.startswith("I;16"):
        # Pillow would clip 16-bit values at 255.
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        above = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above).convert("RGB")
    image = image.convert("L" if channels == 1 else "RGB")
    if size is not None and image.size != size[::-1]:
        image = image.resize(size[::-1], Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(image.height, image.width, channels)


def times(shape: Sequence[int]) -> str:
    """A shape as text, such as ``"32 x 32 x 3"``."""
    return " x ".join(map(str, shape))
