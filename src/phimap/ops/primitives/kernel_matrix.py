"""Kernel values between rows and landmarks."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


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
    return kernel_matrix.generic(ops, kernel, X, landmarks) if values is None else values
