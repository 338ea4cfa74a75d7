"""Core array operations, which all map families share. The generic body of every primitive consists of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar

import numpy as np

# An array of the backend: numpy.ndarray, scipy.sparse CSR (inputs only) or torch.Tensor.
Array = Any
#: Place values in base 3 of the four digits that one byte holds: see `primitives.ternary_product`.
TERNARY_PLACES = (1, 3, 9, 27)


class Ops(ABC):
    """A backend: one array library, one floating dtype, one device.

    A feature map uses only these methods, the functions of `phimap.ops.primitives`, plain indexing and arithmetic
    operators, so that all backends share one definition. Rows are samples. Methods with a parameter `out` write into
    `out`, a C-contiguous block of rows as wide as the map, from column `first` on. A wide map is thus built block by
    block while its projections are in cache.

    Attributes
    ----------
    dtype : numpy.dtype
        float32 or float64: the dtype of inputs, results and constants.
    """

    # The name of the backend. A primitive finds its override by this name.
    backend: ClassVar[str]
    dtype: np.dtype
    # Minimum number of rows of a tile. A tile is a block of rows that one call of this backend processes, and should be
    # enough work for a call.
    least_tile_rows: int
    # Upper limit for the scratch memory of a tile, in bytes.
    tile_bytes: int
    # Functions of arrays, by name: cosine, sine, and all activations that are not rectified powers.
    activations: Mapping[str, Callable[[Array], Array]]
    # Whether several host threads process tiles faster than one thread.
    threaded: bool

    @property
    def key(self) -> Hashable:
        """A key that is equal for backends whose constants can be exchanged."""
        return self.backend, self.dtype

    @abstractmethod
    def constant(self, host: np.ndarray) -> Array:
        """Return `host` as an array of this backend; floats take the backend's dtype, integers keep theirs."""

    @abstractmethod
    def to_host(self, X: Array) -> np.ndarray:
        """Return `X` as a NumPy array."""

    @abstractmethod
    def empty(self, shape: tuple[int, ...]) -> Array:
        """Return an uninitialised array in the dtype of the backend."""

    @abstractmethod
    def arange(self, stop: int) -> Array:
        """Return the integers 0, ..., `stop` - 1 in a dtype that can index arrays."""

    @abstractmethod
    def dense(self, X: Array) -> Array:
        """Return `X` (r, d) as a dense array; a dense `X` is returned unchanged."""

    @abstractmethod
    def is_sparse(self, X: Array) -> bool:
        """Whether `X` is CSR."""

    @abstractmethod
    def contiguous(self, X: Array) -> Array:
        """Return `X` in C order, copied only if it is not C-contiguous."""

    @abstractmethod
    def is_finite(self, X: Array) -> bool:
        """Whether no entry of `X` is NaN or infinite."""

    @abstractmethod
    def floating(self, X: Array) -> Array:
        """Return dense `X`, for example of uint8 or bool, in the dtype of the backend."""

    @abstractmethod
    def reversed(self, X: Array) -> Array:
        """Return `X` with its first axis reversed."""

    @abstractmethod
    def truncated(self, X: Array) -> Array:
        """Return dense `X` rounded towards zero, in an integer dtype that can index arrays."""

    @abstractmethod
    def multiply(self, A: Array, B: Array, out: Array) -> None:
        """Write the entrywise product of dense `A` and `B` to `out`; `A` and `B` are broadcast, `out` may be a view."""

    @abstractmethod
    def matmul(self, X: Array, W: Array) -> Array:
        """Return the product (r, s) of `X` (r, d), dense or CSR, and `W` (d, s)."""

    def matmul_upper(self, X: Array, W: Array) -> Array:
        """Return the product of dense `X` (r, m) and an upper triangular `W` (m, m); `X` may be overwritten."""
        return self.matmul(X, W)

    @abstractmethod
    def scale_columns(self, X: Array, factors: Array) -> Array:
        """Return `X` (r, d), dense or CSR, with column j multiplied by ``factors[j]``."""

    @abstractmethod
    def scale_rows(self, X: Array, factors: Array) -> Array:
        """Return `X` (r, d), dense or CSR, with row i multiplied by ``factors[i]``."""

    @abstractmethod
    def columns(self, X: Array, places: Array) -> Array:
        """Return the columns (r, k) of dense `X` (r, p) whose indices are `places` (k,)."""

    @abstractmethod
    def add_columns(self, out: Array, places: Array, X: Array) -> None:
        """Add column j of `X` (r, k) to column ``places[j]`` of `out`, for all j; places may repeat."""

    @abstractmethod
    def row_norms(self, X: Array) -> Array:
        """Return the Euclidean norms (r,) of the rows of `X`, dense or CSR; the squares do not overflow."""

    @abstractmethod
    def reciprocal(self, x: Array) -> Array:
        """Return ``1 / x`` where x is not zero, and 0 where x is zero."""

    @abstractmethod
    def exp(self, X: Array) -> Array:
        """Return the exponential of every entry."""

    @abstractmethod
    def arcsinh(self, X: Array) -> Array:
        """Return the inverse hyperbolic sine of every entry."""

    @abstractmethod
    def arcsin(self, X: Array) -> Array:
        """Return the inverse sine of every entry."""

    @abstractmethod
    def fwht(self, X: Array) -> Array:
        """Return the unnormalised Walsh-Hadamard transform of the rows of `X`, whose width is a power of two.

        May overwrite `X`.
        """

    @abstractmethod
    def rfft(self, X: Array, length: int | None = None) -> Array:
        """Return the Fourier transform of real sequences (..., n), padded with zeros to `length` (default n).

        The result is complex (..., length // 2 + 1).
        """

    @abstractmethod
    def irfft(self, X: Array, length: int) -> Array:
        """Return the inverse of `rfft`: real sequences (..., length)."""

    @abstractmethod
    def fft(self, Z: Array, *, conjugate: bool = False) -> Array:
        """Return the Fourier transform of complex sequences (..., n); with `conjugate`, n times the inverse."""

    @abstractmethod
    def as_complex(self, X: Array) -> Array:
        """Return contiguous `X` (..., 2), which holds real and imaginary parts, as a view of complex numbers (...)."""

    @abstractmethod
    def as_pairs(self, Z: Array) -> Array:
        """Return the real and imaginary parts (..., 2) of complex `Z`."""

    @abstractmethod
    def cross_products(self, Z: Array, Y: Array) -> np.ndarray:
        """Return ``Z^T Y`` (m, t) on the host in float64, computed on the device and in the dtype of `Z`."""

    @abstractmethod
    def column_sums(self, Z: Array) -> np.ndarray:
        """Return the column sums (m,) of `Z` on the host, summed in float64."""

    def rows(self, X: Array, start: int, stop: int) -> Array:
        """Return rows `start` to `stop` of `X`, dense or CSR, without copying entries."""
        return X[start:stop]

    def matmul_rows(self, Z: Array, W: Array, n_jobs: int | None) -> Array:
        """Return the product of `Z` (n, m) and a narrow `W` (m, t).

        `n_jobs` is the number of threads for a backend that does not use several threads by itself.
        """
        return self.matmul(Z, W)

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Return an array of zeros in the dtype of the backend."""
        out = self.empty(shape)
        out[...] = 0
        return out

    def zero(self, out: Array, first: int, last: int) -> None:
        """Set columns `first` to `last` of `out` to zero."""
        out[:, first:last] = 0

    def copy(self, X: Array, out: Array, first: int = 0) -> None:
        """Write `X` (r, k), dense or CSR, into columns `first` to `first + k` of `out`."""
        out[:, first : first + X.shape[1]] = self.dense(X)

    def scale_rows_in_place(self, out: Array, factors: Array) -> None:
        """Multiply row i of `out` by ``factors[i]``."""
        out *= factors[:, None]

    def pad_signed(self, X: Array, signs: Array) -> Array:
        """Multiply `X` (r, d), dense or CSR, by ``signs[..., :d]`` and pad with zeros to width p.

        `signs` is int8 (p,), or (J, p) for J sign patterns; the result is (r, p) or (r, J, p).
        """
        X, d = self.dense(X), X.shape[1]
        padded = self.empty((X.shape[0], *signs.shape))
        self.multiply(X if signs.ndim == 1 else X[:, None], signs[..., :d], padded[..., :d])
        padded[..., d:] = 0
        return padded

    def oriented(self, Z: Array, orientations: Array, scale: float = 1.0) -> Array:
        """Return complex `Z` (r, k) times `scale`, with every column conjugated whose orientation is -1.

        `orientations` is int8 (k,), of 1 and -1.
        """
        factors = self.empty((orientations.shape[0], 2))
        factors[:, 0] = 1
        factors[:, 1] = orientations
        factors *= scale
        return self.as_complex(self.as_pairs(Z) * factors)
