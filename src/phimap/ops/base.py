"""The core: small array operations that families share, and in which every primitive has a generic body."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

# An array of the backend: numpy.ndarray, scipy.sparse CSR (inputs only) or torch.Tensor.
Array = Any
#: Places of four ternary digits in a byte: see `primitives.ternary_product`.
TERNARY_PLACES = (1, 3, 9, 27)


class Ops(ABC):
    """A backend: one array library, one floating dtype, one device.

    A map's program calls these methods, the functions of `phimap.ops.primitives`, plain indexing and arithmetic
    operators, nothing else, so that one definition serves every backend. Rows are samples. Methods with `out` write
    there (a C-contiguous block of rows, as wide as the map) from column `first` on, so that a wide map is built block
    by block while its projections are in cache.

    Attributes
    ----------
    dtype : numpy.dtype
        float32 or float64: of the inputs, of the results and of bound constants.
    """

    # The name by which primitives know a backend.
    backend: ClassVar[str]
    dtype: np.dtype
    # Rows a tile should have at least: enough work for one call of this backend.
    least_tile_rows: int
    # Bytes of scratch that a tile should stay within.
    tile_bytes: int
    # Functions of arrays by name: of the activations that are no rectified powers, cosines and sines among them.
    activations: Mapping[str, Callable[[Array], Array]]
    # Whether tiles are worth running on several host threads.
    threaded: bool

    @abstractmethod
    def constant(self, host: np.ndarray) -> Array:
        """`host` as an array of this backend; floats in its dtype, integers as they are."""

    @abstractmethod
    def to_host(self, X: Array) -> np.ndarray:
        """`X` as a NumPy array."""

    @abstractmethod
    def empty(self, shape: tuple[int, ...]) -> Array:
        """An uninitialised array."""

    @abstractmethod
    def arange(self, stop: int) -> Array:
        """The integers 0, ..., `stop` - 1, by which arrays are indexed."""

    @abstractmethod
    def dense(self, X: Array) -> Array:
        """`X` (r, d) as a dense array: itself, or CSR written out."""

    @abstractmethod
    def is_sparse(self, X: Array) -> bool:
        """Whether `X` is CSR."""

    @abstractmethod
    def contiguous(self, X: Array) -> Array:
        """`X`, copied if its rows do not follow each other in memory."""

    @abstractmethod
    def is_finite(self, X: Array) -> bool:
        """Whether no entry of `X` is NaN or infinite."""

    @abstractmethod
    def floating(self, X: Array) -> Array:
        """Dense `X` in the dtype of the backend; bytes and truth values become numbers."""

    @abstractmethod
    def reversed(self, X: Array) -> Array:
        """`X` with its first axis from last to first."""

    @abstractmethod
    def truncated(self, X: Array) -> Array:
        """Dense `X` as integers by which arrays are indexed, rounded towards zero."""

    @abstractmethod
    def multiply(self, A: Array, B: Array, out: Array) -> None:
        """Write the products of entries of `A` and `B`, dense and broadcast to each other, to `out` or a view of it."""

    @abstractmethod
    def matmul(self, X: Array, W: Array) -> Array:
        """`X` (r, d), dense or CSR, times `W` (d, s): (r, s)."""

    def matmul_upper(self, X: Array, W: Array) -> Array:
        """Dense `X` (r, m), which may be overwritten, times an upper triangular `W` (m, m)."""
        return self.matmul(X, W)

    @abstractmethod
    def scale_columns(self, X: Array, factors: Array) -> Array:
        """`X` (r, d), dense or CSR, with column j times ``factors[j]``."""

    @abstractmethod
    def scale_rows(self, X: Array, factors: Array) -> Array:
        """`X` (r, d), dense or CSR, with row i times ``factors[i]``."""

    @abstractmethod
    def columns(self, X: Array, places: Array) -> Array:
        """Columns `places` (k,) of dense `X` (r, p): (r, k)."""

    @abstractmethod
    def add_columns(self, out: Array, places: Array, X: Array) -> None:
        """Add column j of `X` (r, k) to column ``places[j]`` of `out`, for all j; places may repeat."""

    @abstractmethod
    def row_norms(self, X: Array) -> Array:
        """Euclidean norms (r,) of the rows of `X`, dense or CSR, without overflow of the squares."""

    @abstractmethod
    def reciprocal(self, x: Array) -> Array:
        """``1 / x`` where x is not zero, 0 where it is."""

    @abstractmethod
    def exp(self, X: Array) -> Array:
        """Exponentials, entry by entry."""

    @abstractmethod
    def arcsinh(self, X: Array) -> Array:
        """Inverse hyperbolic sines, entry by entry."""

    @abstractmethod
    def arcsin(self, X: Array) -> Array:
        """Inverse sines, entry by entry."""

    @abstractmethod
    def fwht(self, X: Array) -> Array:
        """Unnormalised Walsh-Hadamard transform of the rows; the width is a power of two. May overwrite `X`."""

    @abstractmethod
    def rfft(self, X: Array, length: int | None = None) -> Array:
        """Fourier transform of real sequences (..., n), padded with zeros to `length`: complex (..., n // 2 + 1)."""

    @abstractmethod
    def irfft(self, X: Array, length: int) -> Array:
        """Inverse of `rfft` for sequences of `length`."""

    @abstractmethod
    def fft(self, Z: Array, *, conjugate: bool = False) -> Array:
        """Fourier transform of complex sequences (..., n), or its conjugate transpose: the inverse times n."""

    @abstractmethod
    def as_complex(self, X: Array) -> Array:
        """Complex numbers (...) of which `X` (..., 2), contiguous, has the real and imaginary parts; a view."""

    @abstractmethod
    def as_pairs(self, Z: Array) -> Array:
        """Real and imaginary parts (..., 2) of complex `Z`."""

    @abstractmethod
    def cross_products(self, Z: Array, Y: Array) -> np.ndarray:
        """``Z^T Y`` (m, t) on the host in float64, formed in the dtype of `Z` where it lives."""

    @abstractmethod
    def column_sums(self, Z: Array) -> np.ndarray:
        """Sums (m,) of the columns of `Z` on the host, summed in float64."""

    def rows(self, X: Array, start: int, stop: int) -> Array:
        """Rows `start` to `stop` of `X`, dense or CSR, without a copy."""
        return X[start:stop]

    def matmul_rows(self, Z: Array, W: Array, n_jobs: int | None) -> Array:
        """`Z` (n, m) times a narrow `W` (m, t), on `n_jobs` threads where the backend does not thread by itself."""
        return self.matmul(Z, W)

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """An array of zeros."""
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
        """`X` (r, d), dense or CSR, times ``signs[..., :d]``, zero beyond d: (r, p), or (r, J, p) for J patterns.

        `signs` is int8 (p,) or (J, p).
        """
        X, d = self.dense(X), X.shape[1]
        padded = self.empty((X.shape[0], *signs.shape))
        self.multiply(X if signs.ndim == 1 else X[:, None], signs[..., :d], padded[..., :d])
        padded[..., d:] = 0
        return padded

    def oriented(self, Z: Array, orientations: Array, scale: float = 1.0) -> Array:
        """Complex `Z` (r, k) times `scale`, columns conjugated whose orientation, int8 (k,), is -1 and not 1."""
        factors = self.empty((orientations.shape[0], 2))
        factors[:, 0] = 1
        factors[:, 1] = orientations
        factors *= scale
        return self.as_complex(self.as_pairs(Z) * factors)
