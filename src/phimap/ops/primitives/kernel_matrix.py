"""Kernel values between rows and landmarks."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive

# Least kernel value that is not rounded to 0: the product of two such numbers is a normal number in float32.
_LEAST_VALUE = float(np.finfo(np.float32).tiny) ** 0.5
# Number of rows of the kernel matrix whose small values are rounded at once, which bounds the memory.
_ROWS = 256


class KernelFunction(Protocol):
    """A kernel, see `phimap.kernels.Kernel`."""

    def __call__(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray: ...

    def in_single_precision(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray | None: ...


@primitive
def kernel_matrix(ops: Ops, kernel: KernelFunction, X: Array, landmarks: Array) -> Array:
    """Return kernel values (r, l) between the rows of `X`, dense or CSR, and `landmarks` (l, d).

    `kernel` runs on the host. Backends may compute in the precision of their dtype, the generic body computes in
    float64.
    """
    return ops.constant(kernel(ops.to_host(X), ops.to_host(landmarks)))


@kernel_matrix.override("numpy")
def _(ops: Ops, kernel: KernelFunction, X: Array, landmarks: Array) -> Array:
    values = None
    if ops.dtype == np.float32 and isinstance(X, np.ndarray):
        values = kernel.in_single_precision(X, landmarks)
    values = kernel_matrix.generic(ops, kernel, X, landmarks) if values is None else values
    return without_tiny_values(values) if ops.dtype == np.float32 else values


def without_tiny_values(values: np.ndarray) -> np.ndarray:
    """Replace numbers (r, l) of magnitude below 1e-19 by 0, in place, before products in float32; return them.

    The kernel values of distant rows, and their products, would otherwise be subnormal in float32. With subnormal
    numbers, a matrix product takes many times as long.
    """
    for start in range(0, len(values), _ROWS):
        rows = values[start : start + _ROWS]
        if rows.min(initial=1.0) < _LEAST_VALUE:
            np.multiply(rows, np.abs(rows) >= _LEAST_VALUE, out=rows)
    return values
