"""Exact kernel values between rows and landmarks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def kernel_matrix(ops: Ops, kernel: Callable[..., np.ndarray], X: Array, landmarks: Array) -> Array:
    """Return exact kernel values (r, l) between the rows of `X`, dense or CSR, and `landmarks` (l, d).

    `kernel` runs on the host.
    """
    return ops.constant(kernel(ops.to_host(X), ops.to_host(landmarks)))
