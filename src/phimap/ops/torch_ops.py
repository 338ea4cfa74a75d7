"""The backend for PyTorch tensors, on the CPU or on CUDA."""

from __future__ import annotations

from collections.abc import Hashable
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from phimap.config import memory_budget
from phimap.ops.activations import leaky_relu, leaky_step
from phimap.ops.base import Array, Ops

# Largest order of the Hadamard matrices whose products make up the Walsh-Hadamard transform. Products with matrices of
# this order run on a GPU's matrix units. H of order ab is the Kronecker product of the Hadamard matrices of orders a
# and b.
_HADAMARD_ORDER = 128

_TORCH_DTYPES = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}
_NUMPY_DTYPES = {tensor: array for array, tensor in _TORCH_DTYPES.items()}

# The scratch memory of a tile on a GPU is the smaller of 1/64 of the device's memory and 1/8 of the memory budget, but
# at least this many bytes. The budget thus has room for a few arrays of the size of a tile.
_LEAST_CUDA_TILE = 256 * 2**20
_DEVICE_SHARE, _BUDGET_SHARE = 64, 8


class TorchOps(Ops):
    """Core operations on torch tensors of one dtype and device."""

    backend = "torch"
    activations = MappingProxyType(
        {
            "abs": torch.abs,
            "cos": torch.cos,
            "erf": torch.erf,
            "erf-slope": lambda x: 2 / np.pi**0.5 * torch.exp(-(x**2)),
            "gelu": torch.nn.functional.gelu,
            "gelu-slope": lambda x: torch.special.ndtr(x) + x * torch.exp(-(x**2) / 2) / (2 * np.pi) ** 0.5,
            "leaky-relu": leaky_relu,
            "leaky-step": leaky_step,
            "sigmoid": torch.sigmoid,
            "sign": torch.sign,
            "sin": torch.sin,
            # torch's softplus returns x for x > 20, which is not exact in float64.
            "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
        }
    )
    least_tile_rows = 1024
    threaded = False

    def __init__(self, dtype: np.dtype, device: torch.device):
        self.dtype = np.dtype(dtype)
        self.device = device
        self.tile_bytes = _tile_bytes(device)
        self._hadamards: dict[int, torch.Tensor] = {}

    @property
    def key(self) -> Hashable:
        return self.backend, self.dtype, self.device

    @classmethod
    def of(cls, X: torch.Tensor) -> TorchOps:
        """Return the backend for the dtype and device of `X`; float32 if `X` is uint8."""
        return cls(np.dtype(np.float32) if X.dtype == torch.uint8 else _NUMPY_DTYPES[X.dtype], X.device)

    def constant(self, host: np.ndarray) -> Array:
        dtype = _TORCH_DTYPES[self.dtype] if host.dtype.kind == "f" else None
        return torch.tensor(host, dtype=dtype, device=self.device)

    def to_host(self, X: Array) -> np.ndarray:
        return X.cpu().numpy()

    def empty(self, shape: tuple[int, ...]) -> Array:
        return torch.empty(shape, dtype=_TORCH_DTYPES[self.dtype], device=self.device)

    def arange(self, stop: int) -> Array:
        return torch.arange(stop, device=self.device)

    def dense(self, X: Array) -> Array:
        return X

    def is_sparse(self, X: Array) -> bool:
        return False

    def contiguous(self, X: Array) -> Array:
        return X.contiguous()

    def is_finite(self, X: Array) -> bool:
        return bool(torch.isfinite(X).all())

    def floating(self, X: Array) -> Array:
        return X.to(_TORCH_DTYPES[self.dtype])

    def reversed(self, X: Array) -> Array:
        return torch.flip(X, (0,))

    def truncated(self, X: Array) -> Array:
        return X.long()

    def multiply(self, A: Array, B: Array, out: Array) -> None:
        torch.mul(A, B, out=out)

    def matmul(self, X: Array, W: Array) -> Array:
        return X @ W

    def scale_columns(self, X: Array, factors: Array) -> Array:
        return X * factors

    def scale_rows(self, X: Array, factors: Array) -> Array:
        return X * factors[:, None]

    def columns(self, X: Array, places: Array) -> Array:
        return X.index_select(1, places)

    def add_columns(self, out: Array, places: Array, X: Array) -> None:
        out.index_add_(1, places, X)

    def row_norms(self, X: Array) -> Array:
        peak = X.abs().amax(dim=1)
        return peak * torch.linalg.vector_norm(X * self.reciprocal(peak)[:, None], dim=1)

    def reciprocal(self, x: Array) -> Array:
        return torch.where(x == 0, torch.zeros_like(x), 1 / x)

    def exp(self, X: Array) -> Array:
        return torch.exp(X)

    def arcsinh(self, X: Array) -> Array:
        return torch.asinh(X)

    def arcsin(self, X: Array) -> Array:
        return torch.asin(X)

    def fwht(self, X: Array) -> Array:
        rows, width = X.shape
        orders = _kronecker_orders(width)
        X = X.reshape(rows, *orders)
        for axis, order in enumerate(orders, start=1):
            X = torch.movedim(torch.movedim(X, axis, -1) @ self._hadamard(order), -1, axis)
        return X.reshape(rows, width)

    def rfft(self, X: Array, length: int | None = None) -> Array:
        return torch.fft.rfft(X, n=length)

    def irfft(self, X: Array, length: int) -> Array:
        return torch.fft.irfft(X, n=length)

    def fft(self, Z: Array, *, conjugate: bool = False) -> Array:
        return torch.fft.ifft(Z, norm="forward") if conjugate else torch.fft.fft(Z)

    def as_complex(self, X: Array) -> Array:
        return torch.view_as_complex(X)

    def as_pairs(self, Z: Array) -> Array:
        return torch.view_as_real(Z)

    def cross_products(self, Z: Array, Y: Array) -> np.ndarray:
        return (Z.T @ Y).to(torch.float64).cpu().numpy()

    def column_sums(self, Z: Array) -> np.ndarray:
        return Z.sum(dim=0, dtype=torch.float64).cpu().numpy()

    def _hadamard(self, order: int) -> torch.Tensor:
        if order not in self._hadamards:
            H = torch.ones((1, 1), dtype=_TORCH_DTYPES[self.dtype], device=self.device)
            while H.shape[0] < order:
                H = torch.cat([torch.cat([H, H], dim=1), torch.cat([H, -H], dim=1)])
            self._hadamards[order] = H
        return self._hadamards[order]


