"""The convolutional neural tangent kernel of pairs of images on torch tensors, by displacement.

The recursion of `phimap.ops.compiled.pixel_pairs`, on the planes of all pairs at a time.
"""

from __future__ import annotations

import math

import numpy as np
import torch


def pixel_pairs(
    X: torch.Tensor,
    Y: torch.Tensor,
    inverse_x: torch.Tensor,
    inverse_y: torch.Tensor,
    filter_size: int,
    flat: bool,
    pairs: np.ndarray,
) -> np.ndarray:
    """Sums over pixel pairs (r,): see `Ops.pixel_pairs`."""
    height, width = X.shape[2:]
    reach_y, reach_x = (0, 0) if flat else (height - 1, width - 1)
    first, second = torch.as_tensor(pairs, device=X.device).T
    total = torch.zeros(pairs.shape[0], dtype=torch.float64, device=X.device)
    for down in range(-reach_y, reach_y + 1):
        rows_x, rows_y = _overlap(height, down), _overlap(height, -down)
        for right in range(-reach_x, reach_x + 1):
            of_x = (..., rows_x, _overlap(width, right))
            of_y = (..., rows_y, _overlap(width, -right))
            products = (X[of_x][first] * Y[of_y][second]).sum(1)
            inverse = inverse_x[of_x][first] * inverse_y[of_y][second]
            total += _recursion(products, inverse, filter_size).sum((1, 2), dtype=torch.float64)
    return total.cpu().numpy()


def _overlap(size: int, shift: int) -> slice:
    """Where on an axis pixels p have p + shift inside too."""
    return slice(max(0, -shift), size - max(0, shift))


def _recursion(relu: torch.Tensor, inverse: torch.Tensor, filter_size: int) -> torch.Tensor:
    """P_L on planes: relu (r, h, w) holds G_0, inverse (r, L, h, w)."""
    factor = 1.0 / filter_size**2
    # Cosines of equal patches differ from 1 by the rounding of their sums.
    parallel = 64 * torch.finfo(relu.dtype).eps
    depth = inverse.shape[1]
    tangent = torch.zeros_like(relu)
    for layer in range(depth):
        scale = inverse[:, layer]
        inside = scale > 0
        cosine = _box(relu, filter_size) * scale
        size = cosine.abs()
        rest = 1 - size
        rest = torch.where(rest > parallel, rest, torch.zeros_like(rest))
        # From the chord where arccos would lose digits.
        acute = torch.where(size < 0.5, torch.acos(size.clamp(max=0.5)), 2 * torch.asin(torch.sqrt(0.5 * rest)))
        supplement = torch.where(cosine > 0, math.pi - acute, acute)
        step = torch.where(inside, supplement * (factor / math.pi), torch.zeros_like(rest))
        if layer == depth - 1:
            break
        kappa1 = (torch.sqrt(rest * (1 + size)) + cosine * supplement).clamp(min=0)
        relu = torch.where(inside, kappa1 * (factor / math.pi) / scale, torch.zeros_like(rest))
        tangent = _box(tangent * step + relu, filter_size)
    return tangent * step


def _box(planes: torch.Tensor, filter_size: int) -> torch.Tensor:
    """Sums over windows of planes (r, h, w)."""
    for axis in (1, 2):
        radius = filter_size // 2
        reach = min(radius, planes.shape[axis] - 1)
        sums = planes.clone()
        for shift in range(1, reach + 1):
            n = planes.shape[axis] - shift
            sums.narrow(axis, 0, n).add_(planes.narrow(axis, shift, n))
            sums.narrow(axis, shift, n).add_(planes.narrow(axis, 0, n))
        planes = sums
    return planes
