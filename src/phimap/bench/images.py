"""Images for the experiments, read from files of arrays. CIFAR-10 is read from the first of its files that exists."""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from phimap.bench.datasets import locate_first

#: Names of files with CIFAR-10, in order of preference. Each has a description of its images, which results state.
CIFAR10 = {
    "cifar10_full.npz": "CIFAR-10, lossless",
    "cifar10_jpeg.npz": "CIFAR-10 as lossy JPEG",
    "cifar10.npz": "the part of CIFAR-10 in cifar10.npz",
}


@dataclass(frozen=True)
class Images:
    """Images (n, h, w, c) in float32 with labels. In each channel, training images have mean 0 and deviation 1.

    Attributes
    ----------
    X, y, X_test, y_test : ndarray
    origin : str
        Description of the images in the results.
    """

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    origin: str = ""

    def first(self, n_rows: int, n_test: int | None = None) -> Images:
        """Return the first `n_rows` training images and the first `n_test` (default: `n_rows`) test images."""
        n_test = n_rows if n_test is None else n_test
        return Images(self.X[:n_rows], self.y[:n_rows], self.X_test[:n_test], self.y_test[:n_test], self.origin)


def load_images(path: str | os.PathLike[str], n_rows: int, n_test: int, origin: str = "") -> Images:
    """Read the first images of a file with the arrays X_train, y_train, X_test and y_test."""
    with np.load(path, allow_pickle=False) as file:
        X, X_test = (file[name][:n] for name, n in (("X_train", n_rows), ("X_test", n_test)))
        return _standardised(X, file["y_train"][:n_rows], X_test, file["y_test"][:n_test], origin)


def load_cifar10(folder: str | os.PathLike[str] | None, n_rows: int, n_test: int, seed: int = 0) -> Images:
    """Read images of CIFAR-10 from the first file of `CIFAR10` that exists in the folder.

    The lossless file is in random order, so its first images are read. The JPEG file is sorted by class, so random
    images are read.

    Raises
    ------
    DataError
        If none of the files in `CIFAR10` exists.
    ImportError
        If the file holds JPEG and Pillow is not installed.
    """
    path = locate_first(tuple(CIFAR10), folder)
    origin = CIFAR10[path.name]
    if path.name != "cifar10_jpeg.npz":
        return load_images(path, n_rows, n_test, origin)
    rng = np.random.default_rng(seed)
    with np.load(path, allow_pickle=False) as file:
        stream, offsets, labels, split = (file[name] for name in ("jpeg", "offsets", "label", "split"))
    chosen = [rng.permutation(np.flatnonzero(split == part))[:n] for part, n in ((0, n_rows), (1, n_test))]
    X, X_test = (_decoded(path, stream, offsets, rows) for rows in chosen)
    return _standardised(X, labels[chosen[0]], X_test, labels[chosen[1]], origin)


def _decoded(path: Path, stream: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Decode the images `rows` to bytes (n, h, w, 3); image i is ``stream[offsets[i]:offsets[i + 1]]``."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(f"{path}: images are read by Pillow. Install it: pip install pillow.") from error
    files = (BytesIO(stream[offsets[row] : offsets[row + 1]].tobytes()) for row in rows)
    return np.stack([np.asarray(Image.open(file).convert("RGB")) for file in files])


def _standardised(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, origin: str) -> Images:
    X, X_test = (part.astype(np.float32) for part in (X, X_test))
    X, X_test = (part[..., None] if part.ndim == 3 else part for part in (X, X_test))
    mean, spread = X.mean(axis=(0, 1, 2)), X.std(axis=(0, 1, 2))
    # A constant channel is divided by 1 and becomes 0.
    standard_deviation = np.where(spread > 0, spread, np.float32(1))
    return Images((X - mean) / standard_deviation, y, (X_test - mean) / standard_deviation, y_test, origin)
