"""Preparation of images for the convolutional kernel: input checks, image arrays, and sums over windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from phimap._validation import Shape, check_finite
from phimap.kernels.rows import checked_array
from phimap.ops import Array, is_tensor, ops_for


def window_sums(planes: np.ndarray, filter_size: int) -> np.ndarray:
    """Sums over square windows of side `filter_size` around each pixel of images (..., h, w), with zeros outside."""
    for axis in (-2, -1):
        n = planes.shape[axis]
        radius = min(filter_size // 2, n - 1)
        moved = np.moveaxis(planes, axis, 0)
        sums = moved.copy()
        for shift in range(1, radius + 1):
            sums[: n - shift] += moved[shift:]
            sums[shift:] += moved[: n - shift]
        planes = np.moveaxis(sums, 0, axis)
    return planes


def inverse_roots(images: np.ndarray, depth: int, filter_size: int) -> np.ndarray:
    """``N_l^(-1/2)`` (n, depth, h, w) of images (n, c, h, w), l = 1, ..., depth, see `CNTK`; 0 where N_l is 0."""
    squares = np.square(images).sum(axis=1)
    inverse = np.empty((images.shape[0], depth, *images.shape[2:]))
    for layer in range(depth):
        squares = window_sums(squares, filter_size) / (1 if layer == 0 else filter_size**2)
        np.divide(1.0, np.sqrt(squares), out=inverse[:, layer], where=squares > 0)
        inverse[:, layer][squares <= 0] = 0.0
    return inverse


def planes_of(rows: Array, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Float64 images (n, c, h, w) on the host, each divided by its largest absolute entry, and the divisors (n,)."""
    dense = rows.toarray() if sparse.issparse(rows) else ops_for(rows).to_host(rows)
    images = dense.astype(np.float64).reshape(-1, *shape).transpose(0, 3, 1, 2)
    peaks = np.abs(images).max(axis=(1, 2, 3))
    return np.ascontiguousarray(images / np.where(peaks > 0, peaks, 1.0)[:, None, None, None]), peaks


def checked_images(X: Any, name: str) -> Array:
    """Return `X` (n, d) as a tensor or a uint8, float32 or float64 array, dense or CSR; raise if it is not finite."""
    if is_tensor(X):
        from phimap.ops.torch_ops import check_tensor

        rows = check_tensor(X)
        check_finite(rows, name)
        return rows
    return checked_array(X, name, np.float64, np.float32, np.uint8)
