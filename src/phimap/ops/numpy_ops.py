"""The CPU backend: NumPy, SciPy sparse and numba."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from phimap.ops.activations import FUNCTIONS, SLOPE_FUNCTIONS
from phimap.ops.base import Array, Ops
from phimap.ops.blas import multiply_upper
from phimap.ops.tasks import run_tasks


class NumpyOps(Ops):
    """Core operations on NumPy arrays and CSR inputs; one thread processes a tile.

    Compiled loops are imported inside the methods that use them, so that importing phimap compiles and loads nothing.
    """

    backend = "numpy"
    activations = FUNCTIONS | SLOPE_FUNCTIONS
    least_tile_rows = 256
    # The size of the L2 cache of most cores. Scratch memory holds a tile's projections, which are read again at once,
    # but not its outputs.
    tile_bytes = 2**20
    threaded = True

    def __init__(self, dtype: np.dtype):
        self.dtype = np.dtype(dtype)

    def constant(self, host: np.ndarray) -> Array:
        if host.dtype.kind == "f":
            return np.ascontiguousarray(host, dtype=self.dtype)
        return host

    def to_host(self, X: Array) -> np.ndarray:
        return X

    def empty(self, shape: tuple[int, ...]) -> Array:
        return np.empty(shape, self.dtype)

    def arange(self, stop: int) -> Array:
        return np.arange(stop)

    def dense(self, X: Array) -> Array:
        return X.toarray() if sparse.issparse(X) else X

    def is_sparse(self, X: Array) -> bool:
        return sparse.issparse(X)

    def rows(self, X: Array, start: int, stop: int) -> Array:
        if not sparse.issparse(X):
            return X[start:stop]
        # Slicing a CSR matrix would copy the entries.
        bounds = X.indptr[start : stop + 1]
        entries = slice(bounds[0], bounds[-1])
        return type(X)((X.data[entries], X.indices[entries], bounds - bounds[0]), shape=(len(bounds) - 1, X.shape[1]))

    def contiguous(self, X: Array) -> Array:
        return np.ascontiguousarray(X)

    def is_finite(self, X: Array) -> bool:
        # A finite sum implies finite entries. If the sum is not finite, it may only have overflowed, so the entries are
        # tested.
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(np.isfinite(X.sum()) or np.isfinite(X).all())

    def floating(self, X: Array) -> Array:
        return X.astype(self.dtype, copy=False)

    def reversed(self, X: Array) -> Array:
        return X[::-1]

    def truncated(self, X: Array) -> Array:
        return X.astype(np.intp)

    def multiply(self, A: Array, B: Array, out: Array) -> None:
        np.multiply(A, B, out=out)

    def matmul(self, X: Array, W: Array) -> Array:
        # Overflow causes no warning here, because callers test the results for overflow and report it.
        with np.errstate(over="ignore", invalid="ignore"):
            return X @ W

    def matmul_upper(self, X: Array, W: Array) -> Array:
        X = np.ascontiguousarray(X)
        multiply_upper(X, np.ascontiguousarray(W))
        return X

    def matmul_rows(self, Z: Array, W: Array, n_jobs: int | None) -> Array:
        out = np.empty((Z.shape[0], W.shape[1]), self.dtype)

        def multiply(start: int) -> None:
            rows = slice(start, start + self.least_tile_rows)
            np.matmul(Z[rows], W, out=out[rows])

        run_tasks(multiply, range(0, Z.shape[0], self.least_tile_rows), n_jobs)
        return out

    def scale_columns(self, X: Array, factors: Array) -> Array:
        return X.multiply(factors[None, :]).tocsr() if sparse.issparse(X) else X * factors

    def scale_rows(self, X: Array, factors: Array) -> Array:
        return X.multiply(factors[:, None]).tocsr() if sparse.issparse(X) else X * factors[:, None]

    def columns(self, X: Array, places: Array) -> Array:
        return X[:, places]

    def add_columns(self, out: Array, places: Array, X: Array) -> None:
        np.add.at(out.T, places, X.T)

    def row_norms(self, X: Array) -> Array:
        # Rows are first divided by their largest entry, because float32 squares overflow above 1.8e19 and underflow
        # below 1e-19.
        if sparse.issparse(X):
            peak = np.asarray(abs(X).max(axis=1).todense()).ravel()
            scaled = self.scale_rows(X, self.reciprocal(peak))
            return peak * np.sqrt(np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel())
        peak = np.maximum(X.max(axis=1), -X.min(axis=1))
        scaled = X * self.reciprocal(peak)[:, None]
        return peak * np.sqrt(np.einsum("ij,ij->i", scaled, scaled))

    def reciprocal(self, x: Array) -> Array:
        return np.divide(1, x, out=np.zeros_like(x), where=x != 0)

    def exp(self, X: Array) -> Array:
        return np.exp(X)

    def arcsinh(self, X: Array) -> Array:
        return np.arcsinh(X)

    def arcsin(self, X: Array) -> Array:
        return np.arcsin(X)

    def fwht(self, X: Array) -> Array:
        from phimap.ops.compiled.hadamard import fwht

        fwht(X)
        return X

    def rfft(self, X: Array, length: int | None = None) -> Array:
        from scipy import fft

        return fft.rfft(X, n=length)

    def irfft(self, X: Array, length: int) -> Array:
        from scipy import fft

        return fft.irfft(X, n=length)

    def fft(self, Z: Array, *, conjugate: bool = False) -> Array:
        from scipy import fft

        return fft.ifft(Z, norm="forward") if conjugate else fft.fft(Z)

    def as_complex(self, X: Array) -> Array:
        return np.ascontiguousarray(X).view(np.result_type(X.dtype, np.complex64))[..., 0]

    def as_pairs(self, Z: Array) -> Array:
        return np.ascontiguousarray(Z).view(Z.real.dtype).reshape(*Z.shape, 2)

    def cross_products(self, Z: Array, Y: Array) -> np.ndarray:
        return (Z.T @ Y).astype(np.float64, copy=False)

    def column_sums(self, Z: Array) -> np.ndarray:
        return Z.sum(axis=0, dtype=np.float64)