def check_tensor(X: torch.Tensor) -> torch.Tensor:
    """Return `X` as a contiguous tensor (n, d) of float32 or float64; other real dtypes become float64.

    Raises
    ------
    ValueError
        If `X` is complex, sparse or not two-dimensional, or records gradients.
    """
    check_plain(X)
    if X.is_complex():
        raise ValueError("`X` must be real, got a complex tensor: Complex data not supported.")
    if X.ndim != 2:
        raise ValueError(f"`X` must be of shape (n_samples, n_features), got {tuple(X.shape)}.")
    if X.dtype not in _NUMPY_DTYPES:
        X = X.to(torch.float64)
    return X.contiguous()


def check_plain(X: torch.Tensor) -> None:
    """Raise unless `X` is a dense tensor that records no gradients."""
    if X.layout != torch.strided:
        raise ValueError(f"tensors must be dense, got the layout {X.layout}. Use to_dense(), or a CSR matrix of SciPy.")
    if X.requires_grad:
        raise ValueError("tensors must not record gradients, got requires_grad=True. Use detach().")


def first_non_finite(X: torch.Tensor) -> tuple[int, int, float] | None:
    """Return the row, column and value of the first NaN or infinity, or None if all entries are finite."""
    bad = ~torch.isfinite(X)
    if not bool(bad.any()):
        return None
    row, column = (int(i) for i in bad.nonzero()[0])
    return row, column, float(X[row, column])


def move(X: Any, device: str) -> torch.Tensor:
    """Return `X` as a tensor on `device`."""
    try:
        target = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"`device` must be 'auto', 'cpu' or 'cuda[:index]', got {device!r}.") from error
    if target.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"`device` must be there, got {device!r} on a machine without CUDA. Use device='auto'.")
    if isinstance(X, torch.Tensor):
        return X.to(target)
    if not isinstance(X, np.ndarray):
        raise TypeError(f"`device`={device!r} takes dense input, got {type(X).__name__}. Use device='auto'.")
    return torch.tensor(X, device=target)


def _kronecker_orders(width: int) -> list[int]:
    """Factor `width`, a power of two, into powers of two of at most `_HADAMARD_ORDER`."""
    orders = []
    while width > _HADAMARD_ORDER:
        orders.append(_HADAMARD_ORDER)
        width //= _HADAMARD_ORDER
    return [*orders, width]


def _tile_bytes(device: torch.device) -> int:
    """Upper limit for the scratch memory of a tile: it fits a CPU's caches, or is large enough to occupy a GPU."""
    if device.type != "cuda":
        return 16 * 2**20
    memory = torch.cuda.get_device_properties(device).total_memory
    return max(_LEAST_CUDA_TILE, min(memory // _DEVICE_SHARE, memory_budget() // _BUDGET_SHARE))
