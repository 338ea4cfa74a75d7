"""PyTorch: the backend for tensors, on the CPU or on CUDA."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from phimap.config import memory_budget
from phimap.ops.base import TERNARY_PLACES, Array, Ops

# The Walsh-Hadamard transform is done as products with Hadamard matrices of at most this order, which keep a
# GPU's matrix units busy; H of order ab is the Kronecker product of those of orders a and b.
_HADAMARD_ORDER = 128

_TORCH_DTYPES = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}
_NUMPY_DTYPES = {tensor: array for array, tensor in _TORCH_DTYPES.items()}

# Scratch of a tile on a GPU: at least so many bytes, up to shares of the device's memory and of the byte budget that
# leave room for a few arrays of the size.
_LEAST_CUDA_TILE = 256 * 2**20
_DEVICE_SHARE, _BUDGET_SHARE = 64, 8


class TorchOps(Ops):
    """The vocabulary on torch tensors of one dtype and device."""

    activations = MappingProxyType(
        {
            "abs": torch.abs,
            "cos": torch.cos,
            "erf": torch.erf,
            "gelu": torch.nn.functional.gelu,
            "sign": torch.sign,
            "sin": torch.sin,
            # Its own softplus is the identity from 20 on, which float64 can tell.
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

    @classmethod
    def of(cls, X: torch.Tensor) -> TorchOps:
        """The backend of a floating tensor, or of uint8 as float32."""
        return cls(np.dtype(np.float32) if X.dtype == torch.uint8 else _NUMPY_DTYPES[X.dtype], X.device)

    def constant(self, host: np.ndarray) -> Array:
        dtype = _TORCH_DTYPES[self.dtype] if host.dtype.kind == "f" else None
        return torch.tensor(host, dtype=dtype, device=self.device)

    def to_host(self, X: Array) -> np.ndarray:
        return X.cpu().numpy()

    def empty(self, shape: tuple[int, ...]) -> Array:
        return torch.empty(shape, dtype=_TORCH_DTYPES[self.dtype], device=self.device)

    def dense(self, X: Array) -> Array:
        return X

    def is_sparse(self, X: Array) -> bool:
        return False

    def contiguous(self, X: Array) -> Array:
        return X.contiguous()

    def is_finite(self, X: Array) -> bool:
        return bool(torch.isfinite(X).all())

    def copy(self, X: Array, out: Array, first: int = 0) -> None:
        out[:, first : first + X.shape[1]] = X

    def zero(self, out: Array, first: int, last: int) -> None:
        out[:, first:last] = 0

    def matmul(self, X: Array, W: Array) -> Array:
        return X @ W

    def matmul_rows(self, Z: Array, W: Array, n_jobs: int | None) -> Array:
        return Z @ W

    def scale_columns(self, X: Array, factors: Array) -> Array:
        return X * factors

    def scale_rows(self, X: Array, factors: Array) -> Array:
        return X * factors[:, None]

    def scale_rows_in_place(self, out: Array, factors: Array) -> None:
        out *= factors[:, None]

    def row_norms(self, X: Array) -> Array:
        peak = X.abs().amax(dim=1)
        return peak * torch.linalg.vector_norm(X * self.reciprocal(peak)[:, None], dim=1)

    def reciprocal(self, x: Array) -> Array:
        return torch.where(x == 0, torch.zeros_like(x), 1 / x)

    def exp(self, X: Array) -> Array:
        return torch.exp(X)

    def cos_sin(self, projected: Array, scale: Array, out: Array, first: int, half: int) -> None:
        _check_finite(projected)
        width = projected.shape[1]
        torch.mul(torch.cos(projected), scale, out=out[:, first : first + width])
        torch.mul(torch.sin(projected), scale, out=out[:, half + first : half + first + width])

    def cos_shift(self, projected: Array, shift: Array, scale: Array, out: Array, first: int) -> None:
        _check_finite(projected)
        torch.mul(torch.cos(projected + shift), scale, out=out[:, first : first + projected.shape[1]])

    def rectify(self, projected: Array, order: int, scale: Array, out: Array, first: int) -> None:
        values = (projected > 0).to(projected.dtype) if order == 0 else projected.clamp(min=0) ** order
        torch.mul(values, scale, out=out[:, first : first + projected.shape[1]])

    def interpolate(self, projected: Array, table: Array, reach: float, scale: Array, out: Array, first: int) -> None:
        last = table.shape[0] - 1
        places = ((projected + reach) * (0.5 * last / reach)).clamp(0, last)
        lower = places.floor().clamp(max=last - 1)
        number = lower.long()
        values = torch.lerp(table[number], table[number + 1], places - lower)
        torch.mul(values, scale, out=out[:, first : first + projected.shape[1]])

    def fwht(self, X: Array) -> Array:
        rows, width = X.shape
        orders = _kronecker_orders(width)
        X = X.reshape(rows, *orders)
        for axis, order in enumerate(orders, start=1):
            X = torch.movedim(torch.movedim(X, axis, -1) @ self._hadamard(order), -1, axis)
        return X.reshape(rows, width)

    def pad_signed(self, X: Array, signs: Array) -> Array:
        padded = torch.zeros((X.shape[0], signs.shape[0]), dtype=X.dtype, device=X.device)
        padded[:, : X.shape[1]] = X * signs[: X.shape[1]]
        return padded

    def hadamard_blocks(self, X: Array, signs: Array, scale: Array) -> Array:
        n_blocks, n_factors, width = signs.shape
        rows = X.shape[0]
        Y = torch.zeros((rows, 1, width), dtype=X.dtype, device=X.device)
        Y[:, 0, : X.shape[1]] = X
        for factor in reversed(range(n_factors)):
            Y = self.fwht((Y * signs[:, factor]).reshape(rows * n_blocks, width)).reshape(rows, n_blocks, width)
        return Y.reshape(rows, -1)[:, : scale.shape[0]] * scale

    def fastfood_blocks(self, X: Array, signs: Array, permutations: Array, gains: Array, scale: Array) -> Array:
        rows, (n_blocks, width) = X.shape[0], signs.shape
        Y = torch.zeros((rows, n_blocks, width), dtype=X.dtype, device=X.device)
        Y[:, :, : X.shape[1]] = X[:, None] * signs[:, : X.shape[1]]
        Y = self.fwht(Y.reshape(rows * n_blocks, width)).reshape(rows, n_blocks, width)
        Y = torch.gather(Y, 2, permutations.expand(rows, n_blocks, width)) * gains
        return self.fwht(Y.reshape(rows * n_blocks, width)).reshape(rows, -1)[:, : scale.shape[0]] * scale

    def fourier_blocks(
        self, X: Array, factors: Array, phases: Array, frequencies: Array, n_points: int, scale: Array
    ) -> Array:
        rows, (n_blocks, half) = X.shape[0], frequencies.shape
        turns = torch.view_as_complex(phases)
        padded = torch.nn.functional.pad(X * factors, (0, 2 * half - X.shape[1]))
        Z = torch.fft.fft(torch.view_as_complex(padded.reshape(rows, 1, half, 2)) * turns[:, 1]) * turns[:, 0]
        spectra = torch.zeros((rows, n_blocks * n_points), dtype=Z.dtype, device=X.device)
        places = frequencies + n_points * torch.arange(n_blocks, device=X.device)[:, None]
        spectra.index_add_(1, places.reshape(-1), Z.reshape(rows, -1))
        points = torch.fft.ifft(spectra.reshape(rows, n_blocks, n_points), norm="forward")
        return torch.view_as_real(points).reshape(rows, -1)[:, : scale.shape[0]] * scale

    def signed_sums(self, X: Array, indices: Array, bounds: Array) -> Array:
        pieces = torch.arange(bounds.shape[0] - 1, device=X.device).repeat_interleave(bounds[1:] - bounds[:-1])
        places = torch.stack([pieces // 2, indices.long()])
        shape = bounds.shape[0] // 2, X.shape[1]
        W = torch.sparse_coo_tensor(places, (1 - 2 * (pieces % 2)).to(X.dtype), shape, check_invariants=True)
        return (W @ X.T).T.contiguous()

    def ternary_product(self, X: Array, codes: Array) -> Array:
        digits = codes[:, :, None] // torch.tensor(TERNARY_PLACES, dtype=torch.uint8, device=X.device) % 3
        signs = ((digits == 1).to(X.dtype) - (digits == 2).to(X.dtype)).reshape(codes.shape[0], -1)
        return X @ signs[:, : X.shape[1]].T

    def countsketch(self, X: Array, buckets: Array, signs: Array, width: int, out: Array, first: int = 0) -> None:
        columns = out[:, first : first + width]
        columns.zero_()
        for k in range(buckets.shape[1]):
            columns.index_add_(1, buckets[:, k], X * signs[:, k])

    def gather_product(
        self, A: Array, columns_a: Array, B: Array, columns_b: Array, scale: float, out: Array, first: int = 0
    ) -> None:
        out[:, first : first + columns_a.shape[0]] = A[:, columns_a] * B[:, columns_b] * scale

    def outer(self, A: Array, B: Array, out: Array, first: int = 0) -> None:
        columns = out[:, first : first + A.shape[1] * B.shape[1]]
        columns.view(A.shape[0], A.shape[1], B.shape[1]).copy_(A[:, :, None] * B[:, None, :])

    def convolution_spectra(self, X: Array, factors: Array, length: int) -> Array:
        return torch.fft.rfft(X * factors, n=length, dim=1)

    def convolutions(self, spectra: Array, rows: int, generators: Array, offset: int, scale: Array) -> Array:
        length = generators.shape[1]
        products = spectra[:, None, :] * torch.fft.rfft(generators, dim=1)
        values = torch.fft.irfft(products, n=length, dim=2)[:, :, offset:].reshape(rows, -1)
        return values[:, : scale.shape[0]] * scale

    def rfft(self, X: Array) -> Array:
        return torch.fft.rfft(X, dim=1)

    def irfft(self, X: Array, width: int) -> Array:
        return torch.fft.irfft(X, n=width, dim=1)

    def product_factor(self, X: Array, signs: Array) -> Array:
        return torch.fft.rfft(self.pad_signed(self.dense(X), signs), dim=1)

    def fourier_product(
        self,
        A: Array,
        columns_a: Array,
        orientations_a: Array,
        B: Array,
        columns_b: Array,
        orientations_b: Array,
        scale: float,
        out: Array,
        first: int = 0,
    ) -> None:
        a, b = A[:, columns_a] * scale, B[:, columns_b]
        product = torch.complex(a.real, a.imag * orientations_a) * torch.complex(b.real, b.imag * orientations_b)
        parts = torch.view_as_real(product).reshape(product.shape[0], -1)
        out[:, first : first + parts.shape[1]] = parts

    def next_product_factor(
        self,
        A: Array,
        columns_a: Array,
        orientations_a: Array,
        B: Array,
        columns_b: Array,
        orientations_b: Array,
        scale: float,
        signs: Array,
    ) -> Array:
        features = self.empty((max(A.shape[0], B.shape[0]), 2 * columns_a.shape[0]))
        self.fourier_product(A, columns_a, orientations_a, B, columns_b, orientations_b, scale, features)
        return self.product_factor(features, signs)

    def signed_spectra(self, X: Array, signs: Array) -> Array:
        padded = torch.zeros((X.shape[0], *signs.shape), dtype=X.dtype, device=X.device)
        padded[:, :, : X.shape[1]] = X[:, None, :] * signs[:, : X.shape[1]]
        return torch.fft.rfft(padded, dim=2)

    def fourier_chain(
        self, spectra: Array, rows: Array, orientations: Array, scale: float, out: Array, first: int
    ) -> None:
        product: Array = scale
        for factor in range(rows.shape[0]):
            entries = spectra[:, factor, rows[factor]]
            product = product * torch.complex(entries.real, entries.imag * orientations[factor])
        k = rows.shape[1]
        out[:, first : first + k] = product.real
        out[:, first + k : first + 2 * k] = product.imag

    def kernel_matrix(self, kernel: Callable[..., np.ndarray], X: Array, landmarks: Array) -> Array:
        return self.constant(kernel(self.to_host(X), self.to_host(landmarks)))

    def floating(self, X: Array) -> Array:
        return X.to(_TORCH_DTYPES[self.dtype])

    def reversed(self, X: Array) -> Array:
        return torch.flip(X, (0,))

    def windows(
        self,
        F: Array,
        shape: tuple[int, int],
        part: slice,
        filter_size: int,
        exact: int,
        signs: Array,
        folded: int,
    ) -> Array:
        height, width = shape
        pixels = torch.arange(F.shape[0], device=F.device)[part]
        i, j = torch.div(pixels, width, rounding_mode="floor") % height, pixels % width
        radius, n_rest = filter_size // 2, F.shape[1] - exact
        out = torch.zeros((pixels.shape[0], filter_size**2 * exact + folded), dtype=F.dtype, device=F.device)
        rest = out[:, filter_size**2 * exact :]
        for shift in range(filter_size**2):
            down, right = shift // filter_size - radius, shift % filter_size - radius
            inside = (i + down >= 0) & (i + down < height) & (j + right >= 0) & (j + right < width)
            source = F[(pixels + down * width + right).clamp(0, F.shape[0] - 1)] * inside[:, None]
            out[:, shift * exact : (shift + 1) * exact] = source[:, :exact]
            turned = source[:, exact:] * signs[shift]
            for block in range(0, n_rest, max(folded, 1)):
                piece = turned[:, block : block + folded]
                rest[:, : piece.shape[1]] += piece
        return out

    def pixel_pairs(
        self, X: Array, Y: Array, inverse_x: Array, inverse_y: Array, filter_size: int, flat: bool, pairs: np.ndarray
    ) -> np.ndarray:
        from phimap.ops.torch_pixel_pairs import pixel_pairs

        return pixel_pairs(X, Y, inverse_x, inverse_y, filter_size, flat, pairs)

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
    """A floating tensor (n, d), or the reason why `X` is none; integers become float64."""
    if X.is_complex():
        raise ValueError("`X` must be real, got a complex tensor: Complex data not supported.")
    if X.ndim != 2:
        raise ValueError(f"`X` must be of shape (n_samples, n_features), got {tuple(X.shape)}.")
    if X.dtype not in _NUMPY_DTYPES:
        X = X.to(torch.float64)
    return X.contiguous()


def first_non_finite(X: torch.Tensor) -> tuple[int, int, float] | None:
    """Row, column and value of the first NaN or infinity, or None."""
    bad = ~torch.isfinite(X)
    if not bool(bad.any()):
        return None
    row, column = (int(i) for i in bad.nonzero()[0])
    return row, column, float(X[row, column])


def move(X: Any, device: str) -> torch.Tensor:
    """`X` as a tensor on `device`."""
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
    """Powers of two up to _HADAMARD_ORDER whose product is `width`."""
    orders = []
    while width > _HADAMARD_ORDER:
        orders.append(_HADAMARD_ORDER)
        width //= _HADAMARD_ORDER
    return [*orders, width]


def _check_finite(projected: torch.Tensor) -> None:
    if not bool(torch.isfinite(projected).all()):
        raise ValueError(
            "`X` is too large for this length scale: a projection overflowed. "
            "Standardise the columns of X, or raise `length_scale`."
        )


def _tile_bytes(device: torch.device) -> int:
    """Bytes of scratch that a tile should stay within: of a CPU's caches, or what keeps a GPU busy."""
    if device.type != "cuda":
        return 16 * 2**20
    memory = torch.cuda.get_device_properties(device).total_memory
    return max(_LEAST_CUDA_TILE, min(memory // _DEVICE_SHARE, memory_budget() // _BUDGET_SHARE))
