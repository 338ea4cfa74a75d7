"""Array backends. Only this folder imports numba or torch.

`ops_for` chooses the backend once, where data enter the library. The feature maps then use only the core operations
of `Ops` and the primitives of `phimap.ops.primitives`. Start with `base.py`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np

from phimap.ops.base import Array, Ops
from phimap.ops.tasks import one_thread, run_tasks
from phimap.ops.threads import single_threaded_blas, single_threaded_openmp

__all__ = [
    "Array",
    "Ops",
    "host",
    "is_tensor",
    "one_thread",
    "ops_for",
    "run_tasks",
    "single_threaded_blas",
    "single_threaded_openmp",
    "to_device",
    "to_host",
    "torch_for",
]


def is_tensor(X: Any) -> bool:
    """Whether `X` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(X, torch.Tensor)


def host(dtype: Any = np.float64) -> Ops:
    """Return the NumPy backend for a floating dtype."""
    from phimap.ops.numpy_ops import NumpyOps

    return NumpyOps(np.dtype(dtype))


def to_host(X: Any) -> Any:
    """Return `X` on the host: a tensor becomes a NumPy array, any other input is returned unchanged.

    Raises
    ------
    ValueError
        If `X` is a sparse tensor or records gradients.
    """
    if not is_tensor(X):
        return X
    from phimap.ops.torch_ops import check_plain

    check_plain(X)
    return X.cpu().numpy()


def ops_for(X: Any) -> Ops:
    """Return the backend for the library, device and dtype of `X`; float32 if `X` is uint8."""
    if is_tensor(X):
        from phimap.ops.torch_ops import TorchOps

        return TorchOps.of(X)
    # Traced arrays of `phimap.exports` carry their backend.
    if (own := getattr(X, "ops", None)) is not None:
        return own
    return host(np.float32 if X.dtype == np.uint8 else X.dtype)


def to_device(X: Any, device: str) -> Any:
    """Return `X` on the named device: unchanged for ``"auto"``, otherwise as a torch tensor on that device.

    A `device` of ``"cpu"`` also leaves an `X` that is not a tensor unchanged.

    Raises
    ------
    ImportError
        If torch is needed and not installed.
    ValueError
        If the device is not available.
    """
    if device == "auto" or (device == "cpu" and not is_tensor(X)):
        return X
    try:
        from phimap.ops.torch_ops import move
    except ImportError as error:
        raise ImportError(
            f"`device`={device!r} needs PyTorch, which is not installed. Run pip install torch, or use device='auto'."
        ) from error
    return move(X, device)


def torch_for(purpose: str) -> Any:
    """Import torch for code that is not an array operation, such as training a neural network for comparison.

    Raises
    ------
    ImportError
        If torch is not installed; the message names the purpose.
    """
    try:
        return import_module("torch")
    except ImportError as error:
        raise ImportError(f"{purpose} needs PyTorch, which is not installed. Install it: pip install torch.") from error
